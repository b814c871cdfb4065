#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures whole programs out of Debian's packages on Keel and on the bare machine, and a compilation of a C project.

The unit is executed guest instructions from a program's start to its end, whatever ran meanwhile; a plugin of the emulator
counts them, so that waiting is none. With --time it is the emulator's processor time, of several boots (cputime.py).
`./keel bench packaged` calls `main()`.

  bench/packaged.py [--systems native,keel] [--repeats N | --time [--boots N]] [--output DIRECTORY] [WORKLOAD...]
"""

import argparse
import io
import json
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cputime
import run

LINUX = run.REPOSITORY / "build" / "linux"
# Linux's kconfig: what is written, and what flex and bison have made of its grammar when Linux was built.
PROJECT = (LINUX / "pristine" / "scripts" / "kconfig", LINUX / "native" / "scripts" / "kconfig")
PROJECT_FILES = ["conf", "confdata", "expr", "lexer.lex", "menu", "parser.tab", "preprocess", "symbol", "util"]
PROJECT_PLACE = "kconfig"
LIMIT_S = 7200
REPEATS = 2
# A time of the host's is the median of as many boots at least, and has a mark where they differ by more than this.
BOOTS = 5
TIME_SPREAD_LIMIT = 0.10
# As many as the guest's program takes.
MOST_REPEATS = 5


@dataclass(frozen=True)
class Workload:
    """A command that is measured, the packages that it is in, and what must be there before."""

    command: str
    packages: tuple[str, ...] = ()
    before: str = "true"


COMPILATION = " && ".join(
    [*(f"gcc -O2 -I. -c {name}.c" for name in PROJECT_FILES), f"gcc -o conf {' '.join(f'{name}.o' for name in PROJECT_FILES)}"]
)
WORKLOADS = {
    "hackbench": Workload("hackbench -g 1 -l 20", ("rt-tests",)),
    "sysbench-cpu": Workload("sysbench --time=0 --events=100 --cpu-max-prime=2000 cpu run", ("sysbench",)),
    "sysbench-threads": Workload("sysbench --time=0 --events=50 --threads=4 threads run", ("sysbench",)),
    "redis-benchmark": Workload(
        "redis-benchmark -q -n 1000 -c 10 -t set,get",
        ("redis-server", "redis-tools"),
        "redis-server --save '' --daemonize yes > /dev/null && until redis-cli ping > /dev/null; do sleep 1; done",
    ),
    "fio": Workload(
        "fio --name=mixed --directory=/tmp --size=4m --bs=4k --rw=randrw --ioengine=psync --randseed=1 --thread", ("fio",)
    ),
    "iperf3": Workload("iperf3 -c 127.0.0.1 -n 8M", ("iperf3",), "iperf3 -s -D"),
    "compile-kconfig": Workload(f"cd {PROJECT_PLACE} && {COMPILATION}"),
}


def archive(programs: Path) -> bytes:
    """The program that marks the others, and the project."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        packed.add(programs / "bench", "bench")
        for file in (file for place in PROJECT for file in sorted(place.glob("*.[ch]"))):
            packed.add(file, f"{PROJECT_PLACE}/{file.name}")
    return buffer.getvalue()


def script(names: Sequence[str], repeats: int) -> str:
    """What the guest's shell runs."""
    steps = ["mkdir -p /tmp/bench", "cd /tmp/bench", "tar -x"]
    for name in names:
        workload = WORKLOADS[name]
        steps += [workload.before, f'./bench command {name} {repeats} sh -c "{workload.command}"']
    return " && ".join(steps)


def measure(system: str, programs: Path, names: Sequence[str], repeats: int) -> run.Samples:
    """Boot a system and return the samples of these workloads by name."""
    print(f"bench: measuring {system} ...", file=sys.stderr, flush=True)
    report = programs / f"{system}-packaged.json"
    options = [*run.SYSTEMS[system], *all_packages(), "--part", "--parts", str(report), "--timeout", str(LIMIT_S)]
    output = run.run_keel(["profile", *options, script(names, repeats)], system, archive(programs))
    told = [json.loads(line)["name"] for line in output.splitlines() if line.startswith("{")]
    return samples(told, json.loads(report.read_text()), repeats)


def all_packages() -> list[str]:
    """All packages that there are, whatever is asked for: one root serves all."""
    return ["--packages", ",".join(dict.fromkeys(package for work in WORKLOADS.values() for package in work.packages))]


