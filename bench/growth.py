#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures operations on Keel and on native Linux at growing sizes, and marks those whose ratio grows with the size.

The unit is executed guest instructions, as in run.py. Each stage of a row at each size is a sample named STAGE/SIZE. Also
measures what the µ-kernel's objects cost as their number grows (user/bench, `args growth`). `./keel bench growth` calls `main()`.

  bench/growth.py [--systems native,keel,tasks] [--sizes N,N...] [--output DIRECTORY] [--resume] [ROW...]
  bench/growth.py --compare OLD.json NEW.json
  bench/growth.py --plot RESULTS.json
"""

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import packaged
import run
from keel.arguments import Parser

PROGRAM = "growth"
SYSTEMS = [*run.SYSTEMS, run.TASKS]
PLOTTER = run.REPOSITORY / "bench" / "plot_growth.py"
BOOT_CONF = run.REPOSITORY / "tools" / "keel" / "boot.conf"
HEARTBEAT_USUAL, HEARTBEAT_WANTED = "interval=1000ms", "interval=1ms"
LIMIT_S = 3600
MEMORY_MB = 2048
# More than this from the smallest to a larger size is a fault.
GROWTH_LIMIT = 1.3
# The largest allowed ratio to native Linux for fork() of a large process.
FORK_LIMIT = 2.0
GROWS, ABOVE, MISSING = "**grows**", "**above {limit:g}**", "**not at {sizes}**"
NONE = "-"

HUGE_MB = 2
MEMORY = (1, 16, 64, 256, 1024)
# The parent's and the child's pages are there at once.
COPIED = (1, 16, 64, 256, 512)
FORKED = (16, 32, 64, 128, 256, 512)
# What the µ-kernel allocates for a page that is alone in its 2 MB: a page table and a group of mapping nodes.
SPARSE_BYTES = 5 << 10
# Linux's account is this much of the µ-kernel's memory, which is a part of the RAM.
ACCOUNT_PAGES = (MEMORY_MB << 20) // 16 * 8 // 10 // SPARSE_BYTES
SPARSE = (1024, *(int(ACCOUNT_PAGES * share) for share in (0.5, 1, 2, 4)))
COUNTS = (16, 256, 4096)
OBJECT_COUNTS = (16, 256, 4096)
# The number of such pages for which the µ-kernel's memory of that guest suffices.
TASK_COUNTS = (16, 256, 1024)


@dataclass(frozen=True)
class Guest:
    """A machine for some rows: the suffix of their samples' names, and additional options of `./keel run`."""

    name: str
    suffix: str = ""
    processors: int = 1
    heartbeat: bool = False

    def options(self, system: str, output: Path) -> list[str]:
        """The options of `./keel run`. With two processors the clock counts the instructions of both."""
        options = [*run.SYSTEMS[system], "--accel", "tcg", "--mem", str(MEMORY_MB), "--timeout", str(LIMIT_S), "--nic", "none"]
        if self.processors == 1:
            options.append("--icount")
        else:
            options += ["--smp", str(self.processors), "--qemu-arg=-icount", "--qemu-arg=shift=0,sleep=off"]
        if self.heartbeat and system == run.KEEL:
            options += ["--boot-conf", str(heartbeat_conf(output))]
        return options


SMALL, HUGE, COPYING = map(Guest, ("small pages", "huge pages", "copied pages"))
SPARSELY, SHARING, CROWDS, OBJECTS = map(Guest, ("sparse pages", "shared pages", "crowds", "objects"))
KERNEL = Guest("the µ-kernel alone")
FORKING = [Guest("fork"), Guest("fork, 2 processors", "-2", 2)]
BEATEN = [Guest("fork, heartbeat", heartbeat=True), Guest("fork, heartbeat, 2 processors", "-2", 2, heartbeat=True)]


@dataclass(frozen=True)
class Row:
    """An operation measured at several sizes: the unit of the sizes, the timed stages, the guests, and the allowed ratio."""

    unit: str
    sizes: Sequence[int]
    stages: Sequence[str]
    guests: Sequence[Guest]
    limit: float | None = None

    def names(self) -> Iterator[tuple[str, str]]:
        """The name of each stage's samples without the size: on native Linux, which has one processor, and on Keel."""
        return ((stage, f"{stage}{guest.suffix}") for guest in self.guests for stage in self.stages)


SETS = {
    "touch": ("touch-first", "munmap"),
    "exit": ("exit",),
    "exec": ("exec",),
    "mremap": ("mremap", "mremap-touch"),
    "mprotect": ("mprotect-read", "mprotect-reread", "mprotect-write", "mprotect-rewrite"),
    "madvise": ("madvise-free", "free-rewrite", "madvise-cold", "cold-rewrite", "madvise-dontneed", "dontneed-touch"),
    "file": ("file-read", "file-touch", "file-munmap"),
}


