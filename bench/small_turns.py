# SPDX-License-Identifier: GPL-2.0-only
"""Turns of thread-local segments. They are in no figure of QEMU's, whose translator checks no limits of segments.

Bochs does: it runs workloads of the other experiments in windows, and logs each access beyond a limit with its time, which is the
number of instructions, and the guest's time stamp counter. Between the stamps before and after a workload each one is a turn.
What a turn costs is modelled: its instructions, which a program of its own measures there, an exception and its return, and the
loads of segment registers; misses of caches are not in it. bench/small.py runs this experiment.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import run
import small_applications
import small_servers
from small_applications import BUILDS, LONGER, MAKE, MAKE_PACKAGES, REQUESTS, X11PERF, X_PACKAGES
from small_pingpong import LARGE, SMALL
from small_programs import (
    APART,
    COMMANDER,
    COMPILATIONS,
    COMPILER,
    GCC,
    PAPER_MACHINE,
    PIPELINES,
    PROGRAM,
    RESIDENT,
    TEXT_BYTES,
    TEXT_LINE,
    TOOLS,
    WITHOUT,
    WORDS,
    Found,
    Workload,
    command_of,
    in_limits,
    modelled_of,
    window_steps,
)
from small_servers import DATABASE, DATABASE_SERVER, FASTCGI, REPLY, REQUEST, WEB_SERVER

sys.path.insert(0, str(run.REPOSITORY / "tools"))

from keel import cpio, layers, timing
from keel.config import Settings

NAME = "turns"
# The program that turns its segment (bench/guest/turns.c), and the one that prints the time stamp counter.
TURNER, STAMP = "turns", "tsc"
# Rows of PROGRAM, whose loops have no thread-local variables. Their turns are those of the program's start and end.
ROWS = ("getpid", "read-4k", "pipe")
# What the kernel loads on its way back from a turn: DS, ES, FS and GS.
SEGMENT_LOADS = 4
# Of a second of Bochs's time; a workload takes a minute or two of the host's.
LIMIT_S = 3600
TURN = re.compile(r"^(\d+)e\[CPU\d+ *\] \w+_virtual_checks\(\): \w+ beyond limit", re.MULTILINE)
STAMPED = re.compile(r"^[0-9a-f]{16}$", re.MULTILINE)
# gcc links no program without these archives.
NEEDED_TO_LINK = r"(?<!/libgcc)(?<!/libc_nonshared)"
# Of the packages: what nothing here uses, and would be read from Bochs's disc.
LEFT_OUT = re.compile(rf".*(/lto1$|lto-dump|gold|gcov|[aut]san|{NEEDED_TO_LINK}\.a$|LLVM|/dri/|/share/(doc|locale|man)/)")
# The servers, and the rows of small_servers.PROGRAM whose turns are counted.
SERVERS = {
    DATABASE: (DATABASE_SERVER, ("select-constant", "select-row", "select-scan")),
    FASTCGI: (WEB_SERVER, (REPLY, f"{REQUEST}0")),
}
# Where small.json has the figures of the workloads without turns.
EXPERIMENTS = {
    **dict.fromkeys(PIPELINES, WORDS),
    **dict.fromkeys(COMPILATIONS, GCC),
    **dict.fromkeys(BUILDS, MAKE),
    **dict.fromkeys(REQUESTS, X11PERF),
    **{row: experiment for experiment, (_, rows) in SERVERS.items() for row in rows},
}


@dataclass(frozen=True)
class Counted:
    """What a workload took on Bochs, or one of its operations."""

    turns: float
    instructions: float


def times_of(log: str) -> list[int]:
    """When there was a turn, by the emulator's log."""
    return [int(found[1]) for found in TURN.finditer(log)]


def counted_between(times: Iterable[int], begin: int, end: int, operations: int = 1) -> Counted:
    """What each of so many operations took between two stamps."""
    return Counted(sum(begin <= time < end for time in times) / operations, (end - begin) / operations)


def counted(names: Iterable[str], output: str, log: str) -> dict[str, Counted]:
    """What each workload took, by the guest's output, with a stamp before the first and after each."""
    times, stamps = times_of(log), [int(found, 16) for found in STAMPED.findall(output)]
    return dict(zip(names, (counted_between(times, begin, end) for begin, end in pairwise(stamps)), strict=True))


