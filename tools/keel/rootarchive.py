# SPDX-License-Identifier: GPL-2.0-only
"""Root file systems as RAM disks: a user's archive or directory, checked and otherwise unchanged,
and the file that is booted: the root with the guest's init appended."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from . import attributes, cpio, layerarchive, packages, process
from .config import Settings
from .errors import KeelError, system_error
from .lock import locked
from .progress import Step

SIGNATURES = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\x02\x21\x4c\x18": "lz4",
    b"\x04\x22\x4d\x18": "lz4",
}
STARTERS = ("init", "bin/sh", "bin/bash", "usr/bin/sh", "usr/bin/bash")
MEGABYTE = 1 << 20
# Memory of a guest in addition to its root: for the kernel, its tables and programs.
GUEST_RESERVE_MB = 96
# Additional memory for Keel: boot modules, native tasks, sigma0's reserve for them.
KEEL_RESERVE_MB = 64


@dataclass(frozen=True)
class Root:
    """A checked root archive."""

    path: Path
    packed_bytes: int
    content_bytes: int
    starts: bool
    # The archive of a layer over it (layerarchive.py), whose bytes are counted.
    layer: Path | None = None

    def memory_mb(self, *, native: bool) -> int:
        """The least memory of a guest that unpacks it.

        Archive and content are in memory at once, and Linux gives the first file system half of
        the memory that the archive leaves. The µ-kernel's pool takes a 16th of all.
        """
        needed = (self.packed_bytes + 2 * self.content_bytes) // MEGABYTE + GUEST_RESERVE_MB
        return needed if native else needed * 17 // 16 + KEEL_RESERVE_MB


def compression(start: bytes) -> str:
    """The name of the compression of a file that starts like this, or an empty string."""
    return next((name for mark, name in SIGNATURES.items() if start.startswith(mark)), "")


@contextmanager
def _opened(path: Path, settings: Settings) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        kind = compression(file.read(8))
    if kind == "lz4":
        remedy = f"recompress it: lz4 -dc {path.name} | gzip > root.cpio.gz"
        raise KeelError(f"{path} is compressed with LZ4, which is not supported", remedy)
    if kind == "zstd":
        packages.require(settings, packages.ZSTD)
        child = process.start(["zstd", "-dcq", str(path)], stdout=subprocess.PIPE)
        try:
            yield cast(BinaryIO, child.stdout)
        finally:
            process.end(child)
        return
    with _open_plain(path, kind) as stream:
        yield stream


def _open_plain(path: Path, kind: str) -> BinaryIO:
    if kind == "gzip":
        return cast(BinaryIO, gzip.open(path))
    if kind == "xz":
        return cast(BinaryIO, lzma.open(path))
    if kind == "bzip2":
        return cast(BinaryIO, bz2.open(path))
    return path.open("rb")


def check(path: Path, settings: Settings) -> Root:
    """Read an archive once from end to end; KeelError says in one line what is wrong with it."""
    content, names = 0, set()
    try:
        packed = path.stat().st_size
        with _opened(path, settings) as stream:
            for entry in cpio.read_headers(stream):
                content += entry.size or 0
                names.add(entry.name.removeprefix("./").removeprefix("/"))
    except (cpio.BrokenArchive, EOFError, lzma.LZMAError, gzip.BadGzipFile, ValueError) as error:
        reason = str(error) or "it is cut off"
        remedy = "give a directory or a cpio in newc format, or raw:FILE for a disk"
        raise KeelError(f"{path} is not a usable root: {reason}", remedy) from error
    except OSError as error:
        raise KeelError(f"{path} cannot be read: {error.strerror or error}") from error
    return Root(path, packed, content, any(name in names for name in STARTERS))


def over(base: Root, layer: Root) -> Root:
    """A root with a layer over it."""
    both = base.packed_bytes + layer.packed_bytes, base.content_bytes + layer.content_bytes
    return Root(base.path, *both, base.starts, layer.path)


def _walk(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    def fail(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(directory, onerror=fail):
        for name in sorted(folders) + sorted(files):
            path = Path(place) / name
            yield path, path.lstat()


def pack_directory(directory: Path, archive: Path) -> None:
    """Write a directory as an archive, owners, modes, attributes, links and devices as they are."""
    writer = attributes.Writer()
    inodes: dict[tuple[int, int], int] = {}
    with archive.open("wb") as out:
        for path, info in _walk(directory):
            if stat.S_ISSOCK(info.st_mode):
                continue  # a socket is useless without the process that made it
            _pack_file(out, writer, inodes, path.relative_to(directory).as_posix(), path, info)
        out.write(writer.end())


def _pack_file(
    out: BinaryIO,
    writer: attributes.Writer,
    inodes: dict[tuple[int, int], int],
    name: str,
    path: Path,
    info: os.stat_result,
) -> None:
    links, data, size, first = 1, b"", 0, True
    inode = writer.new_inode()
    if stat.S_ISREG(info.st_mode):
        size = info.st_size
        if info.st_nlink > 1:
            links = info.st_nlink
            key = (info.st_dev, info.st_ino)
            first = key not in inodes
            inode = inodes.setdefault(key, inode)
    elif stat.S_ISLNK(info.st_mode):
        data = os.fsencode(path.readlink())
        size = len(data)
    device = (os.major(info.st_rdev), os.minor(info.st_rdev))
    size = size if first else 0  # the data of hard links come with the first name
    entry = cpio.Entry(
        name,
        info.st_mode,
        uid=info.st_uid,
        gid=info.st_gid,
        mtime=int(info.st_mtime),
        links=links,
        inode=inode,
        device=device,
        size=size,
    )
    out.write(writer.header(entry))
    if stat.S_ISREG(info.st_mode) and first:
        copied = _copy(path, out)
        if copied != size:
            raise KeelError(f"{path} changed while it was read", "run it again")
    else:
        out.write(data)
    out.write(cpio.padding(size))
    if stat.S_ISDIR(info.st_mode) or (stat.S_ISREG(info.st_mode) and first):
        out.write(writer.notes(name, attributes.of_file(path)))


def _copy(path: Path, out: BinaryIO) -> int:
    copied = 0
    with path.open("rb") as file:
        while data := file.read(cpio.COPY_BYTES):
            out.write(data)
            copied += len(data)
    return copied


def _key(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


def _state(info: os.stat_result) -> dict[str, int]:
    """What distinguishes a file from another one of its name: a replaced one may have an older time."""
    return {"inode": info.st_ino, "size": info.st_size, "mtime": info.st_mtime_ns}


def checked(path: Path, settings: Settings) -> Root:
    """`check`, with its result cached as long as the file does not change."""
    try:
        info = path.stat()
    except OSError as error:
        raise KeelError(f"{path} cannot be read: {error.strerror}") from error
    known = settings.build / "images" / f"{_key(path)}.checked"
    state = _state(info)
    if known.exists():
        kept = json.loads(known.read_text())
        if kept["state"] == state:
            return Root(path, info.st_size, kept["content"], kept["starts"])
    with Step(f"checking {path.name}", mostly_short=True):
        root = check(path, settings)
    known.parent.mkdir(parents=True, exist_ok=True)
    result = {"state": state, "content": root.content_bytes, "starts": root.starts}
    replace_file(known, json.dumps(result).encode())
    return root


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or an emulator that has it mapped, sees the old or the new content, never a part."""
    aside = path.with_suffix(f".{os.getpid()}")
    aside.write_bytes(content)
    aside.replace(path)


