# SPDX-License-Identifier: GPL-2.0-only
"""Bochs: the disk that it boots, its configuration, and a run until the guest's last line.

Bochs has no exit port. The root task, or the µ-kernel in a panic, prints how the machine
shuts down, with the code that it would have written there, and Bochs is ended from outside.
"""

import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from . import loader, process, qemu
from .progress import say
from .slot import Slot

EMULATOR = "bochs"
FIRMWARE = Path("/usr/share/bochs")
DISK = "disk.iso"
CONFIGURATION = "bochsrc"
# The first commands of the built-in debugger of Debian's Bochs.
COMMANDS = "commands"
LOGS = ("console", "kernel", "emulator")
# The destination of a serial line: a file, which is only written, or a terminal, by which the guest is spoken to.
FILE, TERMINAL = "mode=file, dev={}", "mode=term, dev={}"
# The emulated processor's instructions in a second of the emulated time, which nothing else drives.
INSTRUCTIONS_PER_S = 20_000_000
# From this version on (3.0, with Debian's options), its loop for several processors does not commit the instruction pointer after
# an exception (main.cc), so that a breakpoint on an instruction is hit again at the first instruction of the handler, endlessly.
REPEATS_BREAKPOINTS = (3, 0)
# What the µ-kernel says in a panic, where others may have begun a line, and the root task's last line.
KERNEL_STOPS = rb"keel: the machine stands still \(code (0x[0-9a-f]+)\)\r?\n"
ROOT_STOPS = rb"^root: the machine [a-z ]+ \(code (0x[0-9a-f]+)\)\r?\n"
KEEP_BYTES = 128
# Of the display "rfb".
DISPLAY_PORT = 5900
UNSHARE_LIMIT_S = 10.0
READ_BYTES = 65536


def configuration(guest: qemu.Guest, processor: str, *, tells_faults: bool = False) -> str:
    """Bochs's own configuration; the guest's serial lines lead to a FILE or a TERMINAL, or nowhere.

    Its errors are faults of the guest's programs, which its log tells or not.
    """
    serial = {"com1": guest.console, "com2": guest.exec, "com3": guest.log}
    lines = [
        f"megs: {guest.memory_mb}",
        f"cpu: model={processor}, count={guest.processors}, ips={INSTRUCTIONS_PER_S}, reset_on_triple_fault=0",
        "clock: sync=none",
        f"romimage: file={FIRMWARE}/BIOS-bochs-latest",
        f"vgaromimage: file={FIRMWARE}/VGABIOS-lgpl-latest",
        # The only display without a terminal; it does not wait for a viewer.
        'display_library: rfb, options="timeout=0"',
        # If the host has no sound card, Bochs's sound thread crashes by a buffer overflow.
        "sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy",
        "pci: enabled=1, chipset=i440fx",
        *(f"{port}: enabled=1, {destination}" for port, destination in serial.items() if destination != qemu.NOWHERE),
        f"ata0-master: type=cdrom, path={DISK}, status=inserted",
        "boot: cdrom",
        "log: -",
        f"error: action={'report' if tells_faults else 'ignore'}",
        *("panic: action=fatal", "info: action=ignore", "debug: action=ignore"),
    ]
    return "\n".join([*lines, ""])


