#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures programs in ring 0 against the same programs as ordinary processes, on the emulator's instruction clock.

Ordinary processes run on the native kernel, which has the same configuration except CONFIG_UKL and the same command line. Both
are linked with the same musl. With --cycles a plugin of the emulator models a processor's cycles, including changes of mode, in
the same run. `./keel bench ukl` calls `main()`.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tools"))

from keel.arguments import Parser  # noqa: E402  (the path above comes first)
from keel.config import Settings  # noqa: E402

KEEL = [sys.executable, str(REPOSITORY / "keel")]
SOURCES = REPOSITORY / "bench" / "ukl"
ORDINARY = Settings().build / "ukl" / "ordinary"
LIMIT_S = 3600

BASELINE = "ring 3"
# The variants of ring 0 that are measured, with the kernel's options.
WAYS = {"ring 0": "", "with bypass": "bypass", "with all": "bypass,ret,run-to-completion,shortcuts"}


@dataclass(frozen=True)
class Program:
    """A measured program: how it is built, and the command that runs it, with PROGRAM as its path."""

    name: str
    build: tuple[str, ...]
    command: str
    # Its arguments on a kernel with options.
    asking: str = ""


CALLS = Program("calls", (str(SOURCES / "calls.c"),), "PROGRAM", asking=" bypass")
PARTIES = Program("parties", (str(SOURCES / "parties.c"),), "PROGRAM", asking=" bypass")
# Servers; the client is an ordinary program in the same guest.
SERVERS = (
    Program("redis", ("--app", "redis"), "PROGRAM --bind 127.0.0.1 --save '' > /run/log & /run/client redis $!"),
    Program("memcached", ("--app", "memcached"), "PROGRAM -u root -l 127.0.0.1 -U 0 -t 1 & /run/client memcached $!"),
)
PROGRAMS = (CALLS, PARTIES, *SERVERS)
# The suffix of a row with the processor time of the server alone, as Linux accounts for it.
SERVER_ALONE = "-server"

Figures = dict[str, list[float]]
# Row to the time that the paper's best variant saves. 26 % more requests are 21 % less time for each, 8 % more are 7 % less.
PAPER = {
    "getppid-0": "83%",
    "read-8192": "11 to 22%",
    "write-8192": "11 to 22%",
    "sendto-and-recvfrom-8192": "11 to 24%",
    "mmap-fault": "12.5%",
    "stack-fault": "12.5%",
    "group-by-100": "99%",
    "group-by-1000": "99%",
    "redis-set": "21%",
    "redis-get": "21%",
    "memcached-set": "7%",
    "memcached-get": "7%",
}


class BenchError(Exception):
    """Something could not be measured; the text says why."""


