# SPDX-License-Identifier: GPL-2.0-only
"""`./keel run`: builds what is missing, boots a guest, and turns its end into an exit status."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .. import (
    accel,
    bochs,
    boot,
    detached,
    disks,
    emulators,
    forward,
    guest,
    guestinit,
    imageformat,
    layers,
    linux,
    loader,
    machine,
    packages,
    qemu,
    release,
    rootarchive,
    rust,
    slot,
    ssh,
    terminal,
    trusted,
)
from ..config import Settings
from ..console import End
from ..debugger import Dialogue
from ..errors import FREE_SPACE, KeelError, Status
from ..progress import say

# How the guest's init reports why it ends (guest/init), and how many lines Linux may add after that on the console.
INIT_ERROR = "keel-init: error: "
LAST_WORDS = 10
# The limit in seconds for a guest under KVM until the root task's first line, or native Linux's, which usually takes a second
# or two.
# When it boots from an ISO image, GRUB reads all modules first.
KVM_BEGINS_S = 20.0
KVM_BEGINS_FROM_DISC_S = 120.0


def run(
    settings: Settings,
    choices: boot.Choices,
    dialogue: Dialogue | None = None,
    start_reader: Callable[[], None] | None = None,
) -> int:
    """Runs the verb; returns the exit status of `./keel`. At the end the kernel's debugger may be asked.

    `start_reader` is called when the guest is about to start: it starts what speaks to the emulator in gdb's place.
    """
    boot.check(choices)
    if choices.release:
        release.refuse(choices)
        settings, choices = release.opened(settings, choices, choices.release)
    trusted.check_shares(settings, choices.shares)
    if wish := _layer(choices):
        layers.check_packages(settings, wish)
    with forward.held(_forwards(choices)) as forwards:
        return _run(settings, choices, forwards, dialogue, start_reader)


def _forwards(choices: boot.Choices) -> list[qemu.Forward]:
    """The user's ports, and before them a free one for SSH."""
    server = [qemu.Forward(forward.LOOPBACK, 0, ssh.GUEST_PORT)] if choices.ssh else []
    return [*server, *forward.parse_all(choices.forwards)]


def _run(
    settings: Settings,
    choices: boot.Choices,
    forwards: tuple[qemu.Forward, ...],
    dialogue: Dialogue | None,
    start_reader: Callable[[], None] | None,
) -> int:
    given = None if choices.root is None else _given_root(settings, choices, choices.root)
    drives = tuple(_drive(settings, choices, text) for text in choices.drives)
    trusted.check_disks(settings, (*([given] if isinstance(given, qemu.Disk) else []), *drives))
    packages.require(settings, needs_of(settings, choices))
    if choices.bochs and isinstance(given, qemu.Disk):
        raise KeelError(f"--emulator bochs has no disk, and {choices.root} is one", "give a directory or a .cpio(.gz/.xz/.zst)")
    if not choices.bochs:
        emulators.require_devices(settings, _models(choices, (*([given] if isinstance(given, qemu.Disk) else []), *drives)))
    root = given or (None if choices.alone else _default_root(settings, choices))
    attached = (root, *drives) if isinstance(root, qemu.Disk) else drives
    accelerator = bochs.EMULATOR if choices.bochs else accel.choose(settings, choices.accelerator, choices.icount)
    with disks.held(attached), slot.taken(settings, _kind(choices), choices.name) as mine:
        mine.note_run(_kind(choices), choices.command)
        if choices.gdb and mine.gdb_socket is None:
            raise KeelError(f"{mine.private} is too long a path for a socket", slot.SHORTER)
        storage = _storage(settings, choices, root, attached)
        if choices.ssh:
            ssh.make_keys(mine, forwards[0].host)
            storage = replace(storage, ramdisk=ssh.with_keys(mine, storage.ramdisk))
        described = replace(_guest(settings, choices, mine, storage, accelerator), forwards=forwards)
        mine.note_symbols(_symbols(settings, choices, described))
        if choices.alone:
            described = replace(described, ramdisk=None)
        if choices.graphic:
            described = replace(described, display=_display(settings, mine))
        if not choices.native and (choices.uefi or choices.graphic):
            disc = mine.private / "disc.iso"
            loader.make_disc(described, mine.private, disc, mine.log("disc"))
            described = replace(described, disc=disc)
        greet(settings, choices, accelerator, described.display, has_reader=start_reader is not None)
        plan = guest.Plan(
            slot=mine,
            command=None if choices.command is None else os.fsencode(choices.command),
            timeout_s=choices.timeout_s,
            power_off_s=guest.LONG_GRACE_S if choices.persist or choices.init != "keel" else guest.POWER_OFF_GRACE_S,
            keeps=choices.persist,
            debugger=dialogue,
            firmware_speaks=choices.uefi,
            bochs=machine.BOCHS_PROCESSOR if choices.bochs else None,
        )
        if choices.detached:
            plan.console = mine.console if choices.command is None else None
            plan.on_up = detached.leave(mine, has_console=plan.console is not None)
            mine.note_run(_kind(choices), choices.command, detached=True)
        if start_reader:
            start_reader()
        outcome = after_dialogue(dialogue, _run_guest(settings, choices, described, plan))
        for place in disks.full_places(attached):
            say(f"the host's disk at {place} is full: what the guest wrote last may be missing ({FREE_SPACE})")
        return conclude(choices, outcome)


