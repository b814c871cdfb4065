#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws the results of bench/run.py like SOSP'97's figures: each operation's slowdown to native Linux (6), and a mix of work with
a growing number of users (8 and 9).

  bench/plot.py results.json     writes slowdown.svg and slowdown.png beside it, or a pair for each modelled machine,
                                 and load.svg and load.png

`./keel bench --plot results.json` runs it with Debian's Python, whose matplotlib it needs.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import run

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

# Text stays text, and the same results make the same file.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "keel"}
# REUSE-IgnoreStart (the licence of the figures, not of this file)
METADATA = {"Date": None, "Rights": "SPDX-License-Identifier: GPL-2.0-only"}
# REUSE-IgnoreEnd
NAME = "slowdown"
FORMATS = ("svg", "png")
WIDTH_INCHES = 8.0
INCHES_A_BAR = 0.12
BAR = 0.9
INSTRUCTIONS, PAPER = "Keel, executed instructions", "L4Linux, SOSP'97, time"
COLOURS = ("tab:blue", "tab:orange", "tab:green")
PAPER_COLOUR = "lightgray"
LOAD_NAME = "load"
LOAD_HEIGHT_INCHES = 3.5
LOAD_ROW = re.compile(r"job-of-(\d+)-users?")
# What a processor of a billion instructions a second would do in a minute.
INSTRUCTIONS_A_SECOND, SECONDS_A_MINUTE = 1e9, 60

# Slowdowns by row.
Series = dict[str, float]


def modelled(results: run.Results) -> dict[str, dict[str, Series]]:
    """Machine to its series."""
    found: dict[str, dict[str, Series]] = {}
    for name, ratios in run.cycle_ratios(results).items():
        for (machine, variant), ratio in ratios.items():
            found.setdefault(machine, {}).setdefault(f"Keel, modelled cycles, {machine}, {variant} TLB", {})[name] = ratio
    return found


def draw(series: dict[str, Series], files: list[Path]) -> None:
    """Bars for all rows of the first series, in the order of the legend. Missing values have no bar."""
    rows = list(next(iter(series.values())))
    height = BAR / len(series)
    figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES, INCHES_A_BAR * len(series) * len(rows) + 1), layout="constrained")
    for number, (label, values) in enumerate(series.items()):
        places = [rows.index(name) - BAR / 2 + (number + 0.5) * height for name in values]
        colour = PAPER_COLOUR if label == PAPER else COLOURS[number]
        axes.barh(places, list(values.values()), height, label=label, color=colour)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("native Linux is 1; a shorter bar is better")
    axes.legend(fontsize="small")
    save(figure, files)


def draw_load(results: run.Results, files: list[Path]) -> None:
    """Two curves for each system: the time of all users' jobs, and the jobs per minute."""
    figure, (times, rates) = pyplot.subplots(1, 2, figsize=(WIDTH_INCHES, LOAD_HEIGHT_INCHES), layout="constrained")
    for system, samples in results.items():
        loads = {int(found[1]): samples[name].median for name in samples if (found := LOAD_ROW.fullmatch(name))}
        if not loads:
            continue
        users, jobs = sorted(loads), [loads[load] / INSTRUCTIONS_A_SECOND for load in sorted(loads)]
        times.plot(users, [load * job for load, job in zip(users, jobs, strict=True)], marker="o", label=system)
        rates.plot(users, [SECONDS_A_MINUTE / job for job in jobs], marker="o", label=system)
    for axes, what in ((times, "seconds for all users' jobs"), (rates, "jobs a minute")):
        axes.set_xlabel("users, at 10⁹ instructions a second")
        axes.set_ylabel(what)
        axes.set_ylim(bottom=0)
    times.legend(fontsize="small")
    save(figure, files)


def save(figure: Figure, files: list[Path]) -> None:
    """Writes a figure in each format."""
    for file in files:
        figure.savefig(file, metadata=METADATA if file.suffix == ".svg" else None)
        print(f"bench: wrote {file}", file=sys.stderr)


def draw_all(results: run.Results, directory: Path) -> None:
    """A figure for each machine, or one without any; and one of the load."""
    native, keel = (results[system] for system in run.SYSTEMS)
    rows = [name for name in native if name in keel and name != run.BOOT_ROW]
    papers = {name: run.paper_ratio(name) for name in rows}
    ours = {INSTRUCTIONS: {name: run.ratio([native[name], keel[name]]) for name in rows}}
    theirs = {PAPER: {name: float(ratio) for name, ratio in papers.items() if ratio}}
    machines = {f"{NAME}-{machine}": series for machine, series in modelled(results).items()} or {NAME: {}}
    for name, series in machines.items():
        draw({**ours, **series, **theirs}, [directory / f"{name}.{suffix}" for suffix in FORMATS])
    if any(LOAD_ROW.fullmatch(name) for name in rows):
        draw_load(results, [directory / f"{LOAD_NAME}.{suffix}" for suffix in FORMATS])


def draw_file(path: Path) -> None:
    """Draws all figures of a file of results, beside it."""
    results, _ = run.from_json(path)
    if not set(run.SYSTEMS) <= set(results):
        raise run.BenchError(f"{path} has not measured {' and '.join(run.SYSTEMS)}")
    draw_all(results, path.parent)


def main(draw: Callable[[Path], None]) -> int:
    """Draw the results file that the argument names; returns the exit status."""
    matplotlib.rcParams.update(STYLE)
    try:
        draw(Path(sys.argv[1]))
    except (run.BenchError, OSError) as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1
    except (json.JSONDecodeError, UnicodeDecodeError):
        print(f"bench: error: {sys.argv[1]} holds no results of this program", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(draw_file))
