# SPDX-License-Identifier: GPL-2.0-only
"""What is booted: from the user's choices to a guest for the emulator."""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import bootconf, forward, image, layers, machine, qemu, share
from .config import KERNEL_IMAGE, TASK, Settings
from .errors import KeelError
from .placement import TASKS, Placement
from .rust import DEBUGGER_IMAGE
from .slot import Slot, check_name

# Parameters of both systems: the init of our own archive, and the processor's random numbers.
COMMON_PARAMETERS = ("rdinit=/keel/init", "random.trust_cpu=on")
SERIAL_CONSOLE = "console=ttyS0"
SCREEN_CONSOLE = "console=tty0"
# With a screen there is a shell on each.
SHELLS = "keel.console=tty1,ttyS0"
# The path of the default root in the RAM disk of an ISO image, and the terminal type of its serial line.
DISC_ROOT = "keel/root.squashfs"
DISC_TERMINAL = "keel.term=xterm"
# The parameter by which native Linux's boot code sets a mode with 32 bits a pixel.
NATIVE_SCREEN = "vga=0x344"
# The emulator's clock is steady and loses no interrupts, though a busy host delays them. A panic ends the guest.
NATIVE_PARAMETERS = ("panic=-1", "tsc=reliable", "no_timer_check")
# Code in ring 0 is in pages of ring 3, which SMEP and SMAP would forbid.
UKL_PARAMETERS = ("clearcpuid=smep,smap",)
# Linux's own limit, minus the space for the terminal's settings.
LONGEST_PARAMETERS = 2048 - 128
# The kernel that Debian ships, in place of a file.
DEBIAN_KERNEL = "debian"
# Of this architecture, or of the one that is unpacked apart (image.py).
PACKAGE_NAME = re.compile(rf"[a-z0-9][a-z0-9+.-]+(:{image.APART})?")
# The µ-kernel's own: a panic ends the emulator.
KERNEL_PARAMETERS = ("debug-exit",)
# The debug build has its own serial line, on which a panic waits for commands.
DEBUGGER_PARAMETERS = ("console=com4",)
# An additional setting of the configuration if the kernel's debugger is used after the shutdown.
HALTS_AT_SHUTDOWN = "\non-shutdown halt\n"


@dataclass(frozen=True)
class Choices:
    """The user's choices for a run."""

    native: bool = False
    # In place of the native kernel: a file, or DEBIAN_KERNEL.
    kernel: str | None = None
    command: str | None = None
    # A directory, an archive, or `[FORMAT:]FILE` of a disk.
    root: str | None = None
    icount: bool = False
    accelerator: str = "auto"
    # Bochs emulates, which has none of QEMU's devices.
    bochs: bool = False
    memory_mb: int = machine.DEFAULT_MEMORY_MB
    timeout_s: float | None = None
    append: str = ""
    emulator_arguments: tuple[str, ...] = field(default_factory=tuple)
    gdb: bool = False
    boot_template: Path = bootconf.DEFAULT_TEMPLATE
    processors: int = 1
    kernel_line: str = ""
    # What runs in supervisor mode on Keel.
    placement: Placement = TASKS
    debugger: bool = False
    # The debug build, only for its check of the invariants.
    checks: bool = False
    arguments: str = ""
    # Disks beside the root, each `[BUS:][FORMAT:]FILE`; a network of machine.NETWORKS, or None for the usual one.
    drives: tuple[str, ...] = ()
    card: str | None = None
    persist: bool = False
    # More Debian packages in the default root, and the name of their layer.
    packages: tuple[str, ...] = ()
    layer: str | None = None
    # An application for ring 0 and its arguments, on the kernel for it, which is a native one with a set of options.
    application: Path | None = None
    application_options: tuple[str, ...] = ()
    application_arguments: tuple[str, ...] = ()
    # The application is linked into the kernel; there is no root and no RAM disk.
    linked: bool = False
    alone: bool = False
    # Process 1: Keel's own init of one command or shell, or the root's systemd.
    init: str = "keel"
    uefi: bool = False
    iommu: bool = False
    graphic: bool = False
    # A release set in place of what would be built.
    release: Path | None = None
    # The name of the guest while it runs; by default its kind, with a number.
    name: str | None = None
    # Directories of the host, and the path in the guest where the command runs, if it is not the usual one.
    shares: tuple[qemu.Share, ...] = ()
    directory: str = ""
    # Ports of the host that lead to the guest's, each `[ADDR:]HOST:GUEST[/udp]`.
    forwards: tuple[str, ...] = ()
    # An SSH server in the guest.
    ssh: bool = False
    # The guest continues when the command that started it has returned.
    detached: bool = False

    @property
    def has_devices(self) -> bool:
        """Whether the guest has QEMU's devices: they run in the host's time, so there are none on the deterministic clock."""
        return not self.icount and not self.bochs

    @property
    def on_disk(self) -> bool:
        """Whether the default root is on a disk. Another kernel may have no driver for it."""
        return self.has_devices and self.kernel is None and not self.alone

    @property
    def has_port(self) -> bool:
        """Whether the command has a port of virtio's: not where the driver may be missing."""
        return self.command is not None and self.has_devices and self.kernel is None and self.application is None

    @property
    def network_card(self) -> str | None:
        """The guest's network card."""
        usual = "virtio" if self.has_devices else "none"
        card = (self.card or usual).removesuffix(machine.RESTRICTED)
        return None if card == "none" else card

    @property
    def is_restricted(self) -> bool:
        """Return true if the guest's network leads nowhere."""
        return self.card is not None and self.card.endswith(machine.RESTRICTED)


