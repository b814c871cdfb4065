#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws the results of bench/latency.py: memcached's mean and 99th percentile by the offered load, a curve for each place.

  bench/plot_latency.py latency.json     writes latency.svg and latency.png beside it

`./keel bench latency --plot latency.json` runs it with Debian's Python, whose matplotlib it needs.
"""

import json
import sys
from pathlib import Path

import latency
import plot
import run
from matplotlib import pyplot

from ukl import Ways

NAME = "latency"
WIDTH_INCHES, HEIGHT_INCHES = 10.0, 4.6
PANELS = {latency.MEAN: "mean", latency.TAIL: "99th percentile"}
# Beyond this a rate is not served; how long its requests take depends on when the run ends.
TOP = 10 * latency.WITHIN_MICROSECONDS
# Native Linux and Unikernel Linux have broken lines.
LINES = {True: "--", False: "-"}


def draw_file(path: Path) -> None:
    """Both panels of a file of results, beside it."""
    found: Ways = json.loads(path.read_text())
    places = [place for place in latency.PLACES if latency.curve(found.get(place.name, {}), latency.TAIL)]
    if not places:
        raise run.BenchError(f"{path} has no curve of memcached's")
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained", sharey=True)
    for axes, (what, title) in zip(panels, PANELS.items(), strict=True):
        for number, place in enumerate(places):
            points = latency.curve(found[place.name], what)
            rates = [rate / 1000 for rate in points]
            axes.plot(rates, list(points.values()), LINES[place.native], marker=".", color=f"C{number}", label=place.name)
        axes.axhline(latency.WITHIN_MICROSECONDS, color="black", linewidth=0.6)
        axes.set_yscale("log")
        axes.set_ylim(top=TOP)
        axes.set_title(f"memcached: {title}", fontsize="medium")
        axes.set_xlabel("thousand requests a second of 10⁹ instructions", fontsize="small")
        axes.grid(visible=True, linewidth=0.3)
    panels[0].set_ylabel("µs from a request's time to its answer", fontsize="small")
    panels[0].legend(fontsize="x-small", loc="upper left")
    plot.save(figure, [path.parent / f"{NAME}.{suffix}" for suffix in plot.FORMATS])


if __name__ == "__main__":
    sys.exit(plot.main(draw_file))
