# SPDX-License-Identifier: GPL-2.0-only
"""KVM: the host's if it can be used, else nested KVM in an emulated machine, whose processor has AMD's SVM.

That machine runs Debian's kernel with its kvm-amd module, and a root of the host's own QEMU and the files
that it reads. Its QEMU runs the guest; the guest's serial lines are the output of a command there.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from . import accel, boot, guest, guestinit, linux, machine, packages, process, qemu, rootarchive, slot
from .config import Settings
from .errors import KeelError
from .progress import say

SOURCES = Path("tests") / "machines"
PROGRAM = "nested"
ARGUMENTS = "arguments"
# Where the guest's files are in that root.
FILES = Path("/guest")
# The directory for a guest's discarded writes.
SCRATCH = Path("var") / "tmp"
# QEMU's own files that it reads: the firmware of a PC, and the loader of a kernel and its modules.
FIRMWARE = ("bios-256k.bin", "kvmvapic.bin", "linuxboot_dma.bin", "multiboot_dma.bin")
# The guest's log is the command's output, its console the error output.
LOG, CONSOLE = "stdio", "file,path=/dev/stderr"
# Memory in addition to the guest's and the root's: for QEMU, and for Debian's kernel with its modules.
RESERVE_MB = 384


def run(settings: Settings, described: qemu.Guest, plan: guest.Plan) -> guest.Outcome:
    """Like guest.run, under KVM. A guest under the emulated one gets the arguments that need it, and no --exec channel."""
    if not (reason := accel.obstacle(settings)):
        return guest.run(settings, replace(described, accelerator="kvm"), plan)
    say(f"KVM is Debian's in an emulated machine, because {reason}")
    outcome = guest.Outcome(console_log=plan.slot.log("console"), kernel_log=plan.slot.log("kernel"))
    with ExitStack() as stack, slot.taken(settings, "nested") as mine:
        console, log = (stack.enter_context(path.open("wb", buffering=0)) for path in (outcome.console_log, outcome.kernel_log))

        def take(fd: int, data: bytes) -> bool:
            file, watch = (log, plan.watch_log) if fd == 1 else (console, plan.watch_console)
            file.write(data)
            return bool(watch and watch(data))

        host = _host(settings, described, mine)
        outer = guest.Plan(
            slot=mine,
            command=f"/{PROGRAM}".encode(),
            timeout_s=plan.timeout_s,
            watch_log=lambda _: False,
            take_output=take,
        )
        ended = guest.run(settings, host, outer)
    outcome.emulator_status, outcome.timed_out = ended.command_status, ended.timed_out
    outcome.emulator_log = ended.console_log
    return outcome


def _host(settings: Settings, described: qemu.Guest, mine: slot.Slot) -> qemu.Guest:
    """The emulated machine that has KVM."""
    kernel, *modules = linux.kvm_host(settings)
    root = _root(settings, described, modules, mine)
    # It has one processor: with two, on QEMU 7.2, the guest's kernel lost its GS base.
    choices = boot.Choices(
        native=True,
        kernel=boot.DEBIAN_KERNEL,
        command=PROGRAM,
        memory_mb=root.memory_mb(native=True) + described.memory_mb + RESERVE_MB,
        card="none",
    )
    ramdisk = mine.directory / "booted.cpio"
    rootarchive.join([root.path, guestinit.build_init(settings)], ramdisk)
    ticks_khz = process.output([str(build_programs(settings) / "ticks")]).strip()
    parameters = f"{boot.linux_parameters(choices, '')} tsc_early_khz={ticks_khz}"
    host = boot.native_guest(kernel, choices, mine, boot.Storage(ramdisk), parameters, "tcg")
    return replace(host, cpu=machine.KVM_HOST_CPU)


def _root(settings: Settings, described: qemu.Guest, modules: list[Path], mine: slot.Slot) -> rootarchive.Root:
    """A root with QEMU, the guest's files and the command that starts it, each word a line."""
    tree = mine.directory / "root"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / SCRATCH).mkdir(parents=True)
    for path in _emulator_files():
        _copy(path, tree / path.relative_to("/"))
    words = []
    for module in modules:
        _copy(module, tree / module.name)
        words.append(f"/{module.name}")
    inner = replace(
        described,
        accelerator="kvm",
        cpu=machine.NESTED_CPU,
        gdb_socket=None,
        log=LOG,
        console=CONSOLE,
        extra=(*described.extra, *machine.NESTED_ARGUMENTS),
    )
    for path in files(inner):
        _copy(path, tree / FILES.relative_to("/") / path.name)
    words += qemu.arguments(moved(inner))
    _copy(build_programs(settings) / PROGRAM, tree / PROGRAM)
    (tree / ARGUMENTS).write_text("\n".join(words))
    archive = mine.directory / "root.cpio"
    rootarchive.pack_directory(tree, archive)
    shutil.rmtree(tree)
    return rootarchive.check(archive, settings)


def _copy(path: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, place)


def files(described: qemu.Guest) -> list[Path]:
    """Our files that the guest's emulator reads."""
    booted = [described.disc] if described.disc else [described.kernel, *(module.path for module in described.modules)]
    return [*booted, *(disk.path for disk in described.disks)]


def moved(described: qemu.Guest) -> qemu.Guest:
    """The guest with its files' paths in the root."""
    return replace(
        described,
        kernel=FILES / described.kernel.name,
        disc=FILES / described.disc.name if described.disc else None,
        modules=tuple(replace(module, path=FILES / module.path.name) for module in described.modules),
        disks=tuple(replace(disk, path=FILES / disk.path.name) for disk in described.disks),
    )


def _emulator_files() -> Iterator[Path]:
    """The host's QEMU, its libraries and its firmware, by the names by which it looks for them."""
    emulator = shutil.which(machine.EMULATOR)
    assert emulator  # required before
    yield Path(emulator)
    for name in re.findall(r"/\S+", process.output(["ldd", emulator])):
        yield Path(name)
    places = [Path(os.path.normpath(line)) for line in process.output([emulator, "-L", "help"]).split()]
    for name in FIRMWARE:
        found = next((place / name for place in places if (place / name).exists()), None)
        if found is None:
            raise KeelError(f"this QEMU has no {name}", "Debian's has")
        yield found


def build_programs(settings: Settings) -> Path:
    """Compile the programs of the machines' tests; returns their directory."""
    packages.require(settings, packages.COMPILER)
    out = settings.build / "machines"
    out.mkdir(parents=True, exist_ok=True)
    process.run_logged(
        ["make", "-C", str(settings.repository / SOURCES), f"O={out}"],
        what="building the programs of the machines' tests",
        log=settings.logs / "machines-programs.log",
    )
    return out
