# SPDX-License-Identifier: GPL-2.0-only
"""Root archives from tar files and back, with owners, modes, devices and hard links, without being root."""

import io
import stat
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from . import cpio
from .progress import Far, Step

TYPES = {
    tarfile.DIRTYPE: cpio.DIRECTORY,
    tarfile.SYMTYPE: cpio.SYMLINK,
    tarfile.CHRTYPE: cpio.CHARACTER,
    tarfile.BLKTYPE: cpio.BLOCK,
    tarfile.FIFOTYPE: cpio.FIFO,
    tarfile.REGTYPE: cpio.REGULAR,
}
FOLDER_MODE = 0o755
TAR_TYPES = {mode: kind for kind, mode in TYPES.items()}


def from_cpio(archive: Path, tar: Path, is_wanted: Callable[[str], bool]) -> None:
    """Convert an archive to a tar file of the files with wanted names."""
    data = cpio.Kept()
    first: dict[int, str] = {}

    def output_for(_: cpio.Entry) -> BinaryIO:
        nonlocal data
        data = cpio.Kept()
        return data

    with archive.open("rb") as file, tarfile.open(tar, "w", format=tarfile.PAX_FORMAT) as out:
        for entry in cpio.read_headers(file, output_for):
            if is_wanted(entry.name):
                out.addfile(_member(entry, data.value, first), io.BytesIO(data.value))


def _member(entry: cpio.Entry, data: bytes, first: dict[int, str]) -> tarfile.TarInfo:
    """The header of a file; `first` has the first names of those with several, by their inodes."""
    member = tarfile.TarInfo(entry.name)
    member.type = TAR_TYPES[stat.S_IFMT(entry.mode)]
    member.mode, member.uid, member.gid, member.mtime = stat.S_IMODE(entry.mode), entry.uid, entry.gid, entry.mtime
    member.devmajor, member.devminor = entry.device
    if member.issym():
        member.linkname = data.decode("utf-8", "surrogateescape")
    elif member.isreg() and entry.links > 1 and entry.inode in first:
        member.type, member.linkname = tarfile.LNKTYPE, first[entry.inode]
    elif member.isreg():
        first[entry.inode] = entry.name
        member.size = len(data)
    return member


def to_cpio(tar: Path, archive: Path, step: Step | None = None, within: tuple[Path, str] | None = None) -> None:
    """Convert a tar file to an archive, and with it another one whose files come into a folder, except its devices."""
    writer = cpio.Writer()
    with archive.open("wb") as out:
        _append(tar, out, writer, step)
        if within:
            _append(within[0], out, writer, step, within[1])
        out.write(writer.end())


def _append(tar: Path, out: BinaryIO, writer: cpio.Writer, step: Step | None, folder: str = "") -> None:
    """Append the files of a tar file, or those that are no devices into a folder, which is made."""
    with tarfile.open(tar) as source:
        links: dict[str, int] = {}
        for member in source.getmembers():
            if member.islnk():
                links[member.linkname] = links.get(member.linkname, 1) + 1
        inodes = {name: writer.new_inode() for name in links}
        if folder:
            out.write(writer.entry(cpio.Entry(folder, cpio.DIRECTORY | FOLDER_MODE)))
        for member in source:
            if step:
                step.update(Far(100 * member.offset // tar.stat().st_size, 100, "%"))
            origin = member.linkname if member.islnk() else member.name
            entry = _entry(member, inodes.get(origin, 0), links.get(origin, 1), source, origin)
            if entry is None or (folder and member.isdev()):
                continue
            entry = replace(entry, name=f"{folder}/{entry.name}") if folder else entry
            out.write(writer.header(entry) + entry.data)
            data = source.extractfile(member) if member.isreg() else None
            while data and (part := data.read(cpio.COPY_BYTES)):
                out.write(part)
            out.write(cpio.padding(out.tell()))


def _entry(member: tarfile.TarInfo, inode: int, links: int, source: tarfile.TarFile, origin: str) -> cpio.Entry | None:
    name = member.name.removeprefix("./")
    if name in {"", "."}:
        return None
    target = source.getmember(origin) if member.islnk() else member
    data = member.linkname.encode("utf-8", "surrogateescape") if member.issym() else b""
    return cpio.Entry(
        name,
        TYPES.get(member.type, cpio.REGULAR) | target.mode,
        data=data,
        uid=member.uid,
        gid=member.gid,
        mtime=int(member.mtime),
        links=links,
        inode=inode,
        device=(member.devmajor, member.devminor) if member.ischr() or member.isblk() else (0, 0),
        size=member.size if member.isreg() else len(data),
    )
