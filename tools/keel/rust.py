# SPDX-License-Identifier: GPL-2.0-only
"""The µ-kernel and the native tasks: which compiler, and the build for a target without an operating system."""

import json
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from . import packages, process
from .config import KERNEL_IMAGE, Settings
from .errors import KeelError
from .lock import locked
from .progress import Far, Step, say

BARE_TARGET = "x86_64-unknown-none"
# For programs of 32 bits: rustc's own target without SSE, of whose operating system nothing is used.
SMALL_TARGET = "i586-unknown-linux-gnu"
# In C, and in assembly: without an FPU state, because messages of threads that have one take the slow path.
SMALL_C = (
    *("-m32", "-march=i686", "-mgeneral-regs-only", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-ffreestanding", "-fno-pic", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fcf-protection=none"),
    *("-nostdlib", "-static", "-no-pie"),
)
SMALL_ASSEMBLY = ("--32", "-msyntax=intel", "-mnaked-reg")
SMALL_PROGRAMS = ("--package", "keel-small-examples", "--features", "keel-small-examples/images")
OLDEST_RUST = (1, 85)
DEBIAN_CARGO = "/usr/bin/cargo"
DEBIAN_RUSTC = "/usr/bin/rustc"
VENDORED_CRATES = Path("/usr/lib/rustlib/src/rust/library/vendor")
KERNEL_PROGRAM = "keel-kernel"
ABI_HEADER = "keel_abi.h"
DEBUGGER_IMAGE = "kernel-debugger.elf"
CORE_CRATES = "core,alloc,compiler_builtins"
SMALL_CORE_CRATES = "core,compiler_builtins"
# About how many crates the whole build has, and the µ-kernel alone, for their progress.
ALL_CRATES, KERNEL_CRATES, SMALL_CRATES = 43, 7, 9
# What debugging information has in place of the repository's path, and gdb is told.
SOURCES = "/keel"
# Notes in cargo's directory where the clone was.
PLACE = ".keel-place"
SECURITY_REMEDY = "add bookworm-security to apt's sources, then apt-get install rustc-web rust-web-src"
FETCH_FAILED = re.compile(r"failed to (?:get `|download|query)")


@dataclass(frozen=True)
class Toolchain:
    """A compiler, called by its path, and whether it must build its own core library."""

    cargo: str
    rustc: str
    build_core: bool

    def environment(self, settings: Settings) -> dict[str, str]:
        """What cargo must find in its environment."""
        # Only the unstable -Zbuild-std needs the bootstrap switch.
        bootstrap = {"RUSTC_BOOTSTRAP": "1"} if self.build_core else {}
        target = str(settings.build / "cargo")
        return {"RUSTC": self.rustc, "CARGO_TARGET_DIR": target, **bootstrap}

    def host(self) -> "Toolchain":
        """The same compiler for programs of the host."""
        return replace(self, build_core=False)

    def bare_arguments(self, settings: Settings, target: str = BARE_TARGET) -> list[str]:
        """The arguments that make cargo build for a target without an operating system, wherever the sources are."""
        flag = f"--remap-path-prefix={settings.repository}={SOURCES}"
        common = ["--target", target, "--config", f"target.{target}.rustflags=[{json.dumps(flag)}]"]
        if not self.build_core:
            return common
        # Debian's package has the dependencies of the core library's workspace; cargo would fetch them from crates.io.
        vendored = ['source.crates-io.replace-with="debian"', f'source.debian.directory="{VENDORED_CRATES}"']
        source = [word for line in vendored for word in ("--config", line)] if VENDORED_CRATES.is_dir() else []
        # On a target that has an operating system by its name, memcpy and its like would be that one's.
        memory = ["-Zbuild-std-features=compiler-builtins-mem"] if target == SMALL_TARGET else []
        crates = SMALL_CORE_CRATES if target == SMALL_TARGET else CORE_CRATES
        return [*common, f"-Zbuild-std={crates}", *memory, *source]


def find_toolchain(settings: Settings) -> Toolchain:
    """rustup's compiler if it has the target, else Debian's by its path."""
    if found := _rustup_toolchain():
        return found
    return debian_toolchain(settings)


def debian_toolchain(settings: Settings) -> Toolchain:
    """Debian's compiler by its path, if it is new enough."""
    packages.require(settings, packages.RUST)
    version = rust_version(process.output([DEBIAN_RUSTC, "--version"]))
    if version < OLDEST_RUST:
        shown, wanted = (".".join(map(str, number)) for number in (version, OLDEST_RUST))
        raise KeelError(f"rustc {shown} is too old", f"{wanted} or later is needed: {SECURITY_REMEDY}")
    return Toolchain(DEBIAN_CARGO, DEBIAN_RUSTC, build_core=True)


def version(toolchain: Toolchain) -> tuple[int, int]:
    """The version of a compiler."""
    return rust_version(process.output([toolchain.rustc, "--version"]))


def rust_version(text: str) -> tuple[int, int]:
    """The version in the output of `rustc --version`, or zeros."""
    found = re.match(r"rustc (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _rustup_toolchain() -> Toolchain | None:
    if shutil.which("rustup") is None:
        return None
    try:
        sysroot = Path(process.output(["rustup", "run", "stable", "rustc", "--print", "sysroot"]).strip())
    except KeelError:
        return None  # it has no stable compiler
    rustc = sysroot / "bin" / "rustc"
    if not (sysroot / "lib" / "rustlib" / BARE_TARGET).is_dir():
        return None
    if rust_version(process.output([str(rustc), "--version"])) < OLDEST_RUST:
        return None
    return Toolchain(str(sysroot / "bin" / "cargo"), str(rustc), build_core=False)


def write_c_header(settings: Settings, header: Path) -> None:
    """The binary interface for C, generated from the crate that defines it; not rewritten if it is unchanged."""
    with locked(settings.locks, "rust"):
        host = debian_toolchain(settings).host()
        text = process.output(
            [
                host.cargo,
                "run",
                "--quiet",
                "--manifest-path",
                str(settings.repository / "user" / "protocol" / "Cargo.toml"),
                "--example",
                "cheader",
            ],
            env=host.environment(settings),
        )
    if not header.exists() or header.read_text() != text:
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text)