def _run_guest(settings: Settings, choices: boot.Choices, described: qemu.Guest, plan: guest.Plan) -> guest.Outcome:
    """Run the guest; emulate it if we chose KVM and it does not reach the root task, or Linux where it is native."""
    if described.accelerator != "kvm" or choices.accelerator == "kvm" or choices.gdb:
        return guest.run(settings, described, plan)
    limit = KVM_BEGINS_FROM_DISC_S if described.disc else KVM_BEGINS_S
    outcome = guest.run(settings, described, replace(plan, begins_s=limit))
    if outcome.begun or outcome.timed_out:
        return outcome
    end = f"stood for {limit:g} s" if outcome.emulator_status is None else f"ended with status {outcome.emulator_status}"
    first = "Linux's" if choices.native else "the root task's"
    say(f"under KVM the guest {end} before {first} first line: {_complaint(outcome)}")
    say("it is emulated instead (--accel tcg does that at once)")
    return guest.run(settings, replace(described, accelerator="tcg"), plan)


def _models(choices: boot.Choices, disks_given: tuple[qemu.Disk, ...]) -> list[str]:
    """The devices that the emulator must have, checked before anything long begins."""
    default = [qemu.Disk(Path(), "raw")] if choices.root is None and choices.on_disk else []
    attached = (*default, *disks_given)
    wanted = qemu.Guest(
        Path(),
        disks=attached,
        card=choices.network_card,
        random_numbers=choices.has_devices,
        port=qemu.NOWHERE if choices.has_port else None,
        shares=choices.shares,
        has_iommu=choices.iommu,
    )
    return qemu.models(wanted)


def _kind(choices: boot.Choices) -> str:
    """The default name of the run."""
    if choices.application:
        return "ukl"
    return "native" if choices.native else "keel"


def needs_of(settings: Settings, choices: boot.Choices) -> list[packages.Need]:
    """All that the run will need, so that the user is asked once, at the beginning."""
    needs = [*(packages.BOCHS if choices.bochs else packages.EMULATOR)]
    if not settings.release:
        needs += _needs_to_build(settings, choices)
    if choices.shares:
        needs += packages.CONFINEMENT
    if choices.uefi:
        needs += packages.UEFI
    if choices.graphic and _has_windows(settings):
        needs += packages.WINDOW
    if not choices.native and (choices.uefi or choices.graphic):
        needs += packages.UEFI_LOADER
    if choices.ssh:
        needs += packages.SSH
    return needs


def _needs_to_build(settings: Settings, choices: boot.Choices) -> list[packages.Need]:
    """What the kernels and the default root take."""
    needs = [*packages.LINUX, *packages.SIGNATURES]
    if not choices.native:
        needs += packages.RUST
    if choices.root is None and not choices.alone:
        default = disks if choices.on_disk else layers
        needs += default.needs(settings, _layer(choices))
    return needs


def _has_windows(settings: Settings) -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and not emulators.is_beside(settings)


def _display(settings: Settings, mine: slot.Slot) -> str:
    """A window if this terminal can have one, else a socket for a VNC viewer."""
    socket = mine.private / "vnc"
    if _has_windows(settings):
        return "gtk"
    if len(str(socket)) >= slot.SOCKET_PATH_MAX:
        raise KeelError(f"{mine.private} is too long a path for a socket", slot.SHORTER)
    return f"vnc=unix:{socket}"


def _given_root(settings: Settings, choices: boot.Choices, text: str) -> rootarchive.Root | qemu.Disk:
    """The user's root, checked."""
    form, path = imageformat.of_root(text)
    if form:
        return disks.examined(settings, path, form, keep=choices.persist, root=True)
    if choices.persist:
        raise KeelError(
            f"--persist needs a root on a disk, and {path} goes to memory", "give a disk image, or leave --persist out"
        )
    return _fitting(choices, rootarchive.from_user(path, settings))


