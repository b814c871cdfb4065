# SPDX-License-Identifier: GPL-2.0-only
"""`./keel bench`: measures Keel against the native baseline, the µ-kernel by itself, or level 0 against level 3.

bench/run.py compares the two Linux, bench/ukl.py the levels; the figures of `./keel bench kernel` are in figures.py.
"""

import argparse
import sys
from pathlib import Path

from .. import figures, latency, packages, process, rust
from ..boot import UKL_PARAMETERS
from ..config import Settings

PLOT = "--plot"
KERNEL = "kernel"
UKL = "ukl"


def bench(settings: Settings, arguments: list[str]) -> int:
    """Measure what the first argument says: the µ-kernel, applications at level 0, or else Linux on both systems."""
    if arguments[:1] == [KERNEL]:
        return _kernel(settings, arguments[1:])
    draws = any(argument.startswith(PLOT) for argument in arguments)
    packages.require(settings, packages.PLOTTER if draws else packages.COMPILER)
    program = settings.repository / "bench" / "run.py"
    if arguments[:1] == [UKL]:
        program, arguments = program.with_name("ukl.py"), ["--line", " ".join(UKL_PARAMETERS), *arguments[1:]]
    return process.run_shown([sys.executable, str(program), *arguments], cwd=settings.repository)


def _kernel(settings: Settings, arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="keel bench kernel", description="The µ-kernel's mechanisms, in instructions.")
    parser.add_argument("--output", type=Path, default=settings.build / "bench", help="where the figures go (%(default)s)")
    options = parser.parse_args(arguments)
    packages.require_emulator(settings)
    rust.build_all(settings)
    measured = figures.measure(settings)
    uncleared = figures.measure(settings, figures.UNCLEARED_LINE)
    stretches = latency.measure(settings)
    tables = {
        "What the mechanisms take, in instructions": figures.rows(measured, uncleared),
        "The longest stretches with interrupts off": latency.table(settings, stretches),
    }
    text = "\n".join(f"{title}\n\n{figures.as_text(rows)}" for title, rows in tables.items())
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "kernel.md").write_text(text)
    (options.output / "kernel.json").write_text(figures.as_json(measured, uncleared, stretches))
    print(text, end="")
    print(f"keel: the figures are in {options.output}", file=sys.stderr)
    return 0
