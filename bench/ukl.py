#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures one program at level 0 against the same one as an ordinary process, on the emulator's instruction clock.

The ordinary one runs on the native kernel, which has the same configuration but for CONFIG_UKL, with the same
command line; both are linked with the same musl. `./keel bench ukl` calls `main()`.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
KEEL = [sys.executable, str(REPOSITORY / "keel")]
SOURCE = REPOSITORY / "bench" / "ukl" / "calls.c"
LIMIT_S = 1800
COPY = "cat > /run/calls && chmod +x /run/calls && /run/calls"

# The ways of level 0 that are measured: the kernel's options, and a word for the program.
WAYS = {"level 0": ("", ""), "with bypass": ("bypass", "bypass")}

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


def measure(line: str) -> dict[str, Figures]:
    """Each way in a guest of its own; the baseline is told on its command line what the kernels for level 0 are told."""
    run = ["--icount", "--timeout", str(LIMIT_S)]
    keel("ukl", "build", "--ordinary", str(SOURCE))
    program = (REPOSITORY / "build" / "ukl" / "ordinary" / SOURCE.stem).read_bytes()
    measured = {"level 3": figures(keel("run", "--native", *run, "--append", line, "--exec", COPY, stdin=program))}
    for name, (options, word) in WAYS.items():
        keel("ukl", "build", "--options", options, str(SOURCE))
        measured[name] = figures(keel("ukl", "run", SOURCE.stem, *run, "--exec", f"/run/ukl/{SOURCE.stem} {word}"))
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
    options = parser.parse_args(arguments)
    try:
        measured = measure(options.line)
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
