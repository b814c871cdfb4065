#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws what bench/small.py found as its paper does: cycles of a round trip of the ping-pong (figure 4) and through pipes (figure
6), a panel for each working set, cycles of a request (figure 7), and who switches to whom (figures 9 and 10).

  bench/plot_small.py small.json     writes small-spaces.svg, small-pipes.svg, small-web.svg and small-switches.svg beside it, and
                                     each as .png: those that it has figures for

`./keel bench small --plot small.json` runs it with Debian's Python, whose matplotlib it needs.
"""

import json
import sys
from collections.abc import Callable
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
from small_pingpong import LARGE, SMALL, TAGGED, UNTAGGED
from small_programs import PAPER_MACHINE as MACHINE
from small_programs import modelled_of

NAME, PIPES_NAME, WEB_NAME = "small-spaces", "small-pipes", "small-web"
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


def finish(axes: Axes) -> None:
    """What each picture of cycles has."""
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, linewidth=0.3)


def draw_panels(draw: Callable[[Axes, str], None]) -> Figure:
    """Round trips: a panel for each working set, whose curves are drawn by its name."""
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    for axes, (row, title) in zip(panels, PANELS.items(), strict=True):
        draw(axes, row)
        finish(axes)
        axes.set_title(title, fontsize="medium")
    panels[0].set_ylabel(f"cycles of a round trip, model {MACHINE}", fontsize="small")
    panels[0].legend(fontsize="small")
    return figure


def draw_pingpong(kept: Any) -> Figure:
    """The ping-pong."""
    found = small_pingpong.from_kept(kept)

    def draw(axes: Axes, row: str) -> None:
        for number, ((place, variant), (label, line)) in enumerate(CURVES.items()):
            cycles = [places[place].cycles[MACHINE][variant] for places in found[row].values()]
            axes.plot(list(found[row]), cycles, line, marker=".", color=f"C{number}", label=label)

    return draw_panels(draw)


def draw_pipes(kept: dict[str, Any]) -> Figure:
    """Round trips through pipes."""

    def draw(axes: Axes, row: str) -> None:
        begin = f"{PIPE}-{row}-"
        for system, samples in kept.items():
            names = {0: PIPE} | {int(name.removeprefix(begin)): name for name in samples if name.startswith(begin)}
            axes.plot(list(names), [modelled_of(kept, system, name) for name in names.values()], marker=".", label=system)

    return draw_panels(draw)


def draw_requests(kept: dict[str, Any]) -> Figure:
    """The curves of requests, by the FastCGI server's pages."""
    figure, axes = pyplot.subplots(figsize=(WEB_WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    for system, samples in kept.items():
        rows = [name for name in samples if name.startswith(small_servers.REQUEST)]
        pages = [int(name.removeprefix(small_servers.REQUEST)) for name in rows]
        axes.plot(pages, [modelled_of(kept, system, name) for name in rows], marker=".", label=system)
    finish(axes)
    axes.set_xlabel("pages that the FastCGI server reads", fontsize="small")
    axes.set_ylabel(f"cycles of a request, model {MACHINE}", fontsize="small")
    axes.legend(fontsize="small")
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