def time_boot(system: str, programs: Path, names: Sequence[str]) -> dict[str, float]:
    """Boot a system and return the emulator's seconds for each workload."""
    steps = ["mkdir -p /tmp/bench", "cd /tmp/bench", "tar -x"]
    steps += [step for name in names for step in (WORKLOADS[name].before, cputime.mark(name, f"({WORKLOADS[name].command})"))]
    options = [*run.SYSTEMS[system], *all_packages(), "--accel", "tcg", "--timeout", str(LIMIT_S), "--exec", " && ".join(steps)]
    argv = [sys.executable, str(run.REPOSITORY / "keel"), "run", *options]
    try:
        return cputime.time_pieces(argv, archive(programs))
    except cputime.TimeError as error:
        raise run.BenchError(f"{system}: {error}") from error


def time_systems(systems: Sequence[str], programs: Path, names: Sequence[str], boots: int) -> run.Results:
    """The seconds of all boots: the systems take turns, so that what changes on the host meets both."""
    found: dict[str, dict[str, list[float]]] = {system: {name: [] for name in names} for system in systems}
    for boot in range(boots):
        for system in systems:
            print(f"bench: timing {system}, boot {boot + 1} of {boots} ...", file=sys.stderr, flush=True)
            for name, seconds in time_boot(system, programs, names).items():
                found[system][name].append(seconds)
    return {system: {name: run.Sample(name, times, 0) for name, times in rows.items()} for system, rows in found.items()}


def time_table(results: run.Results) -> list[list[str]]:
    """Header and rows: median and spread of the emulator's seconds on each system, and their ratio."""
    rows = [["workload", *(f"{system}, {what}" for system in results for what in ("seconds", "spread")), "ratio"]]
    for name in next(iter(results.values())):
        own = [samples[name] for samples in results.values()]
        mark = run.MARK if any(sample.spread > TIME_SPREAD_LIMIT for sample in own) else ""
        shown = f"{mark}{run.ratio(own):.2f}" if len(own) == len(run.SYSTEMS) else mark
        rows.append([name, *(cell for one in own for cell in (f"{one.median:.2f}", f"{one.spread:.0%}")), shown])
    return rows


def samples(names: Sequence[str], parts: Sequence[dict[str, int]], repeats: int) -> run.Samples:
    """The workloads that ended, with their parts, which come in the same order."""
    if len(parts) != len(names) * repeats:
        raise run.BenchError(f"{len(names)} workloads have {len(parts)} parts, not {repeats} each")
    counts = iter(float(part["instructions"]) for part in parts)
    return {name: run.Sample(name, [next(counts) for _ in range(repeats)], 0) for name in names}


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, all of them checked."""
    parser = argparse.ArgumentParser(prog="keel bench packaged", description="Whole programs of Debian's, in instructions.")
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD", help="what to measure; everything without a name")
    parser.add_argument("--systems", default=",".join(run.SYSTEMS), help="which to measure (%(default)s)")
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help="how often each (%(default)s)")
    parser.add_argument("--time", action="store_true", help="the emulator's processor time instead of instructions")
    parser.add_argument("--boots", type=int, default=BOOTS, metavar="N", help="with --time: how many (%(default)s, the fewest)")
    parser.add_argument("--output", type=Path, default=run.REPOSITORY / "build" / "bench", help="where the figures go")
    options = parser.parse_args(arguments)
    options.systems = options.systems.split(",")
    for kind, asked, known in (("system", options.systems, [*run.SYSTEMS]), ("workload", options.workload, [*WORKLOADS])):
        if unknown := [name for name in asked if name not in known]:
            parser.error(f"unknown {kind} {unknown[0]}: choose from {', '.join(known)}")
    if not 1 <= options.repeats <= MOST_REPEATS:
        parser.error(f"--repeats is from 1 to {MOST_REPEATS}")
    if options.boots < BOOTS:
        parser.error(f"--boots is at least {BOOTS}: fewer are no measure")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """What the options say; returns the exit status."""
    options = options_of(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        run.build_programs(options.output)
        run.build_systems()
        names = options.workload or list(WORKLOADS)
        if options.time:
            results = time_systems(options.systems, options.output, names, options.boots)
        else:
            results = {system: measure(system, options.output, names, options.repeats) for system in options.systems}
    except run.BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1
    text = run.as_markdown(time_table(results) if options.time else run.table(results))
    kept = options.output / ("packaged-time" if options.time else "packaged")
    kept.with_suffix(".md").write_text(text)
    unit = {"unit": "seconds of the emulator", "clock": "the host's"} if options.time else {}
    kept.with_suffix(".json").write_text(run.as_json(results, {**run.header(""), **unit}))
    print(text, end="")
    print(f"bench: the figures are in {options.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
