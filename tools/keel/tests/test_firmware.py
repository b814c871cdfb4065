# SPDX-License-Identifier: GPL-2.0-only
"""How a machine that firmware left in some state is judged, and gdb's packets."""

from keel import firmware, gdbremote, machine

HPET = firmware.Case("no-pit", clock="the HPET")
NONE = firmware.Case("no-clock", clock="")
CONSOLE = "keel: Keel µ-kernel, 1 processors, 511 MB RAM, pool 33 MB, TSC 2400 MHz by the HPET\r\n"
PASSED, PANIC = machine.EXIT_TESTS_PASSED, machine.EXIT_KERNEL_PANIC


def test_a_machine_that_passes() -> None:
    """The clock is the expected one, and as fast as another one says."""
    assert firmware.verdict(HPET, CONSOLE, PASSED, 0) == (2400, "")
    assert firmware.verdict(HPET, CONSOLE, PASSED, 2410) == (2400, "")


def test_a_machine_that_fails() -> None:
    """Another clock, a wrong one, none, and a failed suite are reported."""
    assert "by the PIT" in firmware.verdict(HPET, CONSOLE.replace("the HPET", "the PIT"), PASSED, 0)[1]
    assert "another one 41" in firmware.verdict(HPET, CONSOLE, PASSED, 41)[1]
    assert "did not start" in firmware.verdict(HPET, "", None, 0)[1]
    assert firmware.verdict(HPET, CONSOLE, machine.EXIT_TESTS_FAILED, 0)[1]


def test_a_machine_without_a_clock() -> None:
    """It must stop, and say why."""
    assert firmware.verdict(NONE, "keel: PANIC: no clock: ...", PANIC, 2400) == (0, "")
    for console, end in [(CONSOLE, PASSED), ("keel: PANIC: no clock", None), ("keel: PANIC: another", PANIC)]:
        assert firmware.verdict(NONE, console, end, 2400)[1]


def test_packets() -> None:
    """A packet has the sum of its bytes."""
    assert gdbremote.packet("OK") == b"$OK#9a"
