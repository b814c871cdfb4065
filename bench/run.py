#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures Keel against native Linux, and native tasks against both, in one run on the emulator's instruction clock.

`measure()` boots a system and returns its samples; `main()` writes them as they arrive and adds the tables. `./keel bench` calls
`main()` with nothing but the options that the user gave. The unit is executed guest instructions; with --cycles also cycles by
models of named machines (tools/keel/machines.toml).

  bench/run.py [--systems native,keel,colocated,server,debian,tasks] [--cycles [--machines NAME,...]] [--output DIRECTORY]
    [--resume] [ROW...]
  bench/run.py --compare OLD.json NEW.json
  bench/run.py --plot RESULTS.json
"""

import argparse
import base64
import hashlib
import io
import json
import math
import statistics
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tools"))

from keel import emulators  # noqa: E402  (the path above comes first)
from keel.arguments import Parser, in_columns  # noqa: E402
from keel.config import Settings  # noqa: E402

SOURCES = REPOSITORY / "bench" / "guest"
# With an installed command it is not in the repository.
BUILD = Settings().build
NATIVE, KEEL = "native", "keel"
# Other measurements of the verb, by its first word.
MEASUREMENTS = (
    ("kernel", "the µ-kernel's mechanisms alone"),
    ("growth", "how operations grow with the size of their work"),
    ("packaged", "whole programs of Debian's"),
    ("tasks", "native tasks alone"),
    ("small", "small address spaces, as the paper about them did"),
    ("ukl", "applications in ring 0"),
    ("placements", "the same programs in each place that they can have"),
    ("latency", "how long servers take to answer in each of these places"),
    ("lines", "source lines and sizes"),
    ("share", "git in a shared directory"),
)
SYSTEMS: dict[str, list[str]] = {NATIVE: ["--native"], KEEL: []}
# Debian's own kernel, measured beside the two: the same version, with another configuration and its mitigations.
STOCK = "debian"
# The same Linux on Keel in supervisor mode, in every process's space: MkLinux's co-location.
COLOCATED = "colocated"
# The program that measures in the task of Linux itself.
SERVER = "server"
# The guest's directory and the program in it. Under the second name it runs in supervisor mode, in a boot of its own: Linux
# compares the paths of placed programs at each exec.
DIRECTORY, PROGRAM, RING_0_PROGRAM = "/tmp/bench", "bench", "bench-ring-0"
PLACED = {RING_0_PROGRAM: ["--place", f"{DIRECTORY}/{RING_0_PROGRAM}=kernel"]}
# Other places than the usual ones, each compared with the two systems.
PLACEMENTS = {COLOCATED: ["--place", "linux=kernel"], SERVER: ["--place", f"{DIRECTORY}/{PROGRAM}=server"]}
MODELLED = {**SYSTEMS, **PLACEMENTS}
# Keel with two processors, which take turns on the instruction clock. Native Linux does not start its second one there. The
# program runs on the first. It is not among the default systems.
TWO_PROCESSORS = "keel-2"
PINNED = {TWO_PROCESSORS: "taskset 1 "}
BOOTED = {**MODELLED, STOCK: ["--native", "--kernel", "debian"], TWO_PROCESSORS: ["--smp", "2"]}
# Native programs on the µ-kernel alone (user/bench), measured beside the programs on the two Linux.
TASKS = "tasks"
DEFAULT = [system for system in (*BOOTED, TASKS) if system != TWO_PROCESSORS]
# Debian's matplotlib is for Debian's Python.
DEBIAN_PYTHON = "/usr/bin/python3"
PLOTTER = REPOSITORY / "bench" / "plot.py"
LIMIT_S = 900
# A program's addresses determine its number of page tables; random addresses would make runs differ.
FIXED_ADDRESSES = "echo 0 > /proc/sys/kernel/randomize_va_space"
# The model handles each memory access, which slows the guest.
MODEL_LIMIT_S = 7200
MACHINES = "pentium-133,pentium4-1400,skylake"
COMPILATIONS = 3
BOOT_ROW = "boot-to-first-output"
GCC_ROW = "gcc-compiles-a-file"
# What gcc compiles in its row, and the headers that this includes.
GCC_SOURCES = ("network.c", "bench.h", "measure.h")
# How `./keel doctor` names the compiler of the µ-kernel.
RUST_SAID = "Rust: "
# A row with a larger spread is marked as not reliable.
SPREAD_LIMIT = 0.02
MARK = "~"
# The version of results.json; others are refused.
VERSION = 2
# Measurements by the authors of L4Linux, on native Linux and on L4Linux (SOSP 1997). Table 2: getpid, in µs.
PAPER = {
    "getpid": (1.68, 3.95),
    # Table 3, hbench: latency in µs.
    "mmap-4k": (25.2, 35.0),
    # Table 3, lmbench: bandwidths in MB/s, so the ratio is inverted.
    "pipe-64k": (1 / 40.50, 1 / 37.61),
    "tcp-64k": (1 / 18.03, 1 / 13.23),
    "file-reread-8m": (1 / 41.51, 1 / 40.43),
    "mmap-reread-8m": (1 / 65.73, 1 / 54.96),
}
# Table 3, lmbench: latencies in µs. The mean is that of these.
PAPER_LATENCIES = {
    "write-null": (2.00, 5.26),
    "fork-exit": (973, 2749),
    "fork-exec": (7400, 12058),
    "shell": (42412, 61115),
    "mmap-8m": (52.20, 64.28),
    "switch-2-processes": (7.00, 16.22),
    "switch-8-processes": (12.40, 22.22),
    "pipe-round-trip": (29.00, 52.07),
    "udp-round-trip": (159.40, 243.02),
    "rpc-udp": (321.40, 526.57),
    "tcp-round-trip": (207.40, 287.57),
    "rpc-tcp": (459.60, 729.76),
}
# Table 2: a native getpid, and L4Linux's by its interfaces: the library's messages, and a trampoline. In cycles.
CALL_ROW = "getpid"
PAPER_CALL = 223
INTERFACE_ROWS = {"getpid-library": 526, "getpid-entry": 753}
MEAN_ROW = "geometric mean of table 3's latencies"


@dataclass(frozen=True)
class Compared:
    """A row of native tasks, the row of Linux programs to compare with, and the paper's measurements of both.

    The paper's figures are in µs, or in MB/s for bandwidths; L4's are a range. Rows that Linux cannot do have no Linux row.
    """

    linux: str
    paper_linux: float | None = None
    paper_l4: tuple[float, float] | None = None
    bandwidth: bool = False

    @property
    def unit(self) -> str:
        """The paper's."""
        return "MB/s" if self.bandwidth else "µs"

    def paper(self) -> list[str]:
        """The paper's cells: native Linux, L4, and how many times faster that is."""
        linux = f"{self.paper_linux:g} {self.unit}" if self.paper_linux else ""
        if not self.paper_l4:
            return [linux, "", ""]
        l4 = f"{as_range(self.paper_l4, 'g')} {self.unit}"
        if not self.paper_linux:
            return [linux, l4, ""]
        faster = [value / self.paper_linux if self.bandwidth else self.paper_linux / value for value in self.paper_l4]
        return [linux, l4, as_range(faster, ".1f")]


