# SPDX-License-Identifier: GPL-2.0-only
"""The user's terminal while it belongs to a guest: raw, and given back as it was."""

import contextlib
import os
import shutil
import signal
import socket
import termios
import tty
from types import FrameType, TracebackType

from .errors import Interrupted

INTERRUPT = b"\x03"
END_OF_INPUT = b"\x04"
ESCAPE = b"\x01"
ESCAPE_QUIT = b"x"
ESCAPE_DETACH = b"d"
ENTER = b"\r"
READ_BYTES = 4096


def settings_for_guest() -> str:
    """Kernel parameters that tell the guest what terminal it has."""
    size = shutil.get_terminal_size((80, 24))
    name = os.environ.get("TERM", "dumb")
    safe = name if all(c.isalnum() or c in "-_.+" for c in name) else "dumb"
    return f"keel.attended=1 keel.term={safe} keel.rows={size.lines} keel.cols={size.columns}"


def window_size() -> tuple[int, int] | None:
    """Rows and columns of the terminal that we read from, if it is one and knows them."""
    try:
        size = os.get_terminal_size(0)
    except OSError:
        return None
    return (size.lines, size.columns) if size.lines and size.columns else None


class Signals:
    """For the length of a block, a file that can be read when this signal has come, which does nothing else."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> "Signals":
        self._ours, self._signal = socket.socketpair()
        for end in (self._ours, self._signal):
            end.setblocking(False)
        self._before = signal.signal(self.number, self._note)
        return self

    def fileno(self) -> int:
        """What to wait for."""
        return self._ours.fileno()

    def take(self) -> None:
        """Forget what was noted."""
        with contextlib.suppress(BlockingIOError):
            self._ours.recv(READ_BYTES)

    def _note(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):  # enough is noted
            self._signal.send(b"\0")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A handler that is set within the block stays: cleaning up ignores what ends the command.
        if signal.getsignal(self.number) == self._note:
            signal.signal(self.number, self._before)
        self._ours.close()
        self._signal.close()


class RawTerminal:
    """Standard input in raw mode for the length of a block; nothing happens where it is none."""

    def __init__(self) -> None:
        self.fd = 0
        self._saved: list[int | list[bytes | int]] | None = None

    def __enter__(self) -> "RawTerminal":
        if os.isatty(self.fd):
            self._saved = termios.tcgetattr(self.fd)
            tty.setraw(self.fd, termios.TCSADRAIN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._saved is not None:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self._saved)


class Quit(Interrupted):
    """The user's key that ends the guest."""


class Detached(Exception):
    """The user leaves the terminal of a guest that continues; what was typed before that is for the guest."""

    def __init__(self, typed: bytes) -> None:
        super().__init__()
        self.typed = typed


class Keys:
    """What the user's key strokes mean: mostly bytes for the guest.

    Until the guest's shell says that it shows its prompt, Ctrl-C ends the guest; afterwards
    it is the guest's. One that does not say so is taken to have shown its prompt to a user who
    types a line after what looks like one. Ctrl-A x ends the guest at any time, Ctrl-A twice
    sends one Ctrl-A. Where the guest continues without its terminal, Ctrl-A d leaves that.
    """

    def __init__(self, *, detachable: bool = False) -> None:
        self.guest_ready = detachable
        self.detachable = detachable
        self.prompt_shown = False
        self._escaped = False

    def take(self, data: bytes) -> bytes:
        """The bytes for the guest; raises Quit where the user ends it, and Detached where they leave it."""
        passed = bytearray()
        for key in (data[i : i + 1] for i in range(len(data))):
            if self._escaped:
                self._escaped = False
                if key == ESCAPE_QUIT:
                    raise Quit
                if key == ESCAPE_DETACH and self.detachable:
                    raise Detached(bytes(passed))
                passed += key
            elif key == ESCAPE:
                self._escaped = True
            elif key == INTERRUPT and not self.guest_ready:
                raise Quit
            else:
                self.guest_ready |= self.prompt_shown and key == ENTER
                passed += key
        return bytes(passed)
