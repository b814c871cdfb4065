# SPDX-License-Identifier: GPL-2.0-only
"""Unpacks a newc archive with its owners, modes and attributes: `python -m keel.unpack ARCHIVE DIRECTORY`.

A separate program, so that it can run under fakeroot. It omits device nodes: a guest's kernel makes them.
"""

import os
import re
import stat
import sys
from pathlib import Path
from typing import BinaryIO, cast

from . import attributes, cpio

ROOT_MODE = 0o755
# The last line of the program.
FILES = re.compile(rb"unpacked (\d+) files")


class _Unpacking:
    """The files that are there already; the data of hard links come with the first of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.first: dict[int, Path] = {}
        self.folders: list[cpio.Entry] = []
        self.target = cpio.Kept()
        self.attributes: list[tuple[str, str, bytes]] = []
        self.newest = 0

    def output_for(self, entry: cpio.Entry) -> BinaryIO | None:
        """Where the data of an entry go."""
        if stat.S_ISLNK(entry.mode) or attributes.is_ours(entry.name):
            self.target = cpio.Kept()
            return self.target
        if stat.S_ISREG(entry.mode) and not self.is_link(entry):
            return cast(BinaryIO, (self.directory / entry.name).open("wb"))
        return None

    def is_link(self, entry: cpio.Entry) -> bool:
        """Whether it is one more name of a file."""
        return entry.links > 1 and entry.inode in self.first

    def finish(self, entry: cpio.Entry) -> None:
        """What an entry needs when its data are there."""
        path, mode = self.directory / entry.name, stat.S_IMODE(entry.mode)
        if attributes.is_ours(entry.name):
            if found := attributes.noted(entry.name):
                self.attributes.append((*found, self.target.value))
            return
        if stat.S_ISLNK(entry.mode):
            path.symlink_to(os.fsdecode(self.target.value))
        elif stat.S_ISDIR(entry.mode):
            path.mkdir()
            self.folders.append(entry)
        elif stat.S_ISFIFO(entry.mode):
            os.mkfifo(path)
        elif not stat.S_ISREG(entry.mode):
            return
        elif self.is_link(entry):
            path.hardlink_to(self.first[entry.inode])
            return
        else:
            self.first[entry.inode] = path
        os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
        if not stat.S_ISLNK(entry.mode) and not stat.S_ISDIR(entry.mode):
            path.chmod(mode)  # after the owner, whose change drops the set-id bits
        os.utime(path, (entry.mtime, entry.mtime), follow_symlinks=False)
        self.newest = max(self.newest, entry.mtime)


def unpack(archive: Path, directory: Path) -> int:
    """Make the archive's files; a folder gets its mode and time last, because it is filled. The root is as old as the newest.

    Prints the percentage that is unpacked; returns the number of files.
    """
    work = _Unpacking(directory)
    size, percent, count = archive.stat().st_size, 0, 0
    with archive.open("rb") as file:
        for count, entry in enumerate(cpio.read_headers(file, work.output_for), 1):  # noqa: B007
            work.finish(entry)
            if (now := 100 * file.tell() // size) > percent:
                percent = now
                print(f"unpacked {percent} %", flush=True)
    for name, attribute, value in work.attributes:
        os.setxattr(directory / name, attribute, value, follow_symlinks=False)
    for folder in reversed(work.folders):
        path = directory / folder.name
        path.chmod(stat.S_IMODE(folder.mode))
        os.utime(path, (folder.mtime, folder.mtime))
    directory.chmod(ROOT_MODE)
    os.utime(directory, (work.newest, work.newest))
    return count


if __name__ == "__main__":
    print(f"unpacked {unpack(Path(sys.argv[1]), Path(sys.argv[2]))} files", flush=True)
