# SPDX-License-Identifier: GPL-2.0-only
"""Programs of Linux in small address spaces: the experiments of sections 4.2 to 4.9 of "Performance of address-space multiplexing
on the Pentium" that run on L4Linux.

The programs are 32-bit code, on native Linux, on Keel in spaces of their own (large), and there in windows of the server's space
(small). Each guest runs on the instruction clock, and a plugin of the emulator models a machine's cycles in the same run. The
emulator raises no faults of segment limits: a turn of a thread-local segment is in no figure (docs/small-spaces.md).
"""

import json
import shlex
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import run
from keel.timing import KINDS

NATIVE, LARGE, SMALL = "native", "large", "small"
SYSTEMS = {NATIVE: ["--native"], LARGE: [], SMALL: ["--place", "i386=small-unsafe"]}
# The paper's machine, whose TLB has no tags, and what one with tags takes.
MACHINE, UNTAGGED, TAGGED = "pentium4-1400", "untagged", "tagged"
PROGRAM = "small"
# Table 2, in cycles: native Linux, L4Linux in a large space and in a small one.
PAPER_CALLS = {
    "getpid": (1540, 3837, 2200),
    "gettimeofday": (1840, 4295, 2547),
    "read-4k": (4241, 7067, 5198),
    "write-4k": (5332, 8746, 6368),
}
# Figure 6, which has no numbers, and of which table 5 says how much of the time is saved.
PIPES, PAPER_PIPES = "pipe", "19 to 74 %"
# The folder of the guest with 32-bit packages (tools/keel/image.py), and the shell's words that make a root of it.
APART = "/i386"
MOUNTS = f"mkdir -p {APART}/proc {APART}/tmp && mount --bind /dev {APART}/dev && mount -t proc none {APART}/proc"
WINDOW_SIZE = "/proc/sys/keel/small_window_mb"
LINES, LINE = 200_000, "a line of some fifty letters, words and blanks here"
REPEATS = 3
# What Linux says if a program has no window.
WITHOUT = "spaces of their own"


@dataclass(frozen=True)
class Workload:
    """A measured command of 32-bit programs, in their root, with what it needs, and the paper's figures of it."""

    command: str
    packages: tuple[str, ...]
    paper: str
    before: str = "true"
    # The size of its programs' windows, and what each may map, which has room there: none leaves its window unseen.
    window_mb: int = 256
    most_mb: int = 120


WORKLOADS = {
    "cat-wc": Workload(
        "cat text | cat | cat | wc",
        ("coreutils", "dash"),
        "time -7.4 %, ITLB misses -75 %, DTLB misses -86 %",
        f"yes '{LINE}' | head -n {LINES} > {APART}/tmp/text",
    ),
}


def measure(system: str, output: Path, command: str, stdin: bytes, packages: Sequence[str] = ()) -> run.Samples:
    """The samples of the lines that a command prints in a fresh guest, with the models' cycles."""
    print(f"bench: measuring {system} ...", file=sys.stderr, flush=True)
    report = output / f"{PROGRAM}-{system}-parts.json"
    options = [*SYSTEMS[system], "--timeout", str(run.MODEL_LIMIT_S), "--part", "--machine", MACHINE, "--parts", str(report)]
    if packages:
        options += ["--packages", ",".join(f"{package}:i386" for package in packages)]
    lines = run.run_keel(["profile", *options, command], system, stdin).splitlines()
    told = [line for line in lines if not line.startswith("{")]
    if told:
        raise run.BenchError(f"{system}: {told[0]}")
    parts = [{**part, "cycles": {**part["cycles"], **misses(part)}} for part in json.loads(report.read_text())]
    return {sample.name: sample for sample in run.with_cycles(lines, parts)}