# Tables 4 and 5.
TASK_ROWS = {
    "l4-pipe-round-trip": Compared("pipe-round-trip", 29, (22, 22)),
    "rpc-round-trip": Compared("pipe-round-trip", 29, (5, 5)),
    "mapping-rpc-page": Compared("pipe-round-trip", 29, (12, 12)),
    "l4-pipe-64k": Compared("pipe-64k", 41, (48, 70), bandwidth=True),
    "rpc-64k": Compared("pipe-64k", 41, (65, 105), bandwidth=True),
    "mapping-rpc-64k": Compared("pipe-64k", 41, (2470, 2900), bandwidth=True),
    "mapping-rpc-2m": Compared("pipe-64k"),
    "l4-fault": Compared("protection-fault-handled", None, (6.2, 6.2)),
    "l4-trap": Compared("trap", 12, (3.4, 3.4)),
    "l4-appel1": Compared("appel1", 55, (12, 12)),
    "l4-appel2": Compared("appel2", 44, (10, 10)),
}
# The same between Linux processes, by their native lthreads.
HYBRID_ROWS = {
    f"hybrid-{row.removeprefix('l4-')}": TASK_ROWS[row]
    for row in (
        "rpc-round-trip",
        "rpc-64k",
        "mapping-rpc-page",
        "mapping-rpc-64k",
        "l4-fault",
        "l4-trap",
        "l4-appel1",
        "l4-appel2",
    )
}
# Rows that only Keel's Linux can do, and the row of native Linux to compare each with.
KEEL_ROWS = dict.fromkeys(INTERFACE_ROWS, CALL_ROW) | {row: compared.linux for row, compared in HYBRID_ROWS.items()}
# Those of a program in supervisor mode, which the co-located Linux alone has.
RING_0_ROWS = {"getpid-ring-0": CALL_ROW}
# The rows that no other system has.
OWN_ROWS = {KEEL: KEEL_ROWS, COLOCATED: RING_0_ROWS}


