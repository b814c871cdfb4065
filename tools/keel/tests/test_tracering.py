# SPDX-License-Identifier: GPL-2.0-only
"""How the ring of the µ-kernel's trace is read, from an emulator that is not there."""

import errno
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from keel import boot, gdbremote, trace, tracering
from keel.commands import run as run_command
from keel.commands import trace as trace_command
from keel.config import Settings
from keel.debugger import Dialogue
from keel.errors import KeelError
from keel.tracering import RECORD, RECORDS, RING

TIME = 8
# How long a thread may take to end, in seconds.
LONG_S = 60.0
THREAD, PARTNER = 1 << 44 | 16 << 24, 2 << 44 | 3 << 24 | 5 << 8


def record(time: int, kind: int = 4) -> bytes:
    return RECORD.pack(time, 7 << 32 | 1 << 8 | kind, THREAD, PARTNER, 9)


def test_a_record_is_what_the_debugger_writes() -> None:
    """Also kernel objects and nobody; a place that was never written is no event, nor is a record that is cut."""
    events = list(tracering.decode(record(1000) + bytes(RECORD.size) + RECORD.pack(2000, 8, 0x900, 0, 1) + b"cut"))
    assert events[0] == trace.Event(1000, 1, "SWITCH", "16.0v1", "3.5v2", 7, 9, "-")
    assert (events[1].kind, events[1].thread, events[1].partner) == ("EXCEPTION", "source 0x900", "nil")
    assert trace.parse(event.as_line().rstrip("\n") for event in events) == events


class Emulator(threading.Thread):
    """Answers gdb. The guest writes records until one is watched, and after the last one it runs until it is stopped."""

    def __init__(self, place: Path, last: int) -> None:
        super().__init__(daemon=True)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(place))
        self.server.listen()
        self.ring = bytearray(RECORDS * RECORD.size)
        self.next, self.last, self.watched = 0, last, -1
        self.unfinished, self.rest = 0, b""
        self.detached = False

    def run(self) -> None:
        gdb, _ = self.server.accept()
        with gdb:
            data = b""
            while not self.detached:
                data += gdb.recv(gdbremote.CHUNK)
                while found := re.search(rb"\$([^#]*)#..", data):
                    data = data[found.end() :]
                    answer = self.answer(found[1].decode(), gdb)
                    if answer is not None:
                        gdb.sendall(b"+" + gdbremote.packet(answer))

    def answer(self, text: str, gdb: socket.socket) -> str | None:
        """What is said to a packet, if anything is."""
        if text[0] == "Z":
            self.watched = (int(text.split(",")[1], 16) - RING) // RECORD.size
        if text[0] == "z":
            self.watched = -1
        if text[0] == "m":
            start, size = (int(word, 16) for word in text[1:].split(","))
            return self.ring[start - RING : start - RING + size].hex()
        if text == "c":
            return self.go_on(gdb)
        self.detached = text == "D"
        return "OK"

    def go_on(self, gdb: socket.socket) -> str:
        """Of a watched record only the time is written when the guest stops: the rest follows."""
        self.ring[self.unfinished : self.unfinished + len(self.rest)] = self.rest
        while self.next <= self.last:
            place = self.next % RECORDS
            self.next += 1
            self.unfinished, self.rest = place * RECORD.size, record(self.next)
            written = TIME if place == self.watched else RECORD.size
            self.ring[self.unfinished : self.unfinished + written] = self.rest[:written]
            if place == self.watched:
                return "T05watch"
        while gdbremote.INTERRUPT not in gdb.recv(gdbremote.CHUNK):
            pass
        return "T02"


@pytest.mark.parametrize("last", [10, RECORDS - 1, RECORDS, 2 * RECORDS + 7])
def test_each_event_is_read_once(last: int, tmp_path: Path) -> None:
    """However often the ring was full, and what is in it at the end."""
    emulator = Emulator(tmp_path / "gdb", last)
    emulator.start()
    reader = tracering.Reader(tmp_path / "gdb", tmp_path / "events")
    reader.start()
    while emulator.next <= last:
        reader.join(0.01)
    reader.finish()
    events = trace.parse((tmp_path / "events").read_text().splitlines())
    assert [event.time_ns for event in events] == list(range(1, last + 2))
    assert {(event.kind, event.thread, event.partner) for event in events} == {("SWITCH", "16.0v1", "3.5v2")}
    assert reader.count == last + 1 and emulator.detached


