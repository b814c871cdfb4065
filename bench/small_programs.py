# SPDX-License-Identifier: GPL-2.0-only
"""Programs of Linux in small address spaces: sections 4.2 to 4.9 of the paper about these. bench/small.py runs the experiments.

The programs are 32-bit code, on native Linux, on Keel in spaces of their own (large), and there in windows of the server's space
(small), or in spaces that show Linux's (resident). Each guest runs on the instruction clock, and a plugin of the emulator models
cycles and TLB misses in the same run. The emulator raises no faults of segment limits: bench/small_turns.py counts the turns of
thread-local segments, which are in no figure here.
"""

import io
import json
import shlex
import statistics
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import run
from small_pingpong import CODE, DATA, LARGE, MACHINES, SMALL, TAGGED, UNTAGGED

NATIVE, RESIDENT = "native", "resident"
# Those of the paper's table, and Linux in the spaces of its 32-bit programs.
PAPER_SYSTEMS: dict[str, list[str]] = {NATIVE: ["--native"], LARGE: [], SMALL: ["--place", "i386=small-unsafe"]}
SYSTEMS = {**PAPER_SYSTEMS, RESIDENT: ["--place", "i386=resident"]}
CALLS, PIPES, WORDS, GCC = "calls", "pipes", "cat-wc", "gcc"
# The program that measures (bench/guest/small.c).
PROGRAM = "small"
# The name of the program `bench` in the guest, which starts the others.
COMMANDER = "commander"
# Table 2, in cycles of the Pentium 4: native Linux, L4Linux in a large space and in a small one.
PAPER_CALLS = {
    "getpid": (1540, 3837, 2200),
    "gettimeofday": (1840, 4295, 2547),
    "read-4k": (4241, 7067, 5198),
    "write-4k": (5332, 8746, 6368),
}
PAPER_MACHINE = "pentium4-1400"
# Figure 6 has curves without numbers; table 5 has the improvement, 19 to 74 %.
PAPER_PIPES = "1.19 to 1.74"
# The folder of the guest with packages of i386 (tools/keel/image.py), and the shell's words that make a root of it.
APART = "/i386"
MOUNTS = (f"mkdir -p {APART}/proc {APART}/tmp", f"mount --bind /dev {APART}/dev", f"mount -t proc none {APART}/proc")
# Room for that in a root in memory.
MEMORY_MB = 3072
WINDOW_SIZE = "/proc/sys/keel/small_window_mb"
# What Linux's log says of programs without a window (linux/arch/l4/mm/small.c), and an address outside of one of 256 MB.
WITHOUT, OUTSIDE = "keel: .* spaces* of .* own", "^[^0]"
# 10 MB of text, as in the paper.
TEXT_BYTES, TEXT_LINE = 10 << 20, "a line of words of a few letters each"
# Those of i386 that the workloads take.
TOOLS = ("coreutils", "dash")
COMPILER = (*TOOLS, "gcc", "libc6-dev")


@dataclass(frozen=True)
class Workload:
    """A command of 32-bit programs, and what the paper says of it."""

    command: str
    paper: str = ""
    window_mb: int = 256
    # What each program may map. There is room for it in a window: none leaves its own, which the emulator would not notice.
    most_mb: int = 120


PIPELINES = {
    "cat-wc": Workload("cat text | cat | cat | wc", "1.08; ITLB misses -75 %, DTLB misses -86 %"),
    # In pieces of a page, which is what a pipe could hold when the paper was written.
    "dd-wc": Workload("dd bs=4k if=text | dd bs=4k | dd bs=4k | wc"),
}
COMPILATIONS = {
    "gcc": Workload(
        f"gcc -O2 -D_GNU_SOURCE -c {run.GCC_SOURCES[0]} -o bench.o", "1.00; misses -3 % at most", window_mb=512, most_mb=360
    ),
}


