# SPDX-License-Identifier: GPL-2.0-only
"""Archives of a guest that does not send what tar writes."""

import io
import os
import tarfile
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from keel.errors import KeelError
from keel.received import BLOCK, RECORD, Archives, EndsEarly, Tree

SECRET = "of the host"
Unpack = Callable[[bytes], Tree]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where an archive comes to, as `copy`; beside it is what it must not reach, and that stays as it is."""
    here = tmp_path / "place"
    here.mkdir()
    (tmp_path / "secret").write_text(SECRET)
    yield here
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place", "secret"]
    assert (tmp_path / "secret").read_text() == SECRET
    assert (tmp_path / "secret").stat().st_nlink == 1
    assert not list(tmp_path.rglob(".keel*"))


@pytest.fixture
def unpack(place: Path) -> Unpack:
    def unpacked(data: bytes) -> Tree:
        parent = os.open(place, os.O_RDONLY)
        try:
            tree = Tree(parent, "copy")
            tree.unpack(Archives(io.BytesIO(data)))
        finally:
            os.close(parent)
        return tree

    return unpacked


def header(
    name: bytes, kind: bytes = b"0", *, size: bytes = b"0", link: bytes = b"", mode: bytes = b"644", prefix: bytes = b""
) -> bytes:
    """One header, whatever it says."""
    fields = [name.ljust(100, b"\0"), mode.rjust(7, b"0") + b"\0", b"0" * 7 + b"\0", b"0" * 7 + b"\0"]
    fields += [size.rjust(11, b"0") + b"\0" if len(size) < 12 else size, b"0" * 11 + b"\0", b" " * 8, kind]
    fields += [link.ljust(100, b"\0"), b"ustar\x0000"]
    block = (b"".join(fields).ljust(345, b"\0") + prefix).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def with_data(name: bytes, data: bytes, kind: bytes = b"0") -> bytes:
    return header(name, kind, size=b"%o" % len(data)) + data.ljust(-(-len(data) // BLOCK) * BLOCK, b"\0")


def extended(*records: tuple[bytes, bytes]) -> bytes:
    """A header with these records, each with its right length."""
    data = b""
    for key, value in records:
        length = len(key) + len(value) + 3
        length += len(b"%d" % (length + len(b"%d" % length)))
        data += b"%d %s=%s\n" % (length, key, value)
    return with_data(b"x", data, b"x")


def archive(*blocks: bytes) -> bytes:
    data = b"".join(blocks) + bytes(2 * BLOCK)
    return data.ljust(-(-len(data) // RECORD) * RECORD, b"\0")


def link(name: bytes, text: bytes) -> bytes:
    return header(name, b"2", link=text)


TOP = header(b"./", b"5", mode=b"755")
BROKEN = {
    "an absolute name": archive(TOP, with_data(b"/tmp/secret", b"x")),
    "a way up": archive(TOP, with_data(b"./../secret", b"x")),
    "a way up within": archive(TOP, header(b"a", b"5", mode=b"755"), with_data(b"a/../../secret", b"x")),
    "a way up in an extended header": archive(TOP, extended((b"path", b"../secret")), with_data(b"a", b"x")),
    "a way up in the prefix": archive(TOP, header(b"secret", prefix=b"..")),
    "a zero in a name": archive(TOP, extended((b"path", b"a\0b")), with_data(b"a", b"x")),
    "a long name": archive(TOP, extended((b"path", b"a/" * 3000)), with_data(b"a", b"x")),
    "no file": archive(header(b"a", b"3")),
    "a link for a file": archive(link(b"a", b"../secret")),
    "two files for one": archive(with_data(b"a", b"x"), with_data(b"b", b"x")),
    "two tops": archive(TOP, TOP),
    "a directory for a file's end": archive(with_data(b"a", b"x"), header(b"a/b", b"5")),
    "nothing": archive(),
    "a file without its directory": archive(TOP, with_data(b"none/a", b"x")),
    "a wrong sum": archive(TOP.replace(b"755", b"777", 1)),
    "a size in binary": archive(header(b"a", size=b"\x80" + b"\xff" * 11)),
    "a size that is none": archive(extended((b"size", b"1" * 19)), header(b"a")),
    "a size below zero": archive(extended((b"size", b"-1")), header(b"a")),
    "an extended header of a terabyte": archive(header(b"x", b"x", size=b"7" * 11)),
    "an extended header without end": archive(with_data(b"x", b"99 path=a\n", b"x"), with_data(b"a", b"")),
    "an extended header of no length": archive(with_data(b"x", b"0 path=a\n", b"x"), with_data(b"a", b"")),
    "an end that goes on": archive(TOP)[:BLOCK] + bytes(BLOCK) + b"x" * (RECORD - 2 * BLOCK),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_no_tar_sends_ends_the_copy(data: bytes, unpack: Unpack) -> None:
    with pytest.raises((KeelError, OSError)):
        unpack(data)


@pytest.mark.parametrize("size", [b"17777777777", b"4000"])
def test_a_size_is_no_promise(size: bytes, unpack: Unpack, place: Path) -> None:
    """Only what has come is written, and no file is there before it is whole."""
    with pytest.raises(EndsEarly):
        unpack(header(b"a", size=size) + b"x" * 1000)
    assert list(place.iterdir()) == []


LEFT_OUT = {
    "a device": header(b"a", b"3"),
    "a block device": header(b"a", b"4"),
    "a fifo": header(b"a", b"6"),
    "a hard link": header(b"a", b"1", link=b"../secret"),
    "a sparse file": header(b"a", b"S"),
    "a sparse file of a petabyte": extended((b"GNU.sparse.major", b"1"), (b"GNU.sparse.realsize", b"9" * 15)) + header(b"a"),
    "a header for all": with_data(b"a", b"18 path=../secret\n", b"g"),
    "a long name of GNU's": with_data(b"a", b"../secret\0", b"L"),
    "a link to all": link(b"a", b"/etc/passwd"),
    "a link up": link(b"a", b"../secret"),
    "a link up and down": link(b"a", b"b/../../secret"),
    "a link to nothing": link(b"a", b""),
}


@pytest.mark.parametrize("block", LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_is_no_file_directory_or_link_within_is_left_out(block: bytes, unpack: Unpack, place: Path) -> None:
    tree = unpack(archive(TOP, block, with_data(b"./b", b"x")))
    assert tree.left_out == 1 and tree.reason.startswith("'copy/a' ")
    assert [path.name for path in (place / "copy").iterdir()] == ["b"]


def test_nothing_is_written_through_a_link(unpack: Unpack, place: Path) -> None:
    """One that was sent, and one that was there."""
    (place / "copy").mkdir()
    (place / "copy/mine").symlink_to("../..")
    (place / "copy/file").symlink_to("../../secret")
    blocks = [header(b"d", b"5", mode=b"755"), link(b"l", b"d"), with_data(b"l/secret", b"x")]
    blocks += [with_data(b"mine/secret", b"x"), header(b"mine", b"5"), with_data(b"file", b"new")]
    tree = unpack(archive(TOP, *blocks))
    assert tree.left_out == 3 and "cannot replace" in tree.reason
    assert (place / "copy/file").read_text() == "new" and not (place / "copy/file").is_symlink()


@pytest.mark.parametrize(
    ("blocks", "left_out"),
    [
        ([link(b"l", b"d"), link(b"d/l", b"..")], 0),
        ([link(b"d/l", b"../d/./x")], 0),
        ([link(b"d/l", b"../..")], 1),
        # Down by a link to what is higher up, and up from there.
        ([link(b"d/e/l", b"../.."), link(b"d/e/m", b"l/../secret"), link(b"d/e/n", b"l/../..")], 2),
    ],
)
def test_links_stay_within(blocks: Iterable[bytes], left_out: int, unpack: Unpack, place: Path) -> None:
    directories = [header(name, b"5", mode=b"755") for name in (b"d", b"d/e")]
    assert unpack(archive(TOP, *directories, *blocks)).left_out == left_out
    top = (place / "copy").resolve()
    assert all(path.resolve().is_relative_to(top) for path in top.rglob("*"))


def test_no_right_of_others_comes_with_a_file(unpack: Unpack, place: Path) -> None:
    blocks = [header(b"f", mode=b"6777"), header(b"d", b"5", mode=b"7777")]
    unpack(archive(header(b".", b"5", mode=b"1777"), *blocks))
    assert {path.stat().st_mode & 0o7777 for path in place.rglob("*")} == {0o755}


@pytest.mark.parametrize("time", [b"-1", b"9" * 30, b"99999999999999999", b"nan", b"1e9", b"5.5.5"])
def test_a_time_that_is_none_is_now(time: bytes, unpack: Unpack, place: Path) -> None:
    unpack(archive(extended((b"mtime", time)), header(b"f")))
    assert abs((place / "copy").stat().st_mtime - place.stat().st_mtime) < 60


def test_many_members_take_no_memory(unpack: Unpack) -> None:
    """Nor do many that are left out."""
    blocks = b"".join(header(b"d%d" % number, b"5", mode=b"755") + link(b"l", b"/") for number in range(3000))
    data = archive(TOP, blocks)
    tracemalloc.start()
    assert unpack(data).left_out == 3000
    assert tracemalloc.get_traced_memory()[1] < len(data) + 500_000
    tracemalloc.stop()


def test_what_a_library_writes_is_read(unpack: Unpack, place: Path) -> None:
    """Another program, with long names and a size above what octal digits say."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archives:
        for name, kind in ((".", tarfile.DIRTYPE), ("é" * 90, tarfile.REGTYPE), ("b" * 200, tarfile.SYMTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.linkname = kind, 0o755, "c" * 200
            member.pax_headers = {"mtime": "1.5"}
            archives.addfile(member)
    assert unpack(buffer.getvalue()).left_out == 0
    assert (place / "copy" / ("b" * 200)).readlink() == Path("c" * 200)
    assert (place / "copy" / ("é" * 90)).stat().st_mtime == 1.5
