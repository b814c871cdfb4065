# SPDX-License-Identifier: GPL-2.0-only
"""Outputs of each kind, whose readers read nothing, or late."""

import fcntl
import os
import pty
import socket
import tty
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from keel import outputs
from keel.outputs import Outputs

KINDS = ("pipe", "socket", "terminal", "file")
# More than any of them but a file takes without a reader.
DATA = bytes(range(256)) * 4096
# One that is asked before each byte takes long.
TERMINAL_BYTES = 100_000
READ_BYTES = 65536
Ends = tuple[int, int]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ends(kind: str, tmp_path: Path) -> Iterator[Ends]:
    """What reads, and what is written to."""
    with ExitStack() as stack:
        if kind == "file":
            path = tmp_path / "file"
            yield stack.enter_context(path.open("wb+")).fileno(), stack.enter_context(path.open("ab")).fileno()
            return
        if kind == "socket":
            yield tuple(stack.enter_context(end).fileno() for end in socket.socketpair())  # type: ignore[misc]
            return
        reads, writes = pty.openpty() if kind == "terminal" else os.pipe()
        for fd in (reads, writes):
            stack.callback(os.close, fd)
        if kind == "terminal":
            tty.setraw(writes)
        yield reads, writes


@pytest.fixture(params=[outputs.OWN, os.O_RDWR | os.O_DIRECTORY], ids=["own", "shared"])
def waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outputs]:
    """Where an open file of our own can be had, and where it cannot."""
    monkeypatch.setattr(outputs, "OWN", request.param)
    with ExitStack() as stack:
        yield Outputs(stack)


def test_nothing_waits_for_a_reader_and_nothing_is_lost(waiting: Outputs, ends: Ends, kind: str) -> None:
    reads, writes = ends
    data = DATA[:TERMINAL_BYTES] if kind == "terminal" else DATA
    waiting.write(writes, data)
    assert bool(waiting.size) == (kind != "file")
    assert not fcntl.fcntl(writes, fcntl.F_GETFL) & os.O_NONBLOCK
    heard = bytearray()
    while len(heard) < len(data):
        heard += os.read(reads, READ_BYTES)
        waiting.flush()
    assert heard == data and waiting.size == 0


def test_two_outputs_in_one_pipe_stay_in_order(waiting: Outputs) -> None:
    reads, first = os.pipe()
    second = os.dup(first)
    written = b""
    for number in range(50):
        piece = bytes([number]) * 3000
        waiting.write((first, second)[number % 2], piece)
        written += piece
    heard = bytearray()
    while len(heard) < len(written):
        heard += os.read(reads, READ_BYTES)
        waiting.flush()
    assert heard == written
    for fd in (reads, first, second):
        os.close(fd)


@pytest.mark.parametrize("gone", ["before", "later"])
def test_a_reader_that_has_gone_is_noticed(gone: str, waiting: Outputs) -> None:
    reads, writes = os.pipe()
    if gone == "later":
        waiting.write(writes, DATA)
    os.close(reads)
    with pytest.raises(BrokenPipeError):
        waiting.write(writes, DATA)
    os.close(writes)