def counted_rows(output: str, log: str) -> dict[str, Counted]:
    """What an operation of each row took, by the stamps in the rows' lines: starting, settling and ending are in none."""
    times, rows = times_of(log), {}
    for row in (json.loads(line) for line in output.splitlines() if '"span"' in line):
        begin, end = row["span"]
        rows[row["name"]] = counted_between(times, begin, end, row["iterations"] * len(row["tsc"]))
    return rows


def counted_objects(found: Mapping[str, Counted]) -> dict[str, Counted]:
    """What an object of each request took, by what the longer of two runs has more."""
    objects = {}
    for name, request in REQUESTS.items():
        shorter, longer = (found[small_applications.run_name(name, count * request.repetitions)] for count in (1, LONGER))
        more = (LONGER - 1) * request.repetitions * request.objects
        objects[name] = Counted((longer.turns - shorter.turns) / more, (longer.instructions - shorter.instructions) / more)
    return objects


def write_root(output: Path, packages: Sequence[str], files: Mapping[str, Path], root: Path) -> None:
    """An archive of a root of 32-bit packages alone, with these files below /tmp, and the programs that count."""
    wish = layers.wanted([f"{package}:i386" for package in packages], None)
    assert wish
    programs = {COMMANDER: run.PROGRAM, **{name: name for name in (PROGRAM, TURNER, STAMP)}}
    for name in programs.values():
        run.build_programs(output, name)
    added = {name: output / program for name, program in programs.items()} | files
    folders = {str(parent) for name in added for parent in (Path("tmp") / name).parents} - {".", "tmp"}
    writer, prefix = cpio.Writer(), f"{APART.removeprefix('/')}/"

    def name_of(name: str) -> str:
        return name.removeprefix(prefix) if name.startswith(prefix) and not LEFT_OUT.match(name) else ""

    with layers.provided(Settings(), wish).archive.open("rb") as file, root.open("wb") as out:
        for entry in cpio.chosen(file, name_of):
            out.write(writer.entry(entry))
        for name in sorted(folders):
            out.write(writer.entry(cpio.Entry(name, cpio.DIRECTORY | 0o755)))
        for name, path in added.items():
            out.write(writer.entry(cpio.Entry(f"tmp/{name}", cpio.REGULAR | 0o755, data=path.read_bytes())))
        out.write(writer.end())


def in_bochs(output: Path, packages: Sequence[str], files: Mapping[str, Path], steps: Iterable[str]) -> tuple[str, str]:
    """The output of a guest with these packages and files that takes these steps in /tmp, and the emulator's log."""
    root = output / "turns.cpio"
    write_root(output, packages, files, root)
    options = ["--emulator", "bochs", "--place", "i386=small", "--name", NAME, "--root", str(root), "--timeout", str(LIMIT_S)]
    try:
        said = run.run_keel(["run", *options, "--exec", " && ".join([run.FIXED_ADDRESSES, "cd /tmp", *steps])], NAME, b"")
    finally:
        root.unlink()
    console, log = ((Settings().logs / f"{NAME}-{line}.log").read_text(errors="replace") for line in ("console", "emulator"))
    if without := re.search(WITHOUT, console):
        raise run.BenchError(f"a program had no window: {without[0]}")
    return said, log


def count(
    output: Path, packages: Sequence[str], files: Mapping[str, Path], before: Sequence[str], works: Mapping[str, str]
) -> tuple[str, dict[str, Counted]]:
    """The output of a guest, and what each of its workloads took there."""
    print(f"bench: counting turns of {', '.join(works)} ...", file=sys.stderr, flush=True)
    stamp = f"/tmp/{STAMP}"
    said, log = in_bochs(output, packages, files, [*before, stamp, *(word for work in works.values() for word in (work, stamp))])
    return said, counted(works, said, log)


