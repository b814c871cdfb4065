# SPDX-License-Identifier: GPL-2.0-only
"""How far a step is, and how long it may still take, from what programs print and from what make has left."""

import os
import sys
import time
from pathlib import Path

import pytest

from keel import kbuild, measures, process
from keel.progress import Far, Step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def shown(step: Step, clock: list[float], capsys: pytest.CaptureFixture[str], at: float, far: str | Far) -> str:
    """The line at a time after the beginning."""
    clock[0] = 100.0 + at
    capsys.readouterr()
    step.update(far)
    return capsys.readouterr().err


def test_the_rest_is_told_at_the_rate_so_far(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Step("building") as step:
        assert shown(step, clock, capsys, 1, Far(0, 300, "files")) == ""
        line = shown(step, clock, capsys, 21, Far(100, 300, "files"))
        assert line == "keel: building ... 21 s, 100 of about 300 files, some 40 s left\n"
        assert shown(step, clock, capsys, 25, Far(110, 300, "files")) == ""  # too soon after the last one
        assert "some 5 min left" in shown(step, clock, capsys, 161, Far(100, 300, "files"))
        assert shown(step, clock, capsys, 181, Far(300, 300, "files")).endswith("181 s, 300 of about 300 files\n")


def test_another_part_has_another_rate(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Step("building") as step:
        shown(step, clock, capsys, 60, Far(50, 100, "%"))
        assert "left" not in shown(step, clock, capsys, 80, Far(1000, 2000, "files"))
        assert "some 20 s left" in shown(step, clock, capsys, 100, Far(1500, 2000, "files"))
        assert shown(step, clock, capsys, 120, "linking").endswith("120 s, linking\n")


def test_what_counts_nothing_usually_takes_its_time(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Step("installing", usually_s=90) as step:
        assert shown(step, clock, capsys, 20, "unpacking") == "keel: installing ... 20 s, unpacking, some 70 s left\n"
        assert shown(step, clock, capsys, 100, "unpacking").endswith("100 s, unpacking\n")


@pytest.mark.parametrize(
    ("line", "far"),
    [
        (b"    (12.34/100%)", "12 %"),
        (b"xorriso : UPDATE :  23.52% done", "23 %"),
        (b"tests/test_x.py::test_y PASSED  [  7%]", "7 %"),
        (b"unpacked 42 %", "42 %"),
        (b"done", ""),
    ],
)
def test_percentages(line: bytes, far: str) -> None:
    assert str(measures.percent(line)) == far


def test_lines_are_counted() -> None:
    measure = measures.counted(rb"^  (CC|AS) ", 2, "files")
    lines = (b"  CC      a.o", b"  LD      b.o", b"  AS      c.o", b"  CC      d.o")
    assert [str(measure(line)) for line in lines] == [
        "1 of about 2 files",
        "1 of about 2 files",
        "2 of about 2 files",
        "3 of about 3 files",
    ]
    assert str(measures.counted(rb"^  CC ", 0, "files")(lines[0])) == "1 files"


def test_a_line_that_is_drawn_again_is_one(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def measure(line: bytes) -> str:
        seen.append(line)
        return ""

    script = "import sys; sys.stdout.write('(1/100%)\\r(2/100%)\\r'); print()"
    process.run_logged([sys.executable, "-c", script], what="x", log=tmp_path / "log", measure=measure)
    assert seen[:2] == [b"(1/100%)", b"(2/100%)"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A directory of make's, in which all is as old as its sources, or younger."""
    place = tmp_path / "out"
    for name, at in (("include/config/auto.conf", 20), (".config", 10), ("include/config/SMP", 10), ("../src/a.h", 10)):
        made(place / name, at)
    for name in ("a", "b"):
        made(place.parent / "src" / f"{name}.c", 10)
        made(place / "mm" / f"{name}.o", 30)
        (place / "mm" / f".{name}.o.cmd").write_text(
            f"cmd_mm/{name}.o := gcc\n\nsource_mm/{name}.o := ../src/{name}.c\n\ndeps_mm/{name}.o := \\\n"
            "    $(wildcard include/config/SMP) \\\n    $(wildcard include/config/OFF) \\\n  ../src/a.h \\\n\n"
        )
    made(place / "tools" / ".host.o.cmd", 1)
    return place


def made(path: Path, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at, at))


@pytest.mark.parametrize(
    ("changed", "left"),
    [(None, 0), ("../src/a.c", 1), ("../src/a.h", 2), ("include/config/SMP", 2), (".config", 0)],
)
def test_what_make_has_left_follows_from_the_times(changed: str | None, left: int, out: Path) -> None:
    if changed:
        made(out / changed, 40)
    assert kbuild.left(out, 2) == left


def test_what_was_never_compiled_is_left(out: Path, tmp_path: Path) -> None:
    assert kbuild.left(tmp_path / "none", 1600) == 1600
    assert kbuild.left(out, 10) == 8
    (out / "mm" / "a.o").unlink()
    (tmp_path / "src" / "b.c").unlink()
    assert kbuild.left(out, 2) == 2
