# SPDX-License-Identifier: GPL-2.0-only
"""Our standard output and error output, written without waiting for whoever reads them.

O_NONBLOCK belongs to an open file, which we share with the shell and with other programs. So it is set on an open file of our
own where there can be one; a socket is told for each piece, and what is left is asked whether it can take a small one.
"""

import os
import select
import socket
import stat
from collections import deque
from contextlib import ExitStack

OWN = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Outputs:
    """What waits for the two outputs, in one order: where both are one pipe, its reader sees them as they came."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._ends: dict[int, _End] = {}
        self._waiting: deque[tuple[_End, bytes]] = deque()
        self.size = 0

    def fileno(self) -> int:
        """Return what must take the next bytes, where some wait."""
        return self._waiting[0][0].fd

    def write(self, fd: int, data: bytes) -> None:
        """Write the data as far as they are taken now; the rest waits."""
        if not data:
            return
        if fd not in self._ends:
            self._ends[fd] = _End(fd, self._stack)
        self._waiting.append((self._ends[fd], data))
        self.size += len(data)
        self.flush()

    def flush(self) -> None:
        """Write what is taken now of all that waits; raises BrokenPipeError where the reader has gone."""
        while self._waiting:
            end, data = self._waiting[0]
            put = end.put(data)
            if put == 0:
                return
            self.size -= put
            if put == len(data):
                self._waiting.popleft()
            else:
                self._waiting[0] = end, data[put:]

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self.size = 0


class _End:
    """One of the two outputs."""

    def __init__(self, fd: int, stack: ExitStack) -> None:
        self.fd = fd
        self._socket: socket.socket | None = None
        # How much is written at once. What is asked has room for this: a pipe for a page, a terminal for a byte.
        self._most: int | None = None
        self._asks = False
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            self._socket = stack.enter_context(socket.socket(fileno=os.dup(fd)))
        elif not stat.S_ISREG(mode):
            self._open_own(stack)

    def _open_own(self, stack: ExitStack) -> None:
        try:
            own = os.open(f"/proc/self/fd/{self.fd}", OWN)
        except OSError:  # another user's terminal, or a pipe that nobody reads
            self._most, self._asks = 1 if os.isatty(self.fd) else select.PIPE_BUF, True
        else:
            stack.callback(os.close, own)
            self.fd = own

    def put(self, data: bytes) -> int:
        """Write as much as is taken now; returns how much that is."""
        try:
            if self._socket:
                return self._socket.send(data, socket.MSG_DONTWAIT)
            if self._asks and not _takes(self.fd):
                return 0
            return os.write(self.fd, data[: self._most])
        except BlockingIOError:
            return 0


def _takes(fd: int) -> bool:
    """Return whether a write of a few bytes would end at once, by an error perhaps."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))
