# SPDX-License-Identifier: GPL-2.0-only
"""The user's terminal while it belongs to a guest: raw, and given back as it was."""

import os
import shutil
import termios
import tty
from types import TracebackType

from .errors import Interrupted

INTERRUPT = b"\x03"
END_OF_INPUT = b"\x04"
ESCAPE = b"\x01"
ESCAPE_QUIT = b"x"


def settings_for_guest() -> str:
    """Kernel parameters that tell the guest what terminal it has."""
    size = shutil.get_terminal_size((80, 24))
    name = os.environ.get("TERM", "dumb")
    safe = name if all(c.isalnum() or c in "-_.+" for c in name) else "dumb"
    return f"keel.term={safe} keel.rows={size.lines} keel.cols={size.columns}"


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


class Keys:
    """What the user's key strokes mean: mostly bytes for the guest.

    Until the guest's shell has started, Ctrl-C ends the guest; afterwards it is
    the guest's. Ctrl-A x ends it at any time, Ctrl-A twice sends one Ctrl-A.
    """

    def __init__(self) -> None:
        self.guest_ready = False
        self._escaped = False

    def take(self, data: bytes) -> bytes:
        """The bytes for the guest; raises Interrupted where the user wants to leave."""
        passed = bytearray()
        for key in (data[i : i + 1] for i in range(len(data))):
            if self._escaped:
                self._escaped = False
                if key == ESCAPE_QUIT:
                    raise Interrupted
                passed += key
            elif key == ESCAPE:
                self._escaped = True
            elif key == INTERRUPT and not self.guest_ready:
                raise Interrupted
            else:
                passed += key
        return bytes(passed)
