# SPDX-License-Identifier: GPL-2.0-only
"""A layer over the default root as a disk: a qcow2 image over the default root's, with the blocks in which they differ.

debugfs applies the layer's archive to a copy of the base's file system, so nobody needs to mount it.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from . import attributes, cpio, layerarchive, overlay, packages, process
from .config import Settings
from .errors import KeelError, system_error
from .progress import Step

# Debugfs succeeds in any case. Its error output begins with a line of its version; what follows is an error.
APPLY = """set -e
cp --sparse=always --reflink=auto "$3" "$2"
errors=$(debugfs -w -f "$1" "$2" 2>&1 >/dev/null)
echo "$errors"
test "$(wc -l <<< "$errors")" = 1
e2fsck -f -n "$2"
"""


def make(settings: Settings, base_archive: Path, base_disk: Path, layer: Path, disk: Path) -> None:
    """Make the disk of a layer's archive over a base, whose archive and disk have the same files."""
    packages.require(settings, packages.FILE_SYSTEMS)
    place, aside = disk.with_suffix(".files"), disk.with_suffix(".new")
    shutil.rmtree(place, ignore_errors=True)  # a command that was killed has left it
    try:
        place.mkdir()
        with Step("making the layer's disk") as step:
            script, copied = place / "script", place / "copy"
            with script.open("w", encoding="utf-8", errors="surrogateescape") as out:
                out.writelines(f"{line}\n" for line in commands(base_archive, layer, place))
            process.run_logged(
                ["bash", "-c", APPLY, "make", str(script), str(copied), str(base_disk)],
                what="making the layer's disk",
                log=settings.logs / "layer-disk.log",
                step=step,
                env={"PATH": packages.roots_path()},
            )
            overlay.write(copied, base_disk, aside)
        aside.replace(disk)
    except OSError as error:
        raise system_error("cannot write the layer's disk", error) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
        aside.unlink(missing_ok=True)


def commands(base_archive: Path, layer: Path, place: Path) -> Iterator[str]:
    """The commands for debugfs that bring the base to the layer's state; the files' data are in `place`."""
    old = {entry.name: entry.mode for entry in layerarchive.entries(base_archive)}
    target = _Target(place)
    with layer.open("rb") as file:
        for entry in cpio.read_headers(file, target.output_for):
            if attributes.is_ours(entry.name):
                yield from _attribute(entry, target, old)
                continue
            name = _quoted(entry.name)
            if layerarchive.is_whiteout(entry):
                yield f"{'rmdir' if stat.S_ISDIR(old.pop(entry.name, 0)) else 'rm'} {name}"
                continue
            if not (stat.S_ISDIR(entry.mode) and entry.name in old):
                folder, _, last = entry.name.rpartition("/")
                # A command that makes a file takes the part before a leading slash for the current folder.
                yield f"cd {_quoted(folder)}"
                yield _creation(entry, _quoted(last, ""), target)
            yield from (f"sif {name} {field} {value}" for field, value in _fields(entry))


def _attribute(entry: cpio.Entry, target: "_Target", old: Mapping[str, int]) -> Iterator[str]:
    """Yield the command for a note: it gives a file an attribute, or takes one from a folder that stays; a file is made again."""
    if found := attributes.noted(entry.name):
        name, attribute = _quoted(found[0]), found[1]
        if not layerarchive.is_whiteout(entry):
            yield f"ea_set -f {target.path} {name} {attribute}"
        elif stat.S_ISDIR(old.get(found[0], 0)):
            yield f"ea_rm {name} {attribute}"


def _creation(entry: cpio.Entry, name: str, target: "_Target") -> str:
    """The command that makes a file of this name in the current folder."""
    if stat.S_ISLNK(entry.mode):
        return f"symlink {name} {_quoted(os.fsdecode(target.path.read_bytes()), '')}"
    if stat.S_ISDIR(entry.mode):
        return f"mkdir {name}"
    if stat.S_ISFIFO(entry.mode):
        return f"mknod {name} p"
    if not stat.S_ISREG(entry.mode):
        raise KeelError(f"the layer has a device, /{entry.name}", "a root on a disk has none: they are the guest kernel's")
    if entry.links > 1 and entry.inode in target.first:
        return f"ln {_quoted(target.first[entry.inode])} {name}"
    target.first[entry.inode] = entry.name
    return f"write {target.path} {name}"


def _fields(entry: cpio.Entry) -> Iterator[tuple[str, str]]:
    yield from (("mode", f"0{entry.mode:o}"), ("uid", str(entry.uid)), ("gid", str(entry.gid)), ("mtime", f"@{entry.mtime}"))
    if stat.S_ISREG(entry.mode):
        yield "links_count", str(entry.links)


def _quoted(name: str, start: str = "/") -> str:
    """A path as a word of debugfs's language, which has no way to write some characters."""
    if any(not character.isprintable() and not "\udc80" <= character <= "\udcff" for character in name):
        raise KeelError(f"a layer cannot have the file {name!r}", "leave its package out")
    return '"' + start + name.replace('"', '""') + '"'


class _Target:
    """The files with the data of a layer's entries, and the first names of those with several."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.path = place
        self.number = 0
        self.first: dict[int, str] = {}

    def output_for(self, entry: cpio.Entry) -> BinaryIO | None:
        """Where the data of an entry go."""
        if not stat.S_ISREG(entry.mode) and not stat.S_ISLNK(entry.mode):
            return None
        if entry.links > 1 and entry.inode in self.first:
            return None
        self.number += 1
        self.path = self.place / f"{self.number}"
        return self.path.open("wb")