# By machine and variant (untagged, tagged), then by repetition as below.
Cycles = dict[str, dict[str, list[float]]]


class BenchError(Exception):
    """A system could not be measured; the text says why."""


@dataclass(frozen=True)
class Sample:
    """One row on one system: instructions and modelled cycles per operation, one number for each repetition."""

    name: str
    per_operation: list[float]
    idle_ticks: int
    cycles: Cycles = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The number that is compared."""
        return statistics.median(self.per_operation)

    @property
    def spread(self) -> float:
        """The range of the values, relative to the median."""
        return (max(self.per_operation) - min(self.per_operation)) / self.median


Samples = dict[str, Sample]
Results = dict[str, Samples]


def as_range(values: Sequence[float], form: str) -> str:
    """The least and the largest of the numbers, or the number if they are equal."""
    return "-".join(dict.fromkeys(format(value, form) for value in (min(values), max(values))))


def build_programs(output: Path, program: str = "") -> None:
    """Build the static guest programs below the output directory, or one of them.

    A header comes from the build of Keel's Linux.
    """
    place = output.resolve()
    subprocess.run(["make", "-s", "-C", str(SOURCES), f"OUT={place}", *([str(place / program)] if program else [])], check=True)


def build_systems() -> None:
    """Build both Linux, and the µ-kernel with its tasks."""
    if subprocess.run([sys.executable, str(REPOSITORY / "keel"), "build"], check=False).returncode:
        raise BenchError("the systems to measure cannot be built")


def run_keel(arguments: Sequence[str], system: str, stdin: bytes) -> str:
    """The output of a `keel` command."""
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "keel"), *arguments], input=stdin, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise BenchError(f"{system}: the guest ended with status {done.returncode}")
    return done.stdout.decode()


def run_guest(system: str, command: str, stdin: bytes, placed: Sequence[str] = ()) -> str:
    """The output of a command in a fresh guest that runs on the instruction clock."""
    options = [*BOOTED[system], *placed, "--icount", "--accel", "tcg", "--timeout", str(LIMIT_S)]
    return run_keel(["run", *options, "--exec", command], system, stdin)


def run_modelled(
    system: str, command: str, stdin: bytes, placed: Sequence[str], machines: str, report: Path
) -> tuple[str, list[Any]]:
    """The same with the models of these machines, and their cycles for each part that the program marks."""
    options = [*MODELLED[system], *placed, "--timeout", str(MODEL_LIMIT_S), "--part"]
    output = run_keel(["profile", *options, "--machine", machines, "--parts", str(report), command], system, stdin)
    return output, json.loads(report.read_text())


def measure_boot(system: str, programs: Path) -> Sample:
    """Instructions from the machine's reset to the first output of a command.

    The program that reads the counter is inside the command line, so that it does not wait for the host.
    """
    text = base64.b64encode((programs / "tsc").read_bytes()).decode()
    command = f"echo {text} | base64 -d > /tmp/tsc && chmod +x /tmp/tsc && exec /tmp/tsc"
    return Sample(BOOT_ROW, [float(int(run_guest(system, command, b""), 16))], 0)


def guest_archive(programs: Path, program: str) -> bytes:
    """An archive of the benchmark program under a name, and the file that gcc compiles with its header."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(programs / PROGRAM, program)
        for source in GCC_SOURCES:
            archive.add(SOURCES / source, source)
    return buffer.getvalue()


def parse_sample(line: str) -> Sample:
    """The sample in one line of a measuring program."""
    data = json.loads(line)
    return Sample(data["name"], [tsc / data["iterations"] for tsc in data["tsc"]], data["idle_ticks"])


