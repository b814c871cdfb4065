# SPDX-License-Identifier: GPL-2.0-only
"""What ukl/ adds to Linux, placed into a tree of file links.

A file that something is inserted into becomes a copy there, with the insertions at
their anchors; a new file becomes a link to ours. An anchor that is not there, or
not unique, is refused by its name. What an earlier version added and this one does
not is taken back.
"""

import json
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import KeelError

RECORD = ".keel-insertions"
SUFFIX = ".toml"
# In these the preprocessor counts the lines.
PREPROCESSED = {".c", ".h", ".S"}
KEYS = {"name", "file", "within", "after", "before", "text"}


@dataclass(frozen=True)
class Insertion:
    """A text and the words of the line that it goes behind, or before."""

    name: str
    file: str
    text: str
    within: str = ""
    after: str = ""
    before: str = ""


def read(directory: Path) -> list[Insertion]:
    """The insertions of all files of a directory, in the order of the files' names."""
    return [insertion for path in sorted(directory.glob(f"*{SUFFIX}")) for insertion in read_file(path)]


def read_file(path: Path) -> list[Insertion]:
    """The insertions of one file."""
    found: list[Insertion] = []
    for entry in tomllib.loads(path.read_text())["insertion"]:
        unknown = set(entry) - KEYS
        if unknown or bool(entry.get("after")) == bool(entry.get("before")):
            raise KeelError(f"{path.name}: insertion {entry.get('name')} needs one of after and before, and nothing unknown")
        found.append(Insertion(**entry))
    return found


def inserted(text: str, insertions: Sequence[Insertion]) -> str:
    """The text of a file with its insertions, each at its anchor in the file as it was.

    For the compiler all other lines keep their numbers, which get into objects.
    """
    lines = text.splitlines(keepends=True)
    added: dict[int, str] = {}
    for insertion in insertions:
        at = _place(lines, insertion)
        added[at] = added.get(at, "") + insertion.text
    numbered = bool(insertions) and Path(insertions[0].file).suffix in PREPROCESSED
    result = []
    for number, line in enumerate([*lines, ""]):
        if number in added:
            result.append(added[number] + (f"#line {number + 1}\n" if numbered else ""))
        result.append(line)
    return "".join(result)


def _place(lines: Sequence[str], insertion: Insertion) -> int:
    """In front of which line an insertion goes."""
    words = insertion.after or insertion.before
    if insertion.within:
        start = _only_line(lines, insertion.within, insertion)
        at = next((n for n in range(start, len(lines)) if words in lines[n]), None)
        if at is None:
            raise _misses(insertion, f"no line with {words!r} behind {insertion.within!r}")
    else:
        at = _only_line(lines, words, insertion)
    return at + bool(insertion.after)


def _only_line(lines: Sequence[str], words: str, insertion: Insertion) -> int:
    found = [number for number, line in enumerate(lines) if words in line]
    if len(found) != 1:
        raise _misses(insertion, f"{len(found)} lines with {words!r} instead of one")
    return found[0]


def _misses(insertion: Insertion, why: str) -> KeelError:
    return KeelError(f"the anchor {insertion.name} does not fit {insertion.file}: {why}", "ukl is for the sources of Debian 12")


def place(insertions: Sequence[Insertion], additions: Path, pristine: Path, farm: Path) -> None:
    """Bring the farm, which has links to the pristine files, up to date with all insertions and new files."""
    changed: dict[str, str] = {}
    for insertion in insertions:
        original = pristine / insertion.file
        if not original.is_file():
            raise _misses(insertion, "there is no such file")
        if insertion.file not in changed:
            same = [other for other in insertions if other.file == insertion.file]
            changed[insertion.file] = inserted(original.read_text(), same)
    new = {path.relative_to(additions).as_posix(): path for path in additions.rglob("*") if path.is_file()}
    for name in new:
        if (pristine / name).exists():
            raise KeelError(f"ukl/linux/{name} would hide a file of Linux", "give it another name")
    _take_back(pristine, farm, set(changed) | set(new))
    for name, text in changed.items():
        place = farm / name
        if place.is_symlink() or not place.exists() or place.read_text() != text:
            place.unlink(missing_ok=True)
            place.write_text(text)
    for name, path in new.items():
        place = farm / name
        if not (place.is_symlink() and place.readlink() == path):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(path)


def _take_back(pristine: Path, farm: Path, wanted: set[str]) -> None:
    """Undo what the record tells of and nobody wants; write the record before anything is placed."""
    record = farm / RECORD
    known = set(json.loads(record.read_text())) if record.exists() else set()
    for name in known - wanted:
        (farm / name).unlink(missing_ok=True)
        if (pristine / name).exists():
            # No link: to make it is newer than what was built from it with the insertions.
            shutil.copyfile(pristine / name, farm / name)
    record.write_text(json.dumps(sorted(wanted)))
