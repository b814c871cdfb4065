# SPDX-License-Identifier: GPL-2.0-only
"""From a description of a guest to QEMU's arguments. Pure: it starts and reads nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from . import machine

# A serial line without a reader.
NOWHERE = "null"


def quoted(text: object) -> str:
    """A value of a QEMU option, with its commas doubled, since a single one ends it."""
    return str(text).replace(",", ",,")


def plugin(file: Path, *options: str) -> tuple[str, str]:
    """The arguments that load a plugin of the translator. The file is named, because its path may have a `=` in it."""
    return "-plugin", ",".join(quoted(option) for option in (f"file={file}", *options))


@dataclass(frozen=True)
class Module:
    """A boot module: a file, and the arguments after its name."""

    path: Path
    arguments: str = ""

    def text(self) -> str:
        """In the format of QEMU's -initrd."""
        return quoted(f"{self.path} {self.arguments}".strip())


@dataclass(frozen=True)
class Disk:
    """A disk and whether what the guest writes is kept in its image."""

    path: Path
    image_format: str
    bus: str = "virtio"
    keep: bool = False


@dataclass(frozen=True)
class Share:
    """A directory of the host, without symbolic links in its path, and its place in the guest."""

    directory: Path
    place: str
    writable: bool = False


@dataclass(frozen=True)
class Forward:
    """A port of an IPv4 address of the host that leads to a port of the guest."""

    address: str
    host: int
    guest: int
    protocol: str = "tcp"

    def option(self) -> str:
        """In the format of QEMU's user network."""
        return f"hostfwd={self.protocol}:{self.address}:{self.host}-:{self.guest}"


@dataclass(frozen=True)
class Guest:
    """What is booted, and all that determines the emulator's arguments."""

    kernel: Path
    command_line: str = ""
    ramdisk: Path | None = None
    modules: tuple[Module, ...] = ()
    memory_mb: int = machine.DEFAULT_MEMORY_MB
    processors: int = 1
    accelerator: str = "tcg"
    # TCG's processors take turns in one thread, where the emulator needs it (emulators.py).
    takes_turns: bool = False
    icount: bool = False
    gdb_socket: Path | None = None
    stopped: bool = False
    # QEMU's names of a board and of a processor.
    model: str = machine.USUAL_MODEL
    cpu: str = machine.CPU
    # The destinations of the serial lines, in the emulator's syntax; only the debug build has the last one.
    console: str = NOWHERE
    exec: str = NOWHERE
    log: str = NOWHERE
    debugger: str | None = None
    # The same of a port of virtio's, if there is one.
    port: str | None = None
    disks: tuple[Disk, ...] = ()
    # A network card of machine.CARDS on a network of the emulator's own, which may lead nowhere.
    card: str | None = None
    is_restricted: bool = False
    forwards: tuple[Forward, ...] = ()
    random_numbers: bool = False
    shares: tuple[Share, ...] = ()
    # A bootable ISO image in place of the kernel and its modules; the firmware that boots it, and a screen for the guest.
    disc: Path | None = None
    uefi: bool = False
    has_iommu: bool = False
    has_screen: bool = False
    # The display, in QEMU's syntax, without options.
    display: str = "none"
    # Without it, ACPI powers the guest off, or the guest halts if its boot configuration says so, and can be inspected.
    has_exit: bool = True
    extra: tuple[str, ...] = field(default_factory=tuple)


