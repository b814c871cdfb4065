# SPDX-License-Identifier: GPL-2.0-only
"""Machines as firmware leaves them: registers that differ from their reset values, and missing clocks.

The µ-kernel runs a topic of its suite on each, or stops and says what is missing.
"""

import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from . import boot, bootconf, gdbremote, guest, machine, slot
from .config import Settings

TIMEOUT_S = 120.0
TOPIC = "only=ids"
CLOCK = re.compile(r"TSC (\d+) MHz by ([^\r\n]*)")
# The translator's TSC is the host's: measured frequencies of two machines may differ by this part.
TOLERANCE = 0.02
# QEMU's numbers of registers for gdb (gdb-xml/i386-64bit.xml).
CR4 = 30
EFER = 32
# Features that newer firmware may enable, as far as the translator has them: five levels of tables; RDTSC faults in user mode,
# debugging extensions, machine checks, counters for users.
LA57 = 1 << 12
OTHERS = 1 << 2 | 1 << 3 | 1 << 6 | 1 << 8
# AMD's fast FXSAVE, which omits registers.
FFXSR = 1 << 14
# The offset and size of the entry in an ELF header.
ENTRY = slice(24, 32)


@dataclass(frozen=True)
class Case:
    """A machine, what its firmware left in registers, and the clock that is to be found; none if the kernel stops."""

    name: str
    arguments: tuple[str, ...] = ()
    registers: tuple[tuple[int, int], ...] = ()
    clock: str = "the PIT"


def _q35(options: str) -> tuple[str, ...]:
    return ("-machine", f"q35{options}")


CASES = (
    Case("usual"),
    Case("la57", ("-cpu", "max"), ((CR4, LA57),)),
    Case("cr4-and-efer", (), ((CR4, OTHERS), (EFER, FFXSR))),
    Case("q35", _q35("")),
    Case("no-hpet", _q35(",hpet=off")),
    Case("no-pit", _q35(",pit=off"), clock="the HPET"),
    Case("pm-timer-alone", _q35(",pit=off,hpet=off"), clock="ACPI's PM timer"),
    Case("microvm", ("-machine", "microvm")),
    Case("no-clock", ("-machine", "microvm,pit=off"), clock=""),
)


def judge(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each machine with what is wrong, or nothing."""
    usual = 0
    for case in CASES:
        with slot.taken(settings, "tests-firmware") as mine:
            choices = boot.Choices(boot_template=bootconf.SUITE_TEMPLATE, arguments=TOPIC, emulator_arguments=case.arguments)
            described = replace(boot.tests_guest(settings, choices, mine), stopped=bool(case.registers))
            wrong: list[str] = []
            leaving = threading.Thread(target=lambda: None)
            if case.registers and mine.gdb_socket:
                content = described.kernel.read_bytes()
                entry = int.from_bytes(content[ENTRY], "little")
                arguments = (mine.gdb_socket, entry, case.registers, wrong)
                leaving = threading.Thread(target=leave_registers, args=arguments, daemon=True)
                wrong.append("gdb's side did not come to its end")
            leaving.start()
            plan = guest.Plan(slot=mine, timeout_s=TIMEOUT_S, watch_log=lambda _: False)
            outcome = guest.run(settings, described, plan)
            leaving.join(TIMEOUT_S)
            console = outcome.console_log.read_text(errors="replace")
        mhz, problem = verdict(case, console, machine.exit_value(outcome.emulator_status), usual)
        usual = usual or mhz
        yield case.name, problem or "; ".join(wrong)


def verdict(case: Case, console: str, end: int | None, usual: int) -> tuple[int, str]:
    """The clock's MHz, and what is wrong with how a machine ended; `usual` is what another clock said, or 0."""
    if not case.clock:
        stopped = "PANIC" in console and "no clock" in console and end == machine.EXIT_KERNEL_PANIC
        return 0, "" if stopped else f"it did not stop for want of a clock: {end}"
    found = CLOCK.search(console)
    if not found:
        return 0, f"the µ-kernel did not start, the machine ended with {end}"
    mhz = int(found[1])
    if found[2] != case.clock:
        return mhz, f"its clock is by {found[2]}"
    if usual and abs(mhz - usual) > usual * TOLERANCE:
        return mhz, f"its clock has {mhz} MHz, another one {usual}"
    return mhz, "" if end == machine.EXIT_TESTS_PASSED else f"the suite ended with {end}"


def leave_registers(address: Path, entry: int, registers: tuple[tuple[int, int], ...], wrong: list[str]) -> None:
    """Stop a guest that waits for gdb at the kernel's entry, set registers, and resume it; what failed is added to `wrong`."""
    with socket.socket(socket.AF_UNIX) as gdb:
        gdb.settimeout(TIMEOUT_S)
        gdbremote.connect(gdb, address, TIMEOUT_S)
        # The emulator names control registers only after a client has read the list of them.
        asked = [("qXfer:features:read:target.xml:0,ff", ""), (f"Z1,{entry:x},1", "OK"), ("c", "T05")]
        for number, value in registers:
            content = value.to_bytes(8, "little").hex()
            # In 32-bit mode the emulator reports the lower half.
            asked += [(f"P{number:x}={content}", "OK"), (f"p{number:x}", content[:8])]
        asked += [(f"z1,{entry:x},1", "OK"), ("D", "OK")]
        answers = [(text, wanted, gdbremote.ask(gdb, text)) for text, wanted in asked]
    wrong[:] = [f"gdb's {text} was answered {answer!r}" for text, wanted, answer in answers if not answer.startswith(wanted)]
