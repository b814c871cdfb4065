# SPDX-License-Identifier: GPL-2.0-only
"""Locks: one build step at a time, across all runs of the command that share its directory."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import system_error
from .progress import say


@contextmanager
def locked(directory: Path, name: str, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of this name, alone or with others that share it; the system frees it even when we are killed."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / f"{name}.lock").open("w")
    except OSError as error:
        raise system_error(f"cannot write in {directory}", error) from error
    with file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run of keel is busy with '{name}', waiting for it")
            fcntl.flock(file, kind)
        yield