def build_all(settings: Settings) -> Path:
    """The µ-kernel and every native task; returns the directory that holds them."""
    if settings.release:
        return settings.keel_directory
    _build_small(settings)
    return _build(settings, "the µ-kernel and the native tasks", ["--workspace", "--bins"], KERNEL_IMAGE, ALL_CRATES)


def build_debugger(settings: Settings) -> Path:
    """The µ-kernel with its debugger, beside the other one; returns the same directory."""
    arguments = ["--package", KERNEL_PROGRAM, "--features", "debugger"]
    return _build(settings, "the µ-kernel with its debugger", arguments, DEBUGGER_IMAGE, KERNEL_CRATES)


def _build_small(settings: Settings) -> None:
    """The programs of 32 bits, by Debian's compiler: the core library that others have for this target has no memcpy."""
    toolchain = debian_toolchain(settings)
    packages.require(settings, packages.COMPILER)
    header = settings.build / "small" / ABI_HEADER
    write_c_header(settings, header)
    arguments = [*SMALL_PROGRAMS, "--bins", *toolchain.bare_arguments(settings, SMALL_TARGET)]
    with locked(settings.locks, "rust"):
        programs = _cargo_build(settings, toolchain, "building the programs of 32 bits", arguments, SMALL_CRATES)
        settings.keel_directory.mkdir(parents=True, exist_ok=True)
        for program in [*programs, *_compile_small(settings, header)]:
            _copy_if_newer(program, settings.keel_directory / program.name)


def _compile_small(settings: Settings, header: Path) -> list[Path]:
    """Compile those in C, which are all C files of the examples, and return the programs."""
    library, layout = (settings.repository / "user" / name for name in ("l4-32", "l4"))
    start = header.with_name("start.o")
    process.output(["as", *SMALL_ASSEMBLY, "-o", str(start), str(library / "src" / "start.s")])
    linker = f"-Wl,-L{layout},-T{library / 'small.ld'},--build-id=none,-z,noexecstack"
    gcc = ["gcc", *SMALL_C, f"-I{library}", f"-I{header.parent}", linker, str(start)]
    programs = []
    for source in sorted((settings.repository / "user" / "examples").glob("*/*.c")):
        program = header.with_name(source.stem)
        log = settings.logs / f"{program.name}.log"
        process.run_logged([*gcc, str(source), "-o", str(program)], what=f"compiling {source.name}", log=log)
        programs.append(program)
    return programs


def _build(settings: Settings, what: str, arguments: list[str], kernel: str, crates: int) -> Path:
    toolchain = find_toolchain(settings)
    packages.require(settings, packages.COMPILER)
    with locked(settings.locks, "rust"):
        arguments = [*arguments, *toolchain.bare_arguments(settings)]
        programs = _cargo_build(settings, toolchain, f"building {what}", arguments, crates)
        settings.keel_directory.mkdir(parents=True, exist_ok=True)
        for program in programs:
            name = kernel if program.name == KERNEL_PROGRAM else program.name
            _copy_if_newer(program, settings.keel_directory / name)
    return settings.keel_directory


def _cargo_build(settings: Settings, toolchain: Toolchain, what: str, arguments: list[str], crates: int) -> list[Path]:
    """Build and return the programs; progress is of the crates that are compiled of about this many."""
    built: list[Path] = []
    compiled, left = 0, crates

    def measure(line: bytes) -> Far:
        nonlocal compiled, left
        if line.startswith(b'{"reason":"compiler-artifact"'):
            crate = json.loads(line)
            compiled, left = (compiled, left - 1) if crate["fresh"] else (compiled + 1, left)
            if program := crate.get("executable"):
                built.append(Path(program))
        return Far(compiled, max(left, compiled), "crates")

    _tell_moved(settings)
    argv = [toolchain.cargo, "build", "--release", *arguments]
    argv += ["--message-format=json-render-diagnostics"]
    with Step(what, mostly_short=True) as step:
        process.run_logged(
            argv,
            what=what,
            log=settings.logs / "rust.log",
            step=step,
            measure=measure,
            cwd=settings.repository,
            env=toolchain.environment(settings),
            explain=explanation,
        )
    return built


def _tell_moved(settings: Settings) -> None:
    """Say why all is built again where the clone was copied or moved: its path is in the compiler's arguments."""
    note, here = settings.build / "cargo" / PLACE, str(settings.repository)
    if note.exists() and (before := note.read_text()) != here:
        say(f"this clone was {before} when cargo built here: all is built again, since the compiler is told the path")
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(here)


def explanation(log: str) -> KeelError | None:
    """What is wrong where cargo could not fetch crates, which older packages of Debian lack; None if it was something else."""
    if not FETCH_FAILED.search(log):
        return None
    reasons = [line.strip() for line in log.rpartition("Caused by:")[2].splitlines() if line.strip()]
    return KeelError(
        f"cargo cannot fetch crates of Rust's core library: {reasons[0] if reasons else 'no reason'}", SECURITY_REMEDY
    )


def _copy_if_newer(source: Path, target: Path) -> None:
    """Copy atomically: a guest that is being started must never see a partial file."""
    if target.exists() and target.stat().st_mtime_ns >= source.stat().st_mtime_ns:
        return
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copy2(source, aside)
    aside.replace(target)