def in_huge(sizes: Sequence[int]) -> list[int]:
    """The same sizes in MB, the smallest no less than a huge page."""
    return [max(size, HUGE_MB) for size in sizes]


COPY_STAGES = ("fork", "cow", "fork-end")
ROWS = {
    **{name: Row("MB", MEMORY, stages, [SMALL]) for name, stages in SETS.items()},
    **{
        f"{name}-huge": Row("MB", in_huge(MEMORY), [f"{stage}-huge" for stage in stages], [HUGE]) for name, stages in SETS.items()
    },
    "sparse": Row("pages", SPARSE, ["sparse-first", "sparse-again"], [SPARSELY]),
    "share": Row("processes", (2, 32, 128, 256, 512), ["share-first", "share-again", "share-parent", "share-remove"], [SHARING]),
    "vmas": Row(
        "VMAs",
        (1000, 10000, 30000, 60000),
        ["vmas-split", "vmas-touch", "mmap-beside-vmas", "vmas-fork", "vmas-munmap"],
        [CROWDS],
    ),
    "processes": Row(
        "processes",
        (2, 32, 250, 1000),
        ["processes-start", "processes-ring", "fork-beside-processes", "processes-end"],
        [CROWDS],
    ),
    "threads": Row("threads", (2, 64, 1024, 8192), ["threads-start", "thread-beside-threads", "threads-end"], [CROWDS]),
    "epoll": Row("descriptors", COUNTS, ["epoll-add", "epoll-wait", "epoll-close"], [OBJECTS]),
    "sockets": Row("pairs", COUNTS, ["sockets-make", "sockets-send", "sockets-close"], [OBJECTS]),
    "files": Row("files", COUNTS, ["files-create", "files-stat", "files-unlink"], [OBJECTS]),
    "fork": Row("MB", COPIED, COPY_STAGES, [COPYING]),
    "fork-huge": Row("MB", in_huge(COPIED), [f"{stage}-huge" for stage in COPY_STAGES], [COPYING]),
    "fork-alone": Row("MB", FORKED, ["fork-alone"], FORKING, FORK_LIMIT),
    "fork-mapper": Row("MB", FORKED, ["fork-mapper"], FORKING, FORK_LIMIT),
    "fork-heartbeat": Row("MB", FORKED, ["fork-heartbeat"], BEATEN, FORK_LIMIT),
}
# Measurements of the µ-kernel by native tasks, by the number of its objects.
TASK_ROWS = {
    "lthreads": Row("lthreads", OBJECT_COUNTS, ["lthreads-create", "lthread-beside-lthreads", "lthreads-delete"], [KERNEL]),
    "tasks": Row("tasks", TASK_COUNTS, ["tasks-create", "tasks-delete"], [KERNEL]),
    "mappings": Row(
        "mappings",
        (64, 1024, 16384, 65536),
        ["mappings-map", "mappings-reduce", "mappings-unmap", "mappings-end"],
        [KERNEL],
    ),
    "chain": Row("mappings", OBJECT_COUNTS, ["chain-map", "chain-reduce", "chain-unmap"], [KERNEL]),
    "ports": Row("tasks", (4, 32, 256), ["ports-map", "ports-unmap"], [KERNEL]),
}
ALL_ROWS = {**ROWS, **TASK_ROWS}


@dataclass(frozen=True)
class Curve:
    """A stage at all measured sizes: instructions on native Linux and on Keel, by size. Sizes may be missing in either."""

    name: str
    unit: str
    panel: str
    limit: float | None
    native: dict[int, run.Sample] = field(default_factory=dict)
    keel: dict[int, run.Sample] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[int, float]:
        """Keel's to native Linux's, by size."""
        return {size: run.ratio([sample, self.keel[size]]) for size, sample in self.native.items() if size in self.keel}

    @property
    def growth(self) -> float | None:
        """The largest growth of the ratio from the smallest size; none with fewer than two sizes."""
        return growth(list(self.ratios.values()))

    def remarks(self) -> list[str]:
        """Faults, and reasons why the row's figures are not valid."""
        found = [GROWS] if (self.growth or 0) > GROWTH_LIMIT else []
        if self.limit and any(ratio > self.limit for ratio in self.ratios.values()):
            found.append(ABOVE.format(limit=self.limit))
        if self.keel and (missing := [f"{size:,}" for size in self.native if size not in self.keel]):
            found.append(MISSING.format(sizes=", ".join(missing)))
        idled = [f"{size:,}" for size in self.ratios if self.native[size].idle_ticks or self.keel[size].idle_ticks]
        return [*found, f"idled at {', '.join(idled)}"] if idled else found


