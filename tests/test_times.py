# SPDX-License-Identifier: GPL-2.0-only
"""Clocks and timers on the instruction clock, natively and on Keel in each place of a program."""

import pytest
from conftest import GUEST_DIRECTORY, PLACED, Result, run_in_tests, together

LIMIT_S = 900
READINGS = 100_000
# Each way by each clock but the processor's counter, which has one.
LINES = 9 * 4 + 1
# What may pass between two readings: the interrupts of a tick and what they start, in the time of 10⁹ instructions a second.
LIMIT_US = {"native": 200, "keel": 400}
WAITS = 200
TIMERS = ("nanosleep", "realtime", "itimer", "posix_timer", "timerfd", "poll", "futex", "alarm")

# A system, its options, and the program.
PLACES: dict[str, tuple[str, list[str], str]] = {
    "native": ("native", [], "times"),
    "native-32": ("native", [], "times32"),
    "process": ("keel", [], "times"),
    "process-32": ("keel", [], "times32"),
    "server": ("keel", ["--place", f"{GUEST_DIRECTORY}/times=server"], "times"),
    "window": ("keel", ["--place", "i386=small-unsafe"], "times32"),
    "resident": ("keel", ["--place", "i386=resident"], "times32"),
    "colocated": ("keel", ["--place", "linux=kernel"], "times"),
    "supervisor": ("keel", ["--place", "linux=kernel", "--place", f"{GUEST_DIRECTORY}/times=kernel"], "times"),
}
EACH_PLACE = pytest.mark.parametrize("place", [pytest.param(place, marks=together(f"times-{place}")) for place in PLACES])

pytestmark = pytest.mark.skipif(bool(PLACED), reason="the tests place Linux themselves")


def timed(place: str, arguments: str) -> Result:
    """What the program prints in a place."""
    system, options, program = PLACES[place]
    command = f"./{program} {arguments}"
    return run_in_tests(system, command, limit_s=LIMIT_S, options=["--icount", *options], programs=(program,))


@EACH_PLACE
def test_clocks_neither_go_back_nor_jump(place: str) -> None:
    """Each clock is read 100,000 times by each way, and by all of them in turn."""
    result = timed(place, f"{READINGS} {LIMIT_US[PLACES[place][0]]} verbose")
    lines = result.output.splitlines()
    assert (result.status, len(lines)) == (0, LINES), result.error
    assert not [line for line in lines if " back 0 far 0 " not in line], result.output


@EACH_PLACE
def test_no_timer_ends_early(place: str) -> None:
    """After a wait the clock has reached its end, whichever timer it was and by whichever way the clock is read."""
    result = timed(place, f"early {WAITS}")
    assert (result.status, result.output.splitlines()) == (0, [f"{timer} early 0" for timer in TIMERS]), result.error
