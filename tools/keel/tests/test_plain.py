# SPDX-License-Identifier: GPL-2.0-only
"""Control characters as text, and bounded logs."""

from pathlib import Path

from keel import boundedlog, plain
from keel.errors import KeelError


def test_no_control_character_is_left_but_those_of_lines() -> None:
    every = "".join(map(chr, range(0x100)))
    assert plain.line(every).isprintable()
    shown = plain.Stream().feed(every.encode()).decode()
    assert {char for char in shown if not char.isprintable()} == {*plain.STREAM}
    assert plain.line("\x1b[0m\r\u202e") == "\\x1b[0m\\r\\u202e" and KeelError("a \x1b").line() == "keel: error: a \\x1b"


def test_a_stream_is_shown_however_it_is_cut() -> None:
    said = "ä\x1b[31m\x9bő\r\n".encode() + b"\xc3("
    stream = plain.Stream()
    assert b"".join(stream.feed(said[at : at + 1]) for at in range(len(said))) == plain.Stream().feed(said)
    assert plain.Stream().feed(said).decode() == "ä\\x1b[31m\\x9bő\r\n\\xc3("


def test_a_log_keeps_its_ends_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    numbers = [f"{number:09}\n".encode() for number in range(1_200_000)]
    path = tmp_path / "new" / "log"
    with boundedlog.BoundedLog(path) as log:
        for at in range(0, len(numbers), 1000):
            log.write(b"".join(numbers[at : at + 1000]))
            assert path.stat().st_size <= boundedlog.MOST
        log.write(b"")
    kept, whole = path.read_bytes(), b"".join(numbers)
    begin, note, end = kept[: boundedlog.KEPT], *kept[boundedlog.KEPT :].split(b" bytes are left out here]\n")
    assert whole.startswith(begin) and whole.endswith(end) and len(end) >= boundedlog.KEPT
    assert int(note.removeprefix(b"\n[")) == len(whole) - len(begin) - len(end)
