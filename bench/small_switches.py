#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Who switches to whom: figures 9 and 10 of the paper about small address spaces. bench/small.py runs it.

The µ-kernel's trace has each switch between threads (`./keel trace --all`), and the number of each system call of Linux's. Each
program tells its name by calls that do not exist (guest/announce.c). A task of the µ-kernel is an address space of Linux's.
"""

import io
import itertools
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import run

sys.path.insert(0, str(run.REPOSITORY / "tools"))

from keel import trace
from keel.trace import Event

NAME = "switches"
LIBRARY = "announce.so"
# guest/announce.c: the lower half of the number of a call that announces, with the number of its piece, and the letters above it.
ANNOUNCES, PIECE_MASK, LETTERS_SHIFT, LETTERS = 0x6B65_6500, 0xFF, 32, 4
# Linux's calls that make a process or a program, by number: clone, fork, vfork, execve, clone3.
MAKING = {56, 57, 58, 59, 435}
SERVER = "Linux"
# The first tasks, by number: the µ-kernel starts two, and the root task those of tools/keel/boot.conf.
KNOWN = {1: "sigma0", 2: "root", 3: "heartbeat"}
MEMORY_MB = 3072
# The limit for a guest in seconds, with all the time that it stands still while its events are read.
LIMIT_S = 7200
# Each is compiled by itself; the others are included.
SOURCES = ("network.c", "pipes.c", "signals.c")
HEADERS = ("bench.h", "measure.h")
MAKEFILE = """\
all: network.o pipes.o signals.o
%.o: %.c
	gcc -pipe -no-integrated-cpp -O2 -D_GNU_SOURCE -c $< -o $@
"""
WEB = "web.py"
ROLES = ("app", "static", "dynamic", "asks-static", "asks-dynamic")
REQUESTS = 300
DYNAMIC = dict.fromkeys(("app", "dynamic", "asks-dynamic"), "dynamic")


@dataclass(frozen=True)
class Workload:
    """A command, and its groups: the task of a program with all that it starts, or the programs of these names."""

    about: str
    command: str
    heads: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)


WORKLOADS = {
    "make": Workload("make compiles three files, one after the other", "make > log", heads=("gcc",)),
    "make-j3": Workload("make compiles three files at once", "make -j3 > log", heads=("gcc",)),
    "web": Workload(
        "a web server with a dynamic part, and a client",
        f"./app & A=$!; ./dynamic & B=$!; ./asks-dynamic {REQUESTS}; kill $A $B",
        names=DYNAMIC,
    ),
    "webs": Workload(
        "two web servers, one with a dynamic part, and a client of each at once",
        f"./app & A=$!; ./static & B=$!; ./dynamic & C=$!; ./asks-static {REQUESTS} & D=$!; ./asks-dynamic {REQUESTS} & "
        "wait $D $!; kill $A $B $C",
        names=DYNAMIC | {"static": "static", "asks-static": "static"},
    ),
}


@dataclass
class Switches:
    """Switches from one task to another, by their labels: all, and those with only programs, the server taken out; and groups."""

    all: Counter[tuple[str, str]]
    programs: Counter[tuple[str, str]]
    groups: dict[str, str]

    def inside(self) -> int:
        """Switches between programs of one group."""
        grouped = ((self.groups.get(a), self.groups.get(b), count) for (a, b), count in self.programs.items())
        return sum(count for a, b, count in grouped if a and a == b)


def task_of(thread: str) -> int:
    """The task's number in an id as the trace writes it; 0 if it is none of a thread's."""
    number = thread.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def names_of(events: Iterable[Event]) -> dict[int, str]:
    """What tasks announced, the last time."""
    pieces: dict[int, dict[int, bytes]] = {}
    for event in events:
        if event.kind == "EXCEPTION" and event.word & 0xFFFF_FFFF & ~PIECE_MASK == ANNOUNCES:
            letters = (event.word >> LETTERS_SHIFT).to_bytes(LETTERS, "little")
            pieces.setdefault(task_of(event.thread), {})[event.word & PIECE_MASK] = letters
    joined = {task: b"".join(found[piece] for piece in sorted(found)) for task, found in pieces.items()}
    return {task: name.partition(b"\0")[0].decode(errors="replace") for task, name in joined.items()}


def parents_of(events: Iterable[Event]) -> dict[int, int]:
    """Whose call made each task: the last one that makes a process or a program before the task first runs."""
    parents: dict[int, int] = {}
    caller = 0
    for event in events:
        if event.kind == "EXCEPTION" and event.word in MAKING:
            caller = task_of(event.thread)
        elif event.kind == "SWITCH":
            parents.setdefault(task_of(event.thread), caller)
    return parents


def labels_of(tasks: Iterable[int], names: dict[int, str], server: int) -> dict[int, str]:
    """A label for each task, in the order of appearance: its name, with a number from the second one of that name on."""
    labels: dict[int, str] = {}
    seen: Counter[str] = Counter()
    for task in tasks:
        name = names.get(task, SERVER if task == server else KNOWN.get(task, "unnamed"))
        seen[name] += 1
        labels[task] = name if seen[name] == 1 else f"{name} {seen[name]}"
    return labels


def pairs(tasks: Iterable[int], labels: dict[int, str]) -> Counter[tuple[str, str]]:
    """How often one task follows another one."""
    counts: Counter[tuple[str, str]] = Counter()
    last = 0
    for task in tasks:
        if last and task != last:
            counts[labels[last], labels[task]] += 1
        last = task
    return counts


def group_of(task: int, work: Workload, names: dict[int, str], parents: dict[int, int], labels: dict[int, str]) -> str:
    """The group that a task is in; empty if it is in none."""
    if names.get(task, "") in work.names:
        return work.names[names[task]]
    while task and names.get(task) not in work.heads:
        task = parents.get(task, 0)
    return labels[task] if task else ""


def analysed(events: list[Event], work: Workload) -> Switches:
    """The switches from the first task that announces itself to the last one's last.

    A switch is from the thread that ran before, or the trace has a gap.
    """
    switches = [event for event in events if event.kind == "SWITCH"]
    for before, event in itertools.pairwise(switches):
        if event.partner not in (before.thread, trace.NOBODY):
            raise run.BenchError(f"{event.partner} ran before {event.thread}, not {before.thread}: the trace has a gap")
    names, parents = names_of(events), parents_of(events)
    raised = [event for event in events if event.kind in ("EXCEPTION", "FAULT")]
    handlers = Counter(task_of(event.partner) for event in raised if task_of(event.thread) in names)
    if not handlers:
        raise run.BenchError("no program announced itself")
    server = handlers.most_common(1)[0][0]
    aliens = {task_of(event.thread) for event in raised if task_of(event.partner) == server}
    tasks = [task_of(event.thread) for event in switches]
    ours = [number for number, task in enumerate(tasks) if task in names]
    labels = labels_of(dict.fromkeys(tasks), names, server)
    counted = tasks[ours[0] : ours[-1] + 1]
    groups = {labels[task]: group_of(task, work, names, parents, labels) for task in dict.fromkeys(counted) if task in aliens}
    return Switches(pairs(counted, labels), pairs((task for task in counted if task in aliens), labels), groups)


def archive(output: Path) -> bytes:
    """What the guest needs."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        packed.add(output / LIBRARY, LIBRARY)
        for source in (*SOURCES, *HEADERS, WEB):
            packed.add(run.SOURCES / source, source)
        packed.add(run.REPOSITORY / "guest" / "mark.h", "mark.h")
        makefile = tarfile.TarInfo("Makefile")
        makefile.size = len(MAKEFILE)
        packed.addfile(makefile, io.BytesIO(MAKEFILE.encode()))
    return buffer.getvalue()


