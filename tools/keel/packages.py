# SPDX-License-Identifier: GPL-2.0-only
"""What the host must have, and its installation through the host's own package manager."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import machine, process
from .config import Settings
from .errors import KeelError
from .lock import locked
from .measures import Measure
from .progress import Far, Step, say

OLDEST_QEMU = (7, 2)
# Lines of apt-get: what it will install, and the steps of each package.
APT_TOTAL = re.compile(rb"(\d+) upgraded, (\d+) newly installed, ")
APT_STEPS = (b"Get:", b"Unpacking ", b"Setting up ")


@dataclass(frozen=True)
class Need:
    """A Debian package and the file, or pattern of files, whose presence shows that it is there."""

    package: str
    files: tuple[str, ...]
    why: str

    def met(self) -> bool:
        """Whether one of the files is there: an absolute path or a pattern of one, or a program in PATH."""
        return any(_exists(name) if name.startswith("/") else shutil.which(name) for name in self.files)


def program(name: str) -> str:
    """The path of a program that users run too, though Debian has it in a directory of only root's PATH."""
    return shutil.which(name, path=roots_path()) or name


def roots_path() -> str:
    """PATH with the directories that only root has there."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _exists(pattern: str) -> bool:
    return any(True for _ in Path("/").glob(pattern.removeprefix("/")))


EMULATOR = (Need("qemu-system-x86", ("qemu-system-x86_64",), "runs the guest"),)
CONFINEMENT = (
    Need("python3-seccomp", ("/usr/lib/python3/dist-packages/seccomp*.so",), "confines QEMU where it shares a directory"),
)
LOADER = (
    Need("grub-common", ("grub-mkrescue",), "makes bootable ISO images"),
    Need("grub-pc-bin", ("/usr/lib/grub/i386-pc",), "boots the µ-kernel on a PC with BIOS"),
    Need("xorriso", ("xorriso",), "makes bootable ISO images"),
    Need("faketime", ("faketime",), "makes the same ISO image of the same files"),
    Need("mtools", ("mformat",), "makes bootable ISO images"),
)
UEFI_LOADER = (*LOADER, Need("grub-efi-amd64-bin", ("/usr/lib/grub/x86_64-efi",), "boots the µ-kernel on a PC with UEFI"))
UEFI = (Need("ovmf", (str(machine.UEFI_FILES[0]),), "is QEMU's UEFI"),)
WINDOW = (Need("qemu-system-gui", ("/usr/lib/x86_64-linux-gnu/qemu/ui-gtk.so",), "shows the guest's screen"),)
BOCHS = (
    Need("bochs", ("bochs",), "runs guests where segments have limits"),
    Need("bochsbios", ("/usr/share/bochs/BIOS-bochs-latest",), "is Bochs's firmware"),
    Need("vgabios", ("/usr/share/vgabios/vgabios.bin",), "is the firmware of its graphics card"),
    *LOADER,
)
COMPILER = (
    Need("gcc", ("gcc",), "compiles Linux and the guest's init"),
    Need("make", ("make",), "builds Linux"),
    Need("binutils", ("ld",), "links everything"),
    Need("libc6-dev", ("/usr/lib/x86_64-linux-gnu/libc.a",), "links the guest's init"),
)
# libgcc for 32 bits; it is at this path only if the 32-bit C library is installed.
NARROW_COMPILER = (
    Need("gcc-multilib", ("/usr/lib/gcc/x86_64-linux-gnu/*/32/libgcc.a",), "compiles the guest's 32-bit programs"),
)
LINUX = (
    *COMPILER,
    Need("bc", ("bc",), "builds Linux"),
    Need("bison", ("bison",), "builds Linux"),
    Need("ccache", ("ccache",), "keeps for other clones what Linux's builds have compiled"),
    Need("flex", ("flex",), "builds Linux"),
    Need("libelf-dev", ("/usr/include/libelf.h",), "builds Linux"),
    Need("xz-utils", ("xz",), "unpacks Linux"),
)
SIGNATURES = (
    Need(
        "debian-archive-keyring",
        ("/usr/share/keyrings/debian-archive-keyring.gpg",),
        "verifies what is fetched",
    ),
)
ROOT = (*SIGNATURES, Need("mmdebstrap", ("mmdebstrap",), "makes the root file system"))
IMAGES = (Need("qemu-utils", ("qemu-img",), "checks disk images"),)
FILE_SYSTEMS = (Need("e2fsprogs", ("mke2fs", "/sbin/mke2fs"), "makes the root disk"),)
FAKEROOT = Need("fakeroot", ("fakeroot",), "makes the root file system without being root")
SQUASHFS = (Need("squashfs-tools", ("mksquashfs",), "packs the root of an ISO image"),)
ZSTD = (Need("zstd", ("zstd",), "reads a root that is compressed with zstd"),)
RUST = (
    Need("rustc-web", ("/usr/bin/rustc",), "compiles the µ-kernel and the native tasks"),
    Need("cargo-web", ("/usr/bin/cargo",), "builds the µ-kernel and the native tasks"),
    Need(
        "rust-web-src",
        ("/usr/lib/rustlib/src/rust/library/core",),
        "builds Rust's core library for a target without an operating system",
    ),
)
PLOTTER = (Need("python3-matplotlib", ("/usr/lib/python3/dist-packages/matplotlib",), "draws the figures of the bench"),)
SSH = (Need("openssh-client", ("ssh-keygen",), "makes the keys of a guest's SSH server, and is its client"),)
DEBUGGER = (Need("gdb", ("gdb",), "debugs the guest"),)


def missing(needs: Sequence[Need]) -> list[Need]:
    """The needs that the host does not meet."""
    return [need for need in needs if not need.met()]


def require(settings: Settings, needs: Sequence[Need]) -> None:
    """Install what is missing, or fail and say how the user can."""
    with locked(settings.locks, "packages", shared=True):  # another run's installation may be incomplete
        lacking = missing(needs)
    if not lacking:
        return
    names = sorted({need.package for need in lacking})
    command = "apt-get install " + " ".join(names)
    if not settings.install:
        raise KeelError(f"these packages are missing: {' '.join(names)}", f"run: {command}")
    if shutil.which("apt-get") is None:
        raise KeelError(f"these programs are missing: {' '.join(names)}", "install them yourself")
    with locked(settings.locks, "packages"):
        if missing(lacking):  # still missing, after a concurrent run that installs
            _install(settings, names, command)
    if still := missing(lacking):
        raise KeelError(f"still missing after its installation: {still[0].package}", f"run: {command}")


def _install(settings: Settings, names: list[str], command: str) -> None:
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            raise KeelError(f"these packages are missing: {' '.join(names)}", f"as root run: {command}")
        prefix = ["sudo"]
    by = " ".join([*prefix, "apt-get"])
    say(f"this machine lacks {' '.join(names)}: {by} installs {'it' if len(names) == 1 else 'them'} now (--no-install refuses)")
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "Dpkg::Use-Pty=0"]
    install = [*apt, "install", "-y", "--no-install-recommends", *names]
    what, remedy = f"installing {' '.join(names)}", f"see the lines above, then run: {command}"
    try:
        _run_apt(settings, install, what, explain=lambda log: KeelError("its lists may be too old"))
    except KeelError:
        _run_apt(settings, [*apt, "update"], "updating the host's package lists", remedy=remedy)
        _run_apt(settings, install, what, remedy=remedy)


def _run_apt(
    settings: Settings,
    argv: Sequence[str],
    what: str,
    *,
    remedy: str = "",
    explain: Callable[[str], KeelError | None] = lambda log: None,
) -> None:
    """Run apt-get, which sudo may ask a password for, with its output in a log."""
    with Step(what) as step:
        process.run_logged(
            argv,
            what=what,
            log=settings.logs / "packages.log",
            step=step,
            measure=apt_progress(),
            remedy=remedy,
            explain=explain,
            asks=argv[0] == "sudo",
        )


def apt_progress() -> Measure:
    """How far apt-get is with an installation, by its lines: each package is fetched, unpacked and set up."""
    total = done = 0

    def measure(line: bytes) -> str | Far:
        nonlocal total, done
        if found := APT_TOTAL.match(line):
            total = len(APT_STEPS) * (int(found[1]) + int(found[2]))
        done += line.startswith(APT_STEPS)
        return Far(min(done * 100 // total, 100), 100, "%") if total else ""

    return measure


def qemu_version(text: str) -> tuple[int, int] | None:
    """The version in the output of `qemu-system-x86_64 --version`."""
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def require_emulator(settings: Settings) -> None:
    """Require a QEMU that is new enough."""
    require(settings, EMULATOR)
    version = qemu_version(process.output([machine.EMULATOR, "--version"]))
    if version is None or version < OLDEST_QEMU:
        shown = ".".join(map(str, version)) if version else "of an unknown version"
        wanted = ".".join(map(str, OLDEST_QEMU))
        raise KeelError(f"QEMU {shown} is too old", f"{wanted} or later is needed; Debian 12 has it")