@dataclass(frozen=True)
class Storage:
    """The storage of a Linux guest: an initial RAM disk, and disks, the first of which may be its root."""

    ramdisk: Path
    disks: tuple[qemu.Disk, ...] = ()
    root_on_disk: bool = False


def linux_parameters(choices: Choices, terminal: str, *, root_on_disk: bool = False) -> str:
    """Linux's command line: the same on both systems, except what only the native one needs."""
    # The init uses the last one.
    words = [*([SCREEN_CONSOLE] if choices.graphic else []), SERIAL_CONSOLE, *COMMON_PARAMETERS]
    if root_on_disk:
        words.append(f"keel.root={machine.ROOT_DISK}")
    if choices.network_card:
        words += machine.NETWORK_PARAMETERS
    if choices.init != "keel":
        words.append(f"keel.init={choices.init}")
    if choices.native:
        words += NATIVE_PARAMETERS
    if choices.native and choices.graphic and not choices.uefi:
        words.append(NATIVE_SCREEN)
    if choices.application:
        words += [*UKL_PARAMETERS, f"keel.app={choices.application.name}"]
    if choices.command is None:
        words += ["keel.mode=shell", terminal, *([SHELLS] if choices.graphic else [])]
    else:
        words += ["keel.mode=exec", *([f"keel.port={machine.PORT_NAME}"] if choices.has_port else [])]
    words += [*share.parameters(choices.shares, choices.directory), *choices.placement.linux_words()]
    if choices.append:
        words.append(choices.append)
    if choices.application_arguments:
        words += ["--", *choices.application_arguments]
    return " ".join(words)


def linked_parameters(name: str) -> str:
    """Linux's command line for a kernel with an application linked into it; a loader's additions follow it."""
    return " ".join([SERIAL_CONSOLE, *COMMON_PARAMETERS, *UKL_PARAMETERS, f"keel.app={name}", "keel.mode=shell", "panic=-1"])


def disc_parameters(root: str | None, append: str) -> str:
    """Linux's command line on an ISO image, for any machine: a shell on its screen and on its first serial line."""
    words = [SERIAL_CONSOLE, SCREEN_CONSOLE, *COMMON_PARAMETERS, "keel.mode=shell", DISC_TERMINAL, SHELLS]
    return " ".join([*words, *([f"keel.root=/{root}"] if root else []), *([append] if append else [])])


def kernel_parameters(choices: Choices) -> str:
    """The µ-kernel's command line."""
    fixed = DEBUGGER_PARAMETERS if choices.debugger else KERNEL_PARAMETERS
    return " ".join([*fixed, *choices.placement.kernel_words(), choices.kernel_line]).rstrip()


def _kernel(settings: Settings, choices: Choices) -> Path:
    return settings.keel_directory / (DEBUGGER_IMAGE if choices.debugger or choices.checks else KERNEL_IMAGE)


def native_guest(
    kernel: Path,
    choices: Choices,
    slot: Slot,
    storage: Storage,
    parameters: str,
    accelerator: str,
) -> qemu.Guest:
    """A native Linux."""
    described = _linux_guest(kernel, choices, slot, storage, accelerator)
    return replace(described, command_line=parameters, ramdisk=storage.ramdisk)


def keel_guest(
    settings: Settings,
    choices: Choices,
    slot: Slot,
    storage: Storage,
    parameters: str,
    accelerator: str,
) -> qemu.Guest:
    """The µ-kernel with its boot modules: sigma0, the root task, the configuration, the images."""
    text = bootconf.fill(
        bootconf.read(choices.boot_template),
        ramdisk=storage.ramdisk.name,
        linux_args=parameters,
        linux_place=choices.placement.linux_place(),
    )
    end = HALTS_AT_SHUTDOWN if choices.debugger else ""
    return replace(
        _linux_guest(_kernel(settings, choices), choices, slot, storage, accelerator),
        has_exit=not choices.debugger,
        command_line=kernel_parameters(choices),
        modules=(*_modules(settings, slot, text + end), qemu.Module(settings.linux_server), qemu.Module(storage.ramdisk)),
    )


