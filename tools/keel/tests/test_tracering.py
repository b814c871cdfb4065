# SPDX-License-Identifier: GPL-2.0-only
"""How the ring of the µ-kernel's trace is read, from an emulator that is not there."""

import re
import socket
import threading
from pathlib import Path

import pytest

from keel import gdbremote, trace, tracering
from keel.tracering import RECORD, RECORDS, RING

TIME = 8
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
                    gdb.sendall(b"+" + gdbremote.packet(answer))

    def answer(self, text: str, gdb: socket.socket) -> str:
        if text[0] == "Z":
            self.watched = (int(text.split(",")[1], 16) - RING) // RECORD.size
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