def arguments(guest: Guest, emulator: Sequence[str] = (machine.EMULATOR,)) -> list[str]:
    """The whole command, from the words that start the emulator."""
    argv = [
        *emulator,
        "-no-user-config",
        "-nodefaults",
        "-no-reboot",
        *("-machine", machine.IOMMU_MODEL if guest.has_iommu else guest.model),
        *("-accel", _accelerator(guest)),
        *("-cpu", guest.cpu),
        *("-smp", str(guest.processors)),
        *("-m", str(guest.memory_mb)),
        *("-display", quoted(guest.display)),
    ]
    if guest.has_screen:
        argv += ["-vga", "std"]
    if guest.uefi:
        argv += [word for number in (0, 1) for word in ("-drive", machine.UEFI[number])]
    if guest.has_exit:
        argv += ["-device", f"isa-debug-exit,iobase={machine.EXIT_PORT:#x},iosize=0x4"]
    argv += _serial(guest, machine.CONSOLE, guest.console)
    argv += _serial(guest, machine.EXEC, guest.exec)
    argv += _serial(guest, machine.LOG, guest.log)
    if guest.debugger is not None:
        argv += _serial(guest, machine.DEBUGGER, guest.debugger)
    if guest.icount:
        # Random instructions include RDRAND, whose numbers are the host's without a seed.
        argv += ["-icount", "shift=0,sleep=off", "-seed", "1"]
    if guest.gdb_socket:
        argv += ["-chardev", f"socket,path={quoted(guest.gdb_socket)},server=on,wait=off,id=gdb"]
        argv += ["-gdb", "chardev:gdb"]
    if guest.stopped:
        argv += ["-S"]
    argv += _behind_iommu(_devices(guest)) if guest.has_iommu else _devices(guest)
    if guest.disc:
        argv += ["-drive", f"file={quoted(guest.disc)},id=disc,format=raw,if=none,readonly=on", "-device", machine.DISC]
        return argv + list(guest.extra)
    argv += ["-kernel", str(guest.kernel)]
    if guest.command_line:
        argv += ["-append", guest.command_line]
    if guest.ramdisk:
        argv += ["-initrd", str(guest.ramdisk)]
    elif guest.modules:
        argv += ["-initrd", ",".join(module.text() for module in guest.modules)]
    return argv + list(guest.extra)


def models(guest: Guest) -> list[str]:
    """The devices that the emulator must have, by QEMU's names."""
    argv = arguments(guest)
    return [word.split(",")[0] for option, word in pairwise(argv) if option == "-device"]


def _accelerator(guest: Guest) -> str:
    """With -icount TCG has one thread anyhow, and rejects the option."""
    single = guest.takes_turns and guest.processors > 1 and guest.accelerator == "tcg" and not guest.icount
    return f"{guest.accelerator},thread=single" if single else guest.accelerator


def _serial(guest: Guest, port: machine.SerialPort, backend: str) -> list[str]:
    chardev = ["-chardev", f"{backend},id={port.name}"]
    if machine.is_microvm(guest.model):  # -serial gives it one line
        return [*chardev, "-device", f"isa-serial,chardev={port.name},iobase={port.port:#x},irq={port.interrupt}"]
    return [*chardev, "-serial", f"chardev:{port.name}"]


def _behind_iommu(devices: list[str]) -> list[str]:
    """The devices, which access memory through the IOMMU; QEMU requires it before them."""
    return ["-device", machine.IOMMU, *(word + machine.BEHIND_IOMMU if word.startswith("virtio-") else word for word in devices)]


def _devices(guest: Guest) -> list[str]:
    argv = []
    if any(disk.bus == "ahci" for disk in guest.disks):
        argv += ["-device", machine.AHCI]
    for number, disk in enumerate(guest.disks):
        # A host disk that is full is an error to the guest, which would otherwise hang.
        options = f"id=disk{number},format={disk.image_format},if=none,werror=report,rerror=report"
        argv += ["-drive", f"file={quoted(disk.path)},{options},snapshot={'off' if disk.keep else 'on'}"]
        argv += ["-device", machine.BUSES[disk.bus].format(number)]
    if guest.card:
        user = f"user,id=net{machine.RESTRICTED if guest.is_restricted else ''}"
        network = ",".join([user, *(forward.option() for forward in guest.forwards)])
        argv += ["-netdev", network, "-device", machine.CARDS[guest.card]]
    if guest.random_numbers:
        argv += ["-device", machine.RANDOM_NUMBERS]
    if guest.port is not None:
        argv += ["-chardev", f"{guest.port},id={machine.PORT}"]
        argv += [word for device in machine.PORT_DEVICES for word in ("-device", device)]
    for number, share in enumerate(guest.shares):
        # The model is without a map of owners: a file's mode is the host's, and its owner the emulator's user.
        options = f"security_model=none,multidevs=remap,readonly={'off' if share.writable else 'on'}"
        argv += ["-fsdev", f"local,id=share{number},path={quoted(share.directory)},{options}"]
        argv += ["-device", machine.SHARE.format(number)]
    return argv
