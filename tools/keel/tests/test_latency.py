# SPDX-License-Identifier: GPL-2.0-only
"""How the emulator's report of long sections is read, placed and judged."""

import pytest

from keel.latency import LIMIT, Place, Section, judge, parse, plain_name, read_places, rows

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


def test_the_longest_is_judged() -> None:
    within, beyond = (Section("load", length, 1, ((1, length),)) for length in (LIMIT, LIMIT + 1))
    assert judge([within], 1.0)[1] == ""
    assert judge([beyond], 1.1)[1] == ""
    assert str(LIMIT + 1) in judge([beyond, within], 1.0)[1]
