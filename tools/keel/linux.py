# SPDX-License-Identifier: GPL-2.0-only
"""Linux: Debian's source fetched and unpacked unchanged, and its builds.

The pristine tree is shared and never written. The native kernel is built out
of it directly; the server is built out of a tree of symlinks to it, with the
files of linux/arch linked as arch/l4 and adapted copies of x86's files in
arch/l4/adapted. The kernel for applications in ring 0 is built out of a
second symlink tree, in which the files that have hunks in ukl/ are copies
(hunks.py).
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory

from . import debian, hunks, kbuild, kconfig, measures, moved, packages, process, rust, ukloptions
from .config import Settings
from .errors import KeelError
from .lock import locked
from .progress import Step, say

SOURCE_PACKAGE = "linux-source-6.1"
# A package whose dependencies name the package of Debian's kernel.
STOCK_PACKAGE = "linux-image-amd64"
STOCK_DEPENDENCY = re.compile(r"(linux-image-\S+)")
STOCK_KERNEL = "./boot/vmlinuz-*"
# The modules of that kernel for KVM, each after those that it needs.
KVM_MODULES = ("virt/lib/irqbypass", "arch/x86/kvm/kvm", "drivers/crypto/ccp/ccp", "arch/x86/kvm/kvm-amd")
TARBALL = "./usr/src/linux-source-6.1.tar.xz"
VERSION_STAMP = ".keel-version"
CONFIG_STAMP = ".keel-config"
BUILD_STAMP = ".keel-built"
ABI_HEADER = rust.ABI_HEADER
# Of all clones together, with the builds for gdb; one build of each Linux takes some 200 MB.
CCACHE_SIZE = "3G"
# A fixed build user, host, number and time keep the image independent of the machine and of earlier builds.
FIXED_ARGUMENTS = ("CC=ccache gcc", "KBUILD_BUILD_USER=keel", "KBUILD_BUILD_HOST=keel", "KBUILD_BUILD_VERSION=1")
# Compiled files: how make names them, and in a line of progress.
COMPILED = rb"^  (CC|AS) "
FILES = "files"
# How long the links to the source usually take, for their progress.
LINKING_S = 5.0
# The source unpacked, in MB, and what tar says after each of them.
SOURCE_MB = 1360
EACH_MB = ("--checkpoint=100", "--checkpoint-action=echo=%u MB")


@dataclass(frozen=True)
class Target:
    """One of the kernels: the fragments of its configuration, and the other files of the repository that it is built from."""

    name: str
    arch: str
    fragments: tuple[str, ...]
    goals: tuple[str, ...]
    parts: tuple[str, ...] = ()
    # More for the compiler and the assembler.
    flags: tuple[str, ...] = ()
    # About how many objects a whole build has, for its progress.
    objects: int = 1606


# Files of x86 that the server needs changed, and the changed copies in its source tree.
X86_FILES, ADAPTED_FILES = Path("arch/x86"), Path("arch/l4/adapted")
COMMON_FRAGMENT, NATIVE_FRAGMENT = "config/common.config", "config/x86.config"
NATIVE = Target("native", "x86", (COMMON_FRAGMENT, NATIVE_FRAGMENT), ("bzImage",))
# Files for x86's architecture in ukl/ that the server has in its own.
SHARED_PLACE = Path("ukl/linux/arch/x86")
SHARED = (
    "include/asm/ukl_gate.h",
    *(f"ukl/{name}" for name in ("bypass.c", "bypass.h", "bypass_entry.S", "options.h", "shortcuts.c")),
)
SERVER = Target(
    "l4",
    "l4",
    (COMMON_FRAGMENT, "config/l4.config"),
    ("vmlinux",),
    parts=("linux", *(str(SHARED_PLACE / name) for name in SHARED), "abi", "user/protocol", "tools/keel/hunks.py"),
    objects=1370,
)
UKL = Target(
    "ukl",
    "x86",
    (COMMON_FRAGMENT, NATIVE_FRAGMENT, "ukl/ukl.config"),
    ("bzImage",),
    parts=("ukl/linux", "ukl/insertions", "tools/keel/hunks.py"),
)


# The compiler's option for what a path in messages loses.
LEFT_OUT = "-fmacro-prefix-map="
# What a build for gdb has besides: source lines and types, and Linux's own scripts. Its configuration is the same, because
# the image has that in it (/proc/config.gz), and so is its code.
GDB_FLAGS = ("-gdwarf-5",)
GDB_GOALS = ("vmlinux", "scripts_gdb")


def build_native(settings: Settings) -> Path:
    """Builds native Linux and returns the image."""
    if not settings.native_kernel.exists():
        say("native Linux is a build of its own, beside that of the server, once: it takes about as long")
    _prepare(settings)
    with locked(settings.locks, f"{settings.linux.name}-native"):
        _build(settings, NATIVE, settings.pristine)
    return settings.native_kernel


def debian_kernel(settings: Settings) -> Path:
    """The kernel that Debian ships, as it is; fetched once."""
    return _debian_files(settings, (STOCK_KERNEL,))[0]


def kvm_host(settings: Settings) -> list[Path]:
    """Debian's kernel, and its modules for KVM on AMD's processors, in the order in which they are loaded."""
    return _debian_files(settings, (STOCK_KERNEL, *(f"./lib/modules/*/kernel/{name}.ko" for name in KVM_MODULES)))


def _debian_files(settings: Settings, patterns: Sequence[str]) -> list[Path]:
    """Files of the kernel's package, one for each pattern, all of one version."""
    files = {settings.linux / "debian" / Path(pattern).name.removesuffix("-*"): pattern for pattern in patterns}
    with locked(settings.locks, f"{settings.linux.name}-debian"):
        if not all(file.exists() for file in files):
            _unpack_debian(settings, files)
    return list(files)