def traced(output: Path, name: str, work: Workload) -> list[Event]:
    """All events of a guest that runs the command."""
    place, file = f"/tmp/{NAME}", output / f"{NAME}-{name}.trace"
    links = "; ".join(f"ln -s {WEB} {role}" for role in ROLES)
    steps = [run.FIXED_ADDRESSES, f"mkdir {place}", f"cd {place}", "tar -x", f"chmod +x {WEB}", f"{{ {links}; }}"]
    steps.append(f"LD_PRELOAD={place}/{LIBRARY} sh -c '{work.command}'")
    print(f"bench: tracing {name} ...", file=sys.stderr, flush=True)
    arguments = ["trace", "--exec", " && ".join(steps), "--all", str(file), "--mem", str(MEMORY_MB)]
    run.run_keel([*arguments, "--timeout", str(LIMIT_S)], name, archive(output))
    with file.open() as lines:
        return trace.parse(line.rstrip("\n") for line in lines)


def pairs_table(switches: Switches) -> list[list[str]]:
    """Header and rows: switches between programs, the most frequent first."""
    rows = [["from", "to", "switches", "group"]]
    for (before, after), count in switches.programs.most_common():
        groups = switches.groups.get(before), switches.groups.get(after)
        rows.append([before, after, f"{count:,}", (groups[0] or "") if groups[0] == groups[1] else ""])
    return rows


def visits_table(switches: Switches) -> list[list[str]]:
    """Header and rows: how often each task is left for the server, and for any other one at once."""
    rows = [["task", f"to {SERVER}", "to others at once"]]
    labels = dict.fromkeys(label for pair in switches.all for label in pair)
    for label in labels:
        to_server = switches.all[label, SERVER]
        others = sum(count for (before, _), count in switches.all.items() if before == label) - to_server
        rows.append([label, f"{to_server:,}", f"{others:,}"])
    return rows


def summary(found: dict[str, Switches]) -> list[list[str]]:
    """Header and rows: of each workload all switches, those between programs, and how many stay in a group."""
    rows = [["workload", "all switches", f"without {SERVER}", "inside of groups", "share"]]
    for name, switches in found.items():
        among, inside = switches.programs.total(), switches.inside()
        rows.append([name, f"{switches.all.total():,}", f"{among:,}", f"{inside:,}", f"{inside / among:.0%}"])
    return rows


def measure(output: Path) -> tuple[list[tuple[str, list[list[str]]]], Any]:
    """All workloads."""
    run.build_programs(output, LIBRARY)
    found = {name: analysed(traced(output, name, work), work) for name, work in WORKLOADS.items()}
    tables = [("Switches between tasks", summary(found))]
    for name, switches in found.items():
        tables.append((f"Switches as the µ-kernel sees them: {WORKLOADS[name].about}", visits_table(switches)))
        tables.append((f"Switches without {SERVER}: {WORKLOADS[name].about}", pairs_table(switches)))
    return tables, {name: as_kept(switches) for name, switches in found.items()}


def as_kept(switches: Switches) -> dict[str, Any]:
    """What of it is kept as JSON."""
    counts = {"all": switches.all, "programs": switches.programs}
    lists = {kind: [[*pair, count] for pair, count in found.most_common()] for kind, found in counts.items()}
    return {**lists, "groups": switches.groups}


def from_kept(kept: Any) -> Switches:
    """The switches that `measure` kept."""
    counts = [Counter({(before, after): count for before, after, count in kept[kind]}) for kind in ("all", "programs")]
    return Switches(counts[0], counts[1], kept["groups"])
