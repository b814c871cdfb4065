# SPDX-License-Identifier: GPL-2.0-only
"""How the emulator's report of long sections is read, placed and judged."""

import pytest

from keel.config import Settings
from keel.latency import EXCEPTIONS, LIMIT, Place, Section, judge, judge_at, limit_of, parse, plain_name, read_places, rows

REPORT = "4200 0xffffffff80105ed0 0xffffffff80111c24=3000 0xffffffff80111c51=1000\n17 0xffffffff80105ed0 0xffffffff80101000=17\n"
PLACES = """0xffffffff80111c24: core::cell::Cell<T>::get at /usr/src/library/core/src/cell.rs:555
 (inlined by) keel_kernel::space::next_leaf at /home/u/keel/kernel/src/space.rs:150 (discriminator 2)
 (inlined by) keel_kernel::space::unmap at /home/u/keel/kernel/src/space.rs:434
0xffffffff80111c51: keel_kernel::pool::Pool::give at kernel/src/pool.rs:285
0xffffffff80101000: syscall_entry at ??:?
"""


def test_a_report_is_read() -> None:
    first, second = parse("suite", REPORT)
    assert first == Section("suite", 4200, 0xFFFFFFFF80105ED0, ((0xFFFFFFFF80111C24, 3000), (0xFFFFFFFF80111C51, 1000)))
    assert (second.instructions, second.parts) == (17, ((0xFFFFFFFF80101000, 17),))


def test_places_are_the_function_and_the_innermost_line_of_the_kernel() -> None:
    places = read_places(PLACES)
    assert places[0xFFFFFFFF80111C24] == Place("unmap", "space.rs:150")
    assert places[0xFFFFFFFF80111C51] == Place("give", "pool.rs:285")
    assert places[0xFFFFFFFF80101000] == Place("syscall_entry", "")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("syscall_entry", "syscall_entry"),
        ("keel_kernel::space::map_one::{closure#1}", "map_one"),
        ("<keel_kernel::deadlines::Deadlines<keel_kernel::sched::Due>>::remove", "remove"),
        ("keel_kernel::task::all_numbers::<keel_kernel::task::for_each::{closure#0}>::{closure#0}", "all_numbers"),
    ],
)
def test_names_are_plain(function: str, name: str) -> None:
    assert plain_name(function) == name


def test_the_table_tells_where_the_instructions_went() -> None:
    line = rows(parse("suite", REPORT), read_places(PLACES))[1]
    assert line == ["4,200", "suite", "space.rs:150", "unmap 3,000, give 1,000"]


WALK, CONSOLE = 1, 2
WHERE = {WALK: Place("next_leaf", "mm/space.rs:150"), CONSOLE: Place("write_str", "arch/x86_64/print.rs:13")}


def section(under: str, length: int, at: int = WALK) -> Section:
    return Section(under, length, at, ((at, length),))


def test_the_longest_section_of_each_load_is_judged() -> None:
    within, beyond = section("load", LIMIT), section("load", LIMIT + 1)
    assert judge(Settings(), [within]) == [("longest-section-under-load", "")]
    assert list(judge_at([beyond], WHERE, 1.1)) == [("longest-section-under-load", "")]
    results = dict(judge_at([beyond, within, section("suite", 1)], WHERE, 1.0))
    assert results["longest-section-under-suite"] == ""
    assert results["longest-section-under-load"] == f"{LIMIT + 1} instead of {LIMIT} in next_leaf, mm/space.rs:150"


def test_a_line_on_the_console_has_a_limit_of_its_own() -> None:
    most = EXCEPTIONS["arch/x86_64/print.rs"]
    assert limit_of("arch/x86_64/print.rs:13") == most > LIMIT == limit_of("arch/x86_64/printer.rs:13")
    assert list(judge_at([section("suite", most, CONSOLE)], WHERE, 1.0)) == [("longest-section-under-suite", "")]
    assert next(judge_at([section("suite", most + 1, CONSOLE)], WHERE, 1.0))[1]
