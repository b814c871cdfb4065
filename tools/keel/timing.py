# SPDX-License-Identifier: GPL-2.0-only
"""Modelled cycles of named machines (machines.toml), which a plugin of QEMU's translator counts (plugins/timing.c)."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from .errors import KeelError, Status
from .profile import Profile, Symbols, place

MACHINES = Path(__file__).parent / "machines.toml"
# TLBs flushed at a change of address space, and tagged ones (PCID) that are not, in the plugin's order.
VARIANTS = ("untagged", "tagged")
# What a TLB translates for, in the plugin's order.
KINDS = ("code", "data")
# Keys of the file for human readers.
ABOUT = "about"
# In cycles there, and in thousandths of one for the plugin; the others are numbers of things.
TIMES = {
    "instruction",
    "code_from_second",
    "data_from_second",
    "from_memory",
    "page_from_second",
    "code_page_walk",
    "data_page_walk",
}
TIMES |= {"syscall", "sysret", "exception", "interrupt", "iret", "segment_load"}
TIMES |= {"space_change", "space_change_tagged", "page_invalidation"}
MILLI = 1000


@dataclass(frozen=True)
class Part:
    """The instructions between two marks, and for each machine and variant their cycles and TLB misses by kind.

    A miss is a walk of the page tables: no level of the TLB had the page. A change of space is a write of CR3.
    """

    instructions: int
    cycles: dict[str, dict[str, int]]
    misses: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    space_changes: int = 0


@dataclass(frozen=True)
class Report:
    """All parts in their order, and the last one's blocks of code with their cycles."""

    parts: list[Part]
    blocks: list[tuple[int, dict[str, dict[str, int]]]]

    def profile(self, machine: str, variant: str, images: Sequence[Symbols]) -> Profile:
        """The cycles of a machine in the last part, by code."""
        counts: Counter[tuple[str, str]] = Counter()
        for address, cycles in self.blocks:
            counts[place(address, images)] += cycles[machine][variant]
        return Profile(counts)


@cache
def machines() -> dict[str, dict[str, int | float | str]]:
    """All machines and their parameters."""
    return tomllib.loads(MACHINES.read_text())


def choose(names: str) -> list[str]:
    """The machines of a list with commas; refuses an unknown one."""
    chosen = names.split(",")
    for name in chosen:
        if name not in machines():
            raise KeelError(f"there is no machine {name}", f"there are {', '.join(machines())}", Status.USAGE)
    return chosen


def write_model(path: Path, names: Sequence[str], *, native: bool) -> None:
    """The file that the plugin reads. Native Linux has the upper half of an address space for itself."""
    lines: list[str] = []
    for name in names:
        lines += [f"machine {name}", f"shared_half {int(not native)}"]
        for key, value in machines()[name].items():
            if key != ABOUT:
                lines.append(f"{key} {round(float(value) * (MILLI if key in TIMES else 1))}")
    path.write_text("\n".join(lines) + "\n")


def read_report(lines: Iterable[str], names: Sequence[str]) -> Report:
    """What a plugin wrote, for the machines it was given, in that order; plugins/profile.c knows of none."""
    report = Report([], [])
    for line in lines:
        kind, *words = line.split()
        numbers = [int(word, 0) for word in words]
        if kind == "misses":
            counts = iter(numbers)
            for name in names:
                report.parts[-1].misses[name] = {variant: {page: next(counts) for page in KINDS} for variant in VARIANTS}
            continue
        if kind == "space_changes":
            report.parts[-1] = replace(report.parts[-1], space_changes=numbers[0])
            continue
        pairs = iter(numbers[1 if kind == "part" else 2 :])
        cycles = {name: dict(zip(VARIANTS, [next(pairs), next(pairs)])) for name in names}
        if kind == "part":
            report.parts.append(Part(numbers[0], cycles))
        else:
            report.blocks.append((numbers[0], cycles))
    return report


def write_parts(path: Path, report: Report) -> None:
    """All parts, for the programs in bench/."""
    path.write_text(json.dumps([asdict(part) for part in report.parts]) + "\n")
