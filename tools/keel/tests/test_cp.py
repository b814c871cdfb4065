# SPDX-License-Identifier: GPL-2.0-only
"""`./keel cp` with a shell of this machine in place of a session in the guest."""

import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from keel import slot
from keel.commands import cp, ssh
from keel.config import Settings
from keel.errors import KeelError, Status

Copy = Callable[..., int]
NAMES = ("plain", "two words", "-dash", "new\nline", "it's", "é", "a" * 200)


@pytest.fixture
def guest(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the guest where a session begins."""
    home = tmp_path / "guest"
    home.mkdir()

    def reached(_: Settings, name: str) -> tuple[slot.Slot, Path]:
        return slot.Slot(name, tmp_path, tmp_path), Path("/f")

    def arguments(_: Path, name: str, words: Sequence[str], *, terminal: bool) -> list[str]:
        return ["sh", "-c", f"cd '{home}' && {words[0]}"]

    monkeypatch.setattr(ssh, "reached", reached)
    monkeypatch.setattr(ssh, "arguments", arguments)
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def copy(guest: Path, settings: Settings) -> Copy:
    return lambda *words: cp.cp(settings, list(map(str, words)))


def make_tree(place: Path) -> None:
    (place / "empty").mkdir(parents=True)
    (place / "deep/er").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        file = place / "deep" / name
        file.write_bytes(bytes([number]) * (number * 700))
        file.chmod(0o640 if number % 2 else 0o755)
        os.utime(file, ns=(0, 1_600_000_000_123_456_789 + number))
    (place / "deep/er/up").symlink_to("../plain")
    (place / "loop").symlink_to("deep/er")
    (place / "deep/er").chmod(0o555)
    os.utime(place / "deep/er", ns=(0, 1_500_000_000_000_000_001))
    os.utime(place, ns=(0, 1_500_000_000_000_000_002))


def seen(place: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time and content of all that is there; a link has no mode of its own."""
    found = {}
    for file in [place, *place.rglob("*")]:
        state = file.lstat()
        content = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes() if file.is_file() else b""
        times = 0 if file.is_symlink() else state.st_mtime_ns
        found[str(file.relative_to(place))] = state.st_mode, times, content
    return found


@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("target", ["new", "directory/"])
def test_a_tree_is_the_same_there(way: str, target: str, copy: Copy, guest: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    source, other = (here, guest) if way == "there" else (guest, here)
    make_tree(source / "tree")
    (other / "directory").mkdir(parents=True)
    copied = other / ("new" if target == "new" else "directory/tree")
    copy("here/tree" if way == "there" else "web:tree", f"web:{target}" if way == "there" else f"here/{target}")
    assert seen(copied) == seen(source / "tree")
    if target != "new":  # once more, over what is there
        (copied / "deep/plain").write_text("other")
        copy("here/tree" if way == "there" else "web:tree", f"web:{target}" if way == "there" else f"here/{target}")
        assert seen(copied) == seen(source / "tree")
    else:
        (copied / "deep/er").chmod(0o755)
    for tree in (here, guest):
        for locked in tree.rglob("er"):
            locked.chmod(0o755)


def test_several_files_come_into_a_directory(copy: Copy, guest: Path, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "out").mkdir()
    copy(*[f"./{name}" for name in NAMES], "link", "web:")
    assert {file.name: file.read_text() for file in guest.iterdir()} == {**{name: name for name in NAMES}, "link": "plain"}
    (guest / "other").symlink_to("plain")
    copy(*[f"web:{name}" for name in NAMES], "web:other", "out")
    copied = {file.name: file.read_text() for file in (tmp_path / "out").iterdir()}
    assert copied == {**{name: name for name in NAMES}, "other": "plain"} and not (tmp_path / "out/other").is_symlink()


def test_a_file_gets_a_new_name_and_replaces_one(copy: Copy, guest: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (guest / "b").write_text("old")
    copy("a", "web:b")
    assert (guest / "b").read_text() == "new"
    (tmp_path / "c").write_text("a longer old one")
    copy("web:b", "c")
    copy("web:b", "./d:e")
    assert (tmp_path / "c").read_text() == (tmp_path / "d:e").read_text() == "new"
    assert not list(tmp_path.glob(".keel*"))


def test_the_directory_where_we_are_has_a_name(copy: Copy, guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tree(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    copy(".", "web:")
    assert seen(guest / "work") == seen(tmp_path / "work")


def test_a_stream_is_the_content_of_a_file(
    copy: Copy, guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = bytes(range(256)) * 1000
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        copy("-", "web:new")
    assert (guest / "new").read_bytes() == data
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(os.fdopen(os.dup(1), "wb")))
    copy("web:new", "-")
    assert capfdbinary.readouterr().out == data


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["a", "b"], Status.USAGE, "one side"),
        (["web:a", "other:b"], Status.USAGE, "one side"),
        (["a", "web:b", "c"], Status.USAGE, "one side"),
        (["a", "-", "web:d"], Status.USAGE, "one file"),
        (["web:a", "web:b", "-"], Status.USAGE, "one file"),
        (["web:", "x"], Status.USAGE, "empty"),
        (["a", ""], Status.USAGE, "one side"),
        (["web:a", ""], Status.USAGE, "empty"),
        (["web:/", "x"], Status.USAGE, "no name"),
        (["web:a", "web:x/a", "d"], Status.USAGE, "two copies"),
        (["none", "web:"], Status.ERROR, "none does not exist"),
        (["/dev/null", "web:"], Status.ERROR, "neither"),
        (["a", "web:none/x"], Status.ERROR, "web: .*none"),
        (["a", "web:none/"], Status.ERROR, "web: none/ is no directory"),
        (["d", "web:file"], Status.ERROR, "web: file is no directory"),
        (["a", "d", "web:file"], Status.ERROR, "web: file is no directory"),
        (["web:none", "x"], Status.ERROR, "web: none does not exist"),
        (["web:file", "web:none", "d"], Status.ERROR, "web: none does not exist"),
        (["web:null", "x"], Status.ERROR, "web: null is neither"),
        (["web:file", "none/x"], Status.ERROR, "none is no directory"),
        (["web:file", "none/"], Status.ERROR, "none is no directory"),
        (["web:file", "web:null", "a"], Status.ERROR, "a is no directory"),
        (["web:file", "d/b"], Status.ERROR, "Is a directory"),
        (["web:directory", "a"], Status.ERROR, "Not a directory"),
        (["web:none", "-"], Status.ERROR, "No such file"),
        (["web:directory", "-"], Status.ERROR, "directory"),
        (["-", "web:directory"], Status.ERROR, "directory"),
        (["-", "web:full"], Status.ERROR, "No space left on device .free some space"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: list[str], status: Status, said: str, copy: Copy, guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "d/b/file").mkdir(parents=True)
    (guest / "file").write_text("file")
    (guest / "null").symlink_to("/dev/null")
    (guest / "full").symlink_to("/dev/full")
    (guest / "directory").mkdir()
    with (tmp_path / "a").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(KeelError) as refused:
            copy(*words)
    line = refused.value.line()
    assert refused.value.status == status and re.search(said, line) and "\n" not in line, line


def test_a_guest_that_is_full_says_so(copy: Copy, guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says changes nothing on our terminal."""
    tar = tmp_path / "bin/tar"
    tar.parent.mkdir()
    tar.write_text("#!/bin/sh\necho 'tar: \033[2Jf: Cannot write: No space left on device' >&2; echo more >&2; exit 2\n")
    tar.chmod(0o755)
    monkeypatch.setenv("PATH", str(tar.parent), prepend=":")
    (tmp_path / "f").write_bytes(bytes(10_000_000))
    with pytest.raises(KeelError, match=r"web: tar: .\[2Jf: Cannot write: No space left") as full:
        copy("f", "web:")
    assert "\033" not in full.value.line() and "free some space" in full.value.line()


def test_a_full_disk_here_leaves_nothing(copy: Copy, guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, fd: int, *_: object, **__: object) -> None:
            self.fd = fd

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            os.close(self.fd)

        def write(self, _: bytes) -> int:
            raise OSError(28, os.strerror(28))

    (guest / "f").write_bytes(bytes(10_000_000))
    (tmp_path / "f").write_text("old")
    monkeypatch.setattr(os, "fdopen", Full)
    with pytest.raises(KeelError, match="No space left on device"):
        copy("web:f", "f")
    assert (tmp_path / "f").read_text() == "old" and not list(tmp_path.glob(".keel*"))


def test_special_files_are_left_out_and_named(copy: Copy, guest: Path, tmp_path: Path) -> None:
    for place in (guest / "tree", tmp_path / "mine"):
        place.mkdir()
        os.mkfifo(place / "fifo")
        (place / "file").write_text("content")
    for words in (["web:tree", "copy"], ["mine", "web:copy"]):
        with pytest.raises(KeelError, match=r"1 left out: .*fifo"):
            copy(*words)
    for place in (guest, tmp_path):
        assert [file.name for file in (place / "copy").iterdir()] == ["file"]


def test_what_has_been_done_with_a_file_of_another_owner_is_not_copied(copy: Copy, guest: Path, tmp_path: Path) -> None:
    """Neither the rights of its owner nor those of others to write."""
    (guest / "f").write_text("x")
    (guest / "f").chmod(0o6777)
    copy("web:f", "f")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o755
    (tmp_path / "f").chmod(0o6777)
    copy("f", "web:g")
    assert stat.S_IMODE((guest / "g").stat().st_mode) == 0o777


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    """Modes are what they were, whatever the user's mask is."""
    before = os.umask(0o077)
    yield
    os.umask(before)
