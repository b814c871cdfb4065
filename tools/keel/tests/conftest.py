# SPDX-License-Identifier: GPL-2.0-only
"""What several tests of the command need."""

import fcntl
import os
import pty
import struct
import termios
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keel.config import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings whose folders are the test's own."""
    return Settings(build=tmp_path / "build", cache=tmp_path / "cache", data=tmp_path / "data", install=False)


@pytest.fixture
def typed() -> Iterator[Callable[[bytes], int]]:
    """Makes our standard input a terminal of 30 rows and 90 columns, raw at once, and types at it."""
    ours, theirs = pty.openpty()
    before = os.dup(0)
    os.dup2(theirs, 0)
    tty.setraw(theirs)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    yield lambda keys: os.write(ours, keys)
    os.dup2(before, 0)
    for fd in (before, ours, theirs):
        os.close(fd)
