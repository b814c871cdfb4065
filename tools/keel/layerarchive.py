# SPDX-License-Identifier: GPL-2.0-only
"""A layer over a root archive: an archive of what was added and changed, with whiteouts of what was removed or replaced.

A whiteout is a character device with the number 0:0, as in Linux's overlayfs. All come first, a folder's after those of what
was in it. A folder that is only changed has no whiteout. The notes of a file's attributes
(attributes.py) come and go with it.
"""

import hashlib
import io
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from . import attributes, cpio

WHITEOUT = cpio.Entry("", cpio.CHARACTER)
# What is made for each installation again, and by a guest's kernel for each boot.
LEFT_OUT = "dev"


class _Digest(io.RawIOBase):
    """Data of which only a digest is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.hash = hashlib.sha256()

    def write(self, data: object) -> int:
        """Takes all of the data."""
        self.hash.update(cast(bytes, data))
        return len(cast(bytes, data))


@dataclass(frozen=True)
class _File:
    """All by which a file differs from another one: what its entry says, its data, and all its names if it has several."""

    mode: int
    uid: int
    gid: int
    mtime: int
    device: tuple[int, int]
    data: bytes
    names: tuple[str, ...] = ()
    attributes: tuple[tuple[str, bytes], ...] = ()


def is_whiteout(entry: cpio.Entry) -> bool:
    """Whether an entry of a layer says that the file of this name is not there."""
    return stat.S_ISCHR(entry.mode) and entry.device == WHITEOUT.device


def difference(base: Path, whole: Path, layer: Path) -> None:
    """Write the layer over the archive `base` by which it becomes the archive `whole`. All files but those in /dev count."""
    old, new = _files(base), _files(whole)
    changed = {name for name, file in new.items() if old.get(name) != file}
    changed |= {name for name in new if (found := attributes.noted(name)) and found[0] in changed}
    gone = [name for name in old if name not in new or (name in changed and not _same_folder(old[name], new[name]))]
    writer = cpio.Writer()
    with layer.open("wb") as out:
        for name in sorted(gone, reverse=True):
            out.write(writer.entry(cpio.Entry(name, WHITEOUT.mode, device=WHITEOUT.device)))
        copy(whole, out, lambda entry: entry.name in changed)


def copy(archive: Path, out: BinaryIO, is_wanted: Callable[[cpio.Entry], bool]) -> None:
    """Append an archive's wanted entries and its end; a file with several names must be wanted by all or none of them."""
    with archive.open("rb") as file, archive.open("rb") as data:
        begin = end = 0
        for entry in cpio.read_headers(file):
            if not is_wanted(entry):
                _copy_range(data, begin, end, out)
                begin = file.tell()
            end = file.tell()
        _copy_range(data, begin, archive.stat().st_size, out)


def merge(base: Path, layer: Path, out: BinaryIO) -> None:
    """Write what Linux unpacks as the base with the layer over it."""
    gone = {entry.name for entry in entries(layer) if is_whiteout(entry)}
    copy(base, out, lambda entry: entry.name not in gone)
    copy(layer, out, lambda entry: not is_whiteout(entry))


def entries(archive: Path) -> Iterator[cpio.Entry]:
    """The entries of an archive, without their data."""
    with archive.open("rb") as file:
        yield from cpio.read_headers(file)


def _same_folder(old: _File, new: _File) -> bool:
    return stat.S_ISDIR(old.mode) and stat.S_ISDIR(new.mode)


def _files(archive: Path) -> dict[str, _File]:
    """Each file of an archive by its name, except those in /dev."""
    digest = _Digest()

    def output_for(entry: cpio.Entry) -> BinaryIO:
        nonlocal digest
        digest = _Digest()
        return cast(BinaryIO, digest)

    files: dict[str, _File] = {}
    names: dict[int, list[str]] = {}
    with archive.open("rb") as file:
        for entry in cpio.read_headers(file, output_for):
            if entry.name.split("/")[0] == LEFT_OUT:
                continue
            made = _File(entry.mode, entry.uid, entry.gid, entry.mtime, entry.device, digest.hash.digest())
            files[entry.name] = made
            if entry.links > 1 and stat.S_ISREG(entry.mode):
                names.setdefault(entry.inode, []).append(entry.name)
    for several in names.values():
        # The data come with the first name.
        files.update(dict.fromkeys(several, replace(files[several[0]], names=tuple(sorted(several)))))
    noted: dict[str, list[tuple[str, bytes]]] = {}
    for place, note in files.items():
        if found := attributes.noted(place):
            noted.setdefault(found[0], []).append((found[1], note.data))
    for owner in noted.keys() & files.keys():
        held = tuple(sorted(noted[owner]))
        files.update({name: replace(files[name], attributes=held) for name in files[owner].names or [owner]})
    return files


def _copy_range(data: BinaryIO, begin: int, end: int, out: BinaryIO) -> None:
    data.seek(begin)
    while begin < end:
        part = data.read(min(cpio.COPY_BYTES, end - begin))
        if not part:
            raise cpio.BrokenArchive("it is cut off")
        out.write(part)
        begin += len(part)
