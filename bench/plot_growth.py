#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws the results of bench/growth.py: the ratio to native Linux by size, a panel for each unit, and the µ-kernel's own
operations by the number of objects.

  bench/plot_growth.py growth.json     writes growth.svg and growth.png beside it

`./keel bench growth --plot growth.json` runs it with Debian's Python, whose matplotlib it needs.
"""

import math
import sys
from pathlib import Path

import growth
import plot
import run
from matplotlib import pyplot
from matplotlib.axes import Axes

NAME = "growth"
COLUMNS = 2
PANEL_INCHES = (5.0, 3.6)
# The smallest range of an axis of values.
DECADE = 10.0
# The number of colours; further curves have another line style.
COLOURS, LINES = 10, ("-", "--", ":")

# Values by size, by the curve's name.
Curves = dict[str, dict[int, float]]


def panels(results: run.Results) -> dict[tuple[str, str], Curves]:
    """A panel's title and unit to its curves. Curves of one point are left out."""
    found: dict[tuple[str, str], Curves] = {}
    for one in growth.curves(results):
        if len(one.ratios) > 1:
            found.setdefault((one.panel, f"ratio to native, by {one.unit}"), {})[one.name] = one.ratios
    for name, _, samples in growth.task_curves(results):
        if len(samples) > 1:
            own = found.setdefault((growth.KERNEL.name, "instructions for one, by their number"), {})
            own[name] = {size: sample.median for size, sample in samples.items()}
    return found


def draw_panel(axes: Axes, title: str, curves: Curves) -> None:
    """One panel. Both axes are logarithmic; that of the values spans at least a decade."""
    for number, (name, values) in enumerate(curves.items()):
        line = LINES[number // COLOURS % len(LINES)]
        axes.plot(list(values), list(values.values()), line, marker=".", color=f"C{number % COLOURS}", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < DECADE:
        # Differences of a few percent stay small.
        middle = math.sqrt(low * high)
        axes.set_ylim(middle / math.sqrt(DECADE), middle * math.sqrt(DECADE))
    axes.set_title(title, fontsize="medium")
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(fontsize="xx-small", ncols=2)


def draw_file(path: Path) -> None:
    """All panels of a file of results, beside it."""
    results, _ = run.from_json(path)
    found = panels(results)
    if not found:
        raise run.BenchError(f"{path} has no operation at two sizes on {' and '.join(run.SYSTEMS)}")
    lines = -(-len(found) // COLUMNS)
    size = (PANEL_INCHES[0] * COLUMNS, PANEL_INCHES[1] * lines)
    figure, grid = pyplot.subplots(lines, COLUMNS, figsize=size, layout="constrained", squeeze=False)
    places = list(grid.flat)
    for axes, ((title, what), curves) in zip(places, found.items()):
        draw_panel(axes, f"{title}: {what}", curves)
    for axes in places[len(found) :]:
        axes.set_axis_off()
    plot.save(figure, [path.parent / f"{NAME}.{suffix}" for suffix in plot.FORMATS])


if __name__ == "__main__":
    sys.exit(plot.main(draw_file))