def count_programs(
    output: Path,
    workloads: Mapping[str, Workload],
    packages: Sequence[str],
    files: Mapping[str, Path],
    before: Sequence[str] = (),
) -> dict[str, Counted]:
    """The turns of whole programs, all in windows of the first one's size."""
    sized = window_steps(SMALL, next(iter(workloads.values())))
    works = {name: command_of(name, work) for name, work in workloads.items()}
    return count(output, packages, files, [*sized, *before], works)[1]


def count_server(output: Path, server: str, rows: Sequence[str]) -> dict[str, Counted]:
    """The turns of a request or query of each row, in all programs that take part."""
    print(f"bench: counting turns of {', '.join(rows)} ...", file=sys.stderr, flush=True)
    run.build_programs(output, small_servers.PROGRAM)
    work = in_limits(Workload(f"./{small_servers.PROGRAM} {' '.join(rows)}"))
    return counted_rows(*in_bochs(output, (*TOOLS, server), small_servers.files_of(output), [work]))


def instructions_of_a_turn(output: str) -> float:
    """What one takes, by the line of TURNER, in which the accesses to one side are the same without turns."""
    told = json.loads(next(line for line in output.splitlines() if '"both_sides"' in line))
    return float((told["both_sides"] - told["one_side"]) / told["accesses"])


def cycles_of_a_turn(machine: str, instructions: float) -> float:
    """The same in cycles of a machine."""
    model = {key: float(value) for key, value in timing.machines()[machine].items() if key in timing.TIMES}
    return instructions * model["instruction"] + model["exception"] + model["iret"] + SEGMENT_LOADS * model["segment_load"]


def table(found: dict[str, Counted], instructions: float, kept: dict[str, Any]) -> list[list[str]]:
    """Header and rows: the turns of each workload and, where there are figures without them, what they add to these."""
    turn = cycles_of_a_turn(PAPER_MACHINE, instructions)
    rows = [["workload", "turns", "instructions", "cycles of the turns", SMALL, "with turns"]]
    for other in (LARGE, RESIDENT):
        rows[0] += [f"{other} / {SMALL}", "with turns"]
    for name, work in found.items():
        added = work.turns * turn
        row = [name, f"{work.turns:z,.1f}".removesuffix(".0"), f"{work.instructions:,.0f}", f"{added:z,.0f}"]
        experiment = kept.get(EXPERIMENTS.get(name, ""), {})
        if experiment:
            small, *others = (modelled_of(experiment, system, name) for system in (SMALL, LARGE, RESIDENT))
            row += [f"{small:,.0f}", f"{small + added:,.0f}"]
            row += [f"{other / cycles:.2f}" for other in others for cycles in (small, small + added)]
        rows.append(row + [""] * (len(rows[0]) - len(row)))
    return rows


def measure(output: Path) -> Found:
    """The turns of the workloads, and what they cost on the paper's machine."""
    text = f"yes '{TEXT_LINE}' | head -c {TEXT_BYTES} > text"
    works = {row: f"./{PROGRAM} {row}" for row in ROWS} | {name: command_of(name, work) for name, work in PIPELINES.items()}
    said, found = count(output, TOOLS, {}, [f"./{TURNER}", text], works)
    found |= count_programs(output, COMPILATIONS, COMPILER, {name: run.SOURCES / name for name in run.GCC_SOURCES})
    found |= count_programs(output, BUILDS, MAKE_PACKAGES, small_applications.tree())
    for server, rows in SERVERS.values():
        found |= count_server(output, server, rows)
    x_server = small_applications.start_server("/")
    found |= counted_objects(count_programs(output, small_applications.runs(), X_PACKAGES, {}, x_server))
    instructions = instructions_of_a_turn(said)
    machines = {machine: cycles_of_a_turn(machine, instructions) for machine in timing.machines()}
    costs = [["machine", "cycles"], *([machine, f"{cycles:,.0f}"] for machine, cycles in machines.items())]
    results = output / "small.json"
    kept = json.loads(results.read_text()) if results.exists() else {}
    return [
        (f"A turn of {instructions:,.0f} instructions, modelled", costs),
        (f"Turns on Bochs, in cycles of {PAPER_MACHINE}", table(found, instructions, kept)),
    ], {"instructions": instructions, "cycles": machines, "turns": {name: work.turns for name, work in found.items()}}