def with_cycles(lines: Sequence[str], parts: Sequence[Any]) -> list[Sample]:
    """The samples of these lines, with the cycles of their parts, which are in the same order. Parts that warm up come first."""
    found: list[Sample] = []
    left = list(parts)
    for line in lines:
        sample, data = parse_sample(line), json.loads(line)
        each = data["parts"]
        count = each * (len(data["tsc"]) + data.get("warm_ups", 1))
        own, left = left[:count], left[count:]
        if len(own) < count:
            raise BenchError(f"{sample.name}: the model saw {len(own)} parts of {count}")
        for first in range(count - each * len(data["tsc"]), count, each):
            sums: Counter[tuple[str, str]] = Counter()
            for part in own[first : first + each]:
                for machine, variants in part["cycles"].items():
                    sums.update({(machine, variant): cycles for variant, cycles in variants.items()})
            for (machine, variant), cycles in sums.items():
                sample.cycles.setdefault(machine, {}).setdefault(variant, []).append(cycles / data["iterations"])
        found.append(sample)
    return found


def listed(program: Path) -> list[str]:
    """The rows of a program that measures."""
    return subprocess.run([program, "list"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()


def known_rows(programs: Path) -> list[str]:
    """All rows."""
    return [*listed(programs / PROGRAM), GCC_ROW, BOOT_ROW, *TASK_ROWS]


def rows_of(system: str, rows: Sequence[str]) -> list[str]:
    """Those of these rows that a system has; for the two Linux also the rows that others are compared with."""
    if system == TASKS:
        return [row for row in rows if row in TASK_ROWS]
    compared = {row: others.linux for row, others in TASK_ROWS.items()} | KEEL_ROWS | RING_0_ROWS
    held, own = {row: compared.get(row, row) for row in rows}, OWN_ROWS.get(system, {})
    return list(dict.fromkeys(chain.from_iterable((held[row], row) if row in own else (held[row],) for row in rows)))


def measure_tasks(output: Path, rows: Sequence[str], machines: str) -> list[Sample]:
    """Measure these rows of native tasks, with the models of these machines, if any."""
    report = output / f"{TASKS}-parts.json"
    options = ["--machine", machines, "--parts", str(report)] if machines else []
    lines = run_keel(["bench", TASKS, *options, *rows], TASKS, b"").splitlines()
    return with_cycles(lines, json.loads(report.read_text())) if machines else [parse_sample(line) for line in lines]


def measure_rows(system: str, programs: Path, program: str, rows: Sequence[str], machines: str) -> list[Sample]:
    """Measure these rows of the guest program and gcc, with the models of these machines, if any."""
    own, placed = " ".join(row for row in rows if row != GCC_ROW), PLACED.get(program, [])
    compile_file = f"./{program} command {GCC_ROW} {COMPILATIONS} gcc -O2 -D_GNU_SOURCE -c {GCC_SOURCES[0]} -o bench.o"
    steps = [FIXED_ADDRESSES, f"mkdir -p {DIRECTORY}", f"cd {DIRECTORY}", "tar -x"]
    pinned = PINNED.get(system, "")
    steps += [f"{pinned}./{program} {own}"] if own else []
    steps += [f"{pinned}{compile_file}"] if GCC_ROW in rows else []
    command, files = " && ".join(steps), guest_archive(programs, program)
    if machines:
        output, parts = run_modelled(system, command, files, placed, machines, programs / f"{system}-{program}-parts.json")
        return with_cycles(output.splitlines(), parts)
    samples = [parse_sample(line) for line in run_guest(system, command, files, placed).splitlines()]
    # An idle second processor is no fault.
    return [replace(sample, idle_ticks=0) for sample in samples] if system in PINNED else samples


def measure(system: str, programs: Path, rows: Sequence[str], machines: str) -> Samples:
    """Boot a system and return the samples of these rows by name."""
    print(f"bench: measuring {system} ...", file=sys.stderr, flush=True)
    if system == TASKS:
        return {sample.name: sample for sample in measure_tasks(programs, rows, machines)}
    samples: list[Sample] = []
    user = [row for row in rows if row not in (BOOT_ROW, *RING_0_ROWS)]
    for program, own in ((PROGRAM, user), (RING_0_PROGRAM, [row for row in rows if row in RING_0_ROWS])):
        samples += measure_rows(system, programs, program, own, machines) if own else []
    if BOOT_ROW in rows:
        samples.append(measure_boot(system, programs))
    return {sample.name: sample for sample in samples}


def ratio(samples: Sequence[Sample]) -> float:
    """Keel's instructions relative to native Linux's."""
    return samples[1].median / samples[0].median


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.mean(map(math.log, ratios)))


def table(results: Results) -> list[list[str]]:
    """Header and rows: instructions on each Linux, their ratio, the paper's, Debian's kernel, remarks; none without a Linux."""
    stock = results.get(STOCK)
    names: list[str] = next((list(samples) for system, samples in results.items() if system in BOOTED), [])
    results = {system: samples for system, samples in results.items() if system in SYSTEMS}
    if not names:
        return []
    titles = [[STOCK + ", instructions", "keel to that"] if stock else [], ["remark"]]
    rows = [["operation", *(f"{system}, instructions" for system in results), "ratio", "paper", *chain(*titles)]]
    ratios: dict[str, float] = {}
    for name in [name for name in names if name not in KEEL_ROWS | RING_0_ROWS]:
        samples = [samples[name] for samples in results.values() if name in samples]
        remarks, shown = remark(samples) if samples else "", ""
        if len(samples) == len(SYSTEMS):
            ratios[name] = ratio(samples)
            shown = f"{MARK if remarks else ''}{ratios[name]:.2f}"
        values = [f"{sample.median:,.0f}" for sample in samples]
        missing = [""] * (len(results) - len(values))
        beside = beside_stock(stock.get(name), samples) if stock else []
        rows.append([name, *values, *missing, shown, paper_ratio(name), *beside, remarks])
    if set(PAPER_LATENCIES) <= set(ratios):
        ours = mean([ratios[name] for name in PAPER_LATENCIES])
        beside = ["", ""] if stock else []
        rows.append([MEAN_ROW, *[""] * len(results), f"{ours:.2f}", paper_ratio(MEAN_ROW), *beside, ""])
    return rows


def beside_stock(stock: Sample | None, samples: Sequence[Sample]) -> list[str]:
    """The cells of Debian's kernel: its instructions, marked if they scatter, and Keel's ratio to them."""
    if not stock:
        return ["", ""]
    own = f"{MARK if remark([stock]) else ''}{stock.median:,.0f}"
    return [own, f"{samples[-1].median / stock.median:.2f}" if len(samples) == len(SYSTEMS) else ""]


def placed_table(results: Results, placed: str) -> list[list[str]]:
    """Header and rows: another placement beside the two systems, in instructions and in modelled cycles to native's.

    A program in supervisor mode is beside processes of the two.
    """
    native, keel, samples_there = (results.get(system, {}) for system in (NATIVE, KEEL, placed))
    held = {name: RING_0_ROWS.get(name, name) for name in samples_there}
    names = [name for name, other in held.items() if other in native and other in keel]
    if not names:
        return []
    machines = list(ratios_of_cycles(native[held[names[0]]], native[held[names[0]]]))
    titles = [f"{machine}, {variant}: {system}" for machine, variant in machines for system in (KEEL, placed)]
    rows = [["operation", NATIVE, KEEL, placed, f"{placed} to {NATIVE}", f"{placed} to {KEEL}", *titles, "remark"]]
    figures: dict[str, list[float]] = {}
    for name in names:
        samples = [native[held[name]], keel[held[name]], samples_there[name]]
        own = [samples[2].median / samples[0].median, samples[2].median / samples[1].median]
        cycles = [ratios_of_cycles(samples[0], sample) for sample in samples[1:]]
        figures[name] = [*own, *(ratios[column] for column in machines for ratios in cycles if column in ratios)]
        shown = [f"{figure:.2f}" for figure in figures[name]]
        missing = [""] * (len(titles) + 2 - len(shown))
        rows.append([name, *(f"{sample.median:,.0f}" for sample in samples), *shown, *missing, remark(samples)])
    if set(PAPER_LATENCIES) <= set(names):
        means = [mean(column) for column in zip(*(figures[name] for name in PAPER_LATENCIES), strict=True)]
        rows.append([MEAN_ROW, "", "", "", *(f"{value:.2f}" for value in means), ""])
    return rows


def interface_table(results: Results) -> list[list[str]]:
    """Header and rows: a system call by each interface, in instructions and modelled cycles, and the paper's cycles."""
    native, keel = (results.get(system, {}) for system in SYSTEMS)
    if not (below := native.get(CALL_ROW)) or not set(INTERFACE_ROWS) & set(keel):
        return []
    columns = list(ratios_of_cycles(below, below))
    titles = [f"{machine}, {variant}" for machine, variant in columns]
    rows = [["system call", "instructions", "to native", *titles, "paper, cycles", "to native"]]
    own = [(keel[row], INTERFACE_ROWS.get(row, 0)) for row in (CALL_ROW, *INTERFACE_ROWS) if row in keel]
    for sample, paper in [(below, PAPER_CALL), *own]:
        ratios = ratios_of_cycles(below, sample)
        name = f"{sample.name}, {NATIVE}" if sample is below else sample.name
        papers = [str(paper), f"{paper / PAPER_CALL:.2f}"] if paper else ["", ""]
        rows.append([name, f"{sample.median:,.0f}", f"{sample.median / below.median:.2f}"])
        rows[-1] += [*(f"{ratios[column]:.2f}" for column in columns), *papers]
    return rows


def task_table(results: Results, system: str, compared_rows: dict[str, Compared]) -> list[list[str]]:
    """Header and rows: the paper's figures, ours of Linux programs and of L4 programs on `system`, and the speed-up of the
    latter.
    """
    own = {name: sample for name, sample in results.get(system, {}).items() if name in compared_rows}
    if not own:
        return []
    titles = [*SYSTEMS, "L4"]
    rows = [["operation", "against", "paper, Linux", "paper, L4", "times faster", *titles, "times faster", "remark"]]
    for name, sample in own.items():
        compared = compared_rows[name]
        others = [results.get(linux, {}).get(compared.linux) for linux in SYSTEMS]
        samples = [*filter(None, others[:1]), sample]
        remarks, faster = remark(samples), ""
        if others[0]:
            faster = f"{MARK if remarks else ''}{others[0].median / sample.median:.1f}"
        values = [f"{one.median:,.0f}" if one else "" for one in (*others, sample)]
        rows.append([name, compared.linux, *compared.paper(), *values, faster, remarks])
    return rows


def task_cycle_table(results: Results, system: str, compared_rows: dict[str, Compared]) -> list[list[str]]:
    """Header and rows: the ratio of native Linux's modelled cycles to those of L4 programs on `system`."""
    native = results.get(next(iter(SYSTEMS)), {})
    found: dict[str, dict[tuple[str, str], float]] = {}
    for name, sample in results.get(system, {}).items():
        if name in compared_rows and (other := native.get(compared_rows[name].linux)):
            found[name] = {column: 1 / ratio for column, ratio in ratios_of_cycles(other, sample).items()}
    columns = list(next(iter(found.values()), {}))
    if not columns:
        return []
    rows = [["times faster", *(f"{machine}, {variant}" for machine, variant in columns), "paper"]]
    for name, own in found.items():
        rows.append([name, *(f"{own[column]:.1f}" for column in columns), compared_rows[name].paper()[-1]])
    return rows


def paper_ratio(name: str) -> str:
    """The paper's ratio for a row, or for the mean, if it has one."""
    if name == MEAN_ROW:
        return f"{mean([keel / native for native, keel in PAPER_LATENCIES.values()]):.2f}"
    paper = PAPER_LATENCIES.get(name, PAPER.get(name))
    return f"{paper[1] / paper[0]:.2f}" if paper else ""


def cycle_ratios(results: Results) -> dict[str, dict[tuple[str, str], float]]:
    """Row to the ratio of modelled cycles for each machine and variant that was modelled on both systems."""
    if not set(SYSTEMS) <= set(results):
        return {}
    native, keel = (results[system] for system in SYSTEMS)
    return {name: ratios_of_cycles(sample, keel[name]) for name, sample in native.items() if name in keel and sample.cycles}


def ratios_of_cycles(below: Sample, above: Sample) -> dict[tuple[str, str], float]:
    """The ratio of two samples' modelled cycles, for each machine and variant."""
    return {
        (machine, variant): statistics.median(above.cycles[machine][variant]) / statistics.median(cycles)
        for machine, variants in below.cycles.items()
        for variant, cycles in variants.items()
    }


def cycle_table(results: Results) -> list[list[str]]:
    """Header and rows: the ratios of modelled cycles, a column for each machine and variant; nothing where none were modelled."""
    ratios = cycle_ratios(results)
    if not ratios:
        return []
    columns = list(next(iter(ratios.values())))
    rows = [["operation", *(f"{machine}, {variant}" for machine, variant in columns), "paper"]]
    rows += [[name, *(f"{own[column]:.2f}" for column in columns), paper_ratio(name)] for name, own in ratios.items()]
    if set(PAPER_LATENCIES) <= set(ratios):
        means = [mean([ratios[name][column] for name in PAPER_LATENCIES]) for column in columns]
        rows.append([MEAN_ROW, *(f"{value:.2f}" for value in means), paper_ratio(MEAN_ROW)])
    return rows


def remark(samples: Sequence[Sample]) -> str:
    """Reasons why a row's figure is not reliable."""
    remarks = []
    if any(sample.idle_ticks for sample in samples):
        remarks.append("idled: not a measure")
    if (spread := max(sample.spread for sample in samples)) > SPREAD_LIMIT:
        remarks.append(f"spread {spread:.0%}")
    if samples[0].name == BOOT_ROW:
        remarks.append("includes waiting")
    return "; ".join(remarks)


def as_markdown(rows: list[list[str]]) -> str:
    """The table as Markdown, padded so that it can be read on a terminal too."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def header(machines: str) -> dict[str, str | int]:
    """What was measured and how. Two results with the same header can be compared row by row."""
    config = hashlib.sha256(b"".join(file.read_bytes() for file in sorted((REPOSITORY / "config").iterdir())))
    linux = BUILD / "linux" / "pristine" / ".keel-version"

    def said(*command: str, word: str = "") -> str:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return next((line for line in done.stdout.splitlines() if line.startswith(word)), "unknown")

    return {
        "version": VERSION,
        "unit": "guest instructions",
        "clock": "QEMU -icount shift=0,sleep=off",
        "emulator": said(*emulators.chosen(Settings()), "--version"),
        "linux": linux.read_text().strip() if linux.is_file() else "unknown",
        "gcc": said("gcc", "--version"),
        "rust": said(sys.executable, "keel", "doctor", word=RUST_SAID).removeprefix(RUST_SAID),
        "commit": said("git", "describe", "--always", "--dirty"),
        "configuration": config.hexdigest(),
        "machines": machines,
    }


def as_json(results: Results, about: dict[str, str | int]) -> str:
    """All samples as JSON."""
    data = {
        system: {
            name: {
                "median": sample.median,
                "per_operation": sample.per_operation,
                "idle_ticks": sample.idle_ticks,
                "cycles": sample.cycles,
            }
            for name, sample in samples.items()
        }
        for system, samples in results.items()
    }
    return json.dumps({**about, "systems": data}, indent=2) + "\n"


def from_json(path: Path) -> tuple[Results, dict[str, str | int]]:
    """Read what `as_json` wrote: the header and the samples."""
    try:
        data = json.loads(path.read_text())
        if data["version"] != VERSION:
            raise BenchError(f"{path} is of version {data['version']}, and this is {VERSION}")
        results = {
            system: {name: Sample(name, row["per_operation"], row["idle_ticks"], row["cycles"]) for name, row in rows.items()}
            for system, rows in data.pop("systems").items()
        }
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(f"{path} holds no results of this program") from error
    return results, data


def comparison(old: Results, new: Results) -> list[list[str]]:
    """Header and rows: each row that both results have, and its change."""
    rows = [["operation", "system", "old", "new", "change"]]
    for system in new:
        for name in new[system]:
            if before := old.get(system, {}).get(name):
                then, now = before.median, new[system][name].median
                rows.append([name, system, f"{then:,.0f}", f"{now:,.0f}", f"{now / then - 1:+.1%}"])
    return rows


def compare(old: Path, new: Path) -> None:
    """Print how two results and their headers differ."""
    (before, about_old), (after, about_new) = from_json(old), from_json(new)
    for key in about_new:
        if about_old.get(key) != about_new[key]:
            print(f"{key}: {about_old.get(key)}, then {about_new[key]}")
    print(as_markdown(comparison(before, after)), end="")


def measure_all(systems: Sequence[str], rows: Sequence[str], output: Path, machines: str, *, resume: bool) -> Results:
    """Measure, or keep the samples of an interrupted run of the same tree. The samples are written after each system."""
    kept = output / "results.json"
    about = header(machines)
    results: Results = {}
    if resume and kept.exists():
        earlier, earlier_about = from_json(kept)
        if earlier_about == about:
            results = {system: samples for system, samples in earlier.items() if set(rows_of(system, rows)) <= set(samples)}
    for system in systems:
        if machines and system in (STOCK, TWO_PROCESSORS):
            continue  # The models are only for the systems that are compared.
        if system not in results and (own := rows_of(system, rows)):
            results[system] = measure(system, output, own, machines)
            kept.write_text(as_json(results, about))
    return {system: results[system] for system in systems if system in results}


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, with all checks that need no built program."""
    others = f"other measurements, each with its own --help:\n{in_columns(MEASUREMENTS)}"
    parser = Parser(prog="keel bench", description="Keel against native Linux, in instructions.", epilog=others)
    parser.add_argument("row", nargs="*", metavar="ROW", help="what to measure; default: everything")
    parser.add_argument(
        "--systems", default=",".join(DEFAULT), help=f"which to measure (%(default)s); {TWO_PROCESSORS} beside the first two"
    )
    parser.add_argument("--cycles", action="store_true", help="also modelled cycles; takes twenty minutes for all rows")
    parser.add_argument("--machines", default=MACHINES, help="the machines of --cycles (%(default)s)")
    parser.add_argument("--output", type=Path, default=BUILD / "bench", help="where to write the figures")
    parser.add_argument("--resume", action="store_true", help="keep the samples of an interrupted run of this tree")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="measure nothing: compare two results.json")
    parser.add_argument(
        "--plot", type=Path, metavar="RESULTS", help="measure nothing: draw a results.json as SVG and PNG beside it"
    )
    options = parser.parse(arguments)
    options.systems = options.systems.split(",")
    if unknown := [system for system in options.systems if system not in (*BOOTED, TASKS)]:
        parser.error(f"unknown system {unknown[0]}: choose from {', '.join([*BOOTED, TASKS])}")
    if unknown := [row for row in options.row if not is_named(row)]:
        parser.error(f"there is no row {unknown[0]}: the tables of docs/measuring.md have all")
    return options


