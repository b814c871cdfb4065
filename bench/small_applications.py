# SPDX-License-Identifier: GPL-2.0-only
"""Applications of several programs in small address spaces: sections 4.5 and 4.9 of the paper about these.

bench/small.py runs the experiments, and small_programs.py what is like them.
"""

import shlex
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import run
from small_pingpong import MACHINES, SMALL
from small_programs import (
    APART,
    COMPILER,
    PAPER_MACHINE,
    RESIDENT,
    TOOLS,
    Found,
    Workload,
    found,
    found_of,
    limit,
    measure_programs,
    modelled,
)

X11PERF, MAKE = "x11perf", "make"
X_PACKAGES = (*TOOLS, "x11-apps", "xvfb")
# The X server draws into its memory. It tells by a line when it is ready, and does not reset when its last client has ended.
DISPLAY = ":0"
READY = "/tmp/ready"
SERVER = f"Xvfb {DISPLAY} -displayfd 1 -screen 0 640x640x24 -nolisten tcp -nolock -noreset -extension GLX"
# What it may map. There is room for it in a window of 256 MB, as for x11perf.
SERVER_MB = Workload.most_mb


@dataclass(frozen=True)
class Request:
    """A test of x11perf's, and table 3's cycles of one of its objects, large and small."""

    option: str
    paper: tuple[int, int]
    # Repetitions in the shorter of two runs; in the longer one there are LONGER times as many.
    repetitions: int
    # What a repetition draws, or asks for.
    objects: int = 1


LONGER = 3
REQUESTS = {
    "Dot": Request("dot", (202, 200), 500, 1000),
    "QueryPointer": Request("pointer", (54499, 48144), 500),
    "GetProperty": Request("prop", (58911, 53706), 500),
    "GetImage 10x10": Request("getimage10", (149863, 145258), 100, 4),
}
# A program in C, made from clean: each file by a compiler of its own, then the linker.
SOURCES = ("bench.c", "small.c", "pipes.c")
HEADERS = ("bench.h", "measure.h", "working_set.h")
MAKE_PACKAGES = (*COMPILER, "make")
MAKEFILE, TREE = "separate.mk", "make/bench/guest"
BUILDS = {
    MAKE: Workload(f"make -s -C {TREE} -f {MAKEFILE}", "1.00; misses -3 % at most", window_mb=512, most_mb=360),
}


def x11perf(options: Iterable[str], repetitions: int) -> str:
    """The command for some tests. Without a number of repetitions x11perf would find out how many take five seconds."""
    tests = " ".join(f"-{option}" for option in options)
    return f"x11perf -display {DISPLAY} {tests} -reps {repetitions} -repeat 1"


def run_name(request: str, repetitions: int) -> str:
    """The name of a run of x11perf, in one word."""
    return f"{REQUESTS[request].option}-{repetitions}"


def difference(name: str, shorter: run.Sample, longer: run.Sample, objects: int) -> run.Sample:
    """One of the objects that the longer of two runs has more: what a program does once is in both, and so in no figure."""

    def each(more: list[float], less: list[float]) -> list[float]:
        return [(statistics.median(more) - statistics.median(less)) / objects]

    cycles = {
        what: {variant: each(values, shorter.cycles[what][variant]) for variant, values in variants.items()}
        for what, variants in longer.cycles.items()
    }
    instructions = each(longer.per_operation, shorter.per_operation)
    return run.Sample(name, instructions, shorter.idle_ticks + longer.idle_ticks, cycles)


def per_object(samples: run.Samples, requests: Mapping[str, Request]) -> run.Samples:
    """The samples of the requests, from those of the two runs of each."""
    found = {}
    for name, request in requests.items():
        shorter, longer = (samples[run_name(name, count * request.repetitions)] for count in (1, LONGER))
        found[name] = difference(name, shorter, longer, (LONGER - 1) * request.repetitions * request.objects)
    return found


def start_server(root: str) -> list[str]:
    """The shell's words that start a root's X server, wait until it is ready or has ended, and make it do everything once."""
    command = shlex.quote(f"{limit(SERVER_MB)}; exec {SERVER}")
    once = shlex.quote(f"{limit(SERVER_MB)}; {x11perf((request.option for request in REQUESTS.values()), 1)} >&2")
    return [
        f"mkdir -p {root}/tmp/.X11-unix",
        f"mkfifo {READY}",
        f"{{ chroot {root} /bin/sh -c {command} > {READY} & }}",
        f"read display < {READY}",
        f"chroot {root} /bin/sh -c {once}",
    ]


def runs() -> dict[str, Workload]:
    """The two runs of x11perf for each request."""
    return {
        run_name(name, repetitions): Workload(x11perf([request.option], repetitions))
        for name, request in REQUESTS.items()
        for repetitions in (request.repetitions, LONGER * request.repetitions)
    }


def measure_x11perf(output: Path) -> Found:
    """Table 3."""
    measured = measure_programs(output, runs(), X_PACKAGES, {}, start_server(APART), MACHINES)
    results = {system: per_object(samples, REQUESTS) for system, samples in measured.items()}
    papers = {name: beside(results, name, request.paper) for name, request in REQUESTS.items()}
    title = ["resident / small", "paper, large", "paper, small", "paper, large / small"]
    return found(results, "request to an X server", papers, title)


def beside(results: run.Results, name: str, paper: tuple[int, int]) -> list[str]:
    """The paper's cells. What it calls large is resident here: only the server of Linux was small."""
    resident, small = (modelled(results[system][name], PAPER_MACHINE) for system in (RESIDENT, SMALL))
    return [f"{resident / small:.2f}", *(f"{cycles:,}" for cycles in paper), f"{paper[0] / paper[1]:.2f}"]


def tree() -> dict[str, Path]:
    """What is made, by its names in a guest."""
    files = {f"{TREE}/{source}": run.SOURCES / source for source in (MAKEFILE, *HEADERS, *SOURCES)}
    return files | {"make/guest/mark.h": run.REPOSITORY / "guest" / "mark.h"}


def measure_make(output: Path) -> Found:
    """Section 4.9, its second half."""
    return found_of(measure_programs(output, BUILDS, MAKE_PACKAGES, tree()), BUILDS)