def _unpack_debian(settings: Settings, files: Mapping[Path, str]) -> None:
    """Extract files of the kernel's package; each appears under its name only when it is complete."""
    packages.require(settings, packages.SIGNATURES)
    archive = debian.Archive(settings)
    depends = process.output(["dpkg-deb", "--field", str(archive.fetch(STOCK_PACKAGE)), "Depends"])
    if (found := STOCK_DEPENDENCY.search(depends)) is None:
        raise KeelError(f"{STOCK_PACKAGE} depends on no kernel: {depends.strip()}")
    package = archive.fetch(found[1])
    settings.linux.mkdir(parents=True, exist_ok=True)
    script = 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards "${@:3}"'
    with TemporaryDirectory(dir=settings.linux) as aside, Step("unpacking Debian's kernel") as step:
        process.run_logged(
            ["bash", "-o", "pipefail", "-c", script, "unpack", str(package), aside, *files.values()],
            what="unpacking Debian's kernel",
            log=settings.logs / "linux-debian.log",
            step=step,
        )
        for file, pattern in files.items():
            file.parent.mkdir(exist_ok=True)
            next(Path(aside).glob(pattern)).rename(file)


def build_server(settings: Settings) -> Path:
    """Linux as a server on the µ-kernel; returns the image."""
    if settings.release:
        return settings.linux_server
    if not (settings.repository / "linux" / "arch" / "l4" / "Kconfig").exists():
        raise KeelError("linux/arch/l4 has no Kconfig", "is the clone complete? git status shows it")
    _prepare(settings)
    with locked(settings.locks, f"{settings.linux.name}-l4"):
        _build(settings, SERVER, server_source(settings))
    return settings.linux_server


def build_for_gdb(settings: Settings, target: Target) -> Path:
    """Native Linux or the server once more, with source lines and types for gdb; returns the image, which nobody boots."""
    _prepare(settings)
    with locked(settings.locks, f"{settings.linux.name}-{target.name}"):
        source = server_source(settings) if target is SERVER else settings.pristine
    for_gdb = _gdb_target(target)
    with locked(settings.locks, f"{settings.linux.name}-{for_gdb.name}"):
        _build(settings, for_gdb, source)
    return image_for_gdb(settings, target)


def image_for_gdb(settings: Settings, target: Target) -> Path:
    """Where the build of a target for gdb is."""
    return settings.linux / _gdb_target(target).name / "vmlinux"


def _gdb_target(target: Target) -> Target:
    """The same kernel, with what gdb wants to know."""
    return replace(target, name=f"{target.name}-gdb", flags=GDB_FLAGS, goals=GDB_GOALS)


def build_ukl(settings: Settings, options: ukloptions.Options = ()) -> Path:
    """Linux for applications in ring 0 with a set of options; returns the image.

    All sets are built in one directory, where little changes from one to the next, and each result is kept.
    """
    return _build_ukl(settings, ukl_target(options), settings.ukl_kernel(options))


