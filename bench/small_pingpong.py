#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Figure 4 of the paper about small address spaces: round trips between two native tasks of 32-bit code, of which the client
uses more and more of the TLBs and of the trace cache (user/bench/src/small.rs). bench/small.py runs it.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import run

NAME = "ping-pong"
SMALL, LARGE = "small", "large"
UNTAGGED, TAGGED = "untagged", "tagged"
CODE, DATA = "code", "data"
MACHINES = run.MACHINES.split(",")
# What the client uses, and how much of it; the paper has curves without numbers at these places.
SIZES = {
    "data": (0, 4, 8, 16, 32, 48, 56, 64, 80, 96, 128),
    "code": (0, 8, 16, 32, 64, 96, 112, 120, 128, 144, 160, 192),
    "nops": (0, 1024, 2048, 4096, 8192, 12288, 14336, 16384, 20480),
}
ABOUT = {"data": "data pages", "code": "code pages", "nops": "NOPs"}
# The server uses as much, of its own. The paper's only answers.
BOTH = "both-"
WHERE = {"": "of the client", BOTH: "of each of the two tasks"}


@dataclass(frozen=True)
class Trip:
    """A round trip: its instructions, and by machine and variant its cycles and its page walks for code and data."""

    instructions: float
    cycles: dict[str, dict[str, float]]
    misses: dict[str, dict[str, dict[str, float]]]


# Place (small or large) to the round trip, by size, by row.
Rows = dict[str, dict[int, dict[str, Trip]]]


def words() -> list[str]:
    """All rows with their sizes, as `./keel bench tasks --small` takes them."""
    return [f"{where}{kind}/{size}" for where in WHERE for kind, sizes in SIZES.items() for size in sizes]


def trips(lines: list[str], parts: list[Any]) -> Rows:
    """The round trips in the lines of the measuring program: each has two parts of the model's, of which the first warms up."""
    if 2 * len(lines) != len(parts):
        raise run.BenchError(f"the model saw {len(parts)} parts of {2 * len(lines)}")
    found: Rows = {}
    for line, part in zip(lines, parts[1::2], strict=True):
        told = json.loads(line)
        if told["idle_ticks"]:
            raise run.BenchError(f"{told['name']}: the processor idled while it was measured")
        place, word = told["name"].split("-", 1)
        row, size = word.split("/")
        times = told["iterations"]
        trip = Trip(told["tsc"][0] / times, divided(part["cycles"], times), divided(part["misses"], times))
        found.setdefault(row, {}).setdefault(int(size), {})[place] = trip
    return found


def divided(numbers: dict[str, Any], by: int) -> Any:
    """All numbers of nested dictionaries, for one of so many."""
    return {key: divided(value, by) if isinstance(value, dict) else value / by for key, value in numbers.items()}


def table(sizes: dict[int, dict[str, Trip]], machine: str, what: str) -> list[list[str]]:
    """Header and rows: a round trip by size. A TLB with tags makes no difference to small spaces, which write no CR3."""
    rows = [
        [what, "large", "large, tagged", "small", "large / small", "tagged / small"]
        + [f"{kind} misses, {place}" for kind in (CODE, DATA) for place in (LARGE, SMALL)]
    ]
    for size, places in sizes.items():
        large, small = (places[place].cycles[machine] for place in (LARGE, SMALL))
        misses = [places[place].misses[machine][UNTAGGED][kind] for kind in (CODE, DATA) for place in (LARGE, SMALL)]
        ratios = [large[variant] / small[variant] for variant in (UNTAGGED, TAGGED)]
        cycles = (large[UNTAGGED], large[TAGGED], small[UNTAGGED])
        cells = [*(f"{value:,.0f}" for value in cycles), *(f"{value:.2f}" for value in ratios)]
        rows.append([f"{size:,}", *cells, *(f"{value:.1f}" for value in misses)])
    return rows


def instructions(found: Rows) -> list[list[str]]:
    """Header and rows: instructions of a round trip that uses nothing, and of one that uses the most."""
    rows = [["row", "size", LARGE, SMALL]]
    for row, sizes in found.items():
        for size in (min(sizes), max(sizes)):
            rows.append([row, f"{size:,}", *(f"{sizes[size][place].instructions:,.0f}" for place in (LARGE, SMALL))])
    return rows


def measure(output: Path) -> tuple[list[tuple[str, list[list[str]]]], Any]:
    """All rows, with the models of all machines."""
    report = output / "small-parts.json"
    options = ["--small", "--machine", ",".join(MACHINES), "--parts", str(report)]
    lines = run.run_keel(["bench", run.TASKS, *options, *words()], NAME, b"").splitlines()
    found = trips(lines, json.loads(report.read_text()))
    tables = [("Instructions of a round trip", instructions(found))]
    for row, sizes in found.items():
        where = BOTH if row.startswith(BOTH) else ""
        what = ABOUT[row.removeprefix(where)]
        for machine in MACHINES:
            tables.append(
                (f"Modelled cycles of a round trip by the {what} {WHERE[where]}, {machine}", table(sizes, machine, what))
            )
    return tables, as_kept(found)


def as_kept(found: Rows) -> dict[str, Any]:
    """What of it is kept as JSON."""
    return {
        row: {size: {place: asdict(trip) for place, trip in places.items()} for size, places in sizes.items()}
        for row, sizes in found.items()
    }


def from_kept(kept: Any) -> Rows:
    """The round trips that `measure` kept."""
    return {
        row: {int(size): {place: Trip(**trip) for place, trip in places.items()} for size, places in sizes.items()}
        for row, sizes in kept.items()
    }
