#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws what bench/small.py found as its paper does: cycles of a round trip of the ping-pong (figure 4) and through pipes (figure
6), a panel for each working set, cycles of a request (figure 7), and who switches to whom (figures 9 and 10).

  bench/plot_small.py small.json     writes small-spaces.svg, small-pipes.svg, small-web.svg and small-switches.svg beside it, and
                                     each as .png: those that it has figures for

`./keel bench small --plot small.json` runs it with Debian's Python, whose matplotlib it needs.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import plot
import plot_switches
import run
import small_pingpong
import small_programs
import small_servers
import small_switches
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from small_pingpong import LARGE, SMALL, TAGGED, UNTAGGED, Trip

NAME, PIPES_NAME, WEB_NAME = "small-spaces", "small-pipes", "small-web"
# The paper's.
MACHINE = "pentium4-1400"
PANELS = {"nops": "trace cache: NOPs", "code": "ITLB: pages with a jump", "data": "DTLB: pages with a read"}
# Place and variant to the label and the line.
CURVES = {
    (LARGE, UNTAGGED): ("large spaces", "-"),
    (LARGE, TAGGED): ("large spaces, tagged TLB", ":"),
    (SMALL, UNTAGGED): ("small spaces", "--"),
}
WIDTH_INCHES, HEIGHT_INCHES = 10.0, 3.6
WEB_WIDTH_INCHES = 5.0
# The row of bench/guest/small.c without a working set, and how the names of the others begin.
PIPE = "pipe"


def draw_panel(axes: Axes, sizes: dict[int, dict[str, Trip]]) -> None:
    """The curves of one working set."""
    for number, ((place, variant), (label, line)) in enumerate(CURVES.items()):
        cycles = [places[place].cycles[MACHINE][variant] for places in sizes.values()]
        axes.plot(list(sizes), cycles, line, marker=".", color=f"C{number}", label=label)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, linewidth=0.3)


def cycles_of(sample: dict[str, Any]) -> float:
    """An operation's cycles, of what is kept of a sample."""
    return float(statistics.median(sample["modelled"][MACHINE][UNTAGGED]))


def draw_pipes(kept: dict[str, Any]) -> Figure:
    """All panels of round trips through pipes."""
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    for axes, (kind, title) in zip(panels, PANELS.items(), strict=True):
        for system, samples in kept.items():
            begin = f"{PIPE}-{kind}-"
            rows = {0: PIPE} | {int(name.removeprefix(begin)): name for name in samples if name.startswith(begin)}
            axes.plot(list(rows), [cycles_of(samples[name]) for name in rows.values()], marker=".", label=system)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, linewidth=0.3)
        axes.set_title(title, fontsize="medium")
    panels[0].set_ylabel(f"cycles of a round trip, model {MACHINE}", fontsize="small")
    panels[0].legend(fontsize="small")
    return figure


def draw_requests(kept: dict[str, Any]) -> Figure:
    """The curves of requests, by the FastCGI server's pages."""
    figure, axes = pyplot.subplots(figsize=(WEB_WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    for system, samples in kept.items():
        rows = [name for name in samples if name.startswith(small_servers.REQUEST)]
        pages = [int(name.removeprefix(small_servers.REQUEST)) for name in rows]
        axes.plot(pages, [cycles_of(samples[name]) for name in rows], marker=".", label=system)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, linewidth=0.3)
    axes.set_xlabel("pages that the FastCGI server reads", fontsize="small")
    axes.set_ylabel(f"cycles of a request, model {MACHINE}", fontsize="small")
    axes.legend(fontsize="small")
    return figure


def draw_pingpong(kept: Any) -> Figure:
    """All panels of the ping-pong."""
    found = small_pingpong.from_kept(kept)
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    for axes, (row, title) in zip(panels, PANELS.items(), strict=True):
        draw_panel(axes, found[row])
        axes.set_title(title, fontsize="medium")
    panels[0].set_ylabel(f"cycles of a round trip, model {MACHINE}", fontsize="small")
    panels[0].legend(fontsize="small")
    return figure


def draw_file(path: Path) -> None:
    """What a file of results has, beside it."""
    kept = json.loads(path.read_text())
    figures = {}
    if set(PANELS) <= set(kept.get(small_pingpong.NAME, {})):
        figures[NAME] = draw_pingpong(kept[small_pingpong.NAME])
    if switches := kept.get(small_switches.NAME):
        figures[plot_switches.NAME] = plot_switches.draw(
            {name: small_switches.from_kept(found) for name, found in switches.items()}
        )
    if pipes := kept.get(small_programs.PIPES):
        figures[PIPES_NAME] = draw_pipes(pipes)
    if requests := kept.get(small_servers.FASTCGI):
        figures[WEB_NAME] = draw_requests(requests)
    if not figures:
        drawn = (small_pingpong.NAME, small_programs.PIPES, small_servers.FASTCGI, small_switches.NAME)
        raise run.BenchError(f"{path} has nothing that is drawn: no {', no '.join(drawn)}")
    for name, figure in figures.items():
        plot.save(figure, [path.parent / f"{name}.{suffix}" for suffix in plot.FORMATS])


if __name__ == "__main__":
    sys.exit(plot.main(draw_file))
