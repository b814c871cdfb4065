# SPDX-License-Identifier: GPL-2.0-only
"""The µ-kernel's event trace: from the debugger's lines to a table, or to what Chrome and Perfetto show.

docs/tracing.md describes the events. Pure: it starts nothing.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

COMMAND = "trace"
ID = r"nil|invalid|source 0x[0-9a-f]+|\d+\.\d+v\d+"
LINE = re.compile(rf"(\d+) (\d+) ([A-Z]+) ({ID}) ({ID}) 0x([0-9a-f]+) 0x([0-9a-f]+) (\S+)")
NOBODY = "nil"
NS_PER_US = 1000
# The tracks of the picture: which thread runs on each processor, and the time in the kernel.
RUNNING, KERNEL = 1, 2
WORDS_MASK = 0xFF
# What begins a section in the kernel.
ENTRIES = ("CALL", "INTERRUPT", "FAULT", "EXCEPTION")


@dataclass(frozen=True)
class Event:
    """One event of one processor; `name` is what the kernel calls the call, the message's kind, or the access."""

    time_ns: int
    processor: int
    kind: str
    thread: str
    partner: str
    label: int
    word: int
    name: str

    def as_line(self) -> str:
        """As the debugger writes it, which `parse` reads."""
        about = f"{self.time_ns} {self.processor} {self.kind} {self.thread} {self.partner}"
        return f"{about} {self.label:#x} {self.word:#x} {self.name}\n"

    def what(self) -> str:
        """The details in addition to kind and threads."""
        if self.kind == "CALL":
            return f"{self.name.lower()} eax {self.word:#x}"
        if self.kind == "MESSAGE":
            return f"{self.name.lower()} label {self.label:#x} words {self.word & WORDS_MASK}"
        if self.kind == "FAULT":
            return f"{self.name.lower()} {self.word:#x}"
        if self.kind == "EXCEPTION":
            return f"label {self.label:#x} word {self.word:#x}"
        return f"vector {self.label:#x}" if self.kind == "INTERRUPT" else ""


def parse(lines: Iterable[str]) -> list[Event]:
    """The events in the debugger's answer, all processors' in the order of time."""
    found = (LINE.fullmatch(line) for line in lines)
    events = [Event(int(m[1]), int(m[2]), m[3], m[4], m[5], int(m[6], 16), int(m[7], 16), m[8]) for m in found if m is not None]
    return sorted(events, key=lambda event: event.time_ns)


def as_text(events: Iterable[Event]) -> str:
    """A table: time in µs, processor, event, thread, partner, the rest."""
    rows = [f"{'time/µs':>14} cpu {'event':<9} {'thread':<13} {'partner':<13} what\n"]
    for event in events:
        partner = "" if event.partner == NOBODY else event.partner
        thread = "" if event.thread == NOBODY else event.thread
        start = f"{event.time_ns / NS_PER_US:14.3f} {event.processor:3} {event.kind.lower():<9} {thread:<13} {partner:<13}"
        rows.append(f"{start} {event.what()}".rstrip() + "\n")
    return "".join(rows)


def as_chrome(events: list[Event]) -> str:
    """The trace event format of Chrome, which Perfetto reads, too."""
    names = [(RUNNING, "threads"), (KERNEL, "kernel")]
    named = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in names]
    processors = sorted({event.processor for event in events})
    for pid, _ in names:
        for number in processors:
            args = {"name": f"processor {number}"}
            named.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": number, "args": args})
    shown: list[dict[str, object]] = []
    for number in processors:
        own = [event for event in events if event.processor == number]
        shown += _spans(RUNNING, _running(own))
        shown += _spans(KERNEL, _kernel(own))
        shown += _instants(own)
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": [*named, *shown]}, indent=1) + "\n"


# A span of one processor's time: beginning, end, name.
Span = tuple[Event, Event, str]


def _running(events: list[Event]) -> Iterator[Span]:
    """Which thread runs, from each switch to the next one or to the beginning of idling."""
    began: Event | None = None
    for event in events:
        if event.kind not in ("SWITCH", "IDLE", "LEAVE"):
            continue
        # After idling the same thread may resume without a switch.
        if event.kind == "LEAVE" and (began is not None or event.thread == NOBODY):
            continue
        if began is not None:
            yield began, event, began.thread
        began = None if event.kind == "IDLE" else event
    if began is not None and events:
        yield began, events[-1], began.thread


def _kernel(events: list[Event]) -> Iterator[Span]:
    """The kernel's spans: from each entry to the exit, or to idling."""
    entry: Event | None = None
    for event in events:
        if event.kind in ENTRIES and entry is None:
            entry = event
        elif event.kind in ("LEAVE", "IDLE") and entry is not None:
            yield entry, event, entry.name.lower() if entry.kind == "CALL" else entry.kind.lower()
            entry = None


def _spans(pid: int, spans: Iterator[Span]) -> list[dict[str, object]]:
    return [
        {
            "ph": "X",
            "name": name,
            "pid": pid,
            "tid": begin.processor,
            "ts": begin.time_ns / NS_PER_US,
            "dur": (end.time_ns - begin.time_ns) / NS_PER_US,
        }
        for begin, end, name in spans
    ]


def _instants(events: list[Event]) -> list[dict[str, object]]:
    return [
        {
            "ph": "i",
            "s": "t",
            "name": f"{event.kind.lower()} {event.thread} to {event.partner}",
            "pid": RUNNING,
            "tid": event.processor,
            "ts": event.time_ns / NS_PER_US,
            "args": {"what": event.what()},
        }
        for event in events
        if event.kind in ("MESSAGE", "FAULT", "EXCEPTION")
    ]
