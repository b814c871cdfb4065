# SPDX-License-Identifier: GPL-2.0-only
"""The socket at which one terminal at a time can be attached to the console of a guest that runs in the background.

Each message of the terminal is one of the socket's and begins with its kind; the other way go the console's bytes.
"""

import contextlib
import socket
import time
from enum import IntEnum
from pathlib import Path
from types import TracebackType

from .channel import WINDOW
from .errors import Interrupted, KeelError
from .slot import SHORTER, SOCKET_PATH_MAX

# More than the largest message.
READ_BYTES = 65536
# How much of the console's last line, a prompt as a rule, is shown to a terminal that is attached.
LAST_LINE_BYTES = 4096
# How long a terminal may read nothing. Meanwhile the guest's console waits for it.
STALLED_S = 10.0


class Message(IntEnum):
    """What a terminal says: keys, its size, or that the guest is to be ended at once."""

    KEYS = 1
    SIZE = 2
    END = 3


def encode(kind: Message, data: bytes = b"") -> bytes:
    """One message of a terminal, of at most READ_BYTES."""
    return bytes([kind]) + data


def connect(path: Path) -> socket.socket:
    """A terminal's end."""
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        ours.connect(str(path))
    except BaseException:
        ours.close()
        raise
    return ours


class Server:
    """The guest's end, for the length of a block. Only one terminal is served; another one waits until it has gone."""

    def __init__(self, path: Path) -> None:
        if len(str(path)) >= SOCKET_PATH_MAX:
            raise KeelError(f"{path.parent} is too long a path for a socket", SHORTER)
        self._path = path
        self._terminal: socket.socket | None = None
        self._waiting = bytearray()
        self._last_line = b""
        self._stalled_at = float("inf")
        # Rows and columns of the terminal that was attached last.
        self.size: tuple[int, int] | None = None

    def __enter__(self) -> "Server":
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.setblocking(False)
        self._door.bind(str(self._path))
        self._door.listen(1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The terminal gets what still waits, if it reads."""
        if self._terminal:
            self._terminal.settimeout(STALLED_S)
            with contextlib.suppress(OSError):
                while self._waiting:
                    self._send(self._terminal)
            self._terminal.close()
        self._door.close()
        self._path.unlink(missing_ok=True)

    def fileno(self) -> int:
        """What to wait for: the terminal's messages, or a terminal."""
        return (self._terminal or self._door).fileno()

    @property
    def behind(self) -> bool:
        """Whether the terminal has yet to read what was shown."""
        return bool(self._waiting)

    @property
    def looks_again(self) -> float:
        """When the terminal has read nothing for too long."""
        return self._stalled_at

    def take(self) -> bytes:
        """The next keys; raises Interrupted where the guest is to be ended. A new terminal is shown the last line."""
        if self._terminal is None:
            with contextlib.suppress(BlockingIOError, ConnectionError):  # it has gone already
                self._terminal = self._door.accept()[0]
                self._terminal.setblocking(False)
                self._waiting += self._last_line
            return b""
        try:
            message = self._terminal.recv(READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionError:
            message = b""
        kind, data = message[:1], message[1:]
        if kind == bytes([Message.END]):
            raise Interrupted
        if kind == bytes([Message.SIZE]) and len(data) == WINDOW.size:
            rows, columns = WINDOW.unpack(data)
            self.size = rows, columns
        elif kind != bytes([Message.KEYS]):
            self._leave()
            return b""
        return data if kind == bytes([Message.KEYS]) else b""

    def show(self, data: bytes) -> None:
        """What the console shows. Without a terminal only its last line is kept."""
        self._last_line = (self._last_line + data).rpartition(b"\n")[2][-LAST_LINE_BYTES:]
        if self._terminal:
            self._waiting += data

    def write(self) -> None:
        """Hand the terminal what it takes; leave one that has read nothing for too long."""
        if not self._terminal or not self._waiting:
            return
        try:
            self._send(self._terminal)
            self._stalled_at = time.monotonic() + STALLED_S if self._waiting else float("inf")
        except BlockingIOError:
            self._stalled_at = min(self._stalled_at, time.monotonic() + STALLED_S)
            if time.monotonic() >= self._stalled_at:
                self._leave()
        except ConnectionError:
            self._leave()

    def _send(self, terminal: socket.socket) -> None:
        del self._waiting[: terminal.send(self._waiting[:READ_BYTES])]

    def _leave(self) -> None:
        if self._terminal:
            self._terminal.close()
        self._terminal = None
        self._waiting.clear()
        self._stalled_at = float("inf")
