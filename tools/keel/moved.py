# SPDX-License-Identifier: GPL-2.0-only
"""Builds of Linux that were copied or moved with their clone, whose files have the old place in them.

The source trees are links, which would lead into the old clone. make compares its commands, and the lists of dependencies, by
paths. Both are adapted, so that only what has changed is compiled again. Each is marked last, by a link to its source: whatever
is interrupted is adapted again.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from .progress import Step, say

# In a source tree, and in a build's directory, where make leaves it.
IN_TREE, IN_BUILD = "Makefile", "source"
TREES = "-src"
# Files with commands of make, and with dependencies.
LISTS = ("*.cmd", "*.d")


def settle(linux: Path) -> None:
    """Adapt what in a directory with Linux's source and builds has come from another place; the caller has its locks."""
    found = [*_trees(linux), *_builds(linux)]
    if not found:
        return
    say(f"the builds of Linux came here from {found[0][1]}: they are adapted, so that little is compiled again")
    with Step("adapting Linux's builds", mostly_short=True):
        for tree, old in _trees(linux):
            _lead_here(tree, old, linux)
        for build, old in list(_builds(linux)):
            _adapt(build, old, linux)


def _trees(linux: Path) -> Iterator[tuple[Path, Path]]:
    """The source trees whose links lead elsewhere, and the directory that they lead to in place of this one."""
    for mark in (place / IN_TREE for place in linux.glob(f"*{TREES}")):
        if mark.is_symlink() and (old := mark.readlink().parents[1]) != linux:
            yield mark.parent, old


def _builds(linux: Path) -> Iterator[tuple[Path, Path]]:
    """The same of builds."""
    for mark in (place / IN_BUILD for place in linux.iterdir()):
        if mark.is_symlink() and (old := mark.readlink().parent) != linux:
            yield mark.parent, old


def _clone(linux: Path) -> str:
    """The beginning of all paths of a clone, by its directory for Linux."""
    return f"{linux.parents[1]}/"


def _lead_here(tree: Path, old: Path, linux: Path) -> None:
    mark = tree / IN_TREE
    links = [Path(place) / name for place, _, names in os.walk(tree) for name in names]
    for link in [*(link for link in links if link != mark), mark]:
        if link.is_symlink() and (target := str(link.readlink())).startswith(_clone(old)):
            _lead(link, Path(_clone(linux) + target.removeprefix(_clone(old))))


def _lead(link: Path, target: Path) -> None:
    """Have a link lead elsewhere in one step."""
    aside = link.with_name(f"{link.name}.new")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.replace(link)


def _adapt(build: Path, old: Path, linux: Path) -> None:
    for path in [path for pattern in LISTS for path in build.rglob(pattern) if path.is_file()]:
        text = path.read_text(errors="surrogateescape")
        if _clone(old) in text:
            times = path.stat()
            path.write_text(text.replace(_clone(old), _clone(linux)), errors="surrogateescape")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    mark = build / IN_BUILD
    _lead(mark, linux / mark.readlink().name)
