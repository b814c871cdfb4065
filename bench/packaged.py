#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures whole programs from Debian's packages, and the compilation of a C project, on Keel and on native Linux.

The unit is executed guest instructions from a program's start to its end, of all that runs meanwhile. A plugin of the emulator
counts them, so waiting adds nothing. With --time the unit is the emulator's processor time in several boots (cputime.py). `./keel
bench packaged` calls `main()`, which writes each result as it arrives.

  bench/packaged.py [--systems native,keel] [--repeats N | --time [--boots N]] [--output DIRECTORY] [--resume] [WORKLOAD...]
"""

import argparse
import io
import itertools
import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cputime
import overlay
import run
from keel.arguments import Parser

LINUX = run.BUILD / "linux"
# Linux's kconfig: its sources, and the output of flex and bison from the build of Linux.
PROJECT = (LINUX / "pristine" / "scripts" / "kconfig", LINUX / "native" / "scripts" / "kconfig")
PROJECT_FILES = ["conf", "confdata", "expr", "lexer.lex", "menu", "parser.tab", "preprocess", "symbol", "util"]
PROJECT_PLACE = "kconfig"
# The memory management of Linux's port, compiled by the commands of the server's build.
PORT, PORT_OBJECTS = "port", LINUX / "l4" / "arch" / "l4" / "mm"
# The time limit for all workloads of a system.
LIMIT_S = 3600
REPEATS = 3
# A host time is the median of at least this many boots. It is marked if they differ by more than this part.
BOOTS = 5
TIME_SPREAD_LIMIT = 0.10
# The limit of the guest's program.
MOST_REPEATS = 5


@dataclass(frozen=True)
class Workload:
    """A measured command, its packages, and what runs before it."""

    command: str
    packages: tuple[str, ...] = ()
    before: str = "true"
    most_repeats: int = MOST_REPEATS


# Not optimised, and measured once: it takes the emulator longer than all others together.
COMPILATION = " && ".join(
    [*(f"gcc -I. -c {name}.c" for name in PROJECT_FILES), f"gcc -o conf {' '.join(f'{name}.o' for name in PROJECT_FILES)}"]
)
WORKLOADS = {
    "hackbench": Workload("hackbench -g 1 -l 20", ("rt-tests",)),
    "cyclictest": Workload("cyclictest -q -l 500 -i 1000", ("rt-tests",)),
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
    "compile-kconfig": Workload(f"cd {PROJECT_PLACE} && {COMPILATION}", most_repeats=1),
    "compile-port": Workload(f"cd {PORT}/l4 && sh compile.sh", most_repeats=1),
}


def archive(programs: Path) -> bytes:
    """The program that marks the others, and the sources to compile."""
    buffer = io.BytesIO()
    commands, files = overlay.commands_and_files(sorted(PORT_OBJECTS.glob(".*.o.cmd")), LINUX)
    script = tarfile.TarInfo(f"{PORT}/l4/compile.sh")
    script.size = len(commands.encode())
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as packed:
        packed.addfile(script, io.BytesIO(commands.encode()))
        for place, file in files.items():
            packed.add(file, f"{PORT}/{place}")
        packed.add(programs / "bench", "bench")
        for file in (file for place in PROJECT for file in sorted(place.glob("*.[ch]"))):
            packed.add(file, f"{PROJECT_PLACE}/{file.name}")
    return buffer.getvalue()


def script(names: Sequence[str], repeats: int) -> str:
    """The guest's shell script. A workload that fails does not end the others; it is reported at the end."""
    steps = []
    for name in names:
        workload = WORKLOADS[name]
        times = min(repeats, workload.most_repeats)
        measured = f'./bench command {name} {times} sh -c "({workload.command}) > /dev/null"'
        steps.append(f"{{ {workload.before} && {measured}; }} || bad=1")
    return f"mkdir -p /tmp/bench && cd /tmp/bench && tar -x && {{ {'; '.join(steps)}; test -z $bad; }}"


def count_all(systems: Sequence[str], programs: Path, names: Sequence[str], repeats: int, kept: "Kept") -> None:
    """The result of each workload on each system. Finished ones are kept even if others fail."""
    for system in systems:
        missing = [name for name in names if name not in kept.results.get(system, {})]
        if not missing:
            continue
        print(f"bench: measuring {system} ...", file=sys.stderr, flush=True)
        report = programs / f"{system}-packaged.json"
        report.unlink(missing_ok=True)
        options = [*run.SYSTEMS[system], *all_packages(), "--part", "--parts", str(report), "--timeout", str(LIMIT_S)]
        argv = [sys.executable, str(run.REPOSITORY / "keel"), "profile", *options, script(missing, repeats)]
        done = subprocess.run(argv, input=archive(programs), stdout=subprocess.PIPE, check=False)
        parts = json.loads(report.read_text()) if report.exists() else []
        found = samples([json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")], parts)
        kept.add(system, found)
        for name in missing:
            if name not in found:
                kept.failed(f"{name} failed on {system}")


def all_packages() -> list[str]:
    """The packages of all workloads, so that one root serves every choice of them."""
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


def time_all(systems: Sequence[str], programs: Path, names: Sequence[str], boots: int, kept: "Kept") -> None:
    """The seconds of all boots. The systems alternate, so that changes on the host affect both."""
    for boot in range(boots):
        for system in systems:
            known = kept.results.get(system, {})
            if all(name in known and len(known[name].per_operation) > boot for name in names):
                continue
            print(f"bench: timing {system}, boot {boot + 1} of {boots} ...", file=sys.stderr, flush=True)
            for name, seconds in time_boot(system, programs, names).items():
                earlier = known[name].per_operation if name in known else []
                kept.add(system, {name: run.Sample(name, [*earlier, seconds], 0)})


def time_table(results: run.Results) -> list[list[str]]:
    """Header and rows: median and spread of the emulator's seconds on each system, and their ratio."""
    rows = [["workload", *(f"{system}, {what}" for system in results for what in ("seconds", "spread")), "ratio"]]
    for name in next(iter(results.values())):
        own = [samples[name] for samples in results.values()]
        mark = run.MARK if any(sample.spread > TIME_SPREAD_LIMIT for sample in own) else ""
        shown = f"{mark}{run.ratio(own):.2f}" if len(own) == len(run.SYSTEMS) else mark
        rows.append([name, *(cell for one in own for cell in (f"{one.median:.2f}", f"{one.spread:.0%}")), shown])
    return rows


def samples(told: Sequence[dict[str, Any]], parts: Sequence[dict[str, int]]) -> run.Samples:
    """The workloads that the guest has reported, without failed ones, with their parts, which are in the same order."""
    counts = iter(float(part["instructions"]) for part in parts)
    found: run.Samples = {}
    for line in told:
        own = list(itertools.islice(counts, len(line["tsc"])))
        if len(own) < len(line["tsc"]):
            raise run.BenchError(f"{line['name']}: the plugin saw {len(own)} parts of {len(line['tsc'])}")
        if line["iterations"]:
            found[line["name"]] = run.Sample(line["name"], own, 0)
    return found


class Kept:
    """The results, written to the disk as they arrive, and the failures."""

    def __init__(self, file: Path, about: dict[str, str | int], *, resume: bool) -> None:
        self.results: run.Results = {}
        self.failures: list[str] = []
        self._file, self._about = file, about
        if resume and file.exists():
            earlier, earlier_about = run.from_json(file)
            if earlier_about == about:
                self.results = earlier

    def add(self, system: str, found: run.Samples) -> None:
        """Replaces the results of the same names."""
        self.results.setdefault(system, {}).update(found)
        self._file.write_text(run.as_json(self.results, self._about))

    def failed(self, what: str) -> None:
        """A failure makes the results incomplete."""
        self.failures.append(what)
        print(f"bench: {what}", file=sys.stderr)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, all of them checked."""
    parser = Parser(prog="keel bench packaged", description="Whole programs of Debian's, in instructions.")
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD", help="what to measure; default: everything")
    parser.add_argument("--systems", default=",".join(run.SYSTEMS), help="which to measure (%(default)s)")
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help="how often each (%(default)s)")
    parser.add_argument("--time", action="store_true", help="the emulator's processor time instead of instructions")
    parser.add_argument("--boots", type=int, default=BOOTS, metavar="N", help="with --time: how many (%(default)s, the fewest)")
    parser.add_argument("--output", type=Path, default=run.BUILD / "bench", help="where to write the figures")
    parser.add_argument("--resume", action="store_true", help="keep the samples of an interrupted run of this tree")
    options = parser.parse(arguments)
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
    names = options.workload or list(WORKLOADS)
    file = options.output / ("packaged-time" if options.time else "packaged")
    unit = {"unit": "seconds of the emulator", "clock": "the host's"} if options.time else {}
    try:
        run.build_systems()
        run.build_programs(options.output)
        kept = Kept(file.with_suffix(".json"), {**run.header(""), **unit}, resume=options.resume)
        if options.time:
            time_all(options.systems, options.output, names, options.boots, kept)
        else:
            count_all(options.systems, options.output, names, options.repeats, kept)
    except run.BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1
    text = run.as_markdown(time_table(kept.results) if options.time else run.table(kept.results)) if kept.results else ""
    file.with_suffix(".md").write_text(text)
    print(text, end="")
    print(f"bench: the figures are in {options.output}", file=sys.stderr)
    return 1 if kept.failures else 0


if __name__ == "__main__":
    sys.exit(main())
