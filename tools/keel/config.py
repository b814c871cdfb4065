# SPDX-License-Identifier: GPL-2.0-only
"""Paths: the repository, its build directory, and the user's cache."""

import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Where the Debian package has the sources (debian/keel.install).
INSTALLED = Path("/usr/share/keel")
# The names of booted files in the build directory and in release sets: the µ-kernel, Linux as its server, the RAM disk with
# the guest's init, the guest that tries KVM, and the native tasks, which are Cargo's programs.
KERNEL_IMAGE, SERVER_IMAGE, INIT_ARCHIVE, PROBE_IMAGE = "kernel.elf", "vmlinux", "init.cpio", "probe.elf"
TASK = re.compile(r"[a-z0-9-]+")
# Where `--qemu` is for the commands that a verb starts.
QEMU_VARIABLE = "KEEL_QEMU"


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "keel"


def _build_directory(repository: Path) -> Path:
    """Where builds go: into the sources' directory, except that nobody but its package manager writes to an installed one."""
    return _cache_directory() / "build" if repository == INSTALLED else repository / "build"


def version() -> str:
    """Keel's version; Cargo's is the only place that has it."""
    cargo = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
    return str(cargo["workspace"]["package"]["version"])


@dataclass(frozen=True)
class Settings:
    """The directories of one clone and what the user said about the whole command."""

    repository: Path = REPOSITORY
    build: Path = field(default_factory=lambda: _build_directory(REPOSITORY))
    cache: Path = field(default_factory=_cache_directory)
    verbose: bool = False
    install: bool = True
    # A checked release set, whose files take the place of what is built.
    release: Path | None = None
    # The Debian version of Linux's source; without one it is the newest.
    linux_version: str = field(default_factory=lambda: os.environ.get("KEEL_LINUX", ""))
    # The version of QEMU that is wanted; without one it is the host's.
    qemu: str = field(default_factory=lambda: os.environ.get(QEMU_VARIABLE, ""))

    @property
    def logs(self) -> Path:
        """Where the output of builds and the guests' consoles go."""
        return self.build / "log"

    @property
    def locks(self) -> Path:
        """The directory of the build steps' lock files."""
        return self.build / "lock"

    @property
    def run(self) -> Path:
        """What belongs to the guests that run now."""
        return self.build / "run"

    @property
    def keel_directory(self) -> Path:
        """The µ-kernel and the native tasks as they are booted."""
        return self.release or self.build / "keel"

    @property
    def init(self) -> Path:
        """Keel's static init for the guest."""
        return self.build / "init" / "init"

    @property
    def linux(self) -> Path:
        """Linux's source and its builds; a version that was asked for has a place of its own."""
        return self.build / (f"linux-{self.linux_version}" if self.linux_version else "linux")

    @property
    def pristine(self) -> Path:
        """The unpacked, unchanged Linux source."""
        return self.linux / "pristine"

    @property
    def native_kernel(self) -> Path:
        """native Linux."""
        return self.linux / "native" / "arch" / "x86" / "boot" / "bzImage"

    @property
    def native_symbols(self) -> Path:
        """The native kernel with its symbols."""
        return self.linux / "native" / "vmlinux"

    def ukl_kernel(self, options: tuple[str, ...]) -> Path:
        """Linux for applications in ring 0, with a set of options."""
        return self.linux / "ukl-kernels" / "-".join(["base", *options]) / "bzImage"

    def ukl_symbols(self, options: tuple[str, ...]) -> Path:
        """The same with its symbols."""
        return self.linux / "ukl-kernels" / "-".join(["base", *options]) / "vmlinux"

    def ukl_linked(self, name: str) -> Path:
        """Linux with an application of this name in it."""
        return self.build / "ukl" / "linked" / name / "bzImage"

    @property
    def linux_server(self) -> Path:
        """Linux as a server on the µ-kernel."""
        return (self.release or self.linux / "l4") / SERVER_IMAGE

    @property
    def init_archive(self) -> Path:
        """The RAM disk with the guest's init."""
        return (self.release or self.init.parent) / INIT_ARCHIVE

    @property
    def probe(self) -> Path:
        """The guest that shows whether KVM works."""
        return (self.release or self.build / "probe") / PROBE_IMAGE
