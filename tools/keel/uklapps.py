# SPDX-License-Identifier: GPL-2.0-only
"""Applications for ring 0 that are built by name, out of Debian's source packages.

Their sources are not kept here. Their own make runs with another compiler. For ring 0, the hunks of
ukl/applications are inserted: the few lines that ask for the kernel's options.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import hunks, linux, process, uklbuild, ukloptions
from .config import Settings
from .debian import SOURCE, Archive
from .errors import KeelError, Status
from .lock import locked
from .progress import Step

UNPACKED = ".keel-unpacked"
STATIC = ("-static", "-no-pie")
# Debian's patches are newer than the files generated from what they change; these need not be generated again.
AS_IT_IS = ("ACLOCAL=:", "AUTOCONF=:", "AUTOHEADER=:", "AUTOMAKE=:")


@dataclass(frozen=True)
class Recipe:
    """How a package is built: its own words for configure and make, what it needs, and what comes out."""

    product: str
    directory: str = "."
    # None: it has nothing to configure.
    configure: Sequence[str] | None = None
    make: Sequence[str] = ()
    # A package whose libraries it is linked with, and the word of configure that says where they are.
    library: tuple[str, str] | None = None


REDIS, MEMCACHED, LIBEVENT = "redis", "memcached", "libevent"
RECIPES = {
    # No allocator but libc's, no TLS and no systemd: what musl has not got.
    REDIS: Recipe(
        product="redis-server",
        directory="src",
        make=("MALLOC=libc", "BUILD_TLS=no", "USE_SYSTEMD=no", "OPTIMIZATION=-O2", "DEBUG=", "redis-server"),
    ),
    MEMCACHED: Recipe(
        product="memcached",
        configure=("--disable-docs", "--disable-coverage"),
        make=("memcached",),
        library=(LIBEVENT, "--with-libevent"),
    ),
    LIBEVENT: Recipe(
        product=".libs/libevent.a",
        configure=(
            "--disable-shared",
            "--disable-openssl",
            "--disable-samples",
            "--disable-libevent-regress",
            "--disable-debug-mode",
        ),
        make=("install",),
    ),
}
APPLICATIONS = (REDIS, MEMCACHED)


@dataclass(frozen=True)
class Builder:
    """What all packages of one application are built with."""

    settings: Settings
    # None: as ordinary programs.
    options: ukloptions.Options | None
    libc: Path

    @property
    def ordinary(self) -> bool:
        """Whether it is for ring 3."""
        return self.options is None

    def compiler(self, *, ordinary: bool, libc: Path) -> str:
        """The command that compiles and links a static program with a libc."""
        words = [
            *uklbuild.compiler(self.settings, ordinary=ordinary),
            f"-specs={libc / 'lib' / 'musl-gcc.specs'}",
            f"-I{self.settings.repository / 'ukl' / 'include'}",
            f"-idirafter {linux.headers(self.settings)}",
            "-fno-pie",
        ]
        return " ".join(words)

    def run(self, name: str, argv: Sequence[str], source: Path) -> None:
        """One command in a package's source."""
        with Step(f"building {name}") as step:
            log = self.settings.logs / f"ukl-{name}-{Path(argv[0]).name}.log"
            process.run_logged(argv, what=f"building {name}", log=log, step=step, cwd=source)


def build(settings: Settings, name: str, options: ukloptions.Options, *, ordinary: bool = False) -> Path:
    """The application of a name, for the kernel with these options, or as an ordinary program with the same libc."""
    if name not in APPLICATIONS:
        raise KeelError(f"there is no application {name!r} to build", f"known are {' '.join(APPLICATIONS)}", Status.USAGE)
    if not ordinary:
        linux.build_ukl(settings, options)
    builder = Builder(settings, None if ordinary else options, uklbuild.libc(settings, ordinary=ordinary))
    with locked(settings.locks, f"ukl-{name}"):
        product = _made(builder, name)
        return uklbuild.installed(settings, product, name, builder.options)


def _made(builder: Builder, name: str) -> Path:
    """What comes out of a package."""
    recipe, settings = RECIPES[name], builder.settings
    state = _state(builder, name)
    source = _unpacked(builder, name, state)
    found = [f"{recipe.library[1]}={_library(builder, recipe.library[0])}"] if recipe.library else []
    if recipe.configure is not None and not (source / "Makefile").exists():
        # What it runs to find out about libc runs here, in ring 3.
        libc = uklbuild.libc(settings, ordinary=True)
        words = [f"--prefix={_installed(builder, name)}", f"CC={builder.compiler(ordinary=True, libc=libc)}"]
        builder.run(name, ["./configure", *words, f"LDFLAGS={' '.join(STATIC)}", *recipe.configure, *found], source)
    product = source / recipe.directory / recipe.product
    product.unlink(missing_ok=True)
    compiler = f"CC={builder.compiler(ordinary=builder.ordinary, libc=builder.libc)}"
    # After the package's own words, because its library paths must come first.
    linked = [f"-L{_installed(builder, recipe.library[0]) / 'lib'}"] if recipe.library else []
    words = [f"LDFLAGS={' '.join([*STATIC, *linked])}", *(AS_IT_IS if recipe.configure is not None else ())]
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    builder.run(name, ["make", jobs, "-C", recipe.directory, compiler, *words, *recipe.make], source)
    return product


def _library(builder: Builder, name: str) -> Path:
    """Where a library is installed, built if it is missing or was built otherwise."""
    place, state = _installed(builder, name), _state(builder, name)
    stamp = place / uklbuild.STAMP
    with locked(builder.settings.locks, f"ukl-{name}"):
        if not (stamp.exists() and stamp.read_text() == state):
            shutil.rmtree(place, ignore_errors=True)
            _made(builder, name)
            stamp.write_text(state)
    return place


def _installed(builder: Builder, name: str) -> Path:
    return builder.settings.build / "ukl" / f"{name}-{builder.libc.name}"


def _additions(builder: Builder, name: str) -> Path | None:
    """What is inserted into a package's source for ring 0."""
    place = builder.settings.repository / "ukl" / "applications" / f"{name}{hunks.SUFFIX}"
    return None if builder.ordinary or not place.is_file() else place


def _state(builder: Builder, name: str) -> str:
    """What a package is built from."""
    additions = _additions(builder, name)
    header = builder.settings.repository / "ukl" / "include" / "ukl.h"
    parts = [
        Archive(builder.settings, SOURCE).fetch_source(name).read_bytes(),
        (builder.libc / uklbuild.STAMP).read_bytes(),
        repr(RECIPES[name]).encode(),
        *([additions.read_bytes(), header.read_bytes()] if additions else []),
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _unpacked(builder: Builder, name: str, state: str) -> Path:
    """The source with our hunks; unpacked again if anything that it is built from has changed."""
    settings = builder.settings
    source = settings.build / "ukl" / f"{name}-{builder.libc.name}-source"
    stamp = source / UNPACKED
    if stamp.exists() and stamp.read_text() == state:
        return source
    shutil.rmtree(source, ignore_errors=True)
    description = Archive(settings, SOURCE).fetch_source(name)
    process.run_logged(
        ["dpkg-source", "--no-check", "-x", str(description), str(source)],
        what=f"unpacking {name}",
        log=settings.logs / f"ukl-{name}-source.log",
        cwd=source.parent,
    )
    if additions := _additions(builder, name):
        for file, text in hunks.copies(hunks.read_file(additions), source).items():
            (source / file).write_text(text)
    stamp.write_text(state)
    return source