def from_user(path: Path, settings: Settings) -> Root:
    """The root that the user named: an archive as it is, a directory packed."""
    if not path.exists():
        raise KeelError(f"the root {path} does not exist", "give a directory or a .cpio(.gz)")
    if not path.is_dir():
        return checked(path, settings)
    archive = settings.build / "images" / f"{_key(path)}-directory.cpio"
    with locked(settings.locks, "images"):
        _pack_new(path, archive)
    return checked(archive, settings)


def _pack_new(directory: Path, archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    aside = archive.with_suffix(".new")
    try:
        with Step(f"packing {directory}", mostly_short=True):
            pack_directory(directory, aside)
        aside.replace(archive)
    except cpio.BrokenArchive as error:
        raise KeelError(str(error)) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise system_error(f"{directory} cannot be packed{where}", error) from error
    finally:
        aside.unlink(missing_ok=True)


def join(archives: list[Path], joined: Path, layer: Path | None = None) -> None:
    """Append archives to one another at the alignment that Linux asks for, the first one with a layer over it if there is one."""
    aside = joined.with_suffix(".new")
    try:
        with aside.open("wb") as out:
            for archive in archives:
                if layer and archive == archives[0]:
                    layerarchive.merge(archive, layer, out)
                else:
                    _copy(archive, out)
                out.write(cpio.padding(out.tell()))
        aside.replace(joined)
    finally:
        aside.unlink(missing_ok=True)


def boot_archive(settings: Settings, root: Root, init: Path) -> Path:
    """The file that is booted: the root with the init's archive appended, reused while both are unchanged."""
    joined = settings.build / "images" / f"{_key(root.layer or root.path)}-{init.stem}-booted.cpio"
    known = joined.with_suffix(".parts")
    with locked(settings.locks, "images"):
        joined.parent.mkdir(parents=True, exist_ok=True)
        state = json.dumps([_state(part.stat()) for part in (root.path, root.layer, init) if part])
        if not (joined.exists() and known.exists() and known.read_text() == state):
            known.unlink(missing_ok=True)
            join([root.path, init], joined, root.layer)
            replace_file(known, state.encode())
    return joined
