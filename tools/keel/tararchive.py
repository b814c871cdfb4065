# SPDX-License-Identifier: GPL-2.0-only
"""Root archives from tar files and back, with owners, modes, attributes, devices and hard links, without being root."""

import io
import stat
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from . import attributes, cpio
from .errors import KeelError
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
# The beginnings of extended headers with attributes of a file, and of those with labels that the host's kernel gives to files.
ATTRIBUTE, ACCESS_LIST, LABEL = "SCHILY.xattr.", "SCHILY.acl.", "SCHILY.xattr.security."
KEPT = {f"{ATTRIBUTE}{name}": name for name in attributes.KEPT}
# Values are bytes: in a tar file, and as Python has them in its strings.
ENCODING, ERRORS = "utf-8", "surrogateescape"
TAR_TYPES = {mode: kind for kind, mode in TYPES.items()}


def from_cpio(archive: Path, tar: Path, is_wanted: Callable[[str], bool]) -> None:
    """Convert an archive to a tar file of the files with wanted names."""
    data = cpio.Kept()
    first: dict[int, str] = {}
    noted = _noted(archive)

    def output_for(_: cpio.Entry) -> BinaryIO:
        nonlocal data
        data = cpio.Kept()
        return data

    with archive.open("rb") as file, tarfile.open(tar, "w", format=tarfile.PAX_FORMAT, encoding=ENCODING) as out:
        for entry in cpio.read_headers(file, output_for):
            if is_wanted(entry.name) and not attributes.is_ours(entry.name):
                member = _member(entry, data.value, first)
                member.pax_headers = noted.get(entry.name, {})
                out.addfile(member, io.BytesIO(data.value))


def _noted(archive: Path) -> dict[str, dict[str, str]]:
    """Read the headers with the attributes of an archive's files, by their names."""
    headers: dict[str, dict[str, str]] = {}
    with archive.open("rb") as file:
        for note in cpio.chosen(file, lambda name: name if attributes.is_ours(name) else ""):
            if found := attributes.noted(note.name):
                headers.setdefault(found[0], {})[f"{ATTRIBUTE}{found[1]}"] = note.data.decode(ENCODING, ERRORS)
    return headers


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
    writer = attributes.Writer()
    with archive.open("wb") as out:
        _append(tar, out, writer, step)
        if within:
            _append(within[0], out, writer, step, within[1])
        out.write(writer.end())


def _append(tar: Path, out: BinaryIO, writer: attributes.Writer, step: Step | None, folder: str = "") -> None:
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
            out.write(writer.notes(entry.name, _attributes(member)))


def _attributes(member: tarfile.TarInfo) -> dict[str, bytes]:
    """Return the attributes of a file; a further name has none, since they are those of the same file.

    KeelError if a file has one that is not kept, unless it is a label of the host's.
    """
    held = [name for name in member.pax_headers if name.startswith((ATTRIBUTE, ACCESS_LIST))]
    if lost := [name for name in held if name not in KEPT and not name.startswith(LABEL)]:
        raise KeelError(
            f"/{member.name.removeprefix('./')} has an attribute that a root cannot keep: {lost[0]}", "leave its package out"
        )
    kept = [name for name in held if name in KEPT and not member.islnk()]
    return {KEPT[name]: member.pax_headers[name].encode(ENCODING, ERRORS) for name in kept}


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
