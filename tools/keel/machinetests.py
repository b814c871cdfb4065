# SPDX-License-Identifier: GPL-2.0-only
"""Machines unlike the usual one: how a guest runs on one, and the tests of Linux and of shutdowns there.

Linux runs with a root of one program (tests/machines/probe.c), which prints what it finds and shuts down as its argument says.
The machines have no exit port: they shut down as PCs do.
"""

import re
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import bochs, boot, bootconf, cpio, guest, guestinit, loader, machine, nested, qemu, rootarchive, slot
from .config import Settings
from .placement import Placement

PROBE = "probe"
# Each kind of disk, as Linux calls the first one, and what is on it (probe.c).
DISKS = {"virtio": "/dev/vda", "ahci": "/dev/sda", "nvme": "/dev/nvme0n1"}
DISK_WORDS = 1 << 17
DISK_FACTOR = 0x9E3779B97F4A7C15
# Every machine has memory up to here.
FOUR_GB_MB = 4096
LIMIT_S = 600.0
TERMINAL = "keel.term=dumb"
# The program sleeps for 4 s. The host's clock measures that between two lines of output, which a busy host delays
# by up to two seconds. A clock that was not measured ran 58 times too fast.
LEAST_SLEEP_S, MOST_SLEEP_S = 1.0, 40.0
KERNEL_PANIC = "kernel-panic"
STANDS_STILL = re.compile(rb"(?:stands still|halts) \(code 0x[0-9a-f]+\)\r?\n")
# How a machine may end, by the argument of the program: the code in the last line, and Linux's own last words.
ENDS = {"power-off": machine.EXIT_POWER_OFF, "reboot": machine.EXIT_REBOOT, "panic": machine.EXIT_LINUX_PANIC}
LAST_WORDS = {"power-off": "reboot: Power down", "reboot": "reboot: Restarting system", "panic": "Kernel panic - not syncing"}


@dataclass
class Ran:
    """How a guest ended, and the lines of its console with the times at which they came."""

    # The status of QEMU, which ended by itself; None where it ran on.
    status: int | None = None
    complaint: str = ""
    log: bytearray = field(default_factory=bytearray)
    console: bytearray = field(default_factory=bytearray)
    times: list[tuple[float, str]] = field(default_factory=list)

    def take_log(self, data: bytes) -> bool:
        """Keep the next bytes of the log; returns whether the machine has halted."""
        self.log.extend(data)
        return bool(STANDS_STILL.search(self.log))

    def take_console(self, data: bytes) -> bool:
        """Keep the next bytes of the console; returns whether the machine has halted."""
        self.console.extend(data)
        lines = self.console.decode(errors="replace").replace("\r", "").split("\n")[:-1]
        self.times += [(time.monotonic(), line) for line in lines[len(self.times) :]]
        return bool(STANDS_STILL.search(self.console))

    def code(self) -> int | None:
        """The reported exit code, if any."""
        on_console, on_log = bochs.LastWords(by_root=True), bochs.LastWords(by_root=True)
        on_console.feed(bytes(self.console))
        on_log.feed(bytes(self.log))
        return bochs.code_of(on_console, on_log)

    def find(self, pattern: str) -> tuple[float, re.Match[str]] | None:
        """The first line that matches a pattern, and when it came."""
        found = ((at, re.fullmatch(pattern, line)) for at, line in self.times)
        return next(((at, match) for at, match in found if match), None)


def run(settings: Settings, tested: machine.TestMachine, described: qemu.Guest, plan: guest.Plan) -> guest.Outcome:
    """Run a guest on a machine of QEMU's or under KVM."""
    described = replace(
        described, model=tested.model, cpu=tested.processor, memory_mb=tested.memory_mb, processors=tested.processors
    )
    if tested.uefi:
        disc = plan.slot.directory / "disc.iso"
        loader.make_disc(described, plan.slot.directory, disc, plan.slot.log("disc"))
        described = replace(described, uefi=True, disc=disc)
    runner = nested.run if tested.emulator is machine.Emulator.KVM else guest.run
    return runner(settings, described, replace(plan, firmware_speaks=tested.uefi))


