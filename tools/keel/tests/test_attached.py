# SPDX-License-Identifier: GPL-2.0-only
"""A terminal that is attached to a guest's console: what it says and is shown, how it is left, and how it is lost."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keel import attached, slot
from keel.attached import Message, Server, encode
from keel.channel import WINDOW
from keel.commands import console
from keel.config import Settings
from keel.detached import STATUS
from keel.errors import Interrupted, KeelError
from keel.terminal import Signals


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The guest's end."""
    with Server(tmp_path / "console") as server:
        yield server


@pytest.fixture
def line(server: Server, tmp_path: Path) -> Iterator[socket.socket]:
    """A terminal's end, attached."""
    with attached.connect(tmp_path / "console") as line:
        line.settimeout(10)
        assert server.take() == b""
        yield line


def test_keys_and_sizes_come_and_what_is_shown_goes(server: Server, line: socket.socket) -> None:
    line.send(encode(Message.KEYS, b"ls\n"))
    line.send(encode(Message.SIZE, WINDOW.pack(30, 90)))
    assert (server.take(), server.take(), server.size) == (b"ls\n", b"", (30, 90))
    server.show(b"a file\n")
    server.write()
    assert line.recv(99) == b"a file\n" and not server.behind


def test_the_guest_is_ended_on_request(server: Server, line: socket.socket) -> None:
    line.send(encode(Message.END))
    with pytest.raises(Interrupted):
        server.take()


def test_a_terminal_sees_the_prompt_that_was_shown_before_it_came(server: Server, tmp_path: Path) -> None:
    server.show(b"much\nmore\n$")
    server.show(b" ")
    server.write()
    for _ in range(2):
        with attached.connect(tmp_path / "console") as line:
            line.settimeout(10)
            server.take()
            server.write()
            assert line.recv(99) == b"$ "
        assert server.take() == b""  # it has gone


@pytest.mark.parametrize("message", [b"\0", b"\xff", encode(Message.SIZE, b"\0")])
def test_a_terminal_that_says_nonsense_is_left(message: bytes, server: Server, line: socket.socket) -> None:
    line.send(message)
    assert server.take() == b"" and line.recv(99) == b""


def test_a_terminal_that_reads_nothing_is_left_after_a_while(
    server: Server, line: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "STALLED_S", 0.2)
    server.show(bytes(1 << 20))
    until = time.monotonic() + 60
    while server.behind and time.monotonic() < until:
        server.write()
    assert not server.behind and server.looks_again == float("inf")
    while line.recv(attached.READ_BYTES):
        pass


def test_the_last_words_reach_the_terminal(tmp_path: Path) -> None:
    with Server(tmp_path / "console") as server:
        line = attached.connect(tmp_path / "console")
        server.take()
        server.show(b"reboot: Power down\n")
    with line:
        assert line.recv(99) == b"reboot: Power down\n"
        assert line.recv(99) == b""


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeelError, match="too long a path"):
        Server(tmp_path / ("d" * slot.SOCKET_PATH_MAX))


SIZE = encode(Message.SIZE, WINDOW.pack(30, 90))


def carried(ours: socket.socket) -> bool:
    with Signals(signal.SIGWINCH) as resizes:
        return console._Terminal(ours, resizes).carry()


def test_the_key_that_leaves_lets_the_guest_continue(typed: Callable[[bytes], int]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        typed(b"\x03ls\r\x01d")
        assert not carried(ours)
        assert (theirs.recv(99), theirs.recv(99)) == (SIZE, encode(Message.KEYS, b"\x03ls\r"))


def test_the_key_that_ends_the_guest_is_told(typed: Callable[[bytes], int]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    said: list[bytes] = []

    def end() -> None:
        said.extend([theirs.recv(99), theirs.recv(99)])
        theirs.close()

    with ours, theirs:
        typed(b"\x01x")
        guest = threading.Thread(target=end)
        guest.start()
        assert carried(ours)
        guest.join()
    assert said == [SIZE, encode(Message.END)]


@pytest.mark.parametrize(
    ("detached", "command", "why"),
    [
        (False, None, "has the terminal where it was started"),
        (False, "true", "has the terminal where it was started"),
        (True, None, "needs a terminal"),
    ],
)
def test_what_has_no_console_is_refused(*, detached: bool, command: str | None, why: str, settings: Settings) -> None:
    with slot.taken(settings, "keel", "mine") as mine:
        mine.note_run("keel", command, detached=detached)
        (mine.private / STATUS).touch()
        with pytest.raises(KeelError, match=why):
            console.console(settings, "mine")


def test_a_second_terminal_is_refused(settings: Settings) -> None:
    with slot.taken(settings, "keel", "mine") as mine:
        with console._sole(mine), pytest.raises(KeelError, match="has a terminal already"), console._sole(mine):
            pass
        with pytest.raises(KeelError, match="mine has ended"):
            console._connected(mine)