def misses(part: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The TLB misses of a part, by kind and variant, in the form that cycles have."""
    variants = part["misses"][MACHINE].items()
    return {kind: {variant: counts[kind] for variant, counts in variants} for kind in KINDS}


def has_windows(system: str) -> str:
    """Shell words that print what Linux says, in small spaces, about programs that have no window."""
    return f"dmesg | grep '{WITHOUT}'; true" if system == SMALL else "true"


def measure_rows(system: str, output: Path) -> run.Samples:
    """All rows of the guest program."""
    steps = [run.FIXED_ADDRESSES, f"cat > /tmp/{PROGRAM}", f"chmod +x /tmp/{PROGRAM}", f"/tmp/{PROGRAM}", has_windows(system)]
    return measure(system, output, " && ".join(steps), (output / PROGRAM).read_bytes())


def measure_workload(name: str, system: str, output: Path) -> run.Samples:
    """A whole program, which the 64-bit program `bench` starts."""
    work = WORKLOADS[name]
    limited = f"ulimit -v {work.most_mb << 10}; cd /tmp; {work.command}"
    steps = [run.FIXED_ADDRESSES, MOUNTS, f"cat > {APART}/bench", f"chmod +x {APART}/bench", work.before]
    steps += [f"echo {work.window_mb} > {WINDOW_SIZE}"] if system == SMALL else []
    steps += [
        f"chroot {APART} /bench command {name} {REPEATS} /bin/sh -c {shlex.quote(limited)} 2> /dev/null",
        has_windows(system),
    ]
    return measure(system, output, " && ".join(steps), (output / run.PROGRAM).read_bytes(), work.packages)


def modelled(sample: run.Sample, what: str = MACHINE, variant: str = UNTAGGED) -> float:
    """The modelled cycles of a sample, or its misses of a kind."""
    return statistics.median(sample.cycles[what][variant])


def table(results: run.Results, paper: Callable[[str], list[str]], titles: Sequence[str]) -> list[list[str]]:
    """Header and rows: each system's instructions and modelled cycles, what small spaces save, and the paper's figures.

    What they save against a large space whose TLB entries have tags stands beside that.
    """
    units = {"cycles": MACHINE, "ITLB misses": "code", "DTLB misses": "data"}
    measured = [f"{system}, {unit}" for unit in ("instructions", *units) for system in results]
    rows = [["operation", *measured, "saved", "saved with tags", *titles, "remark"]]
    for name in results[SMALL]:
        samples = [samples[name] for samples in results.values()]
        figures = [sample.median for sample in samples]
        figures += [modelled(sample, unit) for unit in units.values() for sample in samples]
        large, small = results[LARGE][name], results[SMALL][name]
        saved = [1 - modelled(small, variant=variant) / modelled(large, variant=variant) for variant in (UNTAGGED, TAGGED)]
        shown = [*(f"{figure:,.0f}" for figure in figures), *(f"{part:.0%}" for part in saved)]
        rows.append([name, *shown, *paper(name), run.remark(samples)])
    return rows


def paper_call(name: str) -> list[str]:
    """The paper's figures of a system call: cycles of each system, and what the small space saves."""
    native, large, small = PAPER_CALLS[name]
    return [f"{native:,}", f"{large:,}", f"{small:,}", f"{1 - small / large:.0%}"]


def report(output: Path) -> list[list[list[str]]]:
    """Measure everything and return the tables: system calls, pipes, whole programs."""
    run.build_programs(output, PROGRAM)
    run.build_programs(output, run.PROGRAM)
    rows = {system: measure_rows(system, output) for system in SYSTEMS}
    calls, pipes = (
        {s: {n: x for n, x in own.items() if (n in PAPER_CALLS) == wanted} for s, own in rows.items()} for wanted in (True, False)
    )
    whole: run.Results = {system: {} for system in SYSTEMS}
    for name in WORKLOADS:
        for system, samples in whole.items():
            samples.update(measure_workload(name, system, output))
    return [
        table(calls, paper_call, [f"paper, {system}" for system in SYSTEMS] + ["paper, saved"]),
        table(pipes, lambda name: [PAPER_PIPES], ["paper, saved"]),
        table(whole, lambda name: [WORKLOADS[name].paper], ["paper"]),
    ]


if __name__ == "__main__":
    for rows in report(Path(sys.argv[1])):
        print(run.as_markdown(rows))
