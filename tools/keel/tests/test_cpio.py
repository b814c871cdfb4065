# SPDX-License-Identifier: GPL-2.0-only
"""The newc writer against the reader, and the reader against broken archives."""

import io

import pytest

from keel import cpio


def archive(*entries: cpio.Entry) -> bytes:
    writer = cpio.Writer()
    return b"".join(writer.entry(entry) for entry in entries) + writer.end()


FILE = cpio.Entry("etc/name", cpio.REGULAR | 0o640, data=b"keel\n", uid=1, gid=2)


def test_written_entries_are_read_back() -> None:
    folder = cpio.Entry("etc", cpio.DIRECTORY | 0o755)
    entries = list(cpio.read_headers(io.BytesIO(archive(folder, FILE))))
    assert [(e.name, e.mode, e.uid, e.gid, e.size) for e in entries] == [
        ("etc", cpio.DIRECTORY | 0o755, 0, 0, 0),
        ("etc/name", cpio.REGULAR | 0o640, 1, 2, 5),
    ]


def test_chosen_entries_get_names_and_keep_the_rest() -> None:
    whole = archive(cpio.Entry("other", cpio.REGULAR, data=b"x" * 9), FILE)
    [entry] = cpio.chosen(io.BytesIO(whole), lambda name: name.removeprefix("etc/") if name.startswith("etc/") else "")
    assert (entry.name, entry.mode, entry.uid, entry.data) == ("name", FILE.mode, FILE.uid, FILE.data)
    assert [read.size for read in cpio.read_headers(io.BytesIO(archive(entry)))] == [len(FILE.data)]


def test_every_part_is_aligned() -> None:
    for length in range(8):
        entry = cpio.Entry("n" * (length + 1), cpio.REGULAR, data=b"x" * length)
        assert len(archive(entry)) % cpio.ALIGNMENT == 0


def test_names_that_are_not_utf8_survive() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    entries = list(cpio.read_headers(io.BytesIO(archive(cpio.Entry(name, cpio.REGULAR)))))
    assert entries[0].name == name


def test_inodes_differ_unless_given() -> None:
    writer = cpio.Writer()
    first, second = writer.entry(FILE), writer.entry(FILE)
    assert first[6:14] != second[6:14]


@pytest.mark.parametrize("length", [0, 1, 109, 111, 130, 140])
def test_a_cut_archive_is_broken(length: int) -> None:
    with pytest.raises(cpio.BrokenArchive, match="cut off"):
        list(cpio.read_headers(io.BytesIO(archive(FILE)[:length])))


def test_other_formats_are_broken() -> None:
    with pytest.raises(cpio.BrokenArchive, match="newc"):
        list(cpio.read_headers(io.BytesIO(b"070707" + bytes(200))))


@pytest.mark.parametrize(
    ("field", "text", "reason"),
    [(1, b"ZZZZZZZZ", "hexadecimal"), (11, b"00000000", "length"), (11, b"FFFFFFFF", "length")],
)
def test_broken_headers_are_named(field: int, text: bytes, reason: str) -> None:
    data = bytearray(archive(FILE))
    at = 6 + field * cpio.FIELD_BYTES
    data[at : at + cpio.FIELD_BYTES] = text
    with pytest.raises(cpio.BrokenArchive, match=reason):
        list(cpio.read_headers(io.BytesIO(bytes(data))))
