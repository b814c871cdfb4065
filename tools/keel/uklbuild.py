# SPDX-License-Identifier: GPL-2.0-only
"""Applications for ring 0: Debian's musl built so that its system calls are jumps, and programs linked with it.

The sources of musl are not kept here: its source package is fetched. The assembler reads ukl/libc/call.s before
everything else, which redefines the instruction `syscall`. C++ uses the host's library of GCC, which is for glibc;
ukl/libc/c++ has the functions for it that musl lacks.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import boot, guestinit, linux, measures, packages, process, ukloptions
from .config import Settings
from .debian import SOURCE, Archive
from .errors import KeelError
from .lock import locked
from .progress import Step

STAMP = ".keel-built"
# In ukl/libc: what system calls are, and the gate that they jump through, which becomes a member of libc.
CALL, NOTE = "call.s", "note.s"
C_PLUS_PLUS = {".cc", ".cpp", ".cxx", ".C"}
SOURCES = {".c", ".s", ".S", *C_PLUS_PLUS}
# What the linker gives GCC's C++ library: the tables of its exceptions, and locales as glibc has them.
C_PLUS_PLUS_LINKED = ("-lstdc++", "-Wl,--eh-frame-hdr,--wrap=__newlocale,--wrap=__duplocale")
C_PLUS_PLUS_NEEDS = (packages.Need("g++", ("g++",), "compiles C++"),)
NEEDS = (
    *packages.COMPILER,
    *packages.SIGNATURES,
    packages.Need("dpkg-dev", ("dpkg-source",), "unpacks the sources of Debian's packages"),
)


def applications(settings: Settings) -> Path:
    """The directory of the built applications."""
    return settings.build / "ukl" / "applications"


def sets(settings: Settings) -> Path:
    """Where a file for each application says for which set of options it was built."""
    return settings.build / "ukl" / "sets"


def options_of(settings: Settings, name: str) -> ukloptions.Options | None:
    """The set of options that an application was built for, as far as one knows."""
    place = sets(settings) / name
    return ukloptions.parsed(place.read_text()) if place.is_file() else None


def ordinary_programs(settings: Settings) -> Path:
    """The directory of those built for ring 3, for comparison."""
    return settings.build / "ukl" / "ordinary"


def compiler(settings: Settings, *, ordinary: bool = False) -> list[str]:
    """gcc, with system calls by jumps where it is not for ordinary programs."""
    if ordinary:
        return ["gcc"]
    call = settings.repository / "ukl" / "libc" / CALL
    if "," in str(call):
        raise KeelError(f"{call} has a comma, which gcc takes for the end of a word", "clone into another path")
    return ["gcc", f"-Wa,{call}"]


def libc(settings: Settings, *, ordinary: bool = False) -> Path:
    """musl for ring 0 or 3, built if it is missing or was built otherwise; returns its directory."""
    packages.require(settings, NEEDS)
    level = 3 if ordinary else 0
    place, source = settings.build / "ukl" / f"musl-{level}", settings.build / "ukl" / f"musl-{level}-source"
    with locked(settings.locks, "ukl-libc"):
        description = Archive(settings, SOURCE).fetch_source("musl")
        state = _state(settings, description)
        if (place / STAMP).exists() and (place / STAMP).read_text() == state:
            return place
        for old in (place, source):
            shutil.rmtree(old, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        with Step(f"building musl for ring {level}") as step:
            _make_libc(settings, description, source, place, ordinary, step)
        (place / STAMP).write_text(state)
    return place


def _state(settings: Settings, description: Path) -> str:
    """What musl is built from, and where: what it installs for gcc names its place."""
    ours = b"".join((settings.repository / "ukl" / "libc" / name).read_bytes() for name in (CALL, NOTE))
    return hashlib.sha256(ours + description.read_bytes() + str(settings.build).encode()).hexdigest()


def _make_libc(settings: Settings, description: Path, source: Path, place: Path, ordinary: bool, step: Step) -> None:
    """Unpacks musl and installs it."""
    call = " ".join(compiler(settings, ordinary=ordinary))
    commands = [
        ["dpkg-source", "--no-check", "-x", str(description), str(source)],
        ["./configure", "--disable-shared", "--enable-wrapper=gcc", f"--prefix={place}", f"CC={call}"],
        # With `-pipe`, the assembler that is given a file reads nothing else; musl tries that word, and it may seem to work.
        ["sed", "-i", "s/ -pipe//", "config.mak"],
        ["make", f"-j{len(os.sched_getaffinity(0))}", "install"],
    ]
    if not ordinary:
        commands.insert(1, ["cp", str(settings.repository / "ukl" / "libc" / NOTE), str(source / "src" / "thread" / "x86_64")])
    for number, argv in enumerate(commands):
        sources = sum(1 for _ in (source / "src").rglob("*.c"))
        process.run_logged(
            argv,
            what=f"building musl ({argv[0]})",
            log=settings.logs / f"ukl-musl-{number}.log",
            step=step,
            measure=measures.counted(rb" -c -o obj/", sources, "files") if argv[0] == "make" else None,
            cwd=source if number else source.parent,
        )


@contextlib.contextmanager
def _in_one_step(place: Path) -> Iterator[Path]:
    """Where to write a file that then appears at its place: who packs it meanwhile sees the old one or the new one."""
    new = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        yield new
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)


def installed(settings: Settings, built: Path, name: str, options: ukloptions.Options | None) -> Path:
    """A program, put to the applications for the kernel with these options; without any, to the ordinary programs."""
    place = (ordinary_programs if options is None else applications)(settings) / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with _in_one_step(place) as new:
        shutil.copy2(built, new)
    _note_options(settings, name, options)
    return place


def _note_options(settings: Settings, name: str, options: ukloptions.Options | None) -> None:
    if options is not None:
        sets(settings).mkdir(exist_ok=True)
        (sets(settings) / name).write_text(ukloptions.shown(options))


def _for_c_plus_plus(settings: Settings) -> list[str]:
    """What gcc's command needs after C++ sources."""
    packages.require(settings, C_PLUS_PLUS_NEEDS)
    read = process.output(["g++", "-M", "-include", "new", "-x", "c++", "/dev/null"]).split()
    headers = [word.removesuffix(name) for name in ("/new", "/bits/c++config.h") for word in read if word.endswith(name)]
    lacking = settings.repository / "ukl" / "libc" / "c++"
    return [
        *(f"-isystem{place}" for place in headers),
        "-include",
        str(lacking / "glibc.h"),
        str(lacking / "glibc.c"),
        *C_PLUS_PLUS_LINKED,
    ]