def growth(values: Sequence[float]) -> float | None:
    """The ratio of the largest to the first."""
    return max(values[1:]) / values[0] if len(values) > 1 else None


def heartbeat_conf(output: Path) -> Path:
    """The default boot configuration with a heartbeat each millisecond."""
    text = BOOT_CONF.read_text()
    if HEARTBEAT_USUAL not in text:
        raise run.BenchError(f"{BOOT_CONF} has no {HEARTBEAT_USUAL}")
    # Guests that start at the same time read the file.
    file = output / "heartbeat.conf"
    whole = output / f"heartbeat.conf.{threading.get_ident()}"
    whole.write_text(text.replace(HEARTBEAT_USUAL, HEARTBEAT_WANTED))
    return whole.replace(file)


def plan(systems: Sequence[str], rows: Sequence[str], wanted: Sequence[int]) -> dict[tuple[str, Guest], list[str]]:
    """The arguments of each guest of each system: the rows, at their own sizes or at those that the user gave."""
    found: dict[tuple[str, Guest], list[str]] = {}
    for name in rows:
        row = ALL_ROWS[name]
        for guest in row.guests:
            for system in (system for system in systems if (system == run.TASKS) == (name in TASK_ROWS)):
                if system == run.NATIVE and guest.processors > 1:
                    continue  # Native Linux does not start its second processor on this clock.
                found.setdefault((system, guest), []).extend(f"{name}/{size}" for size in wanted or row.sizes)
    return found


def renamed(sample: run.Sample, guest: Guest) -> run.Sample:
    """The sample with the guest's suffix before the size. An idle second processor is no fault."""
    stage, size = sample.name.split("/")
    idle_ticks = sample.idle_ticks if guest.processors == 1 else 0
    return run.Sample(f"{stage}{guest.suffix}/{size}", sample.per_operation, idle_ticks)


def parse(output: str, guest: Guest) -> run.Samples:
    """The samples of a guest. The last one may be incomplete."""
    whole = [line for line in output.splitlines() if line.startswith("{") and line.endswith("}")]
    return {sample.name: sample for sample in (renamed(run.parse_sample(line), guest) for line in whole)}


def measure(system: str, guest: Guest, pieces: Sequence[str], output: Path) -> tuple[run.Samples, str]:
    """Boot a guest and return its samples and its errors."""
    keel = [sys.executable, str(run.REPOSITORY / "keel")]
    if system == run.TASKS:
        done = subprocess.run(
            [*keel, "bench", run.TASKS, "--growth", *pieces], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
        )
    else:
        place = f"/tmp/{PROGRAM}"
        command = f"cat > {place} && chmod +x {place} && {place} {' '.join(pieces)}"
        argv = [*keel, "run", *guest.options(system, output), "--exec", command]
        done = subprocess.run(argv, input=(output / PROGRAM).read_bytes(), stdout=subprocess.PIPE, check=False)
    found = parse(done.stdout.decode(errors="replace"), guest)
    return found, f"{guest.name} ended with status {done.returncode} on {system}" if done.returncode else ""


def measure_all(work: dict[tuple[str, Guest], list[str]], output: Path, kept: packaged.Kept) -> None:
    """Boot all guests, one per processor at a time. Samples that are already known are not measured again."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        futures = {}
        for (system, guest), pieces in work.items():
            if missing := [piece for piece in pieces if not is_known(piece, guest, kept.results.get(system, {}))]:
                futures[pool.submit(measure, system, guest, missing, output)] = (system, guest)
        for future in as_completed(futures):
            system, guest = futures[future]
            found, failure = future.result()
            kept.add(system, found)
            print(f"bench: measured {guest.name} on {system}", file=sys.stderr, flush=True)
            if failure:
                kept.failed(failure)
    finally:
        # After an interrupt no further guest is booted.
        pool.shutdown(cancel_futures=True)


def is_known(piece: str, guest: Guest, known: run.Samples) -> bool:
    """Whether all stages of this row were measured at this size."""
    name, size = piece.split("/")
    return all(f"{stage}{guest.suffix}/{size}" in known for stage in ALL_ROWS[name].stages)


def curves(results: run.Results) -> Iterator[Curve]:
    """All stages with a sample on either Linux."""
    for row in ROWS.values():
        for native, name in row.names():
            samples = (by_size(results.get(system, {}), own) for system, own in ((run.NATIVE, native), (run.KEEL, name)))
            one = Curve(name, row.unit, row.guests[0].name, row.limit, *samples)
            if one.keel or (one.native and name == native):
                yield one


def by_size(samples: run.Samples, name: str) -> dict[int, run.Sample]:
    """The samples of a stage, the smallest size first."""
    found = {int(key.split("/")[1]): sample for key, sample in samples.items() if key.split("/")[0] == name}
    return {size: found[size] for size in sorted(found)}


def span(samples: dict[int, run.Sample]) -> str:
    """The instructions at the smallest and at the largest size."""
    values = [f"{sample.median:,.0f}" for sample in samples.values()]
    return " to ".join(dict.fromkeys([values[0], values[-1]])) if values else NONE


def table(results: run.Results) -> list[list[str]]:
    """Header and rows: sizes, each Linux's instructions at the smallest and largest, the ratio at each size and its growth."""
    rows = [["operation", "sizes", "native, instructions", "keel, instructions", "ratio at each size", "growth", "remark"]]
    for one in curves(results):
        sizes = sorted({*one.native, *one.keel})
        ratios = [f"{one.ratios[size]:.2f}" if size in one.ratios else NONE for size in sizes]
        remarks = "; ".join(one.remarks())
        grown = f"{one.growth:.2f}" if one.growth else NONE
        named = f"{', '.join(f'{size:,}' for size in sizes)} {one.unit}"
        rows.append([one.name, named, span(one.native), span(one.keel), ", ".join(ratios), grown, remarks])
    return rows if rows[1:] else []


