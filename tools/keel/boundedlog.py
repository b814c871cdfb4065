# SPDX-License-Identifier: GPL-2.0-only
"""A log of which the beginning and the end are kept: what a guest writes may not fill the host's disk."""

import os
from pathlib import Path
from types import TracebackType

# At each end. The file grows to three times as much before its middle is left out.
KEPT = 1 << 20
MOST = 3 * KEPT


class BoundedLog:
    """A log file, for the length of a block; whoever reads it meanwhile sees all but the middle of what was written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = self._left_out = self._note_bytes = 0

    def __enter__(self) -> "BoundedLog":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w+b", buffering=0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Append to the log."""
        self._put(data, self._size)
        self._size += len(data)
        if self._size > MOST:
            self._shorten()

    def _shorten(self) -> None:
        """Leave out the middle: the end comes first to its new place, and then the file is cut."""
        self._left_out += self._size - 2 * KEPT - self._note_bytes
        end = os.pread(self._file.fileno(), KEPT, self._size - KEPT)
        note = b"\n[%d bytes are left out here]\n" % self._left_out
        self._put(note + end, KEPT)
        self._note_bytes = len(note)
        self._size = KEPT + len(note) + len(end)
        self._file.truncate(self._size)

    def _put(self, data: bytes, at: int) -> None:
        while data:
            written = os.pwrite(self._file.fileno(), data, at)
            data, at = data[written:], at + written