def program(
    settings: Settings,
    sources: Sequence[Path],
    flags: Sequence[str],
    options: ukloptions.Options = (),
    *,
    ordinary: bool = False,
) -> Path:
    """A program of one or more sources, named like the first: an application for the kernel with these options, or ordinary."""
    for path in sources:
        if path.suffix not in SOURCES:
            raise KeelError(f"{path} is no source of C, C++ or assembly", f"known are {' '.join(sorted(SOURCES))}")
        if not path.is_file():
            raise KeelError(f"{path} is not there")
    if "-pipe" in flags:
        raise KeelError("gcc cannot have -pipe here", "the assembler is given a file, and would read nothing else")
    if not ordinary:
        linux.build_ukl(settings, options)
    more = _for_c_plus_plus(settings) if any(path.suffix in C_PLUS_PLUS for path in sources) else []
    specs = libc(settings, ordinary=ordinary) / "lib" / "musl-gcc.specs"
    words = [f"-I{settings.repository / 'ukl' / 'include'}", *more, f"-specs={specs}", "-static", "-no-pie"]
    place = (ordinary_programs if ordinary else applications)(settings) / sources[0].stem
    place.parent.mkdir(parents=True, exist_ok=True)
    log = settings.logs / "ukl-application.log"
    with _in_one_step(place) as new:
        argv = [*compiler(settings, ordinary=ordinary), "-O2", *flags, "-o", str(new), *map(str, sources), *words]
        process.run_logged(argv, what=f"building {place.name}", log=log)
    _note_options(settings, place.name, None if ordinary else options)
    return place


def link_into_kernel(settings: Settings, name: str, options: ukloptions.Options) -> Path:
    """An application that has been built, with the kernel and an init in one file, which boots by itself."""
    archive = guestinit.with_application(settings, applications(settings) / name)
    return linux.build_ukl_linked(settings, options, archive, boot.linked_parameters(name), settings.ukl_linked(name))


def forget_linked(settings: Settings, name: str) -> None:
    """The application as it was linked into a kernel is out of date."""
    shutil.rmtree(settings.ukl_linked(name).parent, ignore_errors=True)