def judge(settings: Settings, tested: machine.TestMachine, tests: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The tests of shutdowns: of Linux, or of the µ-kernel alone."""
    for test in tests:
        if test in ENDS:
            yield test, linux_problem(tested, _run_linux(settings, tested, test), test)
        elif test == KERNEL_PANIC:
            yield test, panic_problem(_run_kernel(settings, tested))


def _run_linux(settings: Settings, tested: machine.TestMachine, end: str) -> Ran:
    with slot.taken(settings, f"machine-{tested.name}") as mine:
        disks = {} if machine.is_microvm(tested.model) else DISKS
        highest = f"machine.highest={FOUR_GB_MB} " if tested.memory_mb > FOUR_GB_MB else ""
        words = f"{highest}machine.disks={','.join(disks.values())} machine.end={end}"
        choices = boot.Choices(
            memory_mb=tested.memory_mb,
            processors=tested.processors,
            kernel_line=tested.kernel_line,
            placement=Placement(tested.linux_place),
            card="none",
            append=words,
        )
        storage = boot.Storage(_ramdisk(settings, mine), tuple(qemu.Disk(_disk(mine), "raw", bus) for bus in disks))
        parameters = boot.linux_parameters(choices, TERMINAL)
        described = boot.keel_guest(settings, choices, mine, storage, parameters, "tcg")
        return _run(settings, tested, described, mine)


def _run_kernel(settings: Settings, tested: machine.TestMachine) -> Ran:
    """The µ-kernel without a boot module, which it cannot run without."""
    with slot.taken(settings, f"machine-{tested.name}") as mine:
        described = replace(boot.tests_guest(settings, boot.Choices(boot_template=bootconf.SUITE_TEMPLATE), mine), modules=())
        return _run(settings, tested, described, mine)


def _run(settings: Settings, tested: machine.TestMachine, described: qemu.Guest, mine: slot.Slot) -> Ran:
    ran = Ran()
    plan = guest.Plan(slot=mine, timeout_s=LIMIT_S, watch_log=ran.take_log, watch_console=ran.take_console)
    has_pci = not machine.is_microvm(tested.model)
    described = replace(described, has_exit=False, random_numbers=described.random_numbers and has_pci)
    outcome = run(settings, tested, described, plan)
    ran.status, ran.complaint = outcome.emulator_status, outcome.emulator_log.read_text(errors="replace").strip()
    return ran


def _ramdisk(settings: Settings, mine: slot.Slot) -> Path:
    """A root whose /init is the program, with Keel's init."""
    program = nested.build_programs(settings) / PROBE
    writer = cpio.Writer()
    root, ramdisk = mine.directory / "probe.cpio", mine.directory / "root.cpio"
    root.write_bytes(writer.entry(cpio.Entry("init", cpio.REGULAR | 0o755, data=program.read_bytes())) + writer.end())
    rootarchive.join([root, guestinit.build_init(settings)], ramdisk)
    return ramdisk


def _disk(mine: slot.Slot) -> Path:
    words = (number * DISK_FACTOR % (1 << 64) for number in range(DISK_WORDS))
    disk = mine.directory / "disk.img"
    disk.write_bytes(struct.pack(f"<{DISK_WORDS}Q", *words))
    return disk


def linux_problem(tested: machine.TestMachine, ran: Ran, end: str) -> str:
    """What is wrong with a run of Linux; nothing if all was as expected."""
    facts = ran.find(r"machine: (\d+) processors, (\d+) MB")
    held = ran.find(r"machine: \d+ MB hold what was written, up to (\d+) MB")
    asleep, awake = ran.find(r"machine: asleep for (\d+) s"), ran.find(r"machine: awake")
    if error := ran.find(r"machine: error: .*"):
        return error[1][0]
    if not (facts and held and asleep and awake):
        return f"Linux did not come to its end: {_last(ran)}"
    processors, memory_mb = map(int, facts[1].groups())
    slept_s = awake[0] - asleep[0]
    wrong = {
        f"{processors} processors instead of {tested.processors}": processors != tested.processors,
        f"{memory_mb} MB of {tested.memory_mb}": memory_mb < tested.memory_mb * 3 // 4,
        f"no memory above {FOUR_GB_MB} MB": tested.memory_mb > FOUR_GB_MB and int(held[1][1]) < FOUR_GB_MB,
        f"{asleep[1][1]} s took {slept_s:.2f} s": not LEAST_SLEEP_S < slept_s < MOST_SLEEP_S,
        f"no {LAST_WORDS[end]!r}: {_last(ran)}": LAST_WORDS[end].encode() not in ran.console,
    }
    problems = [what for what, is_wrong in wrong.items() if is_wrong]
    return "; ".join([*problems, *filter(None, [_end_problem(ran, ENDS[end], stays=end == "panic")])])


def panic_problem(ran: Ran) -> str:
    """What is wrong with a panic of the µ-kernel."""
    if not (ran.find(r".*keel: PANIC: .*") and ran.find(r"no boot module is named sigma0")):
        return f"no panic: {_last(ran)}"
    return _end_problem(ran, machine.EXIT_KERNEL_PANIC, stays=True)


def _last(ran: Ran) -> str:
    return " | ".join(line for _, line in ran.times[-3:]) or ran.complaint or "nothing was said"


def _end_problem(ran: Ran, code: int, *, stays: bool) -> str:
    """A machine reports its exit code. Then QEMU ends by itself, or the machine halts and can be inspected."""
    told, status = ran.code(), None if stays else 0
    if (told, ran.status) == (code, status):
        return ""
    return f"the machine told code {told}, not {code}, and QEMU's status was {ran.status}, not {status}"
