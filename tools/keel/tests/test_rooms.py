# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of the µ-kernel's sources, and the parts of the guest's init: each imports from those before it in an order."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from keel.config import REPOSITORY

KERNEL = REPOSITORY / "kernel"
# Each imports from those before it. `entry` and `boot` have folders in arch/x86_64; `sched` is a file.
ORDER = ("base", "arch", "percpu", "object", "sched", "mm", "ipc", "sys", "entry", "boot")
ROOMS_IN_ARCH = ("entry", "boot")
# The debugger stands beside the order: it looks at all rooms, and the shipped kernel has nothing of it but empty hooks.
DEBUGGER = "debugger"
HOOKS = {"ON", "LONGEST_TIMER_NS", "begin", "check", "interrupt", "panicked", "trace"}
# Edges back, with the files that may have them.
EDGES_BACK = {
    # `Cpu` has a lock, a run queue, deadlines and TLB tags as its parts; a TLB shootdown and a change of FPU owner make
    # other processors write back what they hold.
    ("arch", "percpu"): {"cpu.rs", "fpu.rs", "paging.rs"},
    # A context switch loads a thread's registers, space, ports and FPU state, and page tables lie in the pool; a call of
    # 32-bit code has its words in the thread's UTCB.
    ("arch", "object"): {"compat.rs", "cpu.rs", "direct.rs", "fpu.rs", "lookup.rs", "paging.rs", "switch.rs", "tables.rs"},
    # A thread control block has a transfer and a list of pending kernel objects as its parts: types, no calls.
    ("object", "ipc"): {"thread.rs"},
}


def items(text: str) -> Iterator[str]:
    """What stands between the outer commas."""
    depth, item = 0, ""
    for sign in text:
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            yield item
            item = ""
        else:
            item += sign
    yield item


def paths(tree: str) -> Iterator[str]:
    """The paths of a tree of `use`."""
    tree = tree.strip()
    if tree.endswith("}"):
        head, _, rest = tree.partition("{")
        for item in items(rest[:-1]):
            yield from (head + path for path in paths(item))
    elif tree:
        yield tree


def module_of(file: Path) -> list[str]:
    """The module path of a file."""
    parts = file.relative_to(KERNEL).with_suffix("").parts
    return [part for part in parts if part not in ("src", "x86_64", "mod")]


def imported(source: str, module: Sequence[str] = ()) -> set[str]:
    """The paths in a source text that begin at `crate::`, or with `super::` at the parent of its module."""
    code = re.sub(r"//[^\n]*", "", source)
    code = re.sub(r"\bsuper::", "::".join(["crate", *module[:-1], ""]), code)
    trees = re.findall(r"\buse crate::([^;]*);", code)
    rest = re.sub(r"\buse crate::[^;]*;", "", code)
    return {path for tree in trees for path in paths(tree)} | set(re.findall(r"\bcrate::((?:\w+::)*\w+)", rest))


def room_of_path(path: str) -> str:
    """The room of a path below `crate::`."""
    first, *rest = path.split("::")
    return rest[0] if first == "arch" and rest and rest[0] in ROOMS_IN_ARCH else first


def room_of_file(file: Path) -> str:
    """The room in which a file lies."""
    parts = file.relative_to(KERNEL).parts
    if parts[0] == DEBUGGER:
        return DEBUGGER
    if parts[1] == "arch":
        return parts[3] if parts[3] in ROOMS_IN_ARCH else "arch"
    return Path(parts[1]).stem


def sources() -> list[Path]:
    """The files that are in a room."""
    return [file for folder in ("src", DEBUGGER) for file in sorted((KERNEL / folder).rglob("*.rs")) if file.name != "main.rs"]


def edges() -> set[tuple[str, str, str]]:
    """Room, imported room, and the file that imports."""
    found = (
        (room_of_file(file), room_of_path(path), file.name)
        for file in sources()
        for path in imported(file.read_text(), module_of(file))
    )
    return {edge for edge in found if edge[0] != edge[1]}


def test_rooms_are_known() -> None:
    assert {room_of_file(file) for file in sources()} == {*ORDER, DEBUGGER}
    assert {target for _, target, _ in edges()} <= {*ORDER, DEBUGGER}


def test_imports_point_one_way() -> None:
    back: dict[tuple[str, str], set[str]] = {}
    for room, target, file in edges():
        if DEBUGGER not in (room, target) and ORDER.index(room) < ORDER.index(target):
            back.setdefault((room, target), set()).add(file)
    assert back == EDGES_BACK


def test_the_debugger_is_used_by_its_hooks_alone() -> None:
    used = set()
    for file in sources():
        if room_of_file(file) != DEBUGGER:
            code = re.sub(r"//[^\n]*", "", file.read_text())
            used |= set(re.findall(r"\bdebugger::(\w+)", code))
    assert used == HOOKS


def test_the_tour_names_each_file() -> None:
    tour = (REPOSITORY / "docs" / "tour.md").read_text()
    files = [*sources(), *(KERNEL / "src").rglob("*.s")]
    assert [file.name for file in files if f"`{file.name}`" not in tour] == []


def test_paths_of_a_nested_import() -> None:
    text = "use crate::{a::{self, b::C}, d}; // use crate::e;\nfn f() { crate::g::h::I; }"
    assert imported(text) == {"a::self", "a::b::C", "d", "g::h::I"}
    assert imported("use super::{a, b::C};\nuse super::d;", ("x", "y")) == {"x::a", "x::b::C", "x::d"}


def test_the_parts_of_the_guest_s_init_import_one_way() -> None:
    folder = REPOSITORY / "guest" / "init"
    listed = re.search(r"^PARTS := (.*)$", (folder / "Makefile").read_text(), re.MULTILINE)
    assert listed
    order = [*listed[1].split(), "init"]
    files = [*folder.glob("*.c"), *folder.glob("*.h")]
    assert {file.stem for file in files} == set(order)
    found = {(file.stem, name) for file in files for name in re.findall(r'^#include "(\w+)\.h"$', file.read_text(), re.MULTILINE)}
    assert [edge for edge in found if order.index(edge[0]) < order.index(edge[1])] == []