def _default_root(settings: Settings, choices: boot.Choices) -> rootarchive.Root | qemu.Disk:
    if settings.release:
        return release.root_disk(settings, settings.release, keep=choices.persist)
    if choices.on_disk:
        return disks.default_root(settings, _layer(choices), keep=choices.persist)
    return _fitting(choices, layers.in_memory(settings, _layer(choices)))


def _layer(choices: boot.Choices) -> layers.Wanted | None:
    return layers.wanted(choices.packages, choices.layer)


def _drive(settings: Settings, choices: boot.Choices, text: str) -> qemu.Disk:
    bus, form, path = disks.parse(text)
    return disks.examined(settings, path, form, bus=bus, keep=choices.persist)


def _fitting(choices: boot.Choices, root: rootarchive.Root) -> rootarchive.Root:
    """The root, unless it cannot be started as the user wants or does not fit into the guest's memory."""
    if choices.command is None and not root.starts:
        raise KeelError(
            f"{choices.root or root.path} has neither an /init nor a shell",
            "give a command with --exec, or another root",
        )
    needed_mb = root.memory_mb(native=choices.native)
    if needed_mb > choices.memory_mb:
        raise KeelError(
            f"the root needs a guest of {needed_mb} MB, and --mem is {choices.memory_mb}",
            f"use --mem {needed_mb} or more",
        )
    return root


def _storage(
    settings: Settings, choices: boot.Choices, root: rootarchive.Root | qemu.Disk | None, attached: tuple[qemu.Disk, ...]
) -> boot.Storage:
    """The guest's init, perhaps with an application, in a RAM disk of its own or together with a root that is one."""
    app = None if choices.linked else choices.application
    init = guestinit.with_application(settings, app) if app else guestinit.build_init(settings)
    if root is None or isinstance(root, qemu.Disk):
        return boot.Storage(init, attached, root_on_disk=root is not None)
    return boot.Storage(rootarchive.boot_archive(settings, root, init), attached)


def _native_kernel(settings: Settings, choices: boot.Choices) -> Path:
    """Native Linux's kernel, built or fetched."""
    if choices.application and choices.linked:
        return settings.ukl_linked(choices.application.name)
    if choices.application:
        return linux.build_ukl(settings, choices.application_options)
    if choices.kernel is None:
        return linux.build_native(settings)
    return linux.debian_kernel(settings) if choices.kernel == boot.DEBIAN_KERNEL else Path(choices.kernel)


def _guest(
    settings: Settings,
    choices: boot.Choices,
    mine: slot.Slot,
    storage: boot.Storage,
    accelerator: str,
) -> qemu.Guest:
    parameters = boot.linux_parameters(choices, terminal.settings_for_guest(), root_on_disk=storage.root_on_disk)
    if choices.native:
        return boot.native_guest(_native_kernel(settings, choices), choices, mine, storage, parameters, accelerator)
    rust.build_all(settings)
    if choices.debugger:
        rust.build_debugger(settings)
    linux.build_server(settings)
    return boot.keel_guest(settings, choices, mine, storage, parameters, accelerator)


def _symbols(settings: Settings, choices: boot.Choices, described: qemu.Guest) -> dict[str, Path]:
    """The files with symbols, by the views of ./keel gdb."""
    if not choices.native:
        return {slot.LINUX: settings.linux_server, slot.KERNEL: described.kernel}
    if choices.application:
        return {slot.LINUX: linux.symbols_beside(described.kernel)}
    return {} if choices.kernel else {slot.LINUX: settings.native_symbols}


def greet(settings: Settings, choices: boot.Choices, accelerator: str, display: str, *, has_reader: bool = False) -> None:
    """What is booted and how to leave it; with --exec our error output has only the command's.

    A reader that we start has the place of the user's gdb.
    """
    for_gdb = choices.gdb and not has_reader
    if settings.verbose or for_gdb or choices.command is None:
        system = f"native Linux{f' ({choices.kernel})' if choices.kernel else ''}" if choices.native else "Linux on Keel"
        if choices.application:
            system = f"Linux with {choices.application.name} in ring 0"
        emulator = f" of QEMU {emulators.shown(emulators.version(emulators.chosen(settings)))}" if settings.qemu else ""
        say(f"booting {system}, accelerator: {accelerator}{emulator}")
        if choices.processors > (own := len(os.sched_getaffinity(0))):
            say(f"the guest's {choices.processors} processors take turns on the {own} of this machine")
    if for_gdb:
        say("the guest waits at its first instruction; in another terminal: ./keel gdb")
    if display.startswith("vnc="):
        say(f"the screen can be seen by VNC at {display.removeprefix('vnc=')}")
    if choices.command is None and not choices.detached:
        say("Ctrl-A x ends the guest, and so does leaving its shell")


