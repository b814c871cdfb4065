# SPDX-License-Identifier: GPL-2.0-only
"""Turns of thread-local segments. They are in no figure of QEMU's, whose translator checks no limits of segments.

Bochs does: it runs workloads of bench/small_programs.py in windows, and logs each access beyond a limit with its time, which is
the number of instructions, and the guest's time stamp counter. Between the stamps before and after a workload each one is a turn.
What a turn costs is modelled: its instructions, which a program of its own measures there, an exception and its return, and the
loads of segment registers; misses of caches are not in it. bench/small.py runs this experiment.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import run
from small_pingpong import LARGE, SMALL, UNTAGGED
from small_programs import (
    APART,
    COMMANDER,
    COMPILATIONS,
    COMPILER,
    GCC,
    PAPER_MACHINE,
    PIPELINES,
    PROGRAM,
    TEXT_BYTES,
    TEXT_LINE,
    TOOLS,
    WINDOW_SIZE,
    WITHOUT,
    WORDS,
    Found,
    command_of,
)

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
# Of the compiler's packages: what compiles nothing here, and would be read from Bochs's disc.
LEFT_OUT = re.compile(r".*(lto|gold|gcov|[aut]san|\.a$)")
# Where small.json has the figures of the workloads without turns.
EXPERIMENTS = {**dict.fromkeys(PIPELINES, WORDS), **dict.fromkeys(COMPILATIONS, GCC)}


@dataclass(frozen=True)
class Counted:
    """What a workload took on Bochs."""

    turns: int
    instructions: int


def counted(names: Iterable[str], output: str, log: str) -> dict[str, Counted]:
    """Each workload's turns by the guest's output, with a stamp before the first and after each, and by the emulator's log."""
    times = [int(found[1]) for found in TURN.finditer(log)]
    stamps = [int(found, 16) for found in STAMPED.findall(output)]
    between = [Counted(sum(begin <= time < end for time in times), end - begin) for begin, end in pairwise(stamps)]
    return dict(zip(names, between, strict=True))


def write_root(output: Path, packages: Sequence[str], root: Path) -> None:
    """An archive of a root of 32-bit packages alone, and what the workloads need in /tmp."""
    wish = layers.wanted([f"{package}:i386" for package in packages], None)
    assert wish
    files = {COMMANDER: run.PROGRAM, **{name: name for name in (PROGRAM, TURNER, STAMP)}}
    for name in files.values():
        run.build_programs(output, name)
    added = {name: output / program for name, program in files.items()} | {name: run.SOURCES / name for name in run.GCC_SOURCES}
    writer, prefix = cpio.Writer(), f"{APART.removeprefix('/')}/"

    def name_of(name: str) -> str:
        return name.removeprefix(prefix) if name.startswith(prefix) and not LEFT_OUT.match(name) else ""

    with layers.provided(Settings(), wish).archive.open("rb") as file, root.open("wb") as out:
        for entry in cpio.chosen(file, name_of):
            out.write(writer.entry(entry))
        for name, path in added.items():
            out.write(writer.entry(cpio.Entry(f"tmp/{name}", cpio.REGULAR | 0o755, data=path.read_bytes())))
        out.write(writer.end())


def in_bochs(
    output: Path, packages: Sequence[str], before: Sequence[str], works: dict[str, str]
) -> tuple[str, dict[str, Counted]]:
    """The output of a guest with these packages, and the turns of each of its workloads."""
    print(f"bench: counting turns of {', '.join(works)} ...", file=sys.stderr, flush=True)
    root = output / "turns.cpio"
    write_root(output, packages, root)
    stamp = f"/tmp/{STAMP}"
    steps = [*before, stamp, *(word for work in works.values() for word in (work, stamp))]
    options = ["--emulator", "bochs", "--place", "i386=small", "--name", NAME, "--root", str(root), "--timeout", str(LIMIT_S)]
    try:
        said = run.run_keel(["run", *options, "--exec", " && ".join([run.FIXED_ADDRESSES, "cd /tmp", *steps])], NAME, b"")
    finally:
        root.unlink()
    console, log = ((Settings().logs / f"{NAME}-{line}.log").read_text(errors="replace") for line in ("console", "emulator"))
    if without := re.search(WITHOUT, console):
        raise run.BenchError(f"a program had no window: {without[0]}")
    return said, counted(works, said, log)


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
    cycles = cycles_of_a_turn(PAPER_MACHINE, instructions)
    rows = [["workload", "turns", "instructions", "cycles of the turns", SMALL, "with turns", "large / small", "with turns"]]
    for name, work in found.items():
        added = work.turns * cycles
        row = [name, f"{work.turns:,}", f"{work.instructions:,}", f"{added:,.0f}"]
        experiment = kept.get(EXPERIMENTS.get(name, ""), {})
        if experiment:
            large, small = (experiment[system][name]["modelled"][PAPER_MACHINE][UNTAGGED][0] for system in (LARGE, SMALL))
            row += [f"{small:,.0f}", f"{small + added:,.0f}", f"{large / small:.2f}", f"{large / (small + added):.2f}"]
        rows.append(row + [""] * (len(rows[0]) - len(row)))
    return rows


def measure(output: Path) -> Found:
    """The turns of the workloads, and what they cost on the paper's machine."""
    text = f"yes '{TEXT_LINE}' | head -c {TEXT_BYTES} > text"
    works = {row: f"./{PROGRAM} {row}" for row in ROWS} | {name: command_of(name, work) for name, work in PIPELINES.items()}
    said, found = in_bochs(output, TOOLS, [f"./{TURNER}", text], works)
    for name, work in COMPILATIONS.items():
        before = [f"echo {work.window_mb} > {WINDOW_SIZE}"]
        found |= in_bochs(output, COMPILER, before, {name: command_of(name, work)})[1]
    instructions = instructions_of_a_turn(said)
    machines = {machine: cycles_of_a_turn(machine, instructions) for machine in timing.machines()}
    costs = [["machine", "cycles"], *([machine, f"{cycles:,.0f}"] for machine, cycles in machines.items())]
    results = output / "small.json"
    kept = json.loads(results.read_text()) if results.exists() else {}
    return [
        (f"A turn of {instructions:,.0f} instructions, modelled", costs),
        (f"Turns on Bochs, in cycles of {PAPER_MACHINE}", table(found, instructions, kept)),
    ], {"instructions": instructions, "cycles": machines, "turns": {name: work.turns for name, work in found.items()}}