def _linux_guest(kernel: Path, choices: Choices, slot: Slot, storage: Storage, accelerator: str) -> qemu.Guest:
    """The machine of Linux on both systems, with the kernel that boots, without its parameters."""
    return qemu.Guest(
        kernel=kernel,
        memory_mb=choices.memory_mb,
        processors=choices.processors,
        takes_turns=True,
        accelerator=accelerator,
        icount=choices.icount,
        disks=storage.disks,
        card=choices.network_card,
        is_restricted=choices.is_restricted,
        random_numbers=choices.has_devices,
        port=qemu.NOWHERE if choices.has_port else None,
        shares=choices.shares,
        gdb_socket=slot.gdb_socket,
        stopped=choices.gdb,
        uefi=choices.uefi,
        has_iommu=choices.iommu,
        has_screen=choices.graphic,
        extra=choices.emulator_arguments,
    )


def disc_guest(settings: Settings, slot: Slot, template: Path, ramdisk: Path, parameters: str) -> qemu.Guest:
    """The contents of a bootable ISO image."""
    text = bootconf.fill(bootconf.read(template), ramdisk=ramdisk.name, linux_args=parameters)
    return qemu.Guest(
        kernel=settings.keel_directory / KERNEL_IMAGE,
        modules=(*_modules(settings, slot, text), qemu.Module(settings.linux_server), qemu.Module(ramdisk)),
        has_screen=True,
    )


def tests_guest(settings: Settings, choices: Choices, slot: Slot) -> qemu.Guest:
    """The µ-kernel with the native tasks alone."""
    text = bootconf.fill_tests(bootconf.read(choices.boot_template), choices.arguments)
    end = HALTS_AT_SHUTDOWN if choices.debugger else ""
    return qemu.Guest(
        kernel=_kernel(settings, choices),
        has_exit=not choices.debugger,
        modules=_modules(settings, slot, text + end),
        command_line=kernel_parameters(choices),
        memory_mb=machine.TESTS_MEMORY_MB,
        has_iommu=choices.iommu,
        icount=choices.icount,
        processors=choices.processors,
        gdb_socket=slot.gdb_socket,
        extra=choices.emulator_arguments,
    )


def _modules(settings: Settings, slot: Slot, text: str) -> tuple[qemu.Module, ...]:
    """The first two tasks, the configuration with this text, and every native task that it names."""
    configuration = slot.directory / bootconf.NAME
    configuration.write_text(text)
    first = [settings.keel_directory / "sigma0", settings.keel_directory / "root", configuration]
    names = {word for word in text.split() if TASK.fullmatch(word)} - {"sigma0", "root", settings.linux_server.name}
    tasks = sorted(path for path in settings.keel_directory.iterdir() if path.name in names)
    return tuple(qemu.Module(path) for path in [*first, *tasks])


def check(choices: Choices) -> None:
    """Refuse what cannot work before anything long begins."""
    if choices.memory_mb < machine.LEAST_MEMORY_MB:
        raise KeelError(f"--mem {choices.memory_mb} is too little", f"at least {machine.LEAST_MEMORY_MB} MB")
    if not 1 <= choices.processors <= machine.MOST_PROCESSORS:
        raise KeelError(f"--smp {choices.processors} is not possible", f"from 1 to {machine.MOST_PROCESSORS}")
    if choices.name is not None:
        check_name(choices.name)
    if choices.icount and choices.native and choices.processors > 1:
        raise KeelError(
            "native Linux does not start its second processor on the deterministic clock", "leave one of --icount and --smp out"
        )
    if choices.timeout_s is not None and not choices.timeout_s > 0:  # also what is no number
        raise KeelError("--timeout must be more than 0 seconds")
    if choices.command is not None and not choices.command.strip():
        raise KeelError("--exec needs a command")
    if choices.icount and choices.accelerator == "kvm":
        raise KeelError(
            "--icount counts the emulator's instructions, which KVM has none of",
            "leave one of --icount and --accel kvm out",
        )
    _check_parameters(linux_parameters(choices, ""))
    if choices.kernel is not None:
        _check_kernel(choices)
    if len(choices.drives) >= machine.MOST_DISKS:
        raise KeelError(f"there are too many drives: {len(choices.drives)}", f"at most {machine.MOST_DISKS - 1} beside the root")
    if wrong := [name for name in choices.packages if not PACKAGE_NAME.fullmatch(name)]:
        raise KeelError(f"--packages: {wrong[0]!r} is no name of a Debian package")
    if (choices.packages or choices.layer) and choices.root is not None:
        adding = "--packages" if choices.packages else "--layer"
        raise KeelError(f"{adding} adds to the default root, and --root gives another", "leave one of them out")
    layers.wanted(choices.packages, choices.layer)
    if choices.bochs:
        _check_bochs(choices)
    if choices.persist and choices.icount and choices.root is None:
        raise KeelError(
            "--persist needs a root on a disk, and with --icount it is in memory", "leave one of them out, or give --root"
        )
    if wrong := [word for word in choices.application_arguments if not word or set(word) & set(' \t\n"')]:
        raise KeelError(f"the argument {wrong[0]!r} cannot be passed on Linux's command line", "use --exec for such ones")
    _check_network(choices)
    _check_configuration(choices)


