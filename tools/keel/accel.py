# SPDX-License-Identifier: GPL-2.0-only
"""Chooses the accelerator: KVM only if a probe guest has shown that it works."""

import os
from pathlib import Path

from . import emulators, machine, packages, process
from .config import Settings
from .errors import KeelError
from .lock import locked

KVM_DEVICE = Path("/dev/kvm")
PROCESSORS = Path("/proc/cpuinfo")
# Linux's names of Intel's and AMD's virtualization (arch/x86/include/asm/cpufeatures.h).
VIRTUALIZATION = {"vmx", "svm"}
PROBE_SECONDS = 2.0
PROBE_SOURCE = Path(__file__).parent / "probe"


def choose(settings: Settings, wanted: str, icount: bool) -> str:
    """tcg or kvm, from auto, tcg or kvm."""
    if wanted == "tcg" or (wanted == "auto" and icount):
        return "tcg"
    reason = obstacle(settings)
    if wanted == "kvm" and reason:
        raise KeelError(f"KVM cannot be used: {reason}", "use --accel tcg")
    return "tcg" if reason else "kvm"


def obstacle(settings: Settings) -> str:
    """Why KVM cannot be used; empty where the processor virtualizes and a guest answers in 64-bit mode within two seconds."""
    if not KVM_DEVICE.exists():
        return f"{KVM_DEVICE} is not there"
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return f"this user may not open {KVM_DEVICE}"
    if not VIRTUALIZATION & set(PROCESSORS.read_text().split()):
        return f"this processor shows neither VMX nor SVM: {KVM_DEVICE} is not virtualization by the processor"
    probe = build_probe(settings)
    argv = [
        *emulators.chosen(settings), "-no-user-config", "-nodefaults", "-no-reboot",
        *("-machine", "pc"), *("-accel", "kvm"), *("-cpu", machine.CPU), *("-m", "32"),
        *("-display", "none"), *("-kernel", str(probe)),
        *("-device", f"isa-debug-exit,iobase={machine.EXIT_PORT:#x},iosize=0x4"),
    ]  # fmt: skip
    if process.status_of(argv, PROBE_SECONDS) != machine.emulator_status(machine.EXIT_PROBE):
        return f"a 64-bit guest does not answer within {PROBE_SECONDS:g} s"
    return ""


def build_probe(settings: Settings) -> Path:
    """The guest that shows whether KVM works."""
    if settings.release:
        return settings.probe
    packages.require(settings, packages.COMPILER)
    out = settings.probe.parent
    with locked(settings.locks, "probe"):
        out.mkdir(parents=True, exist_ok=True)
        process.run_logged(
            ["make", "-C", str(PROBE_SOURCE), f"O={out}"],
            what="building the KVM probe",
            log=settings.logs / "probe.log",
        )
    return settings.probe
