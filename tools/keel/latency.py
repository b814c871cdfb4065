# SPDX-License-Identifier: GPL-2.0-only
"""The µ-kernel's longest sections with interrupts off, in executed instructions, and where they are.

A plugin of QEMU's translator (plugins/latency.c) watches the kernel from outside, on the deterministic clock: while its
suite runs, and under loads that are made to be long (user/bench with `args load`, user/hostile). tests/test_latency.py has
Linux's.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import boot, bootconf, machine, nativetasks, plugins, process, qemu
from .config import KERNEL_IMAGE, Settings
from .errors import KeelError

TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Load:
    """What runs under the plugin: a boot configuration, the arguments of its program, more words for the µ-kernel."""

    template: Path
    arguments: str = ""
    words: str = ""


# The loads under the plugin. Hostile programs make fewer calls than in their own test.
LOADS = {
    "suite": Load(bootconf.SUITE_TEMPLATE),
    "load": Load(bootconf.LOAD_TEMPLATE),
    "unmaps": Load(bootconf.UNMAPS_TEMPLATE, "late-us=5000"),
    "hostile": Load(bootconf.HOSTILE_TEMPLATE, "calls=30000 late-us=1000000"),
}
# More of the hostile programs, for the long test.
HOSTILE_SEEDS = range(2, 8)
LONG_LOADS = {
    **LOADS,
    "suite-supervisor": replace(LOADS["suite"], words="supervisor"),
    "suite-nofast": replace(LOADS["suite"], words="nofast"),
    **{f"hostile-{n}": replace(LOADS["hostile"], arguments=f"seed={n} calls=100000 late-us=1000000") for n in HOSTILE_SEEDS},
}
SHOWN = 12
# The µ-kernel waits for its serial line with interrupts off. The time depends on the host, and output is rare. Without the other
# word there are no small address spaces in QEMU.
KERNEL_LINE = f"console=none {machine.UNSAFE}"
# The limit of a test for the longest section.
LIMIT = 3_000
KERNEL_SOURCES = "kernel/src/"
# What may take longer, by where most of it is (docs/caveats.md): a line on the console, which is formatted also where there is
# none, with a limit that shows what else would hide there; and the wait for a serial line.
EXCEPTIONS = {"arch/x86_64/print.rs": 6_000, "arch/x86_64/serial.rs": sys.maxsize}


@dataclass(frozen=True)
class Section:
    """One section with interrupts off: its instructions, the block where it begins, and the blocks that contribute most."""

    under: str
    instructions: int
    entry: int
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Place:
    """What the debugging information says of an address: the function that holds it, and the source line."""

    function: str
    line: str


def measure(settings: Settings, loads: Mapping[str, Load] = LOADS) -> list[Section]:
    """Run the loads and return the longest sections, one for each place, longest first; the parts are built."""
    found = [section for name, load in loads.items() for section in _watch(settings, name, load)]
    return sorted(found, key=lambda section: -section.instructions)


def watch(settings: Settings, under: str) -> tuple[Path, tuple[str, ...]]:
    """Prepare the plugin; return where it will report on a load, and the emulator's arguments."""
    plugin = plugins.build(settings, "latency")
    report = plugin.with_name(f"{under}.txt")
    report.unlink(missing_ok=True)
    return report, qemu.plugin(plugin, f"output={report}")


def _watch(settings: Settings, under: str, load: Load) -> list[Section]:
    report, arguments = watch(settings, under)
    choices = boot.Choices(
        boot_template=load.template,
        icount=True,
        kernel_line=f"{KERNEL_LINE} {load.words}".rstrip(),
        arguments=load.arguments,
        emulator_arguments=arguments,
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


def limit_of(line: str) -> int:
    """Return the limit of a section most of which is at a source line."""
    return next((limit for file, limit in EXCEPTIONS.items() if line.startswith(f"{file}:")), LIMIT)


def judge(settings: Settings, sections: Sequence[Section], leeway: float = 1.0) -> list[tuple[str, str]]:
    """Return for each load the name of its test, and what is wrong, or nothing; limits are multiplied by `leeway`."""
    long = [section for section in sections if section.instructions > LIMIT * leeway]
    places = find_places(settings, {section.parts[0][0] for section in long}) if long else {}
    return list(judge_at(sections, places, leeway))


def judge_at(sections: Sequence[Section], places: Mapping[int, Place], leeway: float) -> Iterator[tuple[str, str]]:
    """Judge as `judge`, with the places of what is longer than the limit."""
    for under in dict.fromkeys(section.under for section in sections):
        problems = []
        for section in (section for section in sections if section.under == under and section.parts[0][0] in places):
            place = places[section.parts[0][0]]
            if section.instructions > (limit := limit_of(place.line) * leeway):
                problems.append(f"{section.instructions} instead of {limit:.0f} in {place.function}, {place.line}")
        yield f"longest-section-under-{under}", ", ".join(problems)


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
