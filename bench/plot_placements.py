#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws the results of bench/placements.py: a panel for each chosen row, and in it a bar for each place, to a native process.

  bench/plot_placements.py placements.json     writes placements.svg and placements.png beside it

`./keel bench placements --plot placements.json` runs it with Debian's Python, whose matplotlib it needs.
"""

import json
import statistics
import sys
from pathlib import Path

import placements
import plot
import run
from matplotlib import pyplot
from matplotlib.axes import Axes

from ukl import Ways

NAME = "placements"
COLUMNS = 3
PANEL_INCHES = (2.6, 2.4)
# The rows that are drawn, of those that were measured, and what they are.
ROWS = {
    "getpid-0": "getpid",
    "read-1": "read 1 byte",
    "write-1": "write to /dev/null",
    "read-8192": "read 8 KB",
    "pipe-round-trip": "a byte through a pipe and back",
    "fork-exec": "fork and exec",
    "mmap-fault": "page fault",
    "redis-get": "Redis GET, with its client",
    "memcached-get": "memcached get, with its client",
}
UNITS = {"instructions": "executed instructions", "cycles": "modelled cycles of a Skylake"}

# Ratio to native by place.
Bars = dict[str, float]


def bars(ladder: Ways, row: str) -> Bars:
    """Each place's median to that of a native process."""
    medians = {place: statistics.median(rows[row]) for place, rows in ladder.items() if row in rows}
    native = medians.pop(placements.RUNGS[0].name)
    return {place: median / native for place, median in medians.items()}


def draw_panel(axes: Axes, title: str, places: list[str], by_unit: dict[str, Bars]) -> None:
    """A panel. All have the same places, so that only the left ones name them."""
    height = plot.BAR / len(by_unit)
    for number, (unit, values) in enumerate(by_unit.items()):
        at = [places.index(place) - plot.BAR / 2 + (number + 0.5) * height for place in values]
        axes.barh(at, list(values.values()), height, label=UNITS[unit], color=plot.COLOURS[number])
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(places)), places, fontsize="x-small")
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.set_title(title, fontsize="small")


def draw_file(path: Path) -> None:
    """All panels of a file of results, beside it."""
    found: dict[str, Ways] = {unit: ladder for unit, ladder in json.loads(path.read_text()).items() if any(ladder.values())}
    native, *places = next(iter(found.values()), [""])
    rows = [row for row in ROWS if native == placements.RUNGS[0].name and row in found["instructions"][native]]
    if not rows:
        raise run.BenchError(f"{path} has none of the rows that are drawn")
    lines = -(-len(rows) // COLUMNS)
    size = (PANEL_INCHES[0] * COLUMNS + 1, PANEL_INCHES[1] * lines)
    figure, grid = pyplot.subplots(lines, COLUMNS, figsize=size, layout="constrained", squeeze=False, sharey=True)
    panels = list(grid.flat)
    for axes, row in zip(panels, rows):
        draw_panel(axes, ROWS[row], places, {unit: bars(ladder, row) for unit, ladder in found.items()})
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    figure.supxlabel("a process of native Linux is 1; a shorter bar is better", fontsize="small")
    panels[0].legend(fontsize="xx-small", loc="lower right")
    plot.save(figure, [path.parent / f"{NAME}.{suffix}" for suffix in plot.FORMATS])


if __name__ == "__main__":
    sys.exit(plot.main(draw_file))
