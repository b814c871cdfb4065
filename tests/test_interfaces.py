# SPDX-License-Identifier: GPL-2.0-only
"""Linux's three interfaces for system calls: the instruction, messages of a library, and an entry that turns instructions into
messages. Programs see the same results.
"""

import pytest
from conftest import run_in_tests

# A check that observes registers of the check before it, and one that single-steps through the entry.
NOT_ALIKE = {"sweeps.calls_with_ones_1", "tracing.single_steps"}
LIMIT_S = 600
TRANSCRIPT_LIMIT_S = 1200
PACKAGES_LIMIT_S = 1800
LEAST_CHECKS = 200
PROGRAMS = ("interfaces", "transcript", "transcript-entry", "libkeelcalls.so")
# The output of `interfaces`.
SEEN = """\
allowed: 0
28 calls: 0 different
six arguments: second
registers that stay: 21 22 23
a signal ends a read: -4, handled 1
a read resumes after a signal: 1 x, handled 2
a signal that was pending: 0, handled 3
a sleep returns the rest: -4 1
a sleep resumes: status 9
a child has messages: status 7
a thread has messages: 1
messages begin off: 1
a new program: status 0
a tracer sees: 1 2 3 4 5 6
a tracer decides: status 5
a filter denies and kills: signal 31
calls of the µ-kernel: status 0
killed in a message: signal 9
killed among messages: signal 9
entry 2: -22
entry fff: -22
entry 800000000000: -22
entry 8000000000000000: -22
an entry where nothing is: signal 11
an entry at the end of memory: signal 11
an entry that is no code: signal 11
from processor to processor: 0 wrong
taken back: 0
and then: -38
"""


@pytest.mark.parametrize("processors", [1, 2])
def test_messages_are_system_calls(processors: int) -> None:
    """What messages do, and that a program cannot misuse them."""
    options = ["--smp", str(processors)]
    result = run_in_tests("keel", "./interfaces; dmesg | grep -c Oops", limit_s=LIMIT_S, options=options, programs=PROGRAMS)
    assert result.output == SEEN + "0\n", result.error


def test_elsewhere_there_are_none() -> None:
    """Other kernels refuse them, and a program with the entry runs as usual."""
    command = "./interfaces | head -n 1; LD_PRELOAD=$PWD/libkeelcalls.so sh -c 'echo as ever'"
    assert run_in_tests("native", command, limit_s=LIMIT_S, programs=PROGRAMS).output == "allowed: -1\nas ever\n"


@pytest.mark.parametrize("processors", [1, 2])
def test_the_entry_is_not_seen(processors: int) -> None:
    """The checks print the same through the entry as by instruction, except those that must differ."""
    command = "./transcript | sort > plain; ./transcript-entry | sort > entry; wc -l < entry; diff plain entry"
    result = run_in_tests("keel", command, limit_s=TRANSCRIPT_LIMIT_S, options=["--smp", str(processors)], programs=PROGRAMS)
    count, *lines = result.output.splitlines()
    different = {line[2:].partition(":")[0] for line in lines if line[0] in "<>"}
    assert int(count) > LEAST_CHECKS and different <= NOT_ALIKE, result.output


def test_unmodified_programs_run_through_the_entry() -> None:
    """Debian's programs print the same with the preloaded library, and make their calls by it."""
    each = "./run-each.sh packages 200"
    preload = "export LD_PRELOAD=$PWD/libkeelcalls.so"
    command = f"{each} > plain; {preload}; {each} > entry; diff plain entry; grep -c keelcalls /proc/self/maps"
    result = run_in_tests("keel", command, limit_s=PACKAGES_LIMIT_S, programs=PROGRAMS)
    *different, mapped = result.output.splitlines()
    assert int(mapped) > 0
    assert not different, result.output
