#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures Keel against Linux on the bare machine, both in one run on the emulator's instruction clock.

`measure()` boots the systems and returns their samples; `main()` adds the tables. `./keel bench` calls `main()`
with nothing but the options that the user gave. The unit is executed guest instructions, never cycles.

  bench/run.py [--systems native,keel] [--output DIRECTORY]
"""

import argparse
import base64
import io
import json
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = REPOSITORY / "bench" / "guest"
SYSTEMS = {"native": ["run", "--native"], "keel": ["run"]}
LIMIT_S = 900
COMPILATIONS = 3
BOOT_ROW = "boot-to-first-output"
GCC_ROW = "gcc-compiles-a-file"
# What the authors of L4Linux measured, relative to native Linux (SOSP 1997, table 2: 3.95 against 1.68 µs).
PAPER_RATIOS = {"getpid": 2.35}


class BenchError(Exception):
    """A system could not be measured; the text says why."""


@dataclass(frozen=True)
class Sample:
    """One row on one system: instructions for one operation, one number for each repetition."""

    name: str
    per_operation: list[float]
    idle_ticks: int

    @property
    def median(self) -> float:
        """The number that is compared."""
        return statistics.median(self.per_operation)

    @property
    def spread(self) -> float:
        """From least to most, relative to the median."""
        return (max(self.per_operation) - min(self.per_operation)) / self.median


def build_programs(output: Path) -> None:
    """The static guest programs, below the output directory."""
    subprocess.run(["make", "-s", "-C", str(SOURCES), f"OUT={output.resolve()}"], check=True)


def run_guest(system: str, command: str, stdin: bytes) -> str:
    """The output of a command in a fresh guest that runs on the instruction clock."""
    arguments = [*SYSTEMS[system], "--icount", "--accel", "tcg", "--timeout", str(LIMIT_S), "--exec", command]
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "keel"), *arguments], input=stdin, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise BenchError(f"{system}: the guest ended with status {done.returncode}")
    return done.stdout.decode()


def measure_boot(system: str, programs: Path) -> Sample:
    """Instructions from the machine's reset to the first output of a command.

    The program that reads the counter travels inside the command, so that nothing of it waits for the host.
    """
    text = base64.b64encode((programs / "tsc").read_bytes()).decode()
    command = f"echo {text} | base64 -d > /tmp/tsc && chmod +x /tmp/tsc && exec /tmp/tsc"
    return Sample(BOOT_ROW, [float(int(run_guest(system, command, b""), 16))], 0)


def guest_archive(programs: Path) -> bytes:
    """The benchmark program and its source, which is also the file that gcc compiles."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(programs / "bench", "bench")
        archive.add(SOURCES / "bench.c", "bench.c")
    return buffer.getvalue()


def parse_sample(line: str) -> Sample:
    """One line of the guest program."""
    data = json.loads(line)
    return Sample(data["name"], [tsc / data["iterations"] for tsc in data["tsc"]], data["idle_ticks"])


def measure_rows(system: str, programs: Path) -> list[Sample]:
    """All rows of the guest program, and gcc."""
    compile_file = f"./bench command {GCC_ROW} {COMPILATIONS} gcc -O2 -D_GNU_SOURCE -c bench.c -o bench.o"
    command = f"mkdir -p /tmp/bench && cd /tmp/bench && tar -x && ./bench && {compile_file}"
    return [parse_sample(line) for line in run_guest(system, command, guest_archive(programs)).splitlines()]


def measure(systems: Sequence[str], output: Path) -> dict[str, dict[str, Sample]]:
    """Boot each system and return its samples by name."""
    build_programs(output)
    results = {}
    for system in systems:
        print(f"bench: measuring {system} ...", file=sys.stderr, flush=True)
        samples = [*measure_rows(system, output), measure_boot(system, output)]
        results[system] = {sample.name: sample for sample in samples}
    return results


def table(results: dict[str, dict[str, Sample]]) -> list[list[str]]:
    """Header and rows: instructions on each system, their ratio, the paper's, remarks."""
    rows = [["operation", *(f"{system}, instructions" for system in results), "ratio", "paper", "remark"]]
    for name in next(iter(results.values())):
        samples = [samples[name] for samples in results.values() if name in samples]
        ratio = f"{samples[1].median / samples[0].median:.2f}" if len(samples) == len(SYSTEMS) else ""
        paper = f"{PAPER_RATIOS[name]:.2f}" if name in PAPER_RATIOS else ""
        values = [f"{sample.median:,.0f}" for sample in samples]
        rows.append([name, *values, *[""] * (len(results) - len(values)), ratio, paper, remark(samples)])
    return rows


def remark(samples: Sequence[Sample]) -> str:
    """What forbids to take a row at its word."""
    remarks = []
    if any(sample.idle_ticks for sample in samples):
        remarks.append("idled: not a measure")
    if (spread := max(sample.spread for sample in samples)) > 0.02:
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


def as_json(results: dict[str, dict[str, Sample]]) -> str:
    """Every single number."""
    data = {
        system: {
            name: {"median": sample.median, "per_operation": sample.per_operation, "idle_ticks": sample.idle_ticks}
            for name, sample in samples.items()
        }
        for system, samples in results.items()
    }
    return json.dumps({"unit": "guest instructions", "clock": "QEMU -icount shift=0", "systems": data}, indent=2) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and keep it as Markdown and JSON."""
    parser = argparse.ArgumentParser(description="Keel against Linux on the bare machine, in instructions.")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which to measure (%(default)s)")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench", help="where the figures go")
    options = parser.parse_args(arguments)
    systems = options.systems.split(",")
    if unknown := [system for system in systems if system not in SYSTEMS]:
        parser.error(f"unknown system {unknown[0]}: choose from {', '.join(SYSTEMS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        results = measure(systems, options.output)
    except BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1
    text = as_markdown(table(results))
    (options.output / "results.md").write_text(text)
    (options.output / "results.json").write_text(as_json(results))
    print(text, end="")
    print(f"bench: the figures are in {options.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
