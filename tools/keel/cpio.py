# SPDX-License-Identifier: GPL-2.0-only
"""The newc cpio format, which Linux unpacks as its initial RAM disk: writing and checking."""

import io
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import BinaryIO

MAGIC = b"070701"
MAGIC_WITH_CHECKSUM = b"070702"
HEADER_BYTES = 110
FIELDS = 13
FIELD_BYTES = 8
TRAILER = "TRAILER!!!"
ALIGNMENT = 4
NAME_MAX = 4096
FILE_MAX = 0xFFFFFFFF
COPY_BYTES = 1 << 20

REGULAR = 0o100000
DIRECTORY = 0o040000
SYMLINK = 0o120000
CHARACTER = 0o020000
BLOCK = 0o060000
FIFO = 0o010000


class BrokenArchive(Exception):
    """The bytes are not a whole newc archive; the text says why."""


@dataclass(frozen=True)
class Entry:
    """One file of an archive, with its data unless `size` says that they are written apart."""

    name: str
    mode: int
    data: bytes = b""
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    links: int = 1
    inode: int = 0
    device: tuple[int, int] = (0, 0)
    size: int | None = None


class Kept(io.BytesIO):
    """Data that can still be read when it is closed: an output for `read_headers`."""

    value = b""

    def close(self) -> None:
        """Keep the data."""
        self.value = self.getvalue()
        super().close()


def padding(length: int) -> bytes:
    """What brings a length up to the alignment."""
    return bytes(-length % ALIGNMENT)


class Writer:
    """Makes the bytes of an archive, entry by entry."""

    def __init__(self) -> None:
        self._next_inode = 1

    def header(self, entry: Entry) -> bytes:
        """The header and name of an entry; its data and their padding must follow."""
        name = entry.name.encode("utf-8", "surrogateescape") + b"\0"
        size = len(entry.data) if entry.size is None else entry.size
        if size > FILE_MAX:
            raise BrokenArchive(f"{entry.name} is too large for a RAM disk")
        fields = [
            entry.inode or self.new_inode(),
            entry.mode,
            entry.uid,
            entry.gid,
            entry.links,
            entry.mtime,
            size,
            0,
            0,
            *entry.device,
            len(name),
            0,
        ]
        text = MAGIC + b"".join(b"%08X" % (field & FILE_MAX) for field in fields) + name
        return text + padding(len(text))

    def entry(self, entry: Entry) -> bytes:
        """A whole entry."""
        return self.header(entry) + entry.data + padding(len(entry.data))

    def new_inode(self) -> int:
        """A number that ties hard links together, unused so far."""
        self._next_inode += 1
        return self._next_inode

    def end(self) -> bytes:
        """The mark that ends an archive."""
        return self.entry(Entry(TRAILER, 0))


def read_exactly(file: BinaryIO, length: int) -> bytes:
    """That many bytes, or BrokenArchive."""
    data = file.read(length)
    if len(data) != length:
        raise BrokenArchive("it is cut off")
    return data


def _pass(file: BinaryIO, length: int, out: BinaryIO | None = None) -> None:
    """Skip this many bytes; copy them to the output if there is one."""
    while length > 0:
        data = file.read(min(length, COPY_BYTES))
        if not data:
            raise BrokenArchive("it is cut off")
        if out:
            out.write(data)
        length -= len(data)


def read_headers(file: BinaryIO, output_for: Callable[[Entry], BinaryIO | None] = lambda entry: None) -> Iterator[Entry]:
    """The entries of one archive, checked for being whole; an entry's data go to its output, which is closed, or nowhere."""
    while True:
        header = read_exactly(file, HEADER_BYTES)
        if header[:6] not in (MAGIC, MAGIC_WITH_CHECKSUM):
            raise BrokenArchive("it is not a cpio archive in the newc format")
        entry, name_bytes = _parse(header)
        name = read_exactly(file, name_bytes)
        _pass(file, -(HEADER_BYTES + name_bytes) % ALIGNMENT)
        if not name.endswith(b"\0"):
            raise BrokenArchive("a file name in it has no end")
        text = name[:-1].decode("utf-8", "surrogateescape")
        if text == TRAILER:
            return
        entry = replace(entry, name=text)
        assert entry.size is not None
        with output_for(entry) or nullcontext() as out:
            _pass(file, entry.size, out)
        _pass(file, -entry.size % ALIGNMENT)
        yield entry


def chosen(file: BinaryIO, name_of: Callable[[str], str]) -> Iterator[Entry]:
    """The entries of one archive, under the names that they are to have there; without those that get an empty one."""
    data = Kept()

    def output_for(_: Entry) -> BinaryIO:
        nonlocal data
        data = Kept()
        return data

    for entry in read_headers(file, output_for):
        if name := name_of(entry.name):
            yield replace(entry, name=name, data=data.value, size=None)


def _parse(header: bytes) -> tuple[Entry, int]:
    try:
        fields = [int(header[6 + i * FIELD_BYTES : 6 + (i + 1) * FIELD_BYTES], 16) for i in range(FIELDS)]
    except ValueError as error:
        raise BrokenArchive("a header in it is not in hexadecimal digits") from error
    name_bytes = fields[11]
    if not 1 < name_bytes <= NAME_MAX:
        raise BrokenArchive("a file name in it has an impossible length")
    entry = Entry(
        "",
        fields[1],
        uid=fields[2],
        gid=fields[3],
        mtime=fields[5],
        links=fields[4],
        inode=fields[0],
        device=(fields[9], fields[10]),
        size=fields[6],
    )
    return entry, name_bytes
