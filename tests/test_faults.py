# SPDX-License-Identifier: GPL-2.0-only
"""Page faults that come again and again at one place: those without end become a signal, others do no harm."""

import pytest
from conftest import GUEST_DIRECTORY, PLACED, run_in_tests, together

LIMIT_S = 120
# Each place of a program in user mode on Keel, and the program. Native Linux takes the first kind of fault for its own.
PLACES: dict[str, tuple[list[str], str]] = {
    "process": ([], "repeats"),
    "process-2": (["--smp", "2"], "repeats"),
    "process-32": ([], "repeats32"),
    "server": (["--place", f"{GUEST_DIRECTORY}/repeats=server"], "repeats"),
    "window": (["--place", "i386=small-unsafe"], "repeats32"),
    "resident": (["--place", "i386=resident"], "repeats32"),
    "colocated": (["--place", "linux=kernel"], "repeats"),
}

pytestmark = pytest.mark.skipif(bool(PLACED), reason="the tests place Linux themselves")


@pytest.mark.parametrize("place", [pytest.param(place, marks=together(f"repeats-{place}")) for place in PLACES])
def test_a_fault_without_end_becomes_a_signal(place: str) -> None:
    """IRET in user mode returns, or where the emulated processor faults whatever is mapped, raises SIGSEGV each time. A program
    that loses its pages in between is told nothing.
    """
    options, program = PLACES[place]
    command = f"./{program} iret; ./{program} emptied; dmesg | grep -c Oops"
    result = run_in_tests("keel", command, limit_s=LIMIT_S, options=options, programs=(program,))
    ends = [f"returned {3 - signals} signals {signals}\nexit 7 signal 0\n0\n" for signals in (0, 3)]
    assert result.output in ends, result.output + result.error
