# SPDX-License-Identifier: GPL-2.0-only
"""All events of the µ-kernel's trace on one processor: its ring is read by way of gdb's protocol each time that it is full.

docs/tracing.md describes the records. The guest stands still while it is read, and its clock, too.
"""

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from . import gdbremote
from .trace import NOBODY, Event

# Where the ring of the first processor lies (kernel/debugger/trace.rs, `begin`; arch/x86_64/paging.rs, `map_processor`): the
# processors' own memory is before it, 2 MB for each of the 16 that there can be.
RING = 0xFFFF_C000_0000_0000 + 16 * (2 << 20) + 4096
# The most that the ring can have.
KILOBYTES = 1024
# abi/src/trace.rs: TraceRecord, whose second word has event, processor and label, and the events from 1 on.
RECORD = struct.Struct("<5Q")
RECORDS = (KILOBYTES << 10) // RECORD.size
KINDS = ("CALL", "INTERRUPT", "LEAVE", "SWITCH", "IDLE", "MESSAGE", "FAULT", "EXCEPTION")
PROCESSOR_SHIFT, LABEL_SHIFT, BYTE = 8, 32, 0xFF
# abi/src/ids.rs: fields of an id, and those below which it is a kernel object's.
VERSION_SHIFT, TASK_SHIFT, TASK_MASK, LTHREAD_SHIFT, LTHREAD_MASK, SMALL_IDS = 44, 24, 0xFFFFF, 8, 0xFFFF, 4096
# How long the emulator may take to listen after its start, and then to answer while the guest stands still: on a busy host.
LISTENS_S = 60.0
ANSWERS_S = 60.0
# How long to wait until the guest is stopped again.
AGAIN_S = 0.2
# Writes of 8 bytes stop the guest.
WATCH = "2,{:x},8"
# The records that are watched in turn.
WATCHED = (RING, RING + RECORD.size)
# How the answer begins when the guest has stopped.
STOPPED = "T"
LOST = "the emulator has gone, or shows no more of the ring"


def name_of(thread: int) -> str:
    """An id as the debugger writes it."""
    if not thread:
        return NOBODY
    if thread < SMALL_IDS:
        return f"source {thread:#x}"
    lthread = thread >> LTHREAD_SHIFT & LTHREAD_MASK
    return f"{thread >> TASK_SHIFT & TASK_MASK}.{lthread}v{thread >> VERSION_SHIFT}"


def decode(memory: bytes) -> Iterator[Event]:
    """The events of a piece of a ring; places without a record are left out. The time is the counter's."""
    for time, what, thread, partner, word in RECORD.iter_unpack(memory[: len(memory) // RECORD.size * RECORD.size]):
        if 1 <= what & BYTE <= len(KINDS):
            kind, processor = KINDS[(what & BYTE) - 1], what >> PROCESSOR_SHIFT & BYTE
            yield Event(time, processor, kind, name_of(thread), name_of(partner), what >> LABEL_SHIFT, word, "-")


def _demand(gdb: socket.socket, text: str, wanted: str) -> None:
    """Send a packet; the answer must begin so."""
    answer = gdbremote.ask(gdb, text)
    if not answer:
        raise ConnectionError(LOST)
    if not answer.startswith(wanted):
        raise ValueError(f"the emulator answered {answer[: gdbremote.SHOWN]!r} to gdb's {text}")


def _piece(gdb: socket.socket, start: int, records: int) -> bytes:
    """So many records of the ring, from an address on."""
    memory = gdbremote.memory(gdb, start, records * RECORD.size)
    if len(memory) < records * RECORD.size:
        raise ConnectionError(LOST)
    return memory


class Reader(threading.Thread):
    """Reads the ring of a guest that waits for gdb, until `finish`, into a file with lines like the debugger's.

    What fails is kept in `error`: then the file is not whole, and the guest goes on by itself.
    """

    def __init__(self, gdb: Path, output: Path) -> None:
        super().__init__(daemon=True)
        self._address, self._output = gdb, output
        self._socket = socket.socket(socket.AF_UNIX)
        self._over = threading.Event()
        # Held while the guest may be made to stop. Nothing may reach the emulator after the last packet: that stops it, too.
        self._asking = threading.Lock()
        self._detached = False
        self._last = -1
        self.count = 0
        self.error: OSError | ValueError | None = None

    def run(self) -> None:
        """Read all; nobody else would notice what fails here."""
        try:
            with self._socket as gdb:
                # It leads through a link that is made with the guest, and a socket's path is short.
                gdbremote.connect(gdb, self._address.parent.resolve() / self._address.name, LISTENS_S)
                gdb.settimeout(ANSWERS_S)
                try:
                    # Not earlier: an older trace is kept until there is a guest.
                    with self._output.open("w") as file:
                        self._follow(gdb, file)
                finally:
                    self._let_go(gdb)
        except (OSError, ValueError) as error:
            self.error = error

    def _follow(self, gdb: socket.socket, file: TextIO) -> None:
        """Stop at the first and the second record in turn: then the first one is whole, and before that all others."""
        pieces = ((WATCHED[0], WATCHED[1], RECORDS - 1), (WATCHED[1], WATCHED[0], 1))
        for watched, start, records in itertools.cycle(pieces):
            _demand(gdb, "Z" + WATCH.format(watched), "OK")
            if not self._over.is_set():
                # This answer may take as long as the guest runs.
                gdb.settimeout(None)
                _demand(gdb, "c", STOPPED)
                gdb.settimeout(ANSWERS_S)
            _demand(gdb, "z" + WATCH.format(watched), "OK")
            if self._over.is_set():
                break
            self._keep(file, _piece(gdb, start, records))
        self._keep(file, _piece(gdb, RING, RECORDS))

    def _let_go(self, gdb: socket.socket) -> None:
        """Let the guest go on, whatever has failed, as far as the emulator is still there."""
        with self._asking, contextlib.suppress(OSError):
            self._detached = True
            gdb.settimeout(ANSWERS_S)
            for watched in WATCHED:
                gdbremote.ask(gdb, "z" + WATCH.format(watched))
            gdbremote.ask(gdb, "D")

    def _keep(self, file: TextIO, memory: bytes) -> None:
        """Write the events that are new."""
        events = sorted((event for event in decode(memory) if event.time_ns > self._last), key=lambda event: event.time_ns)
        file.writelines(event.as_line() for event in events)
        if events:
            self._last = events[-1].time_ns
        self.count += len(events)

    def finish(self) -> None:
        """Read what is new since the ring was full, and let the guest go on."""
        self._over.set()
        while self.is_alive():
            with self._asking, contextlib.suppress(OSError):
                # The emulator ignores it while it does not run.
                if not self._detached:
                    self._socket.sendall(gdbremote.INTERRUPT)
            self.join(AGAIN_S)
