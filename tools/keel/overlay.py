# SPDX-License-Identifier: GPL-2.0-only
"""Writes a qcow2 image over a raw one, which has what differs in another raw image of the same size.

`qemu-img rebase` does the same, but reads the holes of both: 41 s for 8 GB with 3 MB of differences.
"""

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from .imageformat import BACKING_FORMAT, QCOW2_MAGIC, RAW

# The layout of QEMU's docs/interop/qcow2.txt, version 3; numbers are big-endian.
VERSION = 3
CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
ENTRY_BYTES = 8
TABLE_ENTRIES = CLUSTER // ENTRY_BYTES
REFCOUNT_ORDER, REFCOUNT = 4, b"\x00\x01"
COUNTS_IN_BLOCK = CLUSTER // len(REFCOUNT)
# Of an entry in a table: nothing else refers to what it refers to.
COPIED = 1 << 63
HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
EXTENSION = struct.Struct(">II")
EXTENSION_ALIGNMENT = 8


def write(new: Path, base: Path, overlay: Path) -> None:
    """Write the overlay of the clusters in which two images differ; it names the base by a path relative to itself.

    The images have the same size. What an error leaves of the overlay is not usable.
    """
    with new.open("rb") as one, base.open("rb") as other, overlay.open("wb") as out:
        changed = sorted(at for at in _filled(one) | _filled(other) if _cluster(one, at) != _cluster(other, at))
        _write(out, changed, one, os.fsencode(os.path.relpath(base, overlay.parent)))


def _write(out: BinaryIO, changed: Sequence[int], data: BinaryIO, backing: bytes) -> None:
    """Header, refcount table, refcount blocks, first table, second tables, and the clusters with data."""
    size = os.fstat(data.fileno()).st_size
    tables = sorted({at // TABLE_ENTRIES for at in changed})
    first_table_entries = -(-size // (CLUSTER * TABLE_ENTRIES))
    rest = 2 + _clusters(first_table_entries) + len(tables) + len(changed)
    blocks = -(-rest // (COUNTS_IN_BLOCK - 1))  # the blocks count themselves, too
    first_table = 2 + blocks
    second_tables = first_table + _clusters(first_table_entries)
    content = second_tables + len(tables)
    out.write(_padded(_header(size, first_table_entries, first_table, backing)))
    out.write(_padded(_entries(range(2, 2 + blocks), 0)))
    out.write((REFCOUNT * (rest + blocks)).ljust(blocks * CLUSTER, b"\0"))
    places = {table: second_tables + number for number, table in enumerate(tables)}
    out.write(_padded(_entries((places.get(table, 0) for table in range(first_table_entries)), COPIED)))
    places = {at: content + number for number, at in enumerate(changed)}
    for table in tables:
        covered = range(table * TABLE_ENTRIES, (table + 1) * TABLE_ENTRIES)
        out.write(_entries((places.get(at, 0) for at in covered), COPIED))
    for at in changed:
        out.write(_padded(_cluster(data, at)))


def _header(size: int, first_table_entries: int, first_table: int, backing: bytes) -> bytes:
    kind = RAW.encode()
    extensions = EXTENSION.pack(BACKING_FORMAT, len(kind)) + kind + bytes(-len(kind) % EXTENSION_ALIGNMENT)
    extensions += EXTENSION.pack(0, 0)
    fixed = HEADER.pack(
        *(QCOW2_MAGIC, VERSION, HEADER.size + len(extensions), len(backing), CLUSTER_BITS, size, 0),
        *(first_table_entries, first_table * CLUSTER, CLUSTER, 1, 0, 0, 0, 0, 0, REFCOUNT_ORDER, HEADER.size),
    )
    return fixed + extensions + backing


def _entries(clusters: Iterator[int] | Sequence[int], flags: int) -> bytes:
    """A table with the places of clusters, 0 for none."""
    return b"".join((at * CLUSTER | flags if at else 0).to_bytes(ENTRY_BYTES, "big") for at in clusters)


def _clusters(entries: int) -> int:
    return -(-entries // TABLE_ENTRIES)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % CLUSTER)


def _cluster(file: BinaryIO, number: int) -> bytes:
    return os.pread(file.fileno(), CLUSTER, number * CLUSTER)


def _filled(file: BinaryIO) -> set[int]:
    """The numbers of the clusters that are not all hole."""
    found: set[int] = set()
    end = 0
    while True:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # there are no more data
                return found
            raise
        end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        found.update(range(start // CLUSTER, -(-end // CLUSTER)))
