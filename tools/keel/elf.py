# SPDX-License-Identifier: GPL-2.0-only
"""The images of the first two tasks: the µ-kernel copies each to the address for which it is linked, and knows no ELF.

An image is what the segments of the executable have in memory, from the first instruction up to the last byte that is
in the file. The µ-kernel fills the rest of the task's place with zeros. (System V ABI, chapters 4 and 5.)
"""

import struct

from .errors import KeelError

# 64-bit, little-endian.
IDENTIFICATION = b"\x7fELF\x02\x01"
# Of the header: the entry and the offset of the segments' table; the number of segments.
ENTRY_AND_TABLE = struct.Struct("<24xQQ")
COUNT = struct.Struct("<56xH")
# Of a segment: its type; its offset in the file, its address, and its size in the file.
SEGMENT = struct.Struct("<I4xQQ8xQ16x")
LOAD = 1


def image(executable: bytes) -> bytes:
    """The image of an executable that begins with its first instruction."""
    if not executable.startswith(IDENTIFICATION):
        raise KeelError("a first task is no 64-bit ELF executable")
    entry, table = ENTRY_AND_TABLE.unpack_from(executable)
    (count,) = COUNT.unpack_from(executable)
    memory = bytearray()
    for number in range(count):
        kind, offset, address, size = SEGMENT.unpack_from(executable, table + number * SEGMENT.size)
        if kind != LOAD or size == 0:
            continue
        if address < entry:
            raise KeelError(f"a first task has a segment at {address:#x}, below its first instruction at {entry:#x}")
        start = address - entry
        memory.extend(bytes(max(0, start + size - len(memory))))
        memory[start : start + size] = executable[offset : offset + size]
    return bytes(memory)
