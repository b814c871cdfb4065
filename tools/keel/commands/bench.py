# SPDX-License-Identifier: GPL-2.0-only
"""`./keel bench`: measures Keel against native Linux, the µ-kernel by itself, or ring 0 against ring 3.

bench/run.py compares the two Linux, and native tasks, whose rows it gets from `./keel bench tasks`. bench/packaged.py compares
the two with whole programs, bench/growth.py at several sizes of the work. bench/ukl.py compares the rings,
bench/placements.py all places of a program, bench/latency.py how long servers take to answer in them. bench/small.py repeats
the experiments of a paper about small address spaces. The figures of `./keel bench kernel` are in figures.py.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .. import (
    boot,
    bootconf,
    figures,
    latency,
    machine,
    nativetasks,
    packages,
    plugins,
    process,
    profile,
    qemu,
    rust,
    timing,
    watched,
)
from ..arguments import Parser
from ..boot import UKL_PARAMETERS
from ..config import Settings
from ..errors import KeelError, Status
from ..placement import UNSAFE

PLOT = "--plot"
KERNEL = "kernel"
TASKS = "tasks"
MEASURING = "bench"
PACKAGED = "packaged"
UKL = "ukl"
PLACEMENTS = "placements"
LATENCY = "latency"
GROWTH = "growth"
LINES = "lines"
SHARE = "share"
SMALL = "small"
CYCLES = "--cycles"
HELP = {"-h", "--help"}
# The machine with published costs of mode changes that is nearest to the paper's, a Xeon of 2012.
UKL_MACHINE = "skylake"
# The models simulate each memory access.
PROFILE_TOP = 20
TASKS_LIMIT_S = 120.0
GROWTH_LIMIT_S = 900.0
TASKS_MODEL_LIMIT_S = 1200.0


def bench(settings: Settings, arguments: list[str]) -> int:
    """Measure what the first argument says: the µ-kernel, applications in ring 0, or else Linux on both systems."""
    if arguments[:1] == [KERNEL]:
        return _kernel(settings, arguments[1:])
    if arguments[:1] == [TASKS]:
        return _tasks(settings, arguments[1:])
    draws = any(argument.startswith(PLOT) for argument in arguments)
    # Help needs nothing, and lines are counted without a build.
    if not HELP.intersection(arguments) and arguments != [LINES]:
        compiler = (*packages.COMPILER, *(packages.NARROW_COMPILER if arguments[:1] == [SMALL] else ()))
        packages.require(settings, packages.PLOTTER if draws else compiler)
    program = settings.repository / "bench" / "run.py"
    if arguments[:1] in ([UKL], [PLACEMENTS], [LATENCY]):
        told = _for_ukl(settings, arguments[1:], on_keel=arguments[0] == PLACEMENTS)
        program, arguments = program.with_name(f"{arguments[0]}.py"), [*told, *arguments[1:]]
    if arguments[:1] in ([LINES], [PACKAGED], [GROWTH], [SHARE], [SMALL]):
        program, arguments = program.with_name(f"{arguments[0]}.py"), arguments[1:]
    return process.run_shown([sys.executable, str(program), *arguments], cwd=settings.repository)


def _for_ukl(settings: Settings, arguments: Sequence[str], *, on_keel: bool) -> list[str]:
    """Arguments of bench/ukl.py: what ring 0 needs on Linux's command line, and the plugin that models cycles.

    bench/placements.py, which also runs on Keel, gets one more plugin for that.
    """
    told = ["--line", " ".join(UKL_PARAMETERS)]
    if CYCLES not in arguments or HELP.intersection(arguments):
        return told
    for option, native in (("--plugin", True), *([("--plugin-keel", False)] if on_keel else [])):
        model = settings.build / "bench" / f"ukl-model{'' if native else '-keel'}"
        model.parent.mkdir(parents=True, exist_ok=True)
        timing.write_model(model, [UKL_MACHINE], native=native)
        _, plugin = qemu.plugin(plugins.build(settings, "timing"), f"model={model}", "part=on")
        told += [option, plugin]
    return told


def _kernel(settings: Settings, arguments: list[str]) -> int:
    parser = Parser(prog="keel bench kernel", description="The µ-kernel's mechanisms, in instructions.")
    parser.add_argument("--output", type=Path, default=settings.build / "bench", help="where the figures go (%(default)s)")
    options = parser.parse(arguments)
    packages.require_emulator(settings)
    rust.build_all(settings)
    measured = figures.measure(settings)
    unscrubbed = figures.measure(settings, figures.UNSCRUBBED_LINE)
    sections = latency.measure(settings)
    tables = {
        "What the mechanisms take, in instructions": figures.rows(measured, unscrubbed),
        "The longest sections with interrupts off": latency.table(settings, sections),
    }
    text = "\n".join(f"{title}\n\n{figures.as_text(rows)}" for title, rows in tables.items())
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "kernel.md").write_text(text)
    (options.output / "kernel.json").write_text(figures.as_json(measured, unscrubbed, sections))
    print(text, end="")
    print(f"keel: the figures are in {options.output}", file=sys.stderr)
    return 0


def _tasks(settings: Settings, arguments: list[str]) -> int:
    """Print a line for each row of user/bench's `args paper`, or of `args growth` or `args small`."""
    parser = Parser(prog="keel bench tasks", description="Channels and faults between native tasks, as lines.")
    parser.add_argument("row", nargs="*", metavar="ROW", help="what to measure; everything without a name")
    parser.add_argument("--machine", metavar="NAME,...", help="also the cycles of these models")
    parser.add_argument("--parts", type=Path, metavar="FILE", help="where what each part took goes, as JSON")
    parser.add_argument("--profile", action="store_true", help="instead of lines, where the instructions of the last part went")
    parser.add_argument("--growth", action="store_true", help="what grows with the number of objects: each ROW is ROW/SIZE")
    parser.add_argument(
        "--small", action="store_true", help="round trips of 32-bit code in windows and without: as with --growth"
    )
    parser.add_argument("--line", default="", metavar="WORDS", help="more words for the µ-kernel's command line")
    options = parser.parse(arguments)
    if options.growth and options.small:
        raise KeelError("--growth and --small are different measurements", "give one of them", Status.USAGE)
    machines = timing.choose(options.machine) if options.machine else []
    if machines and not options.parts or options.parts and options.profile:
        raise KeelError("--machine needs --parts, and --profile is without it", "", Status.USAGE)
    packages.require_emulator(settings)
    rust.build_all(settings)
    with tempfile.TemporaryDirectory() as place:
        watch = None
        if options.parts or options.profile:
            watch = watched.prepare(settings, Path(place), machines, part=True, sums=bool(options.parts))
        return _watch_tasks(settings, options, watch)


