#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures the same programs in each place that they can have, on the emulator's instruction clock.

The programs are those of bench/ukl.py, with the same clients, built with the same musl: as ordinary ones, and with the gate of
ukl/. With --cycles a plugin of the emulator models a processor's cycles in the same run. `./keel bench placements` calls
`main()`.
"""

import json
import statistics
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from keel.arguments import Parser
from keel.config import Settings

import ukl
from ukl import CALLS, ORDINARY, PARTIES, SERVERS, SOURCES, Clock, Figures, Program, keel, unpacking

APPLICATIONS = Settings().build / "ukl" / "applications"
# Where the measured program is in the guest.
PLACE = "/run/measured"
ALL_OPTIONS = ukl.WAYS["with all"]


@dataclass(frozen=True)
class Rung:
    """A place: what `./keel run` is told, and how the program is built and asked."""

    name: str
    options: tuple[str, ...] = ()
    gate: bool = False
    # It asks for the bypass, and the servers for the shortcuts.
    asks: bool = False
    # The kernel's options of native Unikernel Linux; None: not that.
    unikernel: str | None = None
    native: bool = False


GATE_ALONE = "in the server, gate"
COLOCATED = ("--place", "linux=kernel")
INSIDE = ("--place", f"{PLACE}=server")
RUNGS = (
    Rung("native process", ("--native",), native=True),
    Rung("process", ()),
    Rung("process, co-located", COLOCATED),
    Rung("supervisor mode, co-located", (*COLOCATED, "--place", f"{PLACE}=kernel"), gate=True),
    Rung("in the server, unmodified", INSIDE),
    Rung(GATE_ALONE, INSIDE, gate=True),
    Rung("in the server, bypass", INSIDE, gate=True, asks=True),
    Rung("Unikernel Linux", gate=True, unikernel="", native=True),
    Rung("Unikernel Linux, all options", gate=True, asks=True, unikernel=ALL_OPTIONS, native=True),
)
PROGRAMS = (CALLS, PARTIES, *SERVERS)
# What the table has of the rows of these programs: those with one byte and 8 KB.
LEFT_OUT = ("1024", "2048", "4096")


# Rung to its rows.
Ladder = dict[str, Figures]
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
    asking = program.asking if rung.asks else ""
    if rung.unikernel is not None:
        keel("ukl", "build", "--options", rung.unikernel, *program.build)
        prepare, data = unpacking(more)
        words = program.command.replace("PROGRAM", f"/run/ukl/{program.name}") + asking
        return clock.measured(["ukl", "run", program.name], f"{prepare} && {{ {words}; }}" if more else words, data)
    prepare, data = unpacking({**more, PLACE: built[rung.gate]})
    words = program.command.replace("PROGRAM", PLACE) + asking
    options = [*rung.options, *(["--append", clock.line] if rung.native else [])]
    return clock.measured(["run", *options], f"{prepare} && {{ {words}; }}", data)


def measure(line: str, output: Path, plugins: Plugins, wanted: Collection[str]) -> tuple[Ladder, Ladder]:
    """All rows of the chosen programs on every rung, in instructions and in cycles."""
    both: tuple[Ladder, Ladder] = {}, {}
    keel("ukl", "build", "--ordinary", str(SOURCES / "client.c"))
    client = {"/run/client": (ORDINARY / "client").read_bytes()}
    for program in PROGRAMS:
        if program.name not in wanted:
            continue
        built = build(program)
        for rung in RUNGS:
            if rung.name == GATE_ALONE and not program.asking:
                continue  # the servers always ask
            print(f"bench: {program.name}: {rung.name} ...", file=sys.stderr, flush=True)
            clock = Clock(line, output, plugins.native if rung.native else plugins.keel)
            found = measure_rung(rung, program, clock, built, client if program in SERVERS else {})
            for ladder, rows in zip(both, found, strict=True):
                ladder.setdefault(rung.name, {}).update(rows)
    return both


def table(ladder: Ladder, unit: str) -> str:
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
    parser = Parser(prog="keel bench placements", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--output", type=Path, default=Settings().build / "bench", help="where to write the figures (%(default)s)"
    )
    parser.add_argument("--cycles", action="store_true", help="also modelled cycles, changes of mode included; takes longer")
    parser.add_argument("--plugin", help="with --cycles: the plugin that models them on native Linux")
    parser.add_argument("--plugin-keel", help="with --cycles: the plugin that models them on Keel")
    parser.add_argument("--line", required=True, help="additional words for native Linux's command line, which ring 0 needs")
    names = [program.name for program in PROGRAMS]
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"only these: {' '.join(names)}")
    options = parser.parse(arguments)
    if unknown := set(options.programs) - set(names):
        parser.error(f"there is no program {sorted(unknown)[0]!r} to measure; known are {' '.join(names)}")
    if options.cycles != bool(options.plugin and options.plugin_keel):
        parser.error("--cycles, --plugin and --plugin-keel go together")
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        plugins = Plugins(options.plugin, options.plugin_keel)
        measured, modelled = measure(options.line, options.output, plugins, options.programs or names)
    except ukl.BenchError as error:
        print(f"keel: error: {error}", file=sys.stderr)
        return 1
    (options.output / "placements.json").write_text(json.dumps({"instructions": measured, "cycles": modelled}, indent=1))
    text = "\n".join([table(measured, "instructions"), *([table(modelled, "cycles")] if options.plugin else [])])
    (options.output / "placements.md").write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
