# SPDX-License-Identifier: GPL-2.0-only
"""The decoding of the µ-kernel's event trace, and what is made of it."""

import json

from keel import trace

LINES = """\
Keel µ-kernel, 2 processors
1000 0 CALL 3.0v1 nil 0x0 0x30 IPC
1200 0 MESSAGE 3.0v1 4.0v2 0x5 0x500000002 USER
1250 0 SWITCH 4.0v2 3.0v1 0x0 0x0 -
1400 0 LEAVE 4.0v2 nil 0x0 0x70 -
1300 1 INTERRUPT nil nil 0xf0 0x0 -
2000 0 INTERRUPT 4.0v2 nil 0x34 0x0 -
2100 0 FAULT 4.0v2 2.0v1 0x2 0x7000 WRITE
2200 0 EXCEPTION 4.0v2 2.0v1 0xd 0x1000040 -
2500 0 MESSAGE 4.0v2 source 0x900 0x5 0x500000001 USER
3000 0 IDLE nil nil 0x0 0x0 -
a line that was cut 0 IDLE nil nil
""".splitlines()


def test_events_of_all_processors_come_in_the_order_of_time() -> None:
    events = trace.parse(LINES)
    assert [event.time_ns for event in events] == [1000, 1200, 1250, 1300, 1400, 2000, 2100, 2200, 2500, 3000]
    assert events[1] == trace.Event(1200, 0, "MESSAGE", "3.0v1", "4.0v2", 5, 0x5_0000_0002, "USER")
    assert events[8].partner == "source 0x900"


def test_the_table_says_what_each_event_is() -> None:
    text = trace.as_text(trace.parse(LINES)).splitlines()
    assert text[1].split() == ["1.000", "0", "call", "3.0v1", "ipc", "eax", "0x30"]
    assert text[2].endswith("user label 0x5 words 2")
    assert text[4].split() == ["1.300", "1", "interrupt", "vector", "0xf0"]
    assert text[7].endswith("write 0x7000")
    assert text[8].endswith("label 0xd word 0x1000040")


def chrome() -> list[dict[str, object]]:
    """What is shown, without the names of the tracks."""
    shown = json.loads(trace.as_chrome(trace.parse(LINES)))["traceEvents"]
    return [event for event in shown if event["ph"] != "M"]


def test_the_picture_shows_who_runs_until_idling() -> None:
    running = [event for event in chrome() if event["ph"] == "X" and event["pid"] == trace.RUNNING]
    assert [(event["name"], event["ts"], event["dur"]) for event in running] == [("4.0v2", 1.25, 1.75)]


def test_the_picture_shows_the_spans_in_the_kernel() -> None:
    kernel = [event for event in chrome() if event["ph"] == "X" and event["pid"] == trace.KERNEL]
    assert [(event["name"], event["ts"], event["dur"]) for event in kernel] == [("ipc", 1.0, 0.4), ("interrupt", 2.0, 1.0)]


def test_the_picture_shows_messages_and_faults() -> None:
    instants = [event["name"] for event in chrome() if event["ph"] == "i"]
    assert instants[:2] == ["message 3.0v1 to 4.0v2", "fault 4.0v2 to 2.0v1"]


def test_nothing_is_a_picture_too() -> None:
    assert json.loads(trace.as_chrome([]))["displayTimeUnit"] == "ns"
