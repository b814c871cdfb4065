#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Table 1 of SOSP'97 for Linux on Keel: source lines of what each Linux is built from here.

Counted are the files that the two builds have read, without comments and blank lines as in the paper. What a build makes itself
is none, but for x86's files that the port adapts, which count as they are in x86.

  bench/lines.py     prints the table; `./keel bench lines` does that
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import overlay
import run

LINUX = run.REPOSITORY / "build" / "linux"
PORT, X86, DRIVERS = "arch/l4/", "arch/x86/", ("drivers/", "sound/")
# Where the port's build puts x86's files that it adapts.
ADAPTED = "arch/l4/x86/"
# In the command for a file of Linux; the build also compiles tools for itself.
OF_KERNEL = "-D__KERNEL__"
SUFFIXES = {".c", ".h", ".S"}
MICRO_KERNEL_SUFFIXES = {".rs", ".s"}
# A comment, or a string or character in which one only seems to begin.
PIECE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
ASSEMBLY_COMMENT = re.compile(r"^\s*# .*$", re.MULTILINE)
# The paper's rows: native Linux, L4Linux.
PAPER = ((2_500, 6_500), (2_000, 2_000), (105_000, None), (232_700, None))


def count(text: str) -> int:
    """Lines with code."""
    kept = PIECE.sub(lambda piece: "\n" * piece[0].count("\n") if piece[0][0] == "/" else piece[0], text)
    return sum(1 for line in kept.splitlines() if line.strip())


def lines_of(files: Iterable[Path]) -> int:
    """Lines with code of all these."""
    return sum(count(file.read_text(errors="replace")) for file in files)


def read_for(out: Path, source: Path) -> set[str]:
    """The files of the source tree, by their places in it, that a build has read."""
    found: set[str] = set()
    for kept in out.rglob(".*.o.cmd"):
        text = kept.read_text(errors="replace")
        for file in overlay.read_by(text, out) if OF_KERNEL in text else ():
            if file.is_relative_to(source):
                place = str(file.relative_to(source))
            elif file.is_relative_to(out / ADAPTED):
                place = X86 + str(file.relative_to(out / ADAPTED))
            else:
                continue
            if Path(place).suffix in SUFFIXES and (source / place).is_file():
                found.add(place)
    return found


def table(native: set[str], keel: set[str], sources: Path, server_sources: Path, micro_kernel: Sequence[Path]) -> list[list[str]]:
    """The paper's rows and one for the µ-kernel, each with the paper's figures."""

    def lines(places: Iterable[str]) -> int:
        return lines_of((server_sources if place.startswith(PORT) else sources) / place for place in places)

    def part(places: set[str], *beginnings: str) -> set[str]:
        return {place for place in places if place.startswith(beginnings)}

    shared = part(keel, X86)
    rows = (
        ("architecture, of its own", part(native, X86) - shared, part(keel, PORT)),
        ("architecture, files of x86 for both", part(native, X86) & shared, shared),
        ("kernel", native - part(native, "arch/", *DRIVERS), keel - part(keel, "arch/", *DRIVERS)),
        ("drivers", part(native, *DRIVERS), part(keel, *DRIVERS)),
    )
    shown = [["lines of code", "Linux/x86", "Linux on Keel", "paper, Linux/x86", "paper, L4Linux"]]
    for (title, ours, theirs), paper in zip(rows, PAPER, strict=True):
        shown.append([title, *(f"{lines(places):,}" for places in (ours, theirs)), *(f"{n:,}" if n else "" for n in paper)])
    own = sum(count(ASSEMBLY_COMMENT.sub("", file.read_text())) for file in micro_kernel)
    return [*shown, ["µ-kernel", "", f"{own:,}", "", ""]]


def main() -> int:
    """Build what is missing, and count."""
    argparse.ArgumentParser(prog="keel bench lines", description="Source lines, as SOSP'97's table 1 counts them.").parse_args()
    run.build_systems()
    native = read_for(LINUX / "native", LINUX / "pristine")
    keel = read_for(LINUX / "l4", LINUX / "l4-src")
    kernel = [file for file in sorted((run.REPOSITORY / "kernel").rglob("*")) if file.suffix in MICRO_KERNEL_SUFFIXES]
    print(run.as_markdown(table(native, keel, LINUX / "pristine", LINUX / "l4-src", kernel)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