def build_ukl_linked(settings: Settings, options: ukloptions.Options, archive: Path, parameters: str, image: Path) -> Path:
    """Linux for applications in ring 0, with an initial file system and a command line linked into it."""
    image.parent.mkdir(parents=True, exist_ok=True)
    fragment = image.with_name("linked.config")
    fragment.write_text(
        f'CONFIG_INITRAMFS_SOURCE="{archive}"\nCONFIG_INITRAMFS_COMPRESSION_NONE=y\n'
        f'CONFIG_CMDLINE_BOOL=y\nCONFIG_CMDLINE="{parameters}"\n'
    )
    target = ukl_target(options)
    target = replace(target, fragments=(*target.fragments, str(fragment)), parts=(*target.parts, str(archive)))
    return _build_ukl(settings, target, image)


def _build_ukl(settings: Settings, target: Target, image: Path) -> Path:
    """Builds such a kernel and keeps its image, and beside that the one with its symbols."""
    _prepare(settings)
    stamp, symbols = image.with_name(BUILD_STAMP), symbols_beside(image)
    with locked(settings.locks, f"{settings.linux.name}-ukl"):
        state = _build_state(settings, target)
        if stamp.exists() and stamp.read_text() == state:
            return image
        stamp.unlink(missing_ok=True)
        source = ukl_source(settings)
        _start_from_native(settings, target, source)
        _build(settings, target, source)
        image.parent.mkdir(parents=True, exist_ok=True)
        out = settings.linux / target.name
        for built, kept in ((out / "arch/x86/boot/bzImage", image), (out / "vmlinux", symbols)):
            aside = kept.with_suffix(".new")
            shutil.copy2(built, aside)
            aside.replace(kept)
        stamp.write_text(state)
    return image


def symbols_beside(image: Path) -> Path:
    """Such a kernel's image with symbols."""
    return image.with_name("vmlinux")


def _start_from_native(settings: Settings, target: Target, source: Path) -> None:
    """If native Linux is built and this kernel is not, start with its objects: make compiles only what differs."""
    native, out = settings.linux / NATIVE.name, settings.linux / target.name
    with locked(settings.locks, f"{settings.linux.name}-native"):
        stamp = native / BUILD_STAMP
        if not out.exists() and stamp.exists() and stamp.read_text() == _build_state(settings, NATIVE):
            log = settings.logs / f"{settings.linux.name}-{target.name}-objects.log"
            copy_objects(native, out, (settings.pristine, source), log)


def copy_objects(built: Path, out: Path, sources: tuple[Path, Path], log: Path) -> None:
    """Copy what make has built from the first source tree to the place where it continues with the second, with the files' times.

    The commands that make compares with its own name both trees, by their paths, and the sources by relative ones as well,
    as do the dependencies where ccache wrote them.
    """
    built_from, source = sources
    paths = {
        str(built_from): str(source),
        str(built): str(out),
        f"{os.path.relpath(built_from, built)}/": f"{os.path.relpath(source, out)}/",
    }
    aside = out.with_suffix(".new")
    shutil.rmtree(aside, ignore_errors=True)
    process.run_logged(["cp", "-a", str(built), str(aside)], what="copying the native kernel's objects", log=log)
    for stamp in (BUILD_STAMP, CONFIG_STAMP):
        (aside / stamp).unlink(missing_ok=True)
    for path in aside.rglob("*.cmd"):
        times = path.stat()
        path.write_text(reduce(lambda text, old: text.replace(old, paths[old]), paths, path.read_text()))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    aside.rename(out)


def ukl_target(options: ukloptions.Options) -> Target:
    """The kernel with a set of options, out of the same source."""
    return replace(UKL, fragments=(*UKL.fragments, *(f"ukl/options/{name}.config" for name in options)))


def headers(settings: Settings) -> Path:
    """Linux's headers for programs, for a libc that has none."""
    _prepare(settings)
    out = settings.linux / "headers"
    stamp, state = out / BUILD_STAMP, source_version(settings)
    with locked(settings.locks, f"{settings.linux.name}-headers"):
        if not (stamp.exists() and stamp.read_text() == state):
            out.mkdir(parents=True, exist_ok=True)
            process.run_logged(
                ["make", "-C", str(settings.pristine), f"O={out}", "ARCH=x86", "headers"],
                what="making Linux's headers",
                log=settings.logs / "linux-headers.log",
            )
            stamp.write_text(state)
    return out / "usr" / "include"