def keel(*arguments: str, stdin: bytes = b"") -> str:
    """The output of a `keel` command."""
    done = subprocess.run([*KEEL, *arguments], input=stdin, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchError(f"keel {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout.decode()


@dataclass(frozen=True)
class Clock:
    """How a guest is measured: by its instructions, and with the plugin also by modelled cycles."""

    line: str
    output: Path
    plugin: str | None

    def measured(self, command: list[str], words: str, stdin: bytes) -> tuple[Figures, Figures]:
        """Run a command in a guest and return its rows: instructions, and cycles if they are modelled."""
        parts = self.output / "ukl-parts"
        # A comma in a value of QEMU's is doubled; the plugin's options already are.
        option = f"{self.plugin},output={str(parts).replace(',', ',,')}"
        watched = [f"--qemu-arg={word}" for word in ("-plugin", option)] if self.plugin else []
        rows = figures(keel(*command, "--icount", "--timeout", str(LIMIT_S), *watched, "--exec", words, stdin=stdin))
        return rows, cycles(rows, parts.read_text()) if self.plugin else {}


def figures(output: str) -> Figures:
    """Row to its repetitions."""
    rows = [line.split() for line in output.splitlines()]
    return {words[0]: [float(word) for word in words[1:]] for words in rows if len(words) > 1}


def cycles(rows: Figures, parts: str) -> Figures:
    """The same in cycles, from the instructions and the one machine's cycles of each repetition's part.

    Rows of a server alone have no parts: a part covers client and server.
    """
    rows = {row: repetitions for row, repetitions in rows.items() if not row.endswith(SERVER_ALONE)}
    found = [[int(word) for word in line.split()[1:3]] for line in parts.splitlines() if line.startswith("part ")]
    if len(found) != sum(len(repetitions) for repetitions in rows.values()):
        raise BenchError(f"the model saw {len(found)} parts, which are not the repetitions")
    left = iter(found)
    modelled: Figures = {}
    for row, repetitions in rows.items():
        ratios = [took / instructions for instructions, took in (next(left) for _ in repetitions)]
        modelled[row] = [figure * ratio for figure, ratio in zip(repetitions, ratios, strict=True)]
    return modelled


def unpacking(files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """A shell command that unpacks these programs from its standard input, and that input."""
    commands = [f"head -c {len(data)} > {name} && chmod +x {name}" for name, data in files.items()]
    return " && ".join(commands), b"".join(files.values())


# Variant to its rows.
Ways = dict[str, Figures]


def measure_at(
    clock: Clock, options: Sequence[str], program: Program, place: str, files: Mapping[str, bytes], asking: str = ""
) -> tuple[Figures, Figures]:
    """The rows of a program at this place, which is one of the files, in a guest with these options of `keel run`."""
    prepare, data = unpacking(files)
    words = program.command.replace("PROGRAM", place) + asking
    return clock.measured(["run", *options], f"{prepare} && {{ {words}; }}", data)


def measure_in_ring_0(clock: Clock, program: Program, options: str, more: Mapping[str, bytes]) -> tuple[Figures, Figures]:
    """Its rows in ring 0 of native Linux, on the kernel with these options."""
    keel("ukl", "build", "--options", options, *program.build)
    words = program.command.replace("PROGRAM", f"/run/ukl/{program.name}") + (program.asking if options else "")
    prepare, data = unpacking(more)
    return clock.measured(["ukl", "run", program.name], f"{prepare} && {{ {words}; }}" if more else words, data)


def measure_program(clock: Clock, program: Program, more: Mapping[str, bytes]) -> tuple[Ways, Ways]:
    """Measure each variant in its own guest. The baseline has the same command line as the kernels for ring 0."""
    keel("ukl", "build", "--ordinary", *program.build)
    place = f"/run/{program.name}"
    files = {**more, place: (ORDINARY / program.name).read_bytes()}
    found = {BASELINE: measure_at(clock, ["--native", "--append", clock.line], program, place, files)}
    found |= {name: measure_in_ring_0(clock, program, options, more) for name, options in WAYS.items()}
    return {way: rows for way, (rows, _) in found.items()}, {way: rows for way, (_, rows) in found.items()}


def client() -> dict[str, bytes]:
    """The ordinary program that sends requests to servers, by its place in the guest."""
    keel("ukl", "build", "--ordinary", str(SOURCES / "client.c"))
    return {"/run/client": (ORDINARY / "client").read_bytes()}


def measure(clock: Clock, wanted: Collection[str]) -> tuple[Ways, Ways]:
    """All rows of the chosen programs, in instructions and in cycles."""
    both: tuple[Ways, Ways] = {}, {}
    requests = client() if any(server.name in wanted for server in SERVERS) else {}
    for program in PROGRAMS:
        if program.name in wanted:
            found = measure_program(clock, program, requests if program in SERVERS else {})
            for measured, ways in zip(both, found, strict=True):
                for way, rows in ways.items():
                    measured.setdefault(way, {}).update(rows)
    return both


def table(measured: Ways, unit: str) -> str:
    """The table of medians, the saving of each variant of ring 0, and the paper's best."""
    base, *others = measured
    lines = [
        f"| operation | {base}, {unit} | {' | saved | '.join(others)} | saved | the paper |",
        "|---" * (3 + 2 * len(others)) + "|",
    ]
    for row, repetitions in measured[base].items():
        before = statistics.median(repetitions)
        medians = [statistics.median(measured[other][row]) for other in others]
        # Without a zero's sign.
        saved = [f"{after:,.0f} | {round(100 * (1 - after / before))}%" for after in medians]
        lines.append(f"| {row} | {before:,.0f} | {' | '.join(saved)} | {PAPER.get(row.removesuffix(SERVER_ALONE), '')} |")
    return "\n".join(lines) + "\n"


def options_of(
    measurement: str,
    description: str | None,
    arguments: list[str],
    plugins: Mapping[str, str],
    *,
    programs: Sequence[Program] = PROGRAMS,
    plots: bool = False,
) -> argparse.Namespace:
    """The options of a measurement of programs; `plugins` are what the options that name one say of themselves.

    Without plugins there are no modelled cycles. `plots`: there is a picture of the results.
    """
    parser = Parser(prog=f"keel bench {measurement}", description=description.splitlines()[0] if description else None)
    parser.add_argument(
        "--output", type=Path, default=Settings().build / "bench", help="where to write the figures (%(default)s)"
    )
    if plugins:
        parser.add_argument("--cycles", action="store_true", help="also modelled cycles, changes of mode included; takes longer")
    if plots:
        parser.add_argument(
            "--plot", type=Path, metavar="RESULTS", help=f"measure nothing: draw a {measurement}.json as SVG and PNG beside it"
        )
    told = [parser.add_argument(option, help=f"with --cycles: {what}").dest for option, what in plugins.items()]
    parser.add_argument("--line", required=True, help="additional words for native Linux's command line, which ring 0 needs")
    names = [program.name for program in programs]
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"only these: {' '.join(names)}")
    options = parser.parse(arguments)
    if unknown := set(options.programs) - set(names):
        parser.error(f"there is no program {sorted(unknown)[0]!r} to measure; known are {' '.join(names)}")
    if any(options.cycles != bool(getattr(options, plugin)) for plugin in told):
        parser.error(f"--cycles and {' and '.join(plugins)} go together")
    options.programs = options.programs or names
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def report(options: argparse.Namespace, name: str, found: tuple[Ways, Ways], table: Callable[[Ways, str], str]) -> None:
    """Write what was found as JSON and as tables, and print these."""
    figures_by_unit = dict(zip(("instructions", "cycles"), found, strict=True))
    (options.output / f"{name}.json").write_text(json.dumps(figures_by_unit, indent=1))
    text = "\n".join(table(ways, unit) for unit, ways in figures_by_unit.items() if unit != "cycles" or options.cycles)
    (options.output / f"{name}.md").write_text(text)
    print(text, end="")


def main(arguments: list[str]) -> int:
    """Measure, write and print."""
    options = options_of("ukl", __doc__, arguments, {"--plugin": "the plugin that models them"})
    try:
        found = measure(Clock(options.line, options.output, options.plugin), options.programs)
    except BenchError as error:
        print(f"keel: error: {error}", file=sys.stderr)
        return 1
    report(options, "ukl", found, table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
