# SPDX-License-Identifier: GPL-2.0-only
"""Roots from directories and archives: whole ones are taken as they are, broken ones refused."""

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from keel import attributes, cpio, rootarchive
from keel.config import Settings
from keel.errors import KeelError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "sh").write_bytes(b"#!shell" * 1000)
    os.link(root / "bin" / "sh", root / "bin" / "bash")
    (root / "bin" / "link").symlink_to("sh")
    os.mkfifo(root / "pipe")
    return root


def packed(tree: Path, tmp_path: Path) -> bytes:
    archive = tmp_path / "packed.cpio"
    rootarchive.pack_directory(tree, archive)
    return archive.read_bytes()


def test_a_directory_is_packed_as_it_is(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "packed.cpio"
    rootarchive.pack_directory(tree, archive)
    with archive.open("rb") as file:
        entries = {entry.name: entry for entry in cpio.read_headers(file)}
    assert set(entries) == {"bin", "bin/sh", "bin/bash", "bin/link", "pipe"}
    assert sorted(entries[name].size or 0 for name in ("bin/sh", "bin/bash")) == [0, 7000]
    assert entries["bin/link"].mode & 0o170000 == cpio.SYMLINK
    assert entries["pipe"].mode & 0o170000 == cpio.FIFO


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files capabilities")
def test_a_directory_is_packed_with_capabilities(tree: Path, tmp_path: Path) -> None:
    """Once for a file with several names."""
    value = bytes.fromhex("0100000200200000000000000000000000000000")
    os.setxattr(tree / "bin" / "bash", attributes.CAPABILITY, value)
    notes = cpio.chosen(io.BytesIO(packed(tree, tmp_path)), lambda name: name)
    made = [(*found, entry.data) for entry in notes if (found := attributes.noted(entry.name))]
    assert made == [("bin/bash", attributes.CAPABILITY, value)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_archives_are_checked_whatever_their_compression(
    compress: Callable[[bytes], bytes], tree: Path, tmp_path: Path, settings: Settings
) -> None:
    path = tmp_path / "root.cpio.x"
    path.write_bytes(compress(packed(tree, tmp_path)))
    root = rootarchive.check(path, settings)
    assert root.starts
    assert root.content_bytes == 7000 + len("sh")


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_cut_archives_are_refused_in_one_line(
    compress: Callable[[bytes], bytes], tree: Path, tmp_path: Path, settings: Settings
) -> None:
    path = tmp_path / "root.cpio.x"
    whole = compress(packed(tree, tmp_path))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(KeelError) as caught:
        rootarchive.check(path, settings)
    assert "not a usable root" in caught.value.line()
    assert "\n" not in caught.value.line()


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8bnot gzip", b"\xfd7zXZ\x00no"])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "root.cpio"
    path.write_bytes(content)
    with pytest.raises(KeelError, match="not a usable root"):
        rootarchive.check(path, settings)


def test_lz4_is_refused_with_a_way_out(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "root.cpio.lz4"
    path.write_bytes(b"\x02\x21\x4c\x18" + bytes(20))
    with pytest.raises(KeelError) as caught:
        rootarchive.check(path, settings)
    assert "lz4 -dc" in caught.value.line()


def test_a_missing_root_is_named(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(KeelError, match="does not exist"):
        rootarchive.from_user(tmp_path / "none", settings)


def test_a_check_is_remembered_until_the_file_changes(
    tree: Path, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "root.cpio"
    path.write_bytes(packed(tree, tmp_path))
    first = rootarchive.checked(path, settings)
    with monkeypatch.context() as patch:
        patch.setattr(rootarchive, "check", None)
        assert rootarchive.checked(path, settings) == first
    path.write_bytes(b"broken")
    with pytest.raises(KeelError):
        rootarchive.checked(path, settings)


def test_archives_are_joined_at_the_alignment(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"12345")
    second.write_bytes(b"678")
    rootarchive.join([first, second], tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == b"12345\0\0\x00678\0"


def test_a_root_that_is_replaced_by_an_older_one_is_booted(tmp_path: Path, settings: Settings) -> None:
    path, older, init = tmp_path / "root.cpio", tmp_path / "older.cpio", tmp_path / "init.cpio"
    path.write_bytes(b"NEW!")
    older.write_bytes(b"OLD!")
    init.write_bytes(b"init")
    os.utime(older, (1000, 1000))
    root = rootarchive.Root(path, 4, 4, starts=True)
    booted = rootarchive.boot_archive(settings, root, init)
    assert booted.read_bytes() == b"NEW!init"
    first = booted.stat()
    assert rootarchive.boot_archive(settings, root, init).stat() == first
    older.replace(path)
    assert rootarchive.boot_archive(settings, root, init).read_bytes() == b"OLD!init"