def server_source(settings: Settings) -> Path:
    """The source tree with arch/l4 and the adapted files of x86, up to date."""
    tree, ours = _symlink_tree(settings, SERVER), settings.repository / "linux"
    texts = hunks.copies(hunks.read(ours / "replacements"), settings.pristine)
    adapted = {(ADAPTED_FILES / Path(name).relative_to(X86_FILES)).as_posix(): text for name, text in texts.items()}
    new = {f"arch/{name}": path for name, path in hunks.additions(ours / "arch").items()}
    shared = {f"arch/l4/{name}": settings.repository / SHARED_PLACE / name for name in SHARED}
    hunks.place(adapted, new | shared, settings.pristine, tree)
    return tree


def ukl_source(settings: Settings) -> Path:
    """The source tree with the hunks and files of ukl/, up to date."""
    tree, ours = _symlink_tree(settings, UKL), settings.repository / "ukl"
    changed = hunks.copies(hunks.read(ours / "insertions"), settings.pristine)
    hunks.place(changed, hunks.additions(ours / "linux"), settings.pristine, tree)
    return tree


def _prepare(settings: Settings) -> None:
    if settings.linux_version and not debian.VERSION.fullmatch(settings.linux_version):
        raise KeelError(f"KEEL_LINUX={settings.linux_version} is no version of a Debian package", "one is 6.1.176-1")
    packages.require(settings, packages.LINUX)
    with locked(settings.locks, f"{settings.linux.name}-source"):
        _unpack(settings)
        moved.settle(settings.linux)


def _unpack(settings: Settings) -> None:
    """The pristine tree; it appears under its name only when it is complete."""
    if (settings.pristine / VERSION_STAMP).exists():
        return
    packages.require(settings, packages.SIGNATURES)
    package = debian.Archive(settings).fetch(SOURCE_PACKAGE, settings.linux_version)
    version = process.output(["dpkg-deb", "--field", str(package), "Version"]).strip()
    aside = settings.pristine.with_suffix(".new")
    for old in (aside, settings.pristine):
        shutil.rmtree(old, ignore_errors=True)
    aside.mkdir(parents=True)
    script = 'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2" | tar -xJ -C "$3" --strip-components=1 "${@:4}"'
    with Step(f"unpacking Linux {version}") as step:
        process.run_logged(
            ["bash", "-o", "pipefail", "-c", script, "unpack", str(package), TARBALL, str(aside), *EACH_MB],
            what="unpacking the Linux source",
            log=settings.logs / "linux-unpack.log",
            step=step,
            measure=measures.counted(rb"^tar: \d+ MB", SOURCE_MB, "MB"),
        )
    (aside / VERSION_STAMP).write_text(version + "\n")
    aside.rename(settings.pristine)


def source_version(settings: Settings) -> str:
    """The Debian version of the unpacked source."""
    return (settings.pristine / VERSION_STAMP).read_text().strip()


def _symlink_tree(settings: Settings, target: Target) -> Path:
    """A tree of symlinks to the pristine one; it appears under its name only when it is complete."""
    tree = settings.linux / f"{target.name}-src"
    stamp = tree / VERSION_STAMP
    # A tree of an earlier Keel, interrupted while it was linked in place, has a link to the pristine tree's stamp.
    if stamp.exists() and not stamp.is_symlink() and stamp.read_text().strip() == source_version(settings):
        return tree
    aside = tree.with_suffix(".new")
    for old in (aside, tree):
        shutil.rmtree(old, ignore_errors=True)
    with Step("linking the Linux source tree", usually_s=LINKING_S) as step:
        process.run_logged(
            ["cp", "-rs", str(settings.pristine), str(aside)],
            what="linking the Linux source tree",
            log=settings.logs / f"{settings.linux.name}-{target.name}-tree.log",
            step=step,
        )
    stamp = aside / VERSION_STAMP
    stamp.unlink()  # a link into the pristine tree so far
    stamp.write_text(source_version(settings) + "\n")
    aside.rename(tree)
    return tree