def _check_network(choices: Choices) -> None:
    forward.parse_all(choices.forwards)
    wanted = "--ssh" if choices.ssh else "--forward" if choices.forwards else None
    if wanted and choices.network_card is None:
        reason = "--nic none" if choices.card else "--icount, whose clock a network does not follow,"
        raise KeelError(f"{wanted} needs a network, and {reason} leaves it out", "leave one of them out")


def _check_bochs(choices: Choices) -> None:
    """Refuse what Bochs has not."""
    unknown = {
        "--native": choices.native,
        "--icount": choices.icount,
        f"--accel {choices.accelerator}": choices.accelerator != "auto",
        "--drive": bool(choices.drives),
        "--persist": choices.persist,
        "--nic": choices.network_card is not None,
        "--forward": bool(choices.forwards),
        "--ssh": choices.ssh,
        "--share": bool(choices.shares),
        "--init systemd": choices.init != "keel",
        "--uefi": choices.uefi,
        "--iommu": choices.iommu,
        "--graphic": choices.graphic,
        "--gdb": choices.gdb,
        "--from": choices.release is not None,
        "--qemu-arg": bool(choices.emulator_arguments),
    }
    if wrong := [option for option, is_given in unknown.items() if is_given]:
        raise KeelError(f"--emulator bochs has no {wrong[0]}", "it boots Keel from a disc, and has a serial line: leave that out")


def check_disc(template: Path, parameters: str) -> None:
    """Refuse what an ISO image cannot have, before anything long begins."""
    _check_parameters(parameters)
    bootconf.fill(bootconf.read(template), ramdisk="", linux_args="")


def _check_parameters(parameters: str) -> None:
    if "\n" in parameters:
        raise KeelError("--append must be one line")
    if len(os.fsencode(parameters)) > LONGEST_PARAMETERS:
        raise KeelError(
            "Linux's command line is too long", f"it takes {LONGEST_PARAMETERS} bytes: shorten --append, or the PATHs of --share"
        )


def _check_kernel(choices: Choices) -> None:
    if not choices.native:
        raise KeelError("--kernel is another native Linux", "give --native as well")
    if choices.kernel != DEBIAN_KERNEL and not Path(choices.kernel or "").is_file():
        raise KeelError(f"--kernel {choices.kernel}: there is no such file", f"a bzImage, or the word {DEBIAN_KERNEL!r}")
    if choices.persist and choices.root is None:
        raise KeelError(
            "--persist needs a root on a disk, and with --kernel it is in memory", "leave one of them out, or give --root"
        )
    if choices.kernel == DEBIAN_KERNEL:
        _check_modules(choices)


def _check_modules(choices: Choices) -> None:
    """Refuse what needs a driver that is a module of Debian's kernel.

    The guest's init mounts shares before a program could load one; the default root alone has no modules at all.
    """
    has_modules = choices.root is not None or bool(choices.packages or choices.layer)
    devices = {"--drive": bool(choices.drives), "--forward": bool(choices.forwards), "--ssh": choices.ssh}
    needing = {"--share": bool(choices.shares), **({} if has_modules else devices)}
    if wrong := [option for option, is_given in needing.items() if is_given]:
        raise KeelError(
            f"{wrong[0]} needs a driver that Debian's kernel has as a module only", f"leave {wrong[0]} out, or --kernel"
        )


def _check_configuration(choices: Choices) -> None:
    """Fill in the boot configuration without using it, so that its errors show before a build."""
    if not choices.native:
        bootconf.fill(bootconf.read(choices.boot_template), ramdisk="", linux_args="")
    elif choices.boot_template != bootconf.DEFAULT_TEMPLATE:
        raise KeelError("--boot-conf is for Keel, and --native boots without it", "leave one of them out")
    elif choices.placement != TASKS:
        raise KeelError("--place is for Keel, and native Linux has the machine for itself", "leave out --place or --native")
    if choices.placement != TASKS and "${linux_place}" not in bootconf.read(choices.boot_template):
        reason = f"--place: {choices.boot_template} does not say 'place ${{linux_place}}'"
        raise KeelError(reason, "write that in Linux's task there, or 'place kernel' and leave out --place")
