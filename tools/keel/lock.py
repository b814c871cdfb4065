# SPDX-License-Identifier: GPL-2.0-only
"""Locks: one build step at a time, across all runs of the command that share its directory.

Who holds a lock alone is noted in its file. Each holder of one has the lock of the whole directory with others, which who
removes the directory has alone.
"""

import contextlib
import fcntl
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from .errors import system_error
from .progress import say

# The lock of a whole directory; no step has its name.
WHOLE = ".whole"
# How much of a command line is shown.
MOST_SHOWN = 100


@contextmanager
def locked(directory: Path, name: str, *, shared: bool = False, remedy: str = "") -> Iterator[None]:
    """Hold the lock of this name, alone or with others that share it; the system frees it even when we are killed."""
    try:
        whole = _held(directory, WHOLE, shared=True)
        with whole, _held(directory, name, shared=shared) as file, _noted(file, shared=shared):
            yield
    except _CannotLock as error:
        raise system_error(f"cannot write in {directory}", error.reason, remedy) from error


@contextmanager
def locked_whole(directory: Path) -> Iterator[None]:
    """Hold all locks of a directory, those too that it has not yet, to remove it."""
    try:
        with _held(directory, WHOLE, shared=False):
            yield
    except _CannotLock as error:
        raise system_error(f"cannot write in {directory}", error.reason) from error


class _CannotLock(Exception):
    """The file of a lock cannot be made."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _held(directory: Path, name: str, *, shared: bool) -> TextIO:
    """The file of a lock that we hold; the lock of a file that was removed meanwhile is none."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    path = directory / f"{name}.lock"
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            file = path.open("a+")
        except OSError as error:
            raise _CannotLock(error) from error
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {_holder(directory, name)}")
            fcntl.flock(file, kind)
        if is_file(path, file):
            return file
        file.close()


def is_file(path: Path, file: TextIO) -> bool:
    """Return true if an open file still has this path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def _noted(file: TextIO, *, shared: bool) -> Iterator[None]:
    """Note in a lock's file who has it. A disk without room for that is no error."""
    if shared:
        yield
        return
    _note(file, f"{os.getpid()} {int(time.time())} ./keel {shlex.join(sys.argv[1:])}")
    try:
        yield
    finally:
        _note(file, "")


def _note(file: TextIO, text: str) -> None:
    with contextlib.suppress(OSError):
        file.truncate(0)
        os.write(file.fileno(), text.encode(errors="replace"))


def _holder(directory: Path, name: str) -> str:
    """Who holds a lock, or one of those of the whole directory, and for what, in words."""
    files = sorted(directory.glob("*.lock")) if name == WHOLE else [directory / f"{name}.lock"]
    found = [f"{who}, which is busy with '{file.stem}'" for file in files if (who := _noted_in(file))]
    unknown = f"other runs of keel in {directory}" if name == WHOLE else f"another run of keel, busy with '{name}'"
    return "; ".join(found) or unknown


def _noted_in(file: Path) -> str:
    """Who has noted himself in a lock's file; nothing where nobody has, or where he has been killed."""
    try:
        process, began, command = file.read_text(errors="replace").split(" ", 2)
        lasted = max(0, int(time.time()) - int(began))
        is_there = Path(f"/proc/{int(process)}").exists()
    except (OSError, ValueError):
        return ""
    if not is_there:
        return ""
    return f"{command[:MOST_SHOWN]} (process {int(process)}, for {lasted} s so far)"
