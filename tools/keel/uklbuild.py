# SPDX-License-Identifier: GPL-2.0-only
"""Applications for ring 0: Debian's musl built so that its system calls are jumps, and programs linked with it.

The sources of musl are not kept here: its source package is fetched. The assembler reads ukl/libc/call.s before
everything else, which redefines the instruction `syscall`. C++ uses the host's library of GCC, which is for glibc;
ukl/libc/c++ has the functions for it that musl lacks.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import boot, guestinit, linux, measures, packages, process, ukloptions
from .config import Settings
from .debian import SOURCE, Archive
from .errors import KeelError
from .lock import locked
from .progress import Step

STAMP = ".keel-built"
# The entry that the kernel offers to applications, and what says that it has short cuts.
ENTRY = "ukl_syscall"
SHORTCUTS = "ukl_shortcuts"
C_PLUS_PLUS = {".cc", ".cpp", ".cxx", ".C"}
SOURCES = {".c", ".s", ".S", *C_PLUS_PLUS}
# From the highest address of its code on, an application's jumps do not reach the kernel.
TOO_FAR = re.compile(rf"relocation truncated to fit: \S+ against .*{ENTRY}")
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
    call = settings.repository / "ukl" / "libc" / "call.s"
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
            _make_libc(settings, description, source, place, compiler(settings, ordinary=ordinary), step)
        (place / STAMP).write_text(state)
    return place


def _state(settings: Settings, description: Path) -> str:
    """What musl is built from, and where: what it installs for gcc names its place."""
    call = (settings.repository / "ukl" / "libc" / "call.s").read_bytes()
    return hashlib.sha256(call + description.read_bytes() + str(settings.build).encode()).hexdigest()


def _make_libc(settings: Settings, description: Path, source: Path, place: Path, compiler_words: list[str], step: Step) -> None:
    commands = (
        ["dpkg-source", "--no-check", "-x", str(description), str(source)],
        ["./configure", f"--prefix={place}", "--disable-shared", "--enable-wrapper=gcc", f"CC={' '.join(compiler_words)}"],
        # With `-pipe`, the assembler that is given a file reads nothing else; musl tries that word, and it may seem to work.
        ["sed", "-i", "s/ -pipe//", "config.mak"],
        ["make", f"-j{len(os.sched_getaffinity(0))}", "install"],
    )
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


def entry(settings: Settings, options: ukloptions.Options) -> int:
    """The address of the entry of the kernel with these options."""
    return _entry_of(settings.ukl_symbols(options))


def _entry_of(place: Path) -> int:
    found = re.search(rf"^([0-9a-f]+) T {ENTRY}$", process.output(["nm", str(place)]), re.MULTILINE)
    if not found:
        raise KeelError(f"{place} has no {ENTRY}", "./keel clean, and build it again")
    return int(found[1], 16)


def _symbols(settings: Settings, options: ukloptions.Options) -> dict[str, int]:
    """What an application is linked with besides its own: facts of the kernel with these options."""
    shortcuts = {SHORTCUTS: 1} if "shortcuts" in options else {}
    return {ENTRY: entry(settings, options), **shortcuts}


def entry_words(settings: Settings, options: ukloptions.Options, place: Path) -> list[str]:
    """What makes a linked program an application for the kernel with these options, whose facts are said in a file."""
    place.write_text("".join(f"{name} = {value:#x};\n" for name, value in _symbols(settings, options).items()))
    return [str(settings.repository / "ukl" / "libc" / "note.s"), str(place)]


def installed(settings: Settings, built: Path, name: str, options: ukloptions.Options | None) -> Path:
    """A program, put to the applications for the kernel with these options; without any, to the ordinary programs."""
    place = (ordinary_programs if options is None else applications)(settings) / name
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(built, place)
    _note_options(settings, name, options)
    return place


def _note_options(settings: Settings, name: str, options: ukloptions.Options | None) -> None:
    if options is not None:
        sets(settings).mkdir(exist_ok=True)
        (sets(settings) / name).write_text(ukloptions.shown(options))


def _link_words(settings: Settings, options: ukloptions.Options, *, ordinary: bool) -> list[str]:
    """What a compiler's command needs for linking a static program, with the kernel's entry where it is an application."""
    words = [f"-specs={libc(settings, ordinary=ordinary) / 'lib' / 'musl-gcc.specs'}", "-static", "-no-pie"]
    if ordinary:
        return words
    symbols = (f"-Wl,--defsym={name}={value:#x}" for name, value in _symbols(settings, options).items())
    return [*words, str(settings.repository / "ukl" / "libc" / "note.s"), *symbols]


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
    words = [f"-I{settings.repository / 'ukl' / 'include'}", *more, *_link_words(settings, options, ordinary=ordinary)]
    place = (ordinary_programs if ordinary else applications)(settings) / sources[0].stem
    place.parent.mkdir(parents=True, exist_ok=True)
    log = settings.logs / "ukl-application.log"
    argv = [*compiler(settings, ordinary=ordinary), "-O2", *flags, "-o", str(place), *map(str, sources), *words]
    try:
        process.run_logged(argv, what=f"building {place.name}", log=log)
    except KeelError as error:
        if TOO_FAR.search(log.read_text(errors="replace")):
            raise KeelError(
                f"{place.name} is too large for ring 0: its code has to end below 16 MB to reach the kernel"
            ) from error
        raise
    _note_options(settings, place.name, None if ordinary else options)
    return place


def link_into_kernel(settings: Settings, name: str, options: ukloptions.Options) -> Path:
    """An application that has been built, with the kernel and an init in one file, which boots by itself."""
    archive = guestinit.with_application(settings, applications(settings) / name)
    image = linux.build_ukl_linked(settings, options, archive, boot.linked_parameters(name), settings.ukl_linked(name))
    # The application follows the kernel's code, and so does not move it.
    if _entry_of(linux.symbols_beside(image)) != entry(settings, options):
        raise KeelError(f"the kernel with {name} in it has another entry than the one that it was linked against")
    return image


def forget_linked(settings: Settings, name: str) -> None:
    """The application as it was linked into a kernel is out of date."""
    shutil.rmtree(settings.ukl_linked(name).parent, ignore_errors=True)
