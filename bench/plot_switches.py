# SPDX-License-Identifier: GPL-2.0-only
"""Draws who switches to whom as figures 9 and 10 of the paper about small address spaces: a circle of tasks, and lines as wide as
the logarithm of the number of switches. bench/plot_small.py calls it.
"""

import math
from collections import Counter

import small_switches
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from small_switches import Switches

NAME = "small-switches"
# Inches of a circle with its names.
PANEL = 3.1
# A line's width in points: of one switch, and what each doubling adds.
THIN, DOUBLING = 0.4, 0.3
# How far a line bends to its right, so that those of both directions lie beside each other.
BEND = 0.18
NAMES_AT, LIMIT = 1.12, 1.5
OUTSIDE = "0.55"


def draw_circle(axes: Axes, counts: Counter[tuple[str, str]], groups: dict[str, str]) -> None:
    """The tasks clockwise, group by group, and a line for each pair, of the colour of its group."""
    known = list(dict.fromkeys(filter(None, groups.values())))
    colours = {group: f"C{number}" for number, group in enumerate(known)}
    labels = [*groups, *(label for pair in counts for label in pair)]
    order = sorted(dict.fromkeys(labels), key=lambda label: ["", *known].index(groups.get(label, "")))
    angles = {label: math.pi / 2 - 2 * math.pi * number / len(order) for number, label in enumerate(order)}
    places = {label: (math.cos(angle), math.sin(angle)) for label, angle in angles.items()}
    for (before, after), count in counts.items():
        group = groups.get(before) if groups.get(before) == groups.get(after) else None
        line = {"linewidth": THIN + DOUBLING * math.log2(count), "color": colours.get(group or "", OUTSIDE)}
        bend = f"arc3,rad={BEND}"
        axes.add_patch(FancyArrowPatch(places[before], places[after], connectionstyle=bend, arrowstyle="-", alpha=0.8, **line))
    for label, (x, y) in places.items():
        axes.plot(x, y, "o", color=colours.get(groups.get(label, ""), "black"), markersize=4)
        side = "center" if abs(x) < 0.2 else "left" if x > 0 else "right"
        axes.text(x * NAMES_AT, y * NAMES_AT, label, ha=side, va="center", fontsize="x-small")
    axes.set_xlim(-LIMIT, LIMIT)
    axes.set_ylim(-LIMIT, LIMIT)
    axes.set_aspect("equal")
    axes.axis("off")


def draw(found: dict[str, Switches]) -> Figure:
    """A column for each workload: all switches above, those between programs below."""
    size = (PANEL * len(found), PANEL * 2)
    figure, panels = pyplot.subplots(2, len(found), figsize=size, layout="constrained", squeeze=False)
    for column, (name, switches) in enumerate(found.items()):
        draw_circle(panels[0][column], switches.all, switches.groups)
        draw_circle(panels[1][column], switches.programs, switches.groups)
        panels[0][column].set_title(f"{name}: all", fontsize="medium")
        panels[1][column].set_title(f"{name}: without {small_switches.SERVER}", fontsize="medium")
    return figure
