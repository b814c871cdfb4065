#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Section 5.2 of the paper about small address spaces: what application groups cost and save, between native tasks of 32-bit code
(user/bench/src/groups.rs). bench/small.py runs it.

Round trips are within groups or between them, with a growing number of groups. Revocation takes a group's window from one task
and gives it to another one, among a growing number of groups, and in windows of several sizes, of which more or less is in use.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import run
from small_pingpong import LARGE, MACHINES, TAGGED, UNTAGGED, divided

NAME = "groups"
# Where the tasks of round trips are: in one group, in as many as there are, in spaces of their own.
ONE, GROUPS = "one", "groups"
PLACES = (ONE, GROUPS, LARGE)
KINDS = {"empty": "nothing", "data": "8 data pages"}
# Round trips within a group for each one that goes there from another group.
TRIPS = (0, 1, 16)
VISITED = (1, 2, 4, 8, 16)
# Whose tables have the window that is revoked: a task without threads, or the one that revokes it.
HOSTS = ("home", "chief")
# Log2 of a window's size.
SIZES = {24: "16 MB", 28: "256 MB", 30: "1 GB"}
# Bytes of a page table's entries: a window has an entry for each table.
TABLE_LOG2 = 21
EXISTING = (1, 2, 4, 8, 16, 32)
# Page tables in which both users of the window read a page, among many groups and in one.
TABLES_EACH = 8
TABLES = (1, 8, 64, 128, 512)
# The steps of a revocation, and their titles.
STEPS = {"take": "taking it", "give": "giving it", "first": "first message", "second": "second message"}


@dataclass(frozen=True)
class Took:
    """What one operation took: its instructions, and by machine and variant cycles and page walks; and its writes of CR3."""

    instructions: float
    cycles: dict[str, dict[str, float]]
    misses: dict[str, dict[str, dict[str, float]]]
    space_changes: float


# Place to round trip, by row.
Visits = dict[str, dict[str, Took]]
# Step to what it took, by row.
Revocations = dict[str, dict[str, Took]]


def visit_words() -> list[str]:
    """The rows of round trips."""
    return [f"{kind}-{trips}/{groups}" for kind in KINDS for trips in TRIPS for groups in VISITED]


def revocation_words() -> list[str]:
    """The rows of revocation: first those whose number of groups grows."""
    words = [f"home-{log2}-{TABLES_EACH}/{groups}" for log2 in SIZES for groups in EXISTING]
    fitting = [(log2, tables) for log2 in SIZES for tables in TABLES if tables <= 1 << log2 - TABLE_LOG2]
    words += [f"{host}-{log2}-{tables}/1" for host in HOSTS for log2, tables in fitting]
    return list(dict.fromkeys(words))


def took(instructions: float, parts: list[Any], operations: int) -> Took:
    """One of several operations that these parts of the model's were."""
    cycles, misses = (_sum([part[kind] for part in parts]) for kind in ("cycles", "misses"))
    changes = sum(part["space_changes"] for part in parts)
    return Took(instructions / operations, divided(cycles, operations), divided(misses, operations), changes / operations)


def _sum(dictionaries: list[Any]) -> Any:
    """The sums of the numbers of nested dictionaries with the same keys."""
    first = dictionaries[0]
    return {
        key: _sum([one[key] for one in dictionaries]) if isinstance(value, dict) else sum(one[key] for one in dictionaries)
        for key, value in first.items()
    }


