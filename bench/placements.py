#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures the same programs in each place that they can have, on the emulator's instruction clock.

The programs are those of bench/ukl.py, with the same clients, built with the same musl: as ordinary ones, and with the gate of
ukl/. With --cycles a plugin of the emulator models a processor's cycles in the same run. `./keel bench placements` calls
`main()`.
"""

import statistics
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import run
from keel.config import Settings

import ukl
from ukl import ORDINARY, PROGRAMS, SERVERS, Clock, Figures, Program, Ways, keel

APPLICATIONS = Settings().build / "ukl" / "applications"
PLOTTER = Path(__file__).with_name("plot_placements.py")
# Where the measured program is in the guest.
PLACE = "/run/measured"
ALL_OPTIONS = ukl.WAYS["with all"]


@dataclass(frozen=True)
class Rung:
    """A place: what `./keel run` is told, and how the program is built and asked."""

    name: str
    options: tuple[str, ...] = ()
    gate: bool = False
    # The program asks for the bypass; servers do that in any case, and for the shortcuts.
    asks: bool = False
    # The kernel's options of native Unikernel Linux; None: not that.
    unikernel: str | None = None
    native: bool = False

    def only_asked(self, program: Program) -> bool:
        """It is a gate without the bypass, for which this program always asks."""
        return self.gate and not self.asks and not program.asking


COLOCATED = ("--place", "linux=kernel")
INSIDE = ("--place", f"{PLACE}=server")
RUNGS = (
    Rung("native process", ("--native",), native=True),
    Rung("process", ()),
    Rung("process, co-located", COLOCATED),
    Rung("supervisor mode, co-located", (*COLOCATED, "--place", f"{PLACE}=kernel"), gate=True),
    Rung("supervisor mode, bypass", (*COLOCATED, "--place", f"{PLACE}=kernel"), gate=True, asks=True),
    Rung("in the server, unmodified", INSIDE),
    Rung("in the server, gate", INSIDE, gate=True),
    Rung("in the server, bypass", INSIDE, gate=True, asks=True),
    Rung("Unikernel Linux", unikernel="", native=True),
    Rung("Unikernel Linux, all options", unikernel=ALL_OPTIONS, native=True),
)
# What the table has of the rows of these programs: those with one byte and 8 KB.
LEFT_OUT = ("1024", "2048", "4096")
# A program without a gate and with it.
Built = Mapping[bool, bytes]


@dataclass(frozen=True)
class Plugins:
    """The plugins that model cycles on native Linux and on Keel; or none."""

    native: str | None = None
    keel: str | None = None


def build(program: Program) -> Built:
    """A program with a gate and without."""
    keel("ukl", "build", "--ordinary", *program.build)
    keel("ukl", "build", *program.build)
    return {gate: (place / program.name).read_bytes() for gate, place in ((False, ORDINARY), (True, APPLICATIONS))}


def measure_rung(rung: Rung, program: Program, clock: Clock, built: Built, more: Mapping[str, bytes]) -> tuple[Figures, Figures]:
    """The rows of a program in one place: instructions, and cycles if they are modelled."""
    if rung.unikernel is not None:
        return ukl.measure_in_ring_0(clock, program, rung.unikernel, more)
    options = [*rung.options, *(["--append", clock.line] if rung.native else [])]
    files = {**more, PLACE: built[rung.gate]}
    return ukl.measure_at(clock, options, program, PLACE, files, program.asking if rung.asks else "")


def measure(line: str, output: Path, plugins: Plugins, wanted: Collection[str]) -> tuple[Ways, Ways]:
    """All rows of the chosen programs on every rung, in instructions and in cycles."""
    both: tuple[Ways, Ways] = {}, {}
    requests = ukl.client() if any(server.name in wanted for server in SERVERS) else {}
    for program in PROGRAMS:
        if program.name not in wanted:
            continue
        built = build(program)
        for rung in RUNGS:
            if rung.only_asked(program):
                continue
            print(f"bench: {program.name}: {rung.name} ...", file=sys.stderr, flush=True)
            clock = Clock(line, output, plugins.native if rung.native else plugins.keel)
            found = measure_rung(rung, program, clock, built, requests if program in SERVERS else {})
            for ladder, rows in zip(both, found, strict=True):
                ladder.setdefault(rung.name, {}).update(rows)
    return both


def table(ladder: Ways, unit: str) -> str:
    """The medians: a row of the programs in each line, and in each column a rung."""
    first = next(iter(ladder.values()))
    lines = [f"| {unit} | {' | '.join(ladder)} |", "|---" * (1 + len(ladder)) + "|"]
    for row in first:
        if not row.endswith(LEFT_OUT):
            medians = (f"{statistics.median(rows[row]):,.0f}" if row in rows else "" for rows in ladder.values())
            lines.append(f"| {row} | {' | '.join(medians)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Measure, write and print."""
    told = {"--plugin": "the plugin that models them on native Linux", "--plugin-keel": "the plugin that models them on Keel"}
    options = ukl.options_of("placements", __doc__, arguments, told, plots=True)
    if options.plot:
        return subprocess.run([run.DEBIAN_PYTHON, str(PLOTTER), str(options.plot)], check=False).returncode
    try:
        found = measure(options.line, options.output, Plugins(options.plugin, options.plugin_keel), options.programs)
    except ukl.BenchError as error:
        print(f"keel: error: {error}", file=sys.stderr)
        return 1
    ukl.report(options, "placements", found, table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
