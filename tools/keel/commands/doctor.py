# SPDX-License-Identifier: GPL-2.0-only
"""`./keel doctor`: says what each verb needs on this machine, what is missing, and how to install it."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import accel, checkers, debian, disks, emulators, image, machine, packages, process, rust, suites
from ..arguments import in_columns
from ..config import Settings
from ..errors import KeelError, Status
from ..packages import Need

NEEDED_DISK_GB = 8
GIGABYTE = 1 << 30
# Booting a release set takes less than the verb otherwise; these options take more.
FROM = "run --from"


def needs_of_verbs() -> dict[str, list[Need]]:
    """What each verb needs if nothing is built or fetched yet."""
    root = [*packages.ROOT, *image.user_needs(), *disks.owner_needs()]
    run = [*packages.EMULATOR, *packages.LINUX, *packages.RUST, *root, *packages.IMAGES, *packages.FILE_SYSTEMS]
    return {
        "run": run,
        FROM: list(packages.EMULATOR),
        "run --share": list(packages.CONFINEMENT),
        "run --ssh": list(packages.SSH),
        "image": [*packages.LINUX, *packages.RUST, *root, *packages.UEFI_LOADER, *packages.SQUASHFS],
        "test": [
            *run,
            *(*packages.BOCHS, *packages.UEFI_LOADER, *packages.UEFI, *packages.SQUASHFS, *packages.ZSTD, *packages.CONFINEMENT),
            packages.FAKEROOT,
            *(*suites.CHECKERS, *suites.SIDE_BY_SIDE, *packages.NARROW_COMPILER, *checkers.VENV),
        ],
        "bench": [*run, *packages.PLOTTER],
        "gdb": list(packages.DEBUGGER),
    }


def doctor(settings: Settings) -> int:
    """Print what was checked; returns a status other than 0 if `run` cannot work."""
    needs = needs_of_verbs()
    if not (settings.repository / "tests").is_dir():
        del needs["test"]  # an installed Keel has none
    print(in_columns(_table(needs)))
    general = [*_emulator(settings), *_disk(settings), *_installation(needs)]
    _report_choices(settings)
    for problem in general:
        print(problem)
    for verb, needed in needs.items():
        print(f"{verb}: {_verdict(needed)}")
    return Status.ERROR if general or packages.missing(needs["run"]) else Status.OK


def _table(needs: dict[str, list[Need]]) -> list[tuple[str, str, str, str]]:
    """Each package once, with the verbs that need it."""
    rows: dict[str, tuple[str, str, str, str]] = {}
    for need in [need for needed in needs.values() for need in needed]:
        verbs = [verb for verb, needed in needs.items() if need.package in {other.package for other in needed}]
        rows.setdefault(need.package, ("ok" if need.met() else "missing", need.package, need.why, ", ".join(verbs)))
    return list(rows.values())


def _verdict(needed: Sequence[Need]) -> str:
    lacking = sorted({need.package for need in packages.missing(needed)})
    return f"missing: apt-get install {' '.join(lacking)}" if lacking else "all is there"


def _installation(needs: dict[str, list[Need]]) -> list[str]:
    if not packages.missing(needs["run"]) or os.geteuid() == 0 or shutil.which("sudo"):
        return []
    return ["missing: sudo, without which only root can install packages"]


def _emulator(settings: Settings) -> list[str]:
    if packages.missing(packages.EMULATOR):
        return []  # already printed
    version = packages.qemu_version(process.output([machine.EMULATOR, "--version"]))
    if version is None or version < packages.OLDEST_QEMU:
        wanted = ".".join(map(str, packages.OLDEST_QEMU))
        return [f"too old: QEMU; {wanted} or later is needed, and Debian 12 has it"]
    print(f"ok: QEMU {emulators.shown(version)}")
    if version[0] != emulators.BACKPORTED:
        there = emulators.beside(settings)
        has = f"QEMU {there} is there beside it" if there else "another is fetched from Debian's backports"
        print(f"for --qemu {emulators.BACKPORTED}: {has}")
    return []


def _disk(settings: Settings) -> list[str]:
    problems = []
    places = (settings.build, settings.cache)
    for existing in dict.fromkeys(next(path for path in [place, *place.parents] if path.exists()) for place in places):
        free = shutil.disk_usage(existing).free // GIGABYTE
        if not os.access(existing, os.W_OK):
            problems.append(f"not writable: {existing}")
        elif free < NEEDED_DISK_GB and not (settings.build / "linux").exists():
            problems.append(f"little room: {free} GB free at {existing}, {NEEDED_DISK_GB} GB are needed")
        else:
            print(f"ok: {free} GB free at {existing}")
    return problems


def _report_choices(settings: Settings) -> None:
    mirror = debian.find_mirror() if Path("/etc/apt").exists() else None
    if mirror:
        print(f"Debian's archive: {mirror.archive}, security updates: {mirror.security}")
    print(f"Python {sys.version_info.major}.{sys.version_info.minor}")
    if not packages.missing(packages.RUST):
        toolchain = rust.find_toolchain(settings)
        print(f"Rust: {process.output([toolchain.rustc, '--version']).strip()}")
    if packages.missing([*packages.EMULATOR, *packages.COMPILER]):
        return
    try:
        print(f"accelerator: {accel.choose(settings, 'auto', icount=False)}")
        if obstacle := accel.obstacle(settings):
            print(f"no KVM, which would be faster: {obstacle}")
    except KeelError as error:
        print(f"accelerator: {error.what}")