def is_named(row: str) -> bool:
    """Whether there may be this row: the program that knows exactly is built after both Linux."""
    names = f'"{row}"'
    return row in (GCC_ROW, BOOT_ROW, *TASK_ROWS) or any(names in source.read_text() for source in SOURCES.glob("*.c"))


def run(options: argparse.Namespace) -> None:
    """Measure, print the table, and keep it as Markdown and JSON."""
    options.output.mkdir(parents=True, exist_ok=True)
    build_systems()
    build_programs(options.output)
    known = known_rows(options.output)
    if unknown := [row for row in options.row if row not in known]:
        raise BenchError(f"there is no row {unknown[0]}: choose from {', '.join(known)}")
    machines = options.machines if options.cycles else ""
    results = measure_all(options.systems, options.row or known, options.output, machines, resume=options.resume)
    tables = [table(results), cycle_table(results), *(placed_table(results, placed) for placed in (*PLACEMENTS, TWO_PROCESSORS))]
    tables.append(interface_table(results))
    for system, rows in ((TASKS, TASK_ROWS), (KEEL, HYBRID_ROWS)):
        tables += [task_table(results, system, rows), task_cycle_table(results, system, rows)]
    text = "\n".join(as_markdown(rows) for rows in tables if rows)
    (options.output / "results.md").write_text(text)
    print(text, end="")
    print(f"bench: the figures are in {options.output}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """What the options say; returns the exit status."""
    options = options_of(arguments)
    try:
        if options.compare:
            compare(*options.compare)
        elif options.plot:
            return subprocess.run([DEBIAN_PYTHON, str(PLOTTER), str(options.plot)], check=False).returncode
        else:
            run(options)
    except BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
