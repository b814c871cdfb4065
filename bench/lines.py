#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Keel's size, and table 1 of SOSP'97 for Linux on Keel: source lines of what each Linux is built from here.

Table 1 counts the files that the two builds have read, without comments and blank lines as in the paper; Keel's own lines are
counted more strictly (tools/keel/codelines.py). Generated files are not counted, except x86's files that the port adapts: these
count as they are in x86.

  bench/lines.py             prints Keel's own lines and the sizes of the images that are built; `./keel bench lines` does that
  bench/lines.py --table     builds both Linux, and prints table 1 too
"""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import overlay
import run

sys.path.insert(0, str(run.REPOSITORY / "tools"))

from keel import codelines, linux, rust
from keel.arguments import Parser
from keel.config import KERNEL_IMAGE, Settings

SETTINGS = Settings()
LINUX = SETTINGS.linux
PORT, X86, DRIVERS = "arch/l4/", "arch/x86/", ("drivers/", "sound/")
# In the command for a file of Linux, but not in those for the build's own tools.
OF_KERNEL = "-D__KERNEL__"
SUFFIXES = {".c", ".h", ".S"}
IMAGES = (
    ("µ-kernel", SETTINGS.keel_directory / KERNEL_IMAGE),
    ("the same with its debugger", SETTINGS.keel_directory / rust.DEBUGGER_IMAGE),
    ("Linux on Keel", SETTINGS.linux_server),
    ("native Linux", SETTINGS.native_symbols),
    ("native Linux for ring 0", SETTINGS.ukl_symbols(())),
)
# The paper's rows: native Linux, L4Linux.
PAPER = ((2_500, 6_500), (2_000, 2_000), (105_000, None), (232_700, None))


def read_for(out: Path, source: Path) -> set[str]:
    """The files of the source tree that a build has read, by their paths in it."""
    found: set[str] = set()
    for kept in out.rglob(".*.o.cmd"):
        text = kept.read_text(errors="replace")
        for file in overlay.read_by(text, out) if OF_KERNEL in text else ():
            if not file.is_relative_to(source):
                continue
            place = file.relative_to(source)
            if place.is_relative_to(linux.ADAPTED_FILES):
                place = linux.X86_FILES / place.relative_to(linux.ADAPTED_FILES)
            if place.suffix in SUFFIXES and (source / place).is_file():
                found.add(str(place))
    return found


def table(native: set[str], keel: set[str], sources: Path, server_sources: Path) -> list[list[str]]:
    """The paper's rows, each with the paper's figures."""

    def lines(places: Iterable[str]) -> int:
        files = ((server_sources if place.startswith(PORT) else sources) / place for place in places)
        return sum(codelines.lines_of(file, codelines.count_all) for file in files)

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
    return shown


def sizes() -> list[list[str]]:
    """Keel's own parts, each with its limit."""
    rows = [["lines of code", "has", "alarm above"]]
    rows += [[part.name, f"{part.lines(run.REPOSITORY):,}", f"{part.limit:,}" if part.limit else ""] for part in codelines.PARTS]
    return rows


def texts(images: Sequence[tuple[str, Path]]) -> list[list[str]]:
    """Code and constants of each image that is built: the first column of the output of `size`."""
    rows = [["image", "bytes of text"]]
    for name, image in images:
        if image.exists():
            printed = subprocess.run(["size", str(image)], capture_output=True, text=True, check=True).stdout
            rows.append([name, f"{int(printed.splitlines()[1].split()[0]):,}"])
    return rows


def main() -> int:
    """Print Keel's own lines and sizes; with --table build what is missing, and print table 1 too."""
    said = "Keel's size, and source lines as SOSP'97's table 1 counts them."
    parser = Parser(prog="keel bench lines", description=said)
    parser.add_argument("--table", action="store_true", help="build both Linux, and print the paper's table 1 too")
    with_table = parser.parse().table
    if with_table:
        run.build_systems()
    tables = [sizes(), texts(IMAGES)]
    if with_table:
        native = read_for(LINUX / "native", LINUX / "pristine")
        keel = read_for(LINUX / "l4", LINUX / "l4-src")
        tables.append(table(native, keel, LINUX / "pristine", LINUX / "l4-src"))
    for rows in tables:
        print(run.as_markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
