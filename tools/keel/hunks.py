# SPDX-License-Identifier: GPL-2.0-only
"""Changes to copies of source files, in hunks: texts that are inserted, and texts that are replaced.

Each hunk names its file and has an anchor, a text of that file. If an anchor is not
found exactly as often as expected, the error names both. The changed copies, and
links to new files, are put into a symlink tree; the pristine tree is never written.
Files that an earlier version put there and this one does not are removed.
"""

import json
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from .errors import KeelError

RECORD = ".keel-insertions"
SUFFIX = ".toml"
# In these the preprocessor counts the lines.
PREPROCESSED = {".c", ".h", ".S"}


@dataclass(frozen=True)
class Insertion:
    """A text, and words of the line that it is inserted after, or before.

    With `within` that is the first such line from the only line with those words on; else it is the only line.
    """

    name: str
    file: str
    text: str
    within: str = ""
    after: str = ""
    before: str = ""


@dataclass(frozen=True)
class Replacement:
    """A text that occurs `count` times, and what replaces it; with `through` it extends to the end of the next such text."""

    file: str
    old: str
    new: str = ""
    through: str = ""
    count: int = 1


Hunk = Insertion | Replacement
KINDS: dict[str, type[Hunk]] = {"insertion": Insertion, "replacement": Replacement}


def read(directory: Path) -> list[Hunk]:
    """The hunks of all files of a directory, in the order of the files' names. A file below is named after that of its hunks."""
    paths = sorted(directory.rglob(f"*{SUFFIX}"))
    return [hunk for path in paths for hunk in read_file(path, path.relative_to(directory))]


def read_file(path: Path, name: Path = Path()) -> list[Hunk]:
    """The hunks of one file, each for the file that it names, or that all are for by the file's own name."""
    document = tomllib.loads(path.read_text())
    common = {"file": name.with_suffix("").as_posix()} if len(name.parts) > 1 else {}
    if unknown := set(document) - set(KINDS):
        raise KeelError(f"{path.name}: {min(unknown)} is no kind of hunk", f"there are {' and '.join(KINDS)}")
    return [_hunk(path.name, kind, {**common, **entry}) for kind, entries in document.items() for entry in entries]


def _hunk(place: str, kind: str, entry: Mapping[str, Any]) -> Hunk:
    known = fields(KINDS[kind])
    missing = {field.name for field in known if field.default is MISSING} - set(entry)
    what = f"{place}: {kind} {entry.get('name', entry.get('old'))!r}"
    if wrong := missing | set(entry) - {field.name for field in known}:
        raise KeelError(f"{what} lacks {min(wrong)}" if missing else f"{what} has an unknown {min(wrong)}")
    hunk = KINDS[kind](**entry)
    if isinstance(hunk, Insertion) and bool(hunk.after) == bool(hunk.before):
        raise KeelError(f"{what} needs one of after and before")
    if isinstance(hunk, Replacement) and not hunk.old:
        raise KeelError(f"{what} has an empty anchor")
    return hunk


def changed(text: str, hunks: Sequence[Hunk]) -> str:
    """The text of a file with its hunks: the replacements one after another, then the insertions."""
    for hunk in hunks:
        if isinstance(hunk, Replacement):
            text = _replaced(text, hunk)
    return _inserted(text, [hunk for hunk in hunks if isinstance(hunk, Insertion)])


def _replaced(text: str, replacement: Replacement) -> str:
    first, *rest = text.split(replacement.old)
    if len(rest) != replacement.count:
        raise _misses(replacement, f"it is there {len(rest)} times instead of {replacement.count}")
    if replacement.through:
        if not all(replacement.through in piece for piece in rest):
            raise _misses(replacement, f"no {replacement.through!r} follows")
        rest = [piece.partition(replacement.through)[2] for piece in rest]
    return replacement.new.join([first, *rest])


def _inserted(text: str, insertions: Sequence[Insertion]) -> str:
    """The text with its insertions, each at its anchor in the text as it was.

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
    """The index of the line that an insertion precedes."""
    words = insertion.after or insertion.before
    if insertion.within:
        start = _only_line(lines, insertion.within, insertion)
        at = next((n for n in range(start, len(lines)) if words in lines[n]), None)
        if at is None:
            raise _misses(insertion, f"no line with {words!r} follows {insertion.within!r}")
    else:
        at = _only_line(lines, words, insertion)
    return at + bool(insertion.after)


def _only_line(lines: Sequence[str], words: str, insertion: Insertion) -> int:
    found = [number for number, line in enumerate(lines) if words in line]
    if len(found) != 1:
        raise _misses(insertion, f"{len(found)} lines with {words!r} instead of one")
    return found[0]


def _misses(hunk: Hunk, why: str) -> KeelError:
    anchor = hunk.name if isinstance(hunk, Insertion) else hunk.old
    return KeelError(f"the anchor {anchor!r} does not fit {hunk.file}: {why}", "the anchors are for the sources of Debian 12")


def copies(hunks: Sequence[Hunk], source: Path) -> dict[str, str]:
    """The changed text of each file of a source tree that has hunks."""
    texts: dict[str, str] = {}
    for hunk in hunks:
        original = source / hunk.file
        if not original.is_file():
            raise _misses(hunk, "there is no such file")
        if hunk.file not in texts:
            texts[hunk.file] = changed(original.read_text(), [other for other in hunks if other.file == hunk.file])
    return texts


def additions(directory: Path) -> dict[str, Path]:
    """The new files below a directory, by their places in the source tree."""
    return {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}


def place(texts: Mapping[str, str], new: Mapping[str, Path], pristine: Path, tree: Path) -> None:
    """Update the symlink tree, which links to the pristine files, with the changed copies and the new files."""
    for name, path in new.items():
        if (pristine / name).exists():
            raise KeelError(f"{path} would hide a file of Linux", "give it another name")
    _take_back(pristine, tree, set(texts) | set(new))
    for name, text in texts.items():
        place = tree / name
        if place.is_symlink() or not place.exists() or place.read_text() != text:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.write_text(text)
    for name, path in new.items():
        place = tree / name
        if not (place.is_symlink() and place.readlink() == path):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(path)


def _take_back(pristine: Path, tree: Path, wanted: set[str]) -> None:
    """Remove what the record has and is not wanted; write the record before anything is placed."""
    record = tree / RECORD
    known = set(json.loads(record.read_text())) if record.exists() else set()
    for name in known - wanted:
        (tree / name).unlink(missing_ok=True)
        if (pristine / name).exists():
            # No link: a copy is newer than what was built from the changed file.
            shutil.copyfile(pristine / name, tree / name)
    record.write_text(json.dumps(sorted(wanted)))