def _build(settings: Settings, target: Target, source: Path) -> None:
    out = settings.linux / target.name
    out.mkdir(parents=True, exist_ok=True)
    built, state = out / BUILD_STAMP, _build_state(settings, target)
    if built.exists() and built.read_text() == state:
        return
    built.unlink(missing_ok=True)
    if target.arch == SERVER.arch:
        rust.write_c_header(settings, out / ABI_HEADER)
    _configure(settings, target, source, out)
    with Step(f"building Linux ({target.name})") as step:
        process.run_logged(
            ["make", "-C", str(source), *_make_arguments(target, source, out), *target.goals],
            what=f"building Linux ({target.name})",
            log=settings.logs / f"{settings.linux.name}-{target.name}.log",
            step=step,
            measure=measures.counted(COMPILED, kbuild.left(out, target.objects), FILES),
            env=_environment(settings, target, out),
        )
    built.write_text(state)


def _build_state(settings: Settings, target: Target) -> str:
    """A digest of all sources, and of how they are compiled: make needs seconds to see that nothing changed."""
    digest = hashlib.sha256(" ".join([source_version(settings), *FIXED_ARGUMENTS, LEFT_OUT, *target.flags]).encode())
    for path in _inputs(settings, target):
        info = path.stat()
        # A clone may be copied or moved with what it has built.
        name = os.path.relpath(path, settings.repository)
        digest.update(f"{name} {info.st_size} {info.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _inputs(settings: Settings, target: Target) -> list[Path]:
    inputs = [settings.repository / name for name in target.fragments]
    for part in target.parts:
        place = settings.repository / part
        inputs += [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    return inputs


def _environment(settings: Settings, target: Target, out: Path) -> dict[str, str]:
    """Where the server finds the generated header of the µ-kernel's interface, and ccache what any clone has compiled.

    A clone's place is in paths of sources, which ccache takes as relative ones (BASEDIR), and not in the objects (NOHASHDIR),
    unless they are for gdb.
    It runs the preprocessor first, and so sees the `.incbin` of what it must not keep: the list of dependencies has no such file.
    """
    header = {"KEEL_ABI_H": str(out / ABI_HEADER)} if target.arch == SERVER.arch else {}
    ccache = {
        "CCACHE_DIR": str(settings.cache / "objects"),
        "CCACHE_MAXSIZE": CCACHE_SIZE,
        "CCACHE_BASEDIR": str(settings.build),
    }
    return header | ccache | ({} if target.flags else {"CCACHE_NOHASHDIR": "1"})


def _make_arguments(target: Target, source: Path, out: Path) -> list[str]:
    jobs = len(os.sched_getaffinity(0))
    dated = time.gmtime((source / "Makefile").stat().st_mtime)
    # Linux leaves the path of its sources out of messages; through ccache that path is a relative one.
    flags = " ".join([f"{LEFT_OUT}{os.path.relpath(source, out)}/=", *target.flags])
    return [
        f"O={out}",
        f"ARCH={target.arch}",
        f"-j{jobs}",
        *FIXED_ARGUMENTS,
        f"KBUILD_BUILD_TIMESTAMP={time.strftime('%a %b %e %H:%M:%S UTC %Y', dated)}",
        f"KCFLAGS={flags}",
        f"KAFLAGS={' '.join(target.flags)}",
    ]


def _configure(settings: Settings, target: Target, source: Path, out: Path) -> None:
    fragments = [settings.repository / name for name in target.fragments]
    stamp = out / CONFIG_STAMP
    state = _configuration_state(settings, target, fragments)
    if stamp.exists() and stamp.read_text() == state and (out / ".config").exists():
        return
    stamp.unlink(missing_ok=True)
    process.run_logged(
        ["scripts/kconfig/merge_config.sh", "-n", "-O", str(out), *map(str, fragments)],
        what=f"configuring Linux ({target.name})",
        log=settings.logs / f"{settings.linux.name}-{target.name}-config.log",
        cwd=source,
        env={"ARCH": target.arch, **_environment(settings, target, out)},
    )
    final = (out / ".config").read_text()
    problems = kconfig.without_effect([path.read_text() for path in fragments], final)
    if problems:
        shown = "; ".join(problems)
        raise KeelError(f"Linux ({target.name}) did not accept: {shown}", f"correct {fragments[-1]}")
    stamp.write_text(state)


def _configuration_state(settings: Settings, target: Target, fragments: list[Path]) -> str:
    """A digest of everything that the configuration depends on."""
    digest = hashlib.sha256(source_version(settings).encode())
    for path in _inputs(settings, target):
        if path in fragments or path.name.startswith("Kconfig") or path.suffix == hunks.SUFFIX:
            digest.update(path.read_bytes())
    return digest.hexdigest()