def _watch_tasks(settings: Settings, options: argparse.Namespace, watch: watched.Watch | None) -> int:
    """Run the measurement, and print the requested output."""
    template = bootconf.PAPER_TEMPLATE
    if options.growth or options.small:
        template = bootconf.GROWTH_TEMPLATE if options.growth else bootconf.SMALL_TEMPLATE
    choices = boot.Choices(
        boot_template=template,
        icount=True,
        # QEMU knows no limits of segments; what windows take is the same.
        kernel_line=" ".join(filter(None, (UNSAFE if options.small else "", options.line))),
        arguments=" ".join(options.row),
        emulator_arguments=watch.arguments if watch else (),
    )
    limit_s = TASKS_MODEL_LIMIT_S if options.machine else GROWTH_LIMIT_S if options.growth else TASKS_LIMIT_S
    ended = nativetasks.run(settings, choices, limit_s)
    if ended.exit_value != machine.EXIT_TESTS_PASSED:
        raise KeelError(f"the measuring program failed: {ended.last_line()}")
    if watch and options.profile:
        found = profile.read_blocks(watch.lines(), profile.task_images(settings, MEASURING))
        print(figures.as_text(profile.rows(found, PROFILE_TOP)), end="")
        return 0
    print("".join(f"{line}\n" for line in ended.output.splitlines() if line.startswith("{")), end="")
    if watch:
        timing.write_parts(options.parts, watch.modelled())
    return 0
