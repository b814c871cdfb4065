# SPDX-License-Identifier: GPL-2.0-only
"""The µ-kernel's longest sections with interrupts off, in executed instructions, and where they are.

A plugin of QEMU's translator (plugins/latency.c) watches the kernel from outside, on the deterministic clock: while its
suite runs, and under a load made to be long (user/bench with `args load`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import boot, bootconf, machine, nativetasks, plugins, process, qemu
from .config import KERNEL_IMAGE, Settings
from .errors import KeelError

TIMEOUT_S = 600.0
# The loads under the plugin.
LOADS = {"suite": bootconf.SUITE_TEMPLATE, "load": bootconf.LOAD_TEMPLATE}
SHOWN = 12
# The µ-kernel waits for its serial line with interrupts off. The time depends on the host, and output is rare.
KERNEL_LINE = "console=none"
# The limit of a test for the longest section under load.
LIMIT = 3_000
KERNEL_SOURCES = "kernel/src/"


@dataclass(frozen=True)
class Section:
    """One section with interrupts off: its instructions, the block where it begins, and the blocks that contribute most."""

    under: str
    instructions: int
    entry: int
    parts: tuple[tuple[int, int], ...]


def measure(settings: Settings, under: Sequence[str] = tuple(LOADS)) -> list[Section]:
    """Run the loads and return the longest sections, one for each place, longest first; the parts are built."""
    plugin = plugins.build(settings, "latency")
    found = [section for name in under for section in _watch(settings, plugin, name)]
    return sorted(found, key=lambda section: -section.instructions)


def _watch(settings: Settings, plugin: Path, under: str) -> list[Section]:
    report = plugin.with_name(f"{under}.txt")
    report.unlink(missing_ok=True)
    choices = boot.Choices(
        boot_template=LOADS[under],
        icount=True,
        kernel_line=KERNEL_LINE,
        emulator_arguments=qemu.plugin(plugin, f"output={report}"),
    )
    ended = nativetasks.run(settings, choices, TIMEOUT_S)
    sections = parse(under, report.read_text()) if report.exists() else []
    if ended.exit_value != machine.EXIT_TESTS_PASSED or not sections:
        raise KeelError(f"the longest sections with interrupts off cannot be measured: {ended.last_line()}")
    return sections


def parse(under: str, report: str) -> list[Section]:
    """The plugin's output: length, entry, and address=instructions of each part, longest first."""
    sections = []
    for line in report.splitlines():
        length, entry, *parts = line.split()
        pairs = [part.split("=") for part in parts]
        sections.append(Section(under, int(length), int(entry, 16), tuple((int(at, 16), int(n)) for at, n in pairs)))
    return sections


def judge(sections: Sequence[Section], leeway: float) -> tuple[str, str]:
    """The name of the test of the longest section and what is wrong, or nothing; the limit is multiplied by `leeway`."""
    longest, limit = sections[0], LIMIT * leeway
    problem = f"expected at most {limit:.0f} instructions, got {longest.instructions}, most at {longest.parts[0][0]:#x}"
    return "longest-stretch-under-load", problem if longest.instructions > limit else ""


@dataclass(frozen=True)
class Place:
    """What the debugging information says of an address: the function that holds it, and the source line."""

    function: str
    line: str


def plain_name(function: str) -> str:
    """A function's name without its path, types and closures."""
    while "<" in function and function != (function := re.sub(r"<[^<>]*>", "", function)):
        pass
    names = [name for name in function.split("::") if name and name[0] != "{"]
    return names[-1] if names else function


def read_places(text: str) -> dict[int, Place]:
    """The output of addr2line: an address, then the functions inlined there from the inside out."""
    places: dict[int, Place] = {}
    frames: list[tuple[str, str]] = []
    address = 0
    for line in text.splitlines():
        if begun := re.match(r"(0x[0-9a-f]+): (.*)", line):
            address, frames = int(begun[1], 16), []
            line = begun[2]
        function, _, source = line.strip().removeprefix("(inlined by) ").partition(" at ")
        frames.append((plain_name(function), source.split(" ")[0]))
        lines = [place for _, place in frames if KERNEL_SOURCES in place]
        inner = lines[0].split(KERNEL_SOURCES)[1] if lines else ""
        places[address] = Place(frames[-1][0], inner)
    return places


def find_places(settings: Settings, addresses: Iterable[int]) -> dict[int, Place]:
    """The place of each address in the µ-kernel that was measured."""
    image = settings.keel_directory / KERNEL_IMAGE
    argv = ["addr2line", "-e", str(image), "-f", "-C", "-i", "-p", "-a", *(f"{address:#x}" for address in addresses)]
    return read_places(process.output(argv))


def rows(sections: Sequence[Section], places: dict[int, Place]) -> list[list[str]]:
    """A header and a line for each section: its length, its load, the costliest line, the share of each function."""
    table = [["instructions", "under", "mostly at", "functions"]]
    for section in sections:
        functions: Counter[str] = Counter()
        for address, instructions in section.parts:
            functions[places[address].function] += instructions
        shares = ", ".join(f"{name} {count:,}" for name, count in functions.most_common(3))
        lines = (places[address].line for address, _ in section.parts)
        table.append([f"{section.instructions:,}", section.under, next(filter(None, lines), ""), shares])
    return table


def table(settings: Settings, sections: Sequence[Section]) -> list[list[str]]:
    """The longest sections, as rows of a table."""
    shown = sections[:SHOWN]
    return rows(shown, find_places(settings, sorted({address for one in shown for address, _ in one.parts})))