def found(lines: list[str], parts: list[Any]) -> tuple[Visits, Revocations]:
    """What the measuring program said, with the model's parts in the same order.

    The first ones of each line fill caches: of round trips one of two, of revocations all but the last ones, each of all steps.
    """
    visits: Visits = {}
    revocations: Revocations = {}
    rest = iter(parts)
    try:
        for line in lines:
            told = json.loads(line)
            if told["idle_ticks"]:
                raise run.BenchError(f"{told['name']}: the processor idled while it was measured")
            times = told["iterations"]
            if len(told["tsc"]) == len(STEPS):
                own = [next(rest) for _ in range(told["parts"])][-times * len(STEPS) :]
                steps = zip(STEPS, told["tsc"])
                revocations[told["name"]] = {
                    step: took(instructions, own[number :: len(STEPS)], times)
                    for number, (step, instructions) in enumerate(steps)
                }
            else:
                next(rest)
                place, row = told["name"].split("-", 1)
                visits.setdefault(row, {})[place] = took(told["tsc"][0], [next(rest)], times)
    except StopIteration as error:
        raise run.BenchError(f"the model saw {len(parts)} parts, which is too few") from error
    if left := len(list(rest)):
        raise run.BenchError(f"the model saw {left} parts more than there are lines for")
    return visits, revocations


def visits_table(visits: Visits, machine: str) -> list[list[str]]:
    """Header and rows: modelled cycles of a round trip by the share within groups and their number."""
    variants = {UNTAGGED: "", TAGGED: ", tagged"}
    rows = [["each uses", "within its group", "groups"]]
    rows[0] += [f"{place}{told}" for told in variants.values() for place in PLACES]
    rows[0] += [f"{LARGE} / {GROUPS}", f"{GROUPS} / {ONE}", "misses, one", "misses, groups", "misses, large", "writes of CR3"]
    for row, places in visits.items():
        (kind, trips), groups = row.split("/")[0].split("-"), row.split("/")[1]
        cycles = {variant: [places[place].cycles[machine][variant] for place in PLACES] for variant in variants}
        one, apart, large = cycles[UNTAGGED]
        misses = [sum(places[place].misses[machine][UNTAGGED].values()) for place in PLACES]
        rows.append(
            [KINDS[kind], f"{int(trips)} of {int(trips) + 1}", groups]
            + [f"{value:,.0f}" for values in cycles.values() for value in values]
            + [f"{large / apart:.2f}", f"{apart / one:.2f}", *(f"{value:.1f}" for value in misses)]
            + [" / ".join(f"{places[place].space_changes:.2f}" for place in PLACES)]
        )
    return rows


def revocations_table(revocations: Revocations, machine: str | None) -> list[list[str]]:
    """Header and rows: the steps of a revocation, in instructions, or in modelled cycles of a machine without tags."""
    rows = [["host", "window", "tables in use", "groups", *STEPS.values()]]
    for row, steps in revocations.items():
        (host, log2, tables), groups = row.split("/")[0].split("-"), row.split("/")[1]
        values = [step.cycles[machine][UNTAGGED] if machine else step.instructions for step in steps.values()]
        rows.append([host, SIZES[int(log2)], tables, groups, *(f"{value:,.0f}" for value in values)])
    return rows


def measure(output: Path) -> tuple[list[tuple[str, list[list[str]]]], Any]:
    """All rows, with the models of all machines."""
    report = output / "small-groups-parts.json"
    options = ["--small", "--machine", ",".join(MACHINES), "--parts", str(report)]
    text = run.run_keel(["bench", run.TASKS, *options, *visit_words(), *revocation_words()], NAME, b"")
    visits, revocations = found(text.splitlines(), json.loads(report.read_text()))
    instructions = [["each uses", "within its group", "groups", *PLACES]]
    for row, places in visits.items():
        (kind, trips), groups = row.split("/")[0].split("-"), row.split("/")[1]
        cells = [f"{places[place].instructions:,.0f}" for place in PLACES]
        instructions.append([KINDS[kind], f"{int(trips)} of {int(trips) + 1}", groups, *cells])
    tables = [("Instructions of a round trip by groups", instructions)]
    tables += [(f"Modelled cycles of a round trip by groups, {machine}", visits_table(visits, machine)) for machine in MACHINES]
    tables += [("Instructions of a revocation", revocations_table(revocations, None))]
    tables += [(f"Modelled cycles of a revocation, {machine}", revocations_table(revocations, machine)) for machine in MACHINES]
    kept = {
        row: {name: asdict(one) for name, one in each.items()}
        for each_row in (visits, revocations)
        for row, each in each_row.items()
    }
    return tables, kept
