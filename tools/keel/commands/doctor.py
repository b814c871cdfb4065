# SPDX-License-Identifier: GPL-2.0-only
"""`./keel doctor`: says what is missing on this machine and how to mend it."""

import os
import shutil
import sys
from pathlib import Path

from .. import accel, checkers, debian, image, packages, process, rust, suites
from ..config import Settings
from ..errors import KeelError, Status

NEEDED_DISK_GB = 8
GIGABYTE = 1 << 30


def doctor(settings: Settings) -> int:
    """Print one line for each thing looked at; a status other than 0 where one is missing."""
    problems = [*_programs(), *_emulator(), *_disk(settings)]
    _report_choices(settings)
    for problem in problems:
        print(problem)
    print("something is missing; ./keel run installs packages itself" if problems else "all is there")
    return Status.ERROR if problems else Status.OK


def _programs() -> list[str]:
    problems = []
    for need in (*packages.ALL, *image.user_needs(), *suites.CHECKERS, *checkers.VENV):
        if need.met():
            print(f"ok: {need.package}, which {need.why}")
        else:
            problems.append(f"missing: {need.package}, which {need.why}: apt-get install {need.package}")
    if problems and os.geteuid() != 0 and shutil.which("sudo") is None:
        problems.append("missing: sudo, without which only root can install packages")
    return problems


def _emulator() -> list[str]:
    if packages.missing(packages.EMULATOR):
        return []  # said already
    version = packages.qemu_version(process.output(["qemu-system-x86_64", "--version"]))
    if version is None or version < packages.OLDEST_QEMU:
        wanted = ".".join(map(str, packages.OLDEST_QEMU))
        return [f"too old: QEMU; {wanted} or later is needed, and Debian 12 has it"]
    print(f"ok: QEMU {version[0]}.{version[1]}")
    return []


def _disk(settings: Settings) -> list[str]:
    problems = []
    for place in (settings.repository, settings.cache):
        existing = next(path for path in [place, *place.parents] if path.exists())
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