def task_table(results: run.Results) -> list[list[str]]:
    """Header and rows: the µ-kernel's own operations, the instructions of each at each size, and their growth."""
    rows = [["operation", "sizes", "instructions at each size", "growth", "remark"]]
    for name, unit, samples in task_curves(results):
        values = [sample.median for sample in samples.values()]
        grown = growth(values)
        remarks = [GROWS] if (grown or 0) > GROWTH_LIMIT else []
        remarks += ["idled"] if any(sample.idle_ticks for sample in samples.values()) else []
        named = f"{', '.join(f'{size:,}' for size in samples)} {unit}"
        shown = f"{grown:.2f}" if grown else NONE
        rows.append([name, named, ", ".join(f"{value:,.0f}" for value in values), shown, "; ".join(remarks)])
    return rows if rows[1:] else []


def task_curves(results: run.Results) -> Iterator[tuple[str, str, dict[int, run.Sample]]]:
    """The stages that native tasks measured, with their unit and their samples by size."""
    for row in TASK_ROWS.values():
        for _, name in row.names():
            if samples := by_size(results.get(run.TASKS, {}), name):
                yield name, row.unit, samples


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, all of them checked."""
    parser = Parser(prog="keel bench growth", description="How operations grow with the size of their work, in instructions.")
    parser.add_argument("row", nargs="*", metavar="ROW", help="what to measure; default: everything")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which to measure (%(default)s)")
    parser.add_argument("--sizes", default="", metavar="N,...", help="the sizes, in place of each row's own")
    parser.add_argument("--output", type=Path, default=run.BUILD / "bench", help="where to write the figures")
    parser.add_argument("--resume", action="store_true", help="keep the samples of an interrupted run of this tree")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="measure nothing: compare two growth.json")
    parser.add_argument(
        "--plot", type=Path, metavar="RESULTS", help="measure nothing: draw a growth.json as SVG and PNG beside it"
    )
    options = parser.parse(arguments)
    options.systems = options.systems.split(",")
    for kind, asked, known in (("system", options.systems, SYSTEMS), ("row", options.row, ALL_ROWS)):
        if unknown := [name for name in asked if name not in known]:
            parser.error(f"unknown {kind} {unknown[0]}: choose from {', '.join(known)}")
    words = options.sizes.split(",") if options.sizes else []
    if not all(word.isdecimal() and int(word) for word in words):
        parser.error(f"--sizes must be numbers above 0, separated by commas: {options.sizes}")
    options.sizes = sorted(map(int, words))
    return options


def measure_and_print(options: argparse.Namespace) -> int:
    """Measure, print the table, and keep it as Markdown and JSON; returns the exit status."""
    options.output.mkdir(parents=True, exist_ok=True)
    run.build_systems()
    run.build_programs(options.output)
    kept = packaged.Kept(options.output / "growth.json", run.header(""), resume=options.resume)
    measure_all(plan(options.systems, options.row or list(ALL_ROWS), options.sizes), options.output, kept)
    text = "\n".join(run.as_markdown(rows) for rows in (table(kept.results), task_table(kept.results)) if rows)
    (options.output / "growth.md").write_text(text)
    print(text, end="")
    print(f"bench: the figures are in {options.output}", file=sys.stderr)
    return 1 if kept.failures else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """What the options say; returns the exit status."""
    options = options_of(arguments)
    try:
        if options.compare:
            run.compare(*options.compare)
            return 0
        if options.plot:
            return subprocess.run([run.DEBIAN_PYTHON, str(PLOTTER), str(options.plot)], check=False).returncode
        return measure_and_print(options)
    except run.BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
