# SPDX-License-Identifier: GPL-2.0-only
"""The images of the first two tasks."""

import struct

import pytest

from keel import elf
from keel.errors import KeelError

ENTRY = 0x200000


def executable(entry: int, *segments: tuple[int, int, bytes, int]) -> bytes:
    """An executable with segments: type, address, contents, and size in memory."""
    head = elf.IDENTIFICATION.ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, entry, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    offset = len(head) + 56 * len(segments)
    table, contents = b"", b""
    for kind, address, content, size in segments:
        table += struct.pack("<IIQQQQQQ", kind, 5, offset + len(contents), address, address, len(content), size, 4096)
        contents += content
    return head + table + contents


def test_segments_are_where_they_are_linked() -> None:
    file = executable(ENTRY, (1, ENTRY, b"text", 4), (6, 0, b"none", 4), (1, ENTRY + 8, b"data", 100), (1, ENTRY + 200, b"", 50))
    assert elf.image(file) == b"text\0\0\0\0data"


def test_segments_may_be_in_any_order() -> None:
    file = executable(ENTRY, (1, ENTRY + 8, b"data", 4), (1, ENTRY, b"text", 4))
    assert elf.image(file) == b"text\0\0\0\0data"


@pytest.mark.parametrize("file", [b"", b"#!/bin/sh", executable(ENTRY, (1, ENTRY - 4096, b"head", 4))])
def test_other_files_are_refused(file: bytes) -> None:
    with pytest.raises(KeelError):
        elf.image(file)
