# SPDX-License-Identifier: GPL-2.0-only
"""Paths: the repository, its build directory, and the user's cache and data."""

import hashlib
import os
import pwd
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Where the Debian package has the sources (debian/keel.install).
INSTALLED = Path("/usr/share/keel")
# Where what that builds is in the user's cache.
INSTALLED_BUILD = "build"
# The names of booted files in the build directory and in release sets: the µ-kernel, Linux as its server, the RAM disk with
# the guest's init, the guest that tries KVM, and the native tasks, which are Cargo's programs.
KERNEL_IMAGE, SERVER_IMAGE, INIT_ARCHIVE, PROBE_IMAGE = "kernel.elf", "vmlinux", "init.cpio", "probe.elf"
TASK = re.compile(r"[a-z0-9-]+")
# Where `--qemu` is for the commands that a verb starts.
QEMU_VARIABLE = "KEEL_QEMU"


# Characters of a folder's name that its clone's files do not have in theirs, and how many are enough.
UNUSUAL, MOST_OF_NAME = re.compile(r"[^A-Za-z0-9_.]+"), 24


def base_directory(variable: str, usual: str, home: Path | None = None) -> Path:
    """One of the XDG specification's directories: a relative one counts as none, and then it is the usual one in the home."""
    base = Path(os.environ.get(variable, ""))
    return base if base.is_absolute() else (home or Path.home()) / usual


def _cache_directory() -> Path:
    return base_directory("XDG_CACHE_HOME", ".cache") / "keel"


def _owner(path: Path) -> int:
    return path.stat().st_uid


def _data_directory() -> Path:
    """Return the place of a user's data. Root, who has another's HOME by sudo's options, leaves that one's home alone."""
    home = Path.home()
    if os.geteuid() == 0 and home.is_dir() and _owner(home) != 0:
        home = Path(pwd.getpwuid(0).pw_dir)
    return base_directory("XDG_DATA_HOME", ".local/share", home) / "keel"


def _build_directory(repository: Path) -> Path:
    """Where builds go: into the sources' directory, except that nobody but its package manager writes to an installed one."""
    return _cache_directory() / INSTALLED_BUILD if repository == INSTALLED else repository / "build"


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
    data: Path = field(default_factory=_data_directory)
    verbose: bool = False
    install: bool = True
    # A checked release set, whose files take the place of what is built.
    release: Path | None = None
    # The Debian version of Linux's source; without one it is the newest.
    linux_version: str = field(default_factory=lambda: os.environ.get("KEEL_LINUX", ""))
    # The version of QEMU that is wanted; without one it is the host's.
    qemu: str = field(default_factory=lambda: os.environ.get(QEMU_VARIABLE, ""))

    @property
    def clone(self) -> str:
        """The clone's part of the names of files in what clones share; it changes when the clone is moved."""
        if self.repository == INSTALLED:
            return "installed-package"
        key = hashlib.sha256(os.fsencode(self.repository)).hexdigest()[:6]
        return f"{UNUSUAL.sub('_', self.repository.name)[:MOST_OF_NAME]}-{key}"

    @property
    def kept_roots(self) -> Path:
        """Return the place of what guests of all clones have written to default roots."""
        return self.data / "roots"

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