def after_dialogue(dialogue: Dialogue | None, outcome: guest.Outcome) -> guest.Outcome:
    """How the guest ended: one whose debugger was asked, and that has told no end of its own, was still running at its limit."""
    unended = outcome.emulator_status is None and outcome.command_status is None
    asked = dialogue is not None and dialogue.over and not dialogue.panicked
    return replace(outcome, timed_out=True) if asked and unended else outcome


def conclude(choices: boot.Choices, outcome: guest.Outcome) -> int:
    """The exit status for how a guest ended. Prints a line if its command did not end."""
    if outcome.command_status is not None:
        return _after_command(choices, outcome, outcome.command_status)
    if outcome.timed_out:
        say(f"error: the guest was ended after {choices.timeout_s:g} s (--timeout gives it more); {_console(outcome)}")
        return Status.TIMEOUT
    status, line = _ending(choices, outcome)
    if status is not Status.OK:
        say(f"error: {line}")
    elif line:
        say(line)
    return status


def _after_command(choices: boot.Choices, outcome: guest.Outcome, status: int) -> int:
    """The command's status. 0 promises that a kept disk has all data: only a guest that powered off has written it."""
    if not choices.persist or _how(outcome) == machine.EXIT_POWER_OFF:
        return status
    say(f"error: the guest did not power off after its command: its disks may be damaged; {_console(outcome)}")
    return status or Status.NOT_POWERED_OFF


def _console(outcome: guest.Outcome) -> str:
    return f"its console is in {outcome.console_log}"


def _ending(choices: boot.Choices, outcome: guest.Outcome) -> tuple[Status, str]:
    console = _console(outcome)
    interactive = choices.command is None
    end = _how(outcome)
    if end == machine.EXIT_POWER_OFF:
        if refusal := _refusal(outcome):
            return Status.POWERED_OFF, f"{refusal}; {console}"
        if interactive:
            return Status.OK, ""
        return Status.POWERED_OFF, f"the guest powered off before its command had ended; {console}"
    if end == machine.EXIT_REBOOT:
        if interactive:
            return Status.OK, "the guest asked for a reboot; start it again to continue"
        return Status.REBOOTED, f"the guest rebooted before its command had ended; {console}"
    if end == machine.EXIT_LINUX_PANIC:
        return Status.LINUX_PANIC, f"Linux in the guest panicked; {console}"
    if end == machine.EXIT_KERNEL_PANIC:
        return Status.KERNEL_PANIC, f"the µ-kernel panicked; its log is in {outcome.kernel_log}"
    if end == machine.EXIT_BOOT_CONFIGURATION:
        return (
            Status.BOOT_CONFIGURATION,
            f"the boot configuration has an error: {last_line(outcome)}",
        )
    return (
        Status.EMULATOR,
        f"the emulator failed with status {outcome.emulator_status}: {_complaint(outcome)}",
    )


def _how(outcome: guest.Outcome) -> int | None:
    """The exit code that the guest wrote, or the same from the console of a native guest or a restarted one."""
    status = outcome.emulator_status
    if outcome.restarted:
        return machine.EXIT_LINUX_PANIC if outcome.console_end is End.PANIC else machine.EXIT_REBOOT
    if status == 0:
        return {
            End.POWER_OFF: machine.EXIT_POWER_OFF,
            End.REBOOT: machine.EXIT_REBOOT,
            End.PANIC: machine.EXIT_LINUX_PANIC,
            None: machine.EXIT_REBOOT,  # a reset without a message
        }[outcome.console_end]
    return machine.exit_value(status)


def _refusal(outcome: guest.Outcome) -> str:
    """Why the guest's init stopped, if it did: its last line on the console, before Linux's own."""
    lines = outcome.console_log.read_text(errors="replace").splitlines()
    return next((line.removeprefix(INIT_ERROR) for line in lines[-LAST_WORDS:] if line.startswith(INIT_ERROR)), "")


def last_line(outcome: guest.Outcome) -> str:
    """The last line of the µ-kernel's log."""
    lines = outcome.kernel_log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), f"see {outcome.kernel_log}")


def _complaint(outcome: guest.Outcome) -> str:
    lines = outcome.emulator_log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else f"it said nothing; the console is in {outcome.console_log}"
