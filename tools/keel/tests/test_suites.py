# SPDX-License-Identifier: GPL-2.0-only
"""How test runners' outputs are counted."""

from pathlib import Path

import pytest

from keel import machine
from keel.suites import (
    DAILY_MACHINE_PARTS,
    KERNEL_PARTS,
    MACHINE_PARTS,
    PARTS,
    REST,
    SUITES,
    Count,
    chosen,
    count_of,
    judge_kernel,
    left_behind,
    operations_of,
    shown,
    skips,
    total_of,
)


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


def test_a_skip_is_told_with_its_reason() -> None:
    reason = "SKIPPED [2] test_x.py:3: no program here"
    assert skips(f"..ss\n{reason}\n2 passed, 2 skipped in 1.00s\n") == [reason]


@pytest.mark.parametrize(
    ("output", "end", "count"),
    [
        ("2 passed, 0 failed\n", machine.EXIT_TESTS_PASSED, Count(2)),
        ("2 passed, 1 failed\n", machine.EXIT_TESTS_FAILED, Count(2, 1)),
        ("2 passed, 0 failed\n", None, Count(2, 1)),
        ("0 passed, 0 failed\n", machine.EXIT_TESTS_PASSED, Count(0, 1)),
        ("ok ids\n", machine.EXIT_KERNEL_PANIC, Count(0, 1)),
    ],
)
def test_a_suite_must_also_end_as_it_says(output: str, end: int | None, count: Count) -> None:
    assert judge_kernel(output, end, Path("console")) == count


def test_every_machine_can_be_tested_alone() -> None:
    """Each is a part of the kernel's suite, except those on request."""
    daily = (*machine.TEST_MACHINES, *machine.HOSTILE_MACHINES, *machine.SERVER_MACHINES, *machine.UNMAPS_MACHINES)
    parts = {"kernel-figures", "kernel-examples", "kernel-debugger", "kernel-firmware"}
    assert KERNEL_PARTS.keys() == {*(f"kernel-{tested.name}" for tested in daily), *parts}
    long = {f"kernel-{tested.name}" for tested in (machine.HOSTILE_LONG, *machine.SERVER_LONG)}
    others = {"machines", *MACHINE_PARTS, *DAILY_MACHINE_PARTS}
    assert PARTS.keys() - KERNEL_PARTS.keys() == {
        *long,
        *others,
        "linux-debian",
        "linux-endurance",
        "linux-gdb",
        "reproducible",
        "ukl-options",
    }


@pytest.mark.parametrize(
    ("output", "status", "count"),
    [
        ("3 passed, 0 failed\nsuite x: 3 passed, 0 failed\ntotal: 4 passed, 0 failed, 1 skipped\n", 0, Count(4, 0, 1)),
        ("total: 4 passed, 2 failed\n", 1, Count(4, 2)),
        ("total: 4 passed, 0 failed\n", 1, Count(4, 1)),
        ("total: 4 passed, 2 failed\n", 0, Count(4, 3)),
        ("3 passed, 0 failed\n", -9, Count(0, 1)),
        ("", 0, Count(0, 1)),
    ],
)
def test_a_part_counts_with_its_sum(output: str, status: int, count: Count) -> None:
    assert total_of(output, status) == count


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