def in_guest(
    system: str,
    output: Path,
    steps: Iterable[str],
    stdin: bytes,
    packages: Sequence[str] = (),
    machines: Sequence[str] = MACHINES,
) -> run.Samples:
    """The samples of the lines that these shell words print in a fresh guest, with modelled cycles and misses."""
    print(f"bench: measuring {system} ...", file=sys.stderr, flush=True)
    report = output / f"{PROGRAM}-{system}-parts.json"
    options = [*SYSTEMS[system], "--timeout", str(run.MODEL_LIMIT_S), "--part"]
    options += ["--mem", str(MEMORY_MB), "--machine", ",".join(machines), "--parts", str(report)]
    if packages:
        options += ["--packages", ",".join(f"{package}:i386" for package in packages)]
    # What has no window would be measured as large.
    checked = [*steps, f"! dmesg | grep '{WITHOUT}' >&2"] if system == SMALL else steps
    lines = run.run_keel(["profile", *options, " && ".join([run.FIXED_ADDRESSES, *checked])], system, stdin).splitlines()
    parts = [{**part, "cycles": {**part["cycles"], **misses(part)}} for part in json.loads(report.read_text())]
    return {sample.name: sample for sample in run.with_cycles(lines, parts)}


def misses(part: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The TLB misses of a part, by machine and kind together and by variant, in the form that cycles have."""
    return {
        kind_of(machine, kind): {variant: counts[kind] for variant, counts in variants.items()}
        for machine, variants in part["misses"].items()
        for kind in (CODE, DATA)
    }


def kind_of(machine: str, kind: str) -> str:
    """The name of a machine's misses among a sample's cycles."""
    return f"{machine}, {kind} misses"


def modelled(sample: run.Sample, what: str, variant: str = UNTAGGED) -> float:
    """A sample's cycles of a machine, or its misses."""
    return statistics.median(sample.cycles[what][variant])


def table(results: run.Results, machine: str, what: str, papers: dict[str, list[str]], title: Sequence[str]) -> list[list[str]]:
    """Header and rows: modelled cycles and misses of each operation. A TLB with tags makes no difference to small spaces.

    `papers` has the paper's cells of each operation, and `title` those of the header.
    """
    kinds = [kind_of(machine, kind) for kind in (CODE, DATA)]
    rows = [[what, NATIVE, LARGE, "large, tagged", SMALL, RESIDENT, "large / small", "tagged / small", *title]]
    rows[0] += [f"{kind} misses, {system}" for kind in (CODE, DATA) for system in SYSTEMS]
    for name, small in results[SMALL].items():
        native, large, resident = (results[system][name] for system in (NATIVE, LARGE, RESIDENT))
        cycles = [modelled(native, machine), *(modelled(large, machine, tags) for tags in (UNTAGGED, TAGGED))]
        cycles += [modelled(small, machine), modelled(resident, machine)]
        ratios = [cycles[1] / cycles[3], cycles[2] / cycles[3]]
        cells = [*(f"{value:,.0f}" for value in cycles), *(f"{ratio:.2f}" for ratio in ratios), *papers[name]]
        rows.append(
            [name, *cells, *(f"{modelled(sample, kind):,.0f}" for kind in kinds for sample in (native, large, small, resident))]
        )
    return rows


def instructions(results: run.Results, what: str) -> list[list[str]]:
    """Header and rows: the instructions of each operation."""
    rows = [[what, *SYSTEMS, "remark"]]
    for name in results[SMALL]:
        samples = [results[system][name] for system in SYSTEMS]
        rows.append([name, *(f"{sample.median:,.0f}" for sample in samples), run.remark(samples)])
    return rows


# A title, and the header and rows below it; all of an experiment, and what is kept of it.
Found = tuple[list[tuple[str, list[list[str]]]], Any]


def found(results: run.Results, what: str, papers: dict[str, list[str]], title: Sequence[str]) -> Found:
    """The tables of an experiment, with the paper's figures beside those of its machine."""
    tables = [(f"Instructions of a {what}", instructions(results, what))]
    modelled_ones = next(iter(results[SMALL].values())).cycles
    for machine in (machine for machine in MACHINES if machine in modelled_ones):
        beside = (papers, title) if machine == PAPER_MACHINE else ({name: [] for name in papers}, [])
        tables.append((f"Modelled cycles of a {what}, {machine}", table(results, machine, what, *beside)))
    kept = {
        system: {name: {"instructions": sample.per_operation, "modelled": sample.cycles} for name, sample in samples.items()}
        for system, samples in results.items()
    }
    return tables, kept


def modelled_of(kept: dict[str, Any], system: str, name: str) -> float:
    """The cycles of an operation on the paper's machine, by what is kept of an experiment."""
    return float(statistics.median(kept[system][name]["modelled"][PAPER_MACHINE][UNTAGGED]))


def measure_rows(output: Path, is_wanted: Callable[[str], bool]) -> run.Results:
    """The wanted rows of the program that measures, on each system."""
    run.build_programs(output, PROGRAM)
    rows = [row for row in run.listed(output / PROGRAM) if is_wanted(row)]
    steps = (f"cat > /tmp/{PROGRAM}", f"chmod +x /tmp/{PROGRAM}", f"/tmp/{PROGRAM} {' '.join(rows)}")
    return {system: in_guest(system, output, steps, (output / PROGRAM).read_bytes()) for system in SYSTEMS}


def measure_calls(output: Path) -> Found:
    """Table 2."""
    papers = {name: [*(f"{value:,}" for value in values), f"{values[1] / values[2]:.2f}"] for name, values in PAPER_CALLS.items()}
    title = [*(f"paper, {system}" for system in PAPER_SYSTEMS), "paper, large / small"]
    return found(measure_rows(output, PAPER_CALLS.__contains__), "system call", papers, title)


def measure_pipes(output: Path) -> Found:
    """Figure 6."""
    results = measure_rows(output, lambda row: row not in PAPER_CALLS)
    papers = {name: [PAPER_PIPES] for name in results[SMALL]}
    return found(results, "round trip through pipes", papers, ["paper, large / small"])


def archive(files: Mapping[str, Path]) -> bytes:
    """An archive of these files by the names that they have in a guest."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for name, path in files.items():
            packed.add(path, name)
    return buffer.getvalue()


def command_of(name: str, work: Workload) -> str:
    """What runs a workload in its root."""
    limited = in_limits(replace(work, command=f"{{ {work.command}; }} >&2"))
    return f"/tmp/{COMMANDER} command {name} 1 {limited}"


def limit(most_mb: int) -> str:
    """The shell's word that limits what a program may map."""
    return f"ulimit -v {most_mb << 10}"


def steps_of(system: str, name: str, work: Workload) -> list[str]:
    """The shell's words for a workload. Its root is in memory, and each figure is of one run, on a clock that makes all alike."""
    return [*window_steps(system, work), f"chroot {APART} {command_of(name, work)}"]


def window_steps(system: str, work: Workload) -> list[str]:
    """The shell's words for a workload's windows, before any of its programs is started."""
    return [f"echo {work.window_mb} > {WINDOW_SIZE}"] if system == SMALL else []


def in_limits(work: Workload) -> str:
    """The shell's words for a workload in a root of 32-bit programs, none of which leaves its window."""
    return f"/bin/sh -c {shlex.quote(f'{limit(work.most_mb)}; cd /tmp; {work.command}')}"


def measure_programs(
    output: Path,
    workloads: Mapping[str, Workload],
    packages: Sequence[str],
    files: Mapping[str, Path],
    before: Sequence[str] = (),
    machines: Sequence[str] = (PAPER_MACHINE,),
) -> run.Results:
    """Whole programs, of the paper's machine alone unless they are short, because a model takes minutes for each.

    They find the files below /tmp of their root. `before` are the shell's words for what runs ahead of them.
    """
    run.build_programs(output, run.PROGRAM)
    steps = [*MOUNTS, f"tar -x -C {APART}/tmp"]
    results: run.Results = {}
    for system in SYSTEMS:
        inside = [f"! chroot {APART} cat /proc/self/maps | grep '{OUTSIDE}' >&2"] if system == SMALL else []
        commands = (steps_of(system, name, work) for name, work in workloads.items())
        words = [*steps, *inside, *before, *chain.from_iterable(commands)]
        results[system] = in_guest(system, output, words, archive({COMMANDER: output / run.PROGRAM, **files}), packages, machines)
    return results


def found_of(results: run.Results, workloads: Mapping[str, Workload]) -> Found:
    """The tables of whole programs."""
    return found(results, "program", {name: [work.paper] for name, work in workloads.items()}, ["paper, large / small"])


def measure_pipelines(output: Path) -> Found:
    """Section 4.4."""
    text = f"yes '{TEXT_LINE}' | head -c {TEXT_BYTES} > {APART}/tmp/text"
    return found_of(measure_programs(output, PIPELINES, TOOLS, {}, [text]), PIPELINES)


def measure_compiler(output: Path) -> Found:
    """Section 4.9, its first half."""
    files = {source: run.SOURCES / source for source in run.GCC_SOURCES}
    return found_of(measure_programs(output, COMPILATIONS, COMPILER, files), COMPILATIONS)
