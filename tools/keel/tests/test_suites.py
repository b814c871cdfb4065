# SPDX-License-Identifier: GPL-2.0-only
"""How test runners' outputs are counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from keel import machine
from keel.commands import test as test_command
from keel.config import Settings
from keel.counts import MOST_NAMES, Count, count_of, run_count, skips, total_of
from keel.errors import KeelError, Status
from keel.suites import (
    DAILY_MACHINE_PARTS,
    KERNEL_PARTS,
    MACHINE_PARTS,
    MOST_MINUTES,
    PARTS,
    REST,
    SUITES,
    Suite,
    chosen,
    judge_kernel,
    left_behind,
    operations_of,
    shown,
)

SUITE_END = "the suite's end"


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("===== 3 failed, 71 passed, 2 skipped in 1.20s =====", Count(71, 3, 2)),
        ("12 passed in 0.10s", Count(12)),
        ("1 error in 0.10s", Count(0, 1)),
        ("test result: ok. 5 passed; 0 failed; 1 ignored", Count(5)),
        (
            "test result: ok. 5 passed; 0 failed\ntest result: FAILED. 1 passed; 2 failed",
            Count(6, 2),
        ),
        ("ok a\nok b\n2 passed, 0 failed", Count(2)),
        ("nothing here", None),
    ],
)
def test_counts(output: str, count: Count | None) -> None:
    assert count_of(output) == count


@pytest.mark.parametrize(
    ("output", "names"),
    [
        (
            "FAIL shown/by: a test\n=== short test summary info ===\nSKIPPED [1] tests/a.py:3: no program\n"
            "FAILED tests/a.py::test_x[a b] - AssertionError: 1 - 2\nERROR tests/b.py::test_y\nERROR tests/c.py - SyntaxError\n"
            "=== 1 failed, 2 errors in 1.20s ===\n",
            ["tests/a.py::test_x[a b]", "tests/b.py::test_y", "tests/c.py"],
        ),
        ("test ipc::sends ... ok\ntest ipc::waits ... FAILED\ntest result: FAILED. 1 passed; 1 failed\n", ["ipc::waits"]),
        ("ok ids/new\nFAIL ids/old: expected 1\n1 passed, 1 failed\n", ["ids/old"]),
        ("2 passed, 3 failed\n", ["runner"]),
        ("a.py:1: error: no such name\n", ["runner"]),
        ("2 passed, 0 failed\n", ["runner"]),
    ],
)
def test_what_failed_has_a_name(output: str, names: list[str]) -> None:
    assert run_count("runner", output, status=1).names == names


def test_the_last_lines_say_what_failed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a suite could not run, and not all where very many failed."""
    many = [f"case{number}" for number in range(MOST_NAMES)]

    def missing(_: Settings) -> Count:
        raise KeelError("no emulator")

    runs = {"good": lambda _: Count(3), "bad": missing, "worse": lambda _: Count(1, len(many) + 1, 0, [*many, "last"])}
    monkeypatch.setattr(test_command, "SUITES", {name: Suite(run, "", "") for name, run in runs.items()})
    assert test_command.test(settings, ["good"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["all suites: 0 s", "total: 3 passed, 0 failed"]
    assert test_command.test(settings, [*runs]) == Status.TESTS_FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[-MOST_NAMES - 3 :] == [
        "all suites: 0 s",
        "failed: bad/did not run: no emulator",
        *(f"failed: worse/{name}" for name in many[:-1]),
        "... and 2 more",
        f"total: 4 passed, {MOST_NAMES + 2} failed",
    ]


def test_the_suites_of_every_day_have_their_minutes() -> None:
    budgets = [suite.budget for suite in SUITES.values()]
    assert all(budgets) and sum(filter(None, budgets)) <= MOST_MINUTES


def test_the_end_says_which_suite_took_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no failure; a part has no budget of its own."""
    suites = {"short": Suite(lambda _: Count(1), "", "", 2), "long": Suite(lambda _: Count(1), "", "", 1)}
    monkeypatch.setattr(test_command, "SUITES", suites)
    part = next(iter(PARTS))
    table = test_command.times([("short", 119.0), ("long", 61.0), (part, 4000.0)])
    assert [line.split() for line in table.splitlines()] == [
        ["SUITE", "MINUTES", "BUDGET"],
        ["short", "2.0", "2"],
        ["long", "1.0", "1", "over", "its", "budget"],
        [part, "66.7", "-"],
    ]
    assert count_of(f"{table}\n") is None


def test_an_installed_keel_has_no_tests(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(KeelError, match="not in the Debian package"):
        test_command.test(replace(settings, repository=tmp_path), [])


def test_a_skip_is_told_with_its_reason() -> None:
    reason = "SKIPPED [2] test_x.py:3: no program here"
    assert skips(f"..ss\n{reason}\n2 passed, 2 skipped in 1.00s\n") == [reason]


@pytest.mark.parametrize(
    ("output", "end", "count"),
    [
        ("2 passed, 0 failed\n", machine.EXIT_TESTS_PASSED, Count(2)),
        ("2 passed, 1 failed\n", machine.EXIT_TESTS_FAILED, Count(2, 1)),
        ("2 passed, 0 failed\n", None, Count(2, 1, 0, [SUITE_END])),
        ("0 passed, 0 failed\n", machine.EXIT_TESTS_PASSED, Count(0, 1, 0, [SUITE_END])),
        ("ok ids\n", machine.EXIT_KERNEL_PANIC, Count(0, 1, 0, [SUITE_END])),
    ],
)
def test_a_suite_must_also_end_as_it_says(output: str, end: int | None, count: Count) -> None:
    assert judge_kernel(output, end, Path("console")) == count


def test_every_machine_can_be_tested_alone() -> None:
    """Each is a part of the kernel's suite, except those on request."""
    others = (*machine.SERVER_MACHINES, *machine.UNMAPS_MACHINES, *machine.PAIRS_MACHINES, *machine.RESIDENTS_MACHINES)
    daily = (*machine.TEST_MACHINES, *machine.HOSTILE_MACHINES, *others)
    parts = {"kernel-figures", "kernel-latency", "kernel-examples", "kernel-debugger", "kernel-firmware"}
    assert KERNEL_PARTS.keys() == {*(f"kernel-{tested.name}" for tested in daily), *parts}
    long = {f"kernel-{tested.name}" for tested in (machine.HOSTILE_LONG, machine.SMALL_LONG, *machine.SERVER_LONG)}
    more = {"machines", *MACHINE_PARTS, *DAILY_MACHINE_PARTS}
    assert PARTS.keys() - KERNEL_PARTS.keys() == {
        *long,
        *more,
        "kernel-latency-long",
        "linux-applications",
        "linux-bochs",
        "linux-debian",
        "linux-endurance",
        "linux-colocated",
        "linux-gdb",
        "reproducible",
        "ukl-options",
    }


@pytest.mark.parametrize(
    ("output", "status", "count"),
    [
        ("3 passed, 0 failed\nsuite x: 3 passed, 0 failed\ntotal: 4 passed, 0 failed, 1 skipped\n", 0, Count(4, 0, 1)),
        ("failed: x\nok y\nfailed: p/a/b\n... and 1 more\ntotal: 4 passed, 2 failed\n", 1, Count(4, 2, 0, ["p/a/b"])),
        ("total: 4 passed, 0 failed\n", 1, Count(4, 1, 0, ["p/its end, with status 1"])),
        ("total: 4 passed, 2 failed\n", 0, Count(4, 3, 0, ["p/its end, with status 0"])),
        ("3 passed, 0 failed\n", -9, Count(0, 1, 0, ["p/its end, with status -9"])),
        ("", 0, Count(0, 1, 0, ["p/its end, with status 0"])),
    ],
)
def test_a_part_counts_with_its_sum(output: str, status: int, count: Count) -> None:
    assert total_of("p", output, status) == count


def test_operations_of_histories_are_added_up() -> None:
    """Only lines that say so count."""
    assert operations_of("spaces: 100 operations, 7 restarted\nids: 20 operations\nok 3 operations\n") == 120


def test_kernel_memory_without_a_server_must_be_the_same_each_time() -> None:
    line = "root: task server: restarted, {} pages of kernel memory were in use without it\n"
    assert left_behind(line.format(97) * 2) == ""
    assert "97 98" in left_behind(line.format(97) + line.format(98)).replace("98 97", "97 98")
    assert "never" in left_behind("")


def test_what_a_task_prints_does_nothing_to_the_terminal() -> None:
    assert shown(b"ok ids\r\n\x1b[2J\x00\x9b\xff done\n") == "ok ids\n?[2J??? done\n"


def test_all_is_every_day_and_the_rest() -> None:
    assert chosen([]) == [*SUITES]
    assert chosen(["all"]) == [*SUITES, *REST] and len(set(chosen(["all"]))) == len(SUITES) + len(REST)
    assert chosen(["unit", "kernel-qemu-1"]) == ["unit", "kernel-qemu-1"]
