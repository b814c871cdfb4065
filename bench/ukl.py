#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures programs at level 0 against the same ones as ordinary processes, on the emulator's instruction clock.

An ordinary one runs on the native kernel, which has the same configuration but for CONFIG_UKL, with the same
command line; both are linked with the same musl. `./keel bench ukl` calls `main()`.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
KEEL = [sys.executable, str(REPOSITORY / "keel")]
SOURCES = REPOSITORY / "bench" / "ukl"
ORDINARY = REPOSITORY / "build" / "ukl" / "ordinary"
LIMIT_S = 1800

# The ways of level 0 that are measured: the kernel's options.
WAYS = {"level 0": "", "with bypass": "bypass", "with all": "bypass,ret,run-to-completion,shortcuts"}


@dataclass(frozen=True)
class Program:
    """One that is measured: how it is built, and how it runs, PROGRAM being its path."""

    name: str
    build: tuple[str, ...]
    command: str
    # Words for it on a kernel with options.
    asking: str = ""


CALLS = Program("calls", (str(SOURCES / "calls.c"),), "PROGRAM", asking=" bypass")
PARTIES = Program("parties", (str(SOURCES / "parties.c"),), "PROGRAM", asking=" bypass")
# Servers, which an ordinary program in the same guest asks.
SERVERS = (
    Program("redis", ("--app", "redis"), "PROGRAM --bind 127.0.0.1 --save '' > /run/log & /run/client redis"),
    Program("memcached", ("--app", "memcached"), "PROGRAM -u root -l 127.0.0.1 -U 0 -t 1 & /run/client memcached"),
)
PROGRAMS = (CALLS, PARTIES, *SERVERS)

Figures = dict[str, list[float]]


class BenchError(Exception):
    """Something could not be measured; the text says why."""


def keel(*arguments: str, stdin: bytes = b"") -> str:
    """The output of a command of ours."""
    done = subprocess.run([*KEEL, *arguments], input=stdin, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchError(f"keel {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout.decode()


def figures(output: str) -> Figures:
    """Row to its repetitions."""
    rows = [line.split() for line in output.splitlines()]
    return {words[0]: [float(word) for word in words[1:]] for words in rows if len(words) > 1}


def unpacking(files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """A command that makes these programs out of its standard input, and that input."""
    commands = [f"head -c {len(data)} > {name} && chmod +x {name}" for name, data in files.items()]
    return " && ".join(commands), b"".join(files.values())


def measure_program(line: str, program: Program, more: Mapping[str, bytes]) -> dict[str, Figures]:
    """Each way in a guest of its own; the baseline is told on its command line what the kernels for level 0 are told."""
    run = ["--icount", "--timeout", str(LIMIT_S)]
    keel("ukl", "build", "--ordinary", *program.build)
    place = f"/run/{program.name}"
    prepare, data = unpacking({**more, place: (ORDINARY / program.name).read_bytes()})
    command = f"{prepare} && {{ {program.command.replace('PROGRAM', place)}; }}"
    measured = {"level 3": figures(keel("run", "--native", *run, "--append", line, "--exec", command, stdin=data))}
    prepare, data = unpacking(more)
    for name, options in WAYS.items():
        keel("ukl", "build", "--options", options, *program.build)
        words = program.command.replace("PROGRAM", f"/run/ukl/{program.name}") + (program.asking if options else "")
        command = f"{prepare} && {{ {words}; }}" if more else words
        measured[name] = figures(keel("ukl", "run", program.name, *run, "--exec", command, stdin=data))
    return measured


def measure(line: str, wanted: Collection[str]) -> dict[str, Figures]:
    """All rows of the programs that are wanted."""
    measured: dict[str, Figures] = {}
    client: dict[str, bytes] = {}
    if any(server.name in wanted for server in SERVERS):
        keel("ukl", "build", "--ordinary", str(SOURCES / "client.c"))
        client = {"/run/client": (ORDINARY / "client").read_bytes()}
    for program in PROGRAMS:
        if program.name in wanted:
            for way, rows in measure_program(line, program, client if program in SERVERS else {}).items():
                measured.setdefault(way, {}).update(rows)
    return measured


def table(measured: dict[str, Figures]) -> str:
    """The medians, and what each way of level 0 saves."""
    base, *others = measured
    lines = [
        f"| operation | {base}, instructions | {' | saved | '.join(others)} | saved |",
        "|---" * (2 + 2 * len(others)) + "|",
    ]
    for row, repetitions in measured[base].items():
        before = statistics.median(repetitions)
        medians = [statistics.median(measured[other][row]) for other in others]
        saved = [f"{after:,.0f} | {1 - after / before:.0%}" for after in medians]
        lines.append(f"| {row} | {before:,.0f} | {' | '.join(saved)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(prog="keel bench ukl", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench", help="where the figures go (%(default)s)")
    parser.add_argument("--line", required=True, help="more for Linux's command line: what level 0 needs")
    names = [program.name for program in PROGRAMS]
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"only these: {' '.join(names)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.programs) - set(names):
        parser.error(f"there is no program {sorted(unknown)[0]!r} to measure; known are {' '.join(names)}")
    try:
        measured = measure(options.line, options.programs or names)
    except BenchError as error:
        print(f"keel: error: {error}", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "ukl.json").write_text(json.dumps(measured, indent=1))
    (options.output / "ukl.md").write_text(table(measured))
    print(table(measured), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