def test_a_guest_that_goes_leaves_what_was_read(tmp_path: Path) -> None:
    """The reader ends, and can be told to."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "gdb"))
    server.listen()
    reader = tracering.Reader(tmp_path / "gdb", tmp_path / "events")
    reader.start()
    server.accept()[0].close()
    reader.finish()
    assert reader.count == 0
    assert isinstance(reader.error, ConnectionError)


@pytest.mark.parametrize("last", [10, 2 * RECORDS])
def test_a_full_disk_is_told_and_the_guest_goes_on(last: int, tmp_path: Path) -> None:
    """While it is written, and when it is closed."""
    emulator = Emulator(tmp_path / "gdb", last)
    emulator.start()
    reader = tracering.Reader(tmp_path / "gdb", Path("/dev/full"))
    reader.start()
    while emulator.next <= last and reader.is_alive():
        reader.join(0.01)
    reader.finish()
    emulator.join(LONG_S)
    assert isinstance(reader.error, OSError) and reader.error.errno == errno.ENOSPC
    assert emulator.detached and emulator.watched < 0


class Strange(Emulator):
    """Answers one packet in its own way, or not at all."""

    def __init__(self, place: Path, packet: str, strange: str | None) -> None:
        super().__init__(place, 2 * RECORDS)
        self.packet, self.strange = packet, strange

    def answer(self, text: str, gdb: socket.socket) -> str | None:
        return self.strange if text[0] == self.packet else super().answer(text, gdb)


@pytest.mark.parametrize(
    ("packet", "strange", "told"),
    [
        ("m", "no digits", "'no digits' where memory"),
        ("m", "E14", "shows no more of the ring"),
        ("m", None, "gave no answer to gdb's m"),
        ("Z", "E22", "'E22' to gdb's Z"),
        ("Z", None, "gave no answer to gdb's Z"),
        ("c", "W00", "'W00' to gdb's c"),
    ],
)
def test_strange_answers_are_told_and_the_guest_goes_on(
    packet: str, strange: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracering, "ANSWERS_S", 0.2)
    emulator = Strange(tmp_path / "gdb", packet, strange)
    emulator.start()
    reader = tracering.Reader(tmp_path / "gdb", tmp_path / "events")
    reader.start()
    reader.join(LONG_S)
    emulator.join(LONG_S)
    assert told in str(reader.error) and not reader.is_alive()
    assert emulator.detached and emulator.watched < 0
    reader.finish()


def test_an_emulator_that_never_listens_is_told_and_keeps_the_old_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracering, "LISTENS_S", 0.0)
    (tmp_path / "events").write_text("old")
    reader = tracering.Reader(tmp_path / "gdb", tmp_path / "events")
    reader.run()
    assert isinstance(reader.error, TimeoutError) and "no emulator listened at" in str(reader.error)
    assert (tmp_path / "events").read_text() == "old"


def everything(output: Path, command: str = "true", processors: int = 1) -> int:
    """`./keel trace --exec ... --all`."""
    wanted = trace_command.Wanted(None, None, command, processors, None, None, None, output)
    return trace_command.trace(Settings(), wanted)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "is not whole: No space left on device (free some space"),
        (ValueError("a strange answer"), "is not whole: a strange answer (see "),
        (None, ""),
    ],
)
def test_a_trace_that_is_not_whole_is_an_error(
    error: OSError | ValueError | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has what failed, and the file."""

    def read(reader: tracering.Reader) -> None:
        reader.error = error

    def run(_settings: Settings, _choices: boot.Choices, dialogue: Dialogue, start_reader: Callable[[], None]) -> int:
        start_reader()
        dialogue.begin()
        return 0

    monkeypatch.setattr(tracering.Reader, "run", read)
    monkeypatch.setattr(run_command, "run", run)
    if error is None:
        assert everything(tmp_path / "events") == 0
        return
    with pytest.raises(KeelError) as raised:
        everything(tmp_path / "events")
    assert f"the trace in {tmp_path / 'events'} {told}" in raised.value.line()


def test_an_old_trace_is_kept_where_no_guest_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is empty, or what the guest needs cannot be built. A file that cannot be written is told before."""

    def run(*_: object) -> int:
        raise KeelError("the build failed")

    monkeypatch.setattr(run_command, "run", run)
    (tmp_path / "events").write_text("old")
    for command, told in (("", "needs a command"), ("true", "the build failed")):
        with pytest.raises(KeelError, match=told):
            everything(tmp_path / "events", command)
    assert (tmp_path / "events").read_text() == "old"
    with pytest.raises(FileNotFoundError):
        everything(tmp_path / "missing" / "events")


def test_processors_are_not_for_a_command(tmp_path: Path) -> None:
    with pytest.raises(KeelError, match="--processors 2 is for native guests"):
        everything(tmp_path / "events", processors=2)