def repeats_breakpoints(version: str) -> bool:
    """Whether this version of Debian's package cannot take breakpoints with several processors."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2]) >= REPEATS_BREAKPOINTS


def installed_version() -> str:
    """The version of the package that is installed."""
    return process.output(["dpkg-query", "--show", "--showformat=${Version}", EMULATOR])


@dataclass
class Plan:
    """The actions of a run in addition to starting Bochs."""

    slot: Slot
    timeout_s: float
    # Called with each piece of the native tasks' log.
    watch_log: Callable[[bytes], object]


def without_network() -> list[str]:
    """The words before a command that leave it no network but one of its own; none if this system forbids that.

    Bochs's display has no password: every host that reaches this machine can connect.
    """
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *user, "--net", "--"]
    return words if process.status_of([*words, "true"], UNSHARE_LIMIT_S) == 0 else []


class LastWords:
    """Finds the guest's last words on a serial line of its own.

    `by_root`: they may be the root task's. Not on the console, to which Linux's programs write what they like.
    """

    def __init__(self, *, by_root: bool) -> None:
        self._pattern = re.compile(rb"%b|%b" % (KERNEL_STOPS, ROOT_STOPS) if by_root else KERNEL_STOPS, re.MULTILINE)
        self.code: int | None = None
        self._kept = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes; the words may be split between two calls."""
        text = self._kept + data
        if found := self._pattern.search(text):
            self.code = int(found[found.lastindex or 0], 16)
        self._kept = text[-KEEP_BYTES:]


class _Line:
    """A serial line: a pipe that Bochs writes to, and the consumers of its bytes."""

    def __init__(self, stack: ExitStack, takers: Sequence[Callable[[bytes], object]]) -> None:
        ours, theirs = os.pipe()
        self.ours = stack.enter_context(os.fdopen(ours, "rb", buffering=0))
        self.theirs = stack.enter_context(os.fdopen(theirs, "wb", buffering=0))
        self.takers = takers

    def destination(self) -> str:
        """The file that Bochs opens."""
        return FILE.format(f"/dev/fd/{self.theirs.fileno()}")

    def take(self) -> bool:
        """Pass on the received bytes; false at the line's end."""
        data = self.ours.read(READ_BYTES)
        for taker in self.takers:
            taker(data)
        return bool(data)


def command(guest: qemu.Guest, processor: str, slot: Slot, *, tells_faults: bool = False) -> list[str]:
    """The command that runs the guest, in the slot's private directory, where its files are made."""
    loader.make_disc(guest, slot.private, slot.private / DISK, slot.log("disk"))
    (slot.private / CONFIGURATION).write_text(configuration(guest, processor, tells_faults=tells_faults))
    (slot.private / COMMANDS).write_text("continue\n")
    if not (apart := without_network()):
        say(f"this system gives Bochs no network of its own: its display is open to every host, at port {DISPLAY_PORT}")
    return [*apart, EMULATOR, "-q", "-f", CONFIGURATION, "-rc", COMMANDS]


def run(guest: qemu.Guest, processor: str, plan: Plan) -> int | None:
    """Run the guest to its last words: their code, or None if it ended or hung without them."""
    slot, on_console, on_log = plan.slot, LastWords(by_root=True), LastWords(by_root=True)
    with ExitStack() as stack:
        files = {name: stack.enter_context(slot.log(name).open("wb", buffering=0)) for name in LOGS}
        console = _Line(stack, [files["console"].write, on_console.feed])
        log = _Line(stack, [files["kernel"].write, on_log.feed, plan.watch_log])
        child = process.start(
            command(replace(guest, console=console.destination(), log=log.destination()), processor, slot),
            pass_fds=[line.theirs.fileno() for line in (console, log)],
            stdout=files["emulator"].fileno(),
            stderr=subprocess.STDOUT,
            cwd=slot.private,
        )
        try:
            for line in (console, log):
                line.theirs.close()
            _attend((on_console, on_log), (console, log), time.monotonic() + plan.timeout_s)
        finally:
            process.end(child)
    return code_of(on_console, on_log)


def code_of(*heard: LastWords) -> int | None:
    """The code of the first ones that were heard."""
    return next((words.code for words in heard if words.code is not None), None)


def _attend(heard: tuple[LastWords, LastWords], lines: Sequence[_Line], deadline: float) -> None:
    """Serve the lines until the last words, the end of both lines, or the deadline."""
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line.ours, selectors.EVENT_READ, line)
        while code_of(*heard) is None and selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if not key.data.take():
                    selector.unregister(key.fileobj)
