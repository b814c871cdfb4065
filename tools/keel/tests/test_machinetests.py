# SPDX-License-Identifier: GPL-2.0-only
"""How a run on a machine is judged, and where a guest's files are in the machine that has KVM."""

from dataclasses import replace
from pathlib import Path

import pytest

from keel import machine, machinetests, nested, qemu

TESTED = machine.TestMachine("some", machine.Emulator.QEMU, processors=2, memory_mb=6144)
FACTS = b"machine: 2 processors, 5550 MB\r\nmachine: 4 MB hold what was written, up to 7040 MB\r\n"
DOWN = b"[    5.1] reboot: Power down\r\n"
OFF = b"root: the machine is powered off (code 0x10)\n"
STANDS = b"root: the machine halts (code 0x12)\n"


def ran(*pieces: bytes, log: bytes = OFF, status: int | None = 0, slept_s: float = 4.0) -> machinetests.Ran:
    """A run that said this on its console, and slept so long."""
    result = machinetests.Ran(status=status)
    for piece in pieces:
        result.take_console(piece)
    asleep = [at for at, (_, line) in enumerate(result.times) if "asleep" in line]
    awake = [at for at, (_, line) in enumerate(result.times) if "awake" in line]
    if asleep and awake:
        result.times[awake[0]] = (result.times[asleep[0]][0] + slept_s, "machine: awake")
    result.take_log(log)
    return result


SLEEP = b"machine: asleep for 4 s\r\nmachine: awake\r\n"


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (ran(FACTS, SLEEP, DOWN), ""),
        (ran(FACTS[:40], FACTS[40:], SLEEP, DOWN), ""),
        (ran(FACTS, SLEEP, DOWN, slept_s=0.07), "4 s took 0.07 s"),
        (ran(FACTS, SLEEP, DOWN, slept_s=90), "4 s took 90.00 s"),
        (ran(FACTS.replace(b"2 proc", b"1 proc"), SLEEP, DOWN), "1 processors instead of 2"),
        (ran(FACTS.replace(b"5550", b"3000"), SLEEP, DOWN), "3000 MB of 6144"),
        (ran(FACTS.replace(b"7040", b"3070"), SLEEP, DOWN), "no memory above 4096 MB"),
        (ran(FACTS, SLEEP), "no 'reboot: Power down'"),
        (ran(FACTS, SLEEP, DOWN, status=None), "QEMU's status was None, not 0"),
        (ran(FACTS, SLEEP, DOWN, log=b""), "the machine told code None, not 16"),
        (ran(FACTS, SLEEP, DOWN, log=STANDS), "the machine told code 18, not 16"),
        (ran(FACTS, b"machine: error: /dev/sda: No such file\r\n"), "machine: error: /dev/sda: No such file"),
        (ran(b"Linux version\r\n"), "Linux did not come to its end: Linux version"),
        (ran(), "nothing was said"),
    ],
)
def test_a_run_of_linux(result: machinetests.Ran, problem: str) -> None:
    found = machinetests.linux_problem(TESTED, result, "power-off")
    assert (problem in found) if problem else found == ""


def test_a_panic_stays() -> None:
    """The run ends when the machine says that it has halted, and not before."""
    panicked = machinetests.Ran()
    assert not panicked.take_console(b"keel: PANIC: panicked at kernel/src/boot.rs:1:2:\r\nno boot module is named sigma0\r\n")
    assert panicked.take_console(b"keel: the machine stands still (code 0x13)\r\n")
    assert machinetests.panic_problem(panicked) == ""
    panicked.status = 0
    assert "QEMU's status was 0" in machinetests.panic_problem(panicked)
    assert "no panic" in machinetests.panic_problem(ran(DOWN))


def test_every_daily_test_is_one() -> None:
    for tested in machine.MACHINES:
        assert set(tested.daily) <= set(machine.MACHINE_TESTS), tested.name
    assert set(machine.MACHINE_TESTS) == {"suite", *machinetests.ENDS, machinetests.KERNEL_PANIC}


def test_the_files_of_a_guest_are_where_its_emulator_runs() -> None:
    disks = (qemu.Disk(Path("/some/place/disk.img"), "raw"),)
    described = qemu.Guest(Path("/k/kernel.elf"), modules=(qemu.Module(Path("/m/root"), "a=1"),), disks=disks)
    argv = qemu.arguments(nested.moved(described))
    assert {"/guest/kernel.elf", "/guest/root a=1"} < set(argv)
    assert not any("/some/" in word or "/k/" in word or "/m/" in word for word in argv)
    booted = replace(described, disc=Path("/d/disc.iso"))
    assert nested.files(booted) == [Path("/d/disc.iso"), Path("/some/place/disk.img")]
