#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Repeats experiments of "Performance of Address-Space Multiplexing on the Pentium" (Uhlig, Dannowski, Skoglund, Haeberlen,
Heiser): the same programs in windows of one space, and in spaces of their own.

Each experiment is a function in a module of its own: it gets a directory for its files, and returns tables with their titles, and
what is kept of it in small.json. `./keel bench small` calls `main()`.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import run
import small_applications
import small_groups
import small_pingpong
import small_programs
import small_servers
import small_switches
import small_turns

sys.path.insert(0, str(run.REPOSITORY / "tools"))

from keel.arguments import Parser, in_columns

PLOTTER = Path(__file__).with_name("plot_small.py")
NAME = "small"

# A title, and the header and rows below it.
Table = tuple[str, list[list[str]]]
# What it is, and its function.
Experiment = tuple[str, Callable[[Path], tuple[list[Table], Any]]]

EXPERIMENTS: dict[str, Experiment] = {
    small_pingpong.NAME: ("figure 4: round trips between two native tasks, by their working sets", small_pingpong.measure),
    small_groups.NAME: ("section 5.2: groups of tasks, and revocation of their windows", small_groups.measure),
    small_switches.NAME: ("figures 9 and 10: which programs switch to which", small_switches.measure),
    small_programs.CALLS: ("table 2: system calls of a 32-bit program", small_programs.measure_calls),
    small_programs.PIPES: ("figure 6: round trips between two of Linux's processes", small_programs.measure_pipes),
    small_programs.WORDS: ("section 4.4: cat and wc", small_programs.measure_pipelines),
    small_programs.GCC: ("section 4.9: gcc", small_programs.measure_compiler),
    small_applications.X11PERF: ("table 3: requests to an X server", small_applications.measure_x11perf),
    small_applications.MAKE: ("section 4.9: make", small_applications.measure_make),
    small_servers.FASTCGI: ("figure 7: requests to a web server with FastCGI", small_servers.measure_web),
    small_servers.DATABASE: ("section 4.7: queries to a database", small_servers.measure_database),
    small_turns.NAME: ("turns of thread-local segments, on Bochs, where segments have limits", small_turns.measure),
}


def kept(path: Path) -> dict[str, Any]:
    """What earlier runs found, by experiment; nothing if there is no file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise run.BenchError(f"{path} holds no results of this program") from error
    return dict(found)


def main(arguments: list[str]) -> int:
    """Measure, write and print; an experiment that is not named keeps its figures."""
    about = {name: what for name, (what, _) in EXPERIMENTS.items()}
    parser = Parser(
        prog=f"keel bench {NAME}",
        description="Small address spaces, as the paper about them measured them.",
        epilog=f"experiments:\n{in_columns(list(about.items()))}",
    )
    parser.add_argument("experiment", nargs="*", metavar="EXPERIMENT", help="what to measure; default: everything")
    parser.add_argument("--output", type=Path, default=run.BUILD / "bench", help="where to write the figures (%(default)s)")
    parser.add_argument(
        "--plot", type=Path, metavar="RESULTS", help=f"measure nothing: draw a {NAME}.json as SVG and PNG beside it"
    )
    options = parser.parse(arguments)
    if options.plot:
        return subprocess.run([run.DEBIAN_PYTHON, str(PLOTTER), str(options.plot)], check=False).returncode
    if unknown := [name for name in options.experiment if name not in EXPERIMENTS]:
        parser.error(f"there is no experiment {unknown[0]}: choose from {', '.join(EXPERIMENTS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    results = options.output / f"{NAME}.json"
    text = ""
    try:
        found = kept(results)
        for name in options.experiment or EXPERIMENTS:
            tables, found[name] = EXPERIMENTS[name][1](options.output)
            text += "".join(f"{title}\n\n{run.as_markdown(rows)}\n" for title, rows in tables)
            results.write_text(json.dumps(found, indent=1) + "\n")
    except run.BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1
    (options.output / f"{NAME}.md").write_text(text)
    print(text, end="")
    print(f"bench: the figures are in {options.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
