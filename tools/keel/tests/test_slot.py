# SPDX-License-Identifier: GPL-2.0-only
"""Guests at the same time get names of their own."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from keel import boot, guest, qemu, slot
from keel.commands import debug, guests, run
from keel.commands.clean import clean
from keel.config import REPOSITORY, Settings
from keel.errors import KeelError, Status


def test_each_guest_has_its_own_slot_and_frees_it(tmp_path: Path) -> None:
    settings = Settings(build=tmp_path)
    with slot.taken(settings, "keel") as first, slot.taken(settings, "keel") as second:
        assert (first.name, second.name) == ("keel", "keel-2")
        assert {found.name for found in slot.running(settings)} == {"keel", "keel-2"}
        assert first.log("console") != second.log("console")
    assert slot.running(settings) == []
    with slot.taken(settings, "keel") as again:
        assert again.name == "keel"


def test_a_path_too_long_for_a_socket_gives_none(tmp_path: Path) -> None:
    deep = slot.Slot("keel", tmp_path / ("d" * slot.SOCKET_PATH_MAX), tmp_path)
    assert deep.gdb_socket is None


KERNEL, SERVER = Path("/k/kernel.elf"), Path("/l/vmlinux")


@pytest.mark.parametrize(
    ("views", "view", "files"),
    [
        ({"linux": SERVER, "kernel": KERNEL}, None, [SERVER, KERNEL]),
        ({"linux": SERVER, "kernel": KERNEL}, "kernel", [KERNEL, SERVER]),
        ({"linux": SERVER}, "linux", [SERVER]),
        ({}, None, []),
    ],
)
def test_gdb_gets_the_symbols_of_the_guest_that_runs(
    views: dict[str, Path], view: str | None, files: list[Path], settings: Settings
) -> None:
    with slot.taken(settings, "ukl") as mine:
        mine.note_symbols(views)
        assert slot.running(settings)[0].symbols() == views
        argv = debug.arguments(mine, view, views)
    assert [word.removeprefix("add-symbol-file ") for word in argv if word.endswith(("elf", "vmlinux"))] == [*map(str, files)]
    with slot.taken(settings, "ukl") as again:
        assert again.symbols() == {}


def test_a_kernel_with_an_application_has_symbols_of_its_own(settings: Settings) -> None:
    built, kernel = Path("/u/bypass/bzImage"), Path("/k/kernel.elf")
    application = boot.Choices(native=True, application=Path("/a/hello"))
    assert run._symbols(settings, application, qemu.Guest(built)) == {"linux": Path("/u/bypass/vmlinux")}
    assert run._symbols(settings, boot.Choices(native=True, kernel="debian"), qemu.Guest(built)) == {}
    assert run._symbols(settings, boot.Choices(native=True), qemu.Guest(built)) == {"linux": settings.native_symbols}
    assert run._symbols(settings, boot.Choices(), qemu.Guest(kernel)) == {"linux": settings.linux_server, "kernel": kernel}


def test_a_name_is_one_guests(settings: Settings) -> None:
    with slot.taken(settings, "keel", "mine") as mine:
        assert (mine.name, mine.log("console").name) == ("mine", "mine-console.log")
        with pytest.raises(KeelError, match="mine runs already"), slot.taken(settings, "keel", "mine"):
            pass
    with slot.taken(settings, "keel", "mine") as again:
        assert again.run() is None


@pytest.mark.parametrize("name", ["", "-x", "../x", "a/b", "a b", "a\n", "x" * 33])
def test_what_cannot_be_a_name(name: str) -> None:
    with pytest.raises(KeelError, match="guest's name"):
        boot.check(boot.Choices(name=name))


@pytest.mark.parametrize("name", slot.VIEWS)
def test_no_guest_is_called_like_a_view_of_gdb(name: str) -> None:
    with pytest.raises(KeelError, match=r"\./keel gdb shows"):
        boot.check(boot.Choices(name=name))
    boot.check(boot.Choices(name=f"{name}-2"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1.0, "0 s"), (119.9, "119 s"), (120.0, "2 min"), (7199.0, "119 min"), (7200.0, "2 h"), (2e5, "2 days")],
)
def test_how_long_a_guest_runs(seconds: float, text: str) -> None:
    assert guests.lasted(seconds) == text


def test_guests_are_listed_while_they_run(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with slot.taken(settings, "native", "one") as mine, slot.taken(settings, "image"):
        mine.note_run("native", "make -j2")
        guests.ps(settings)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "SYSTEM", "FOR", "COMMAND"],
        ["one", "native", "0", "s", "make", "-j2"],
    ]
    guests.ps(settings)
    assert len(capsys.readouterr().out.splitlines()) == 1


NOT_WHOLE = ["", "{", "{}", "[]", "null", "1", '{"process": 1}']


@pytest.mark.parametrize("note", NOT_WHOLE)
def test_a_note_that_is_not_whole_is_none(note: str, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    """As where the disk was full."""
    with slot.taken(settings, "keel", "mine") as mine:
        (mine.directory / slot.RUN).write_text(note)
        guests.ps(settings)
        assert len(capsys.readouterr().out.splitlines()) == 1
        with pytest.raises(KeelError, match="no guest named mine runs"):
            guests.stop(settings, ["mine"])


@pytest.mark.parametrize("note", ["", "{", "[]", "null", '{"kernel": 1}'])
def test_symbols_that_are_not_whole_are_none(note: str, settings: Settings) -> None:
    with slot.taken(settings, "keel") as mine:
        (mine.directory / slot.SYMBOLS).write_text(note)
        assert mine.symbols() == {}


def test_a_note_is_seen_whole_or_not_at_all(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full while it is written: what was noted before is still there."""

    def write_half(path: Path, text: str) -> int:
        with path.open("w") as file:
            file.write(text[:5])
        raise OSError(errno.ENOSPC, "full")

    with slot.taken(settings, "keel") as mine:
        mine.note_run("keel", None)
        noted = mine.run()
        monkeypatch.setattr(Path, "write_text", write_half)
        with pytest.raises(OSError, match="full"):
            mine.note_run("native", "true")
        assert noted is not None and mine.run() == noted


def test_no_file_among_the_guests_has_a_guests_name(settings: Settings) -> None:
    with slot.taken(settings, "keel"):
        files = [path.name for path in settings.run.iterdir() if not path.is_dir()]
    assert files and not any(slot.NAME.fullmatch(name) for name in files)


def test_who_does_not_run_is_not_stopped(settings: Settings) -> None:
    with slot.taken(settings, "keel", "mine") as mine:
        mine.note_run("keel", None)  # this process, which a signal would end
        with pytest.raises(KeelError, match="no guest named absent runs"):
            guests.stop(settings, ["mine", "absent"])
    with pytest.raises(KeelError, match="no guest named mine runs"):
        guests.stop(settings, ["mine"])


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def test_what_is_private_is_not_in_the_clone(settings: Settings, temporary: Path) -> None:
    """Another guest may be shown the clone; nobody but this user may enter. Others find it by the slot."""
    with slot.taken(settings, "keel", "mine") as mine:
        (mine.private / "key").touch()
        assert mine.private.parent == temporary and stat.S_IMODE(mine.private.stat().st_mode) == 0o700
        assert mine.gdb_socket == mine.private / "gdb" and mine.console.parent == mine.private
        assert slot.running(settings)[0].private == mine.private
        assert not [path for path in mine.directory.rglob("*") if path.name == "key"]
    assert not list(temporary.iterdir())


def test_what_a_killed_run_left_is_removed(settings: Settings, temporary: Path) -> None:
    """But no other directory that the link may lead to, nor one of an earlier Keel's that is somebody else's."""
    with slot.taken(settings, "keel") as mine:
        link, left = mine.directory / slot.PRIVATE, mine.private
    other = temporary / "keel-other"
    other.mkdir()
    for place in (left, other, temporary / "absent"):
        if place == left:
            left.mkdir(mode=0o700)
        link.symlink_to(place)
        with slot.taken(settings, "keel") as again:
            assert again.private != place
    assert sorted(temporary.iterdir()) == [other]
    link.mkdir()
    with slot.taken(settings, "keel") as again:
        assert again.private.parent == temporary
    left.mkdir(mode=0o700)
    link.symlink_to(left)
    clean(settings, cache=False, persistent=False)
    assert sorted(temporary.iterdir()) == [other]


def test_cleaners_of_temporary_files_leave_a_guests_alone(settings: Settings) -> None:
    """systemd-tmpfiles passes over a directory that it cannot lock."""
    with slot.taken(settings, "keel") as mine:
        directory = os.open(mine.private, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(directory)


def test_no_place_for_temporary_files_is_one_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with pytest.raises(KeelError, match="cannot write in /nowhere: No such file") as caught, slot.taken(settings, "keel"):
        pass
    assert "TMPDIR" in caught.value.remedy


# A run that has this slot until a signal, with what it does at ./keel stop's first one.
RUN = """
import os, signal, sys
from pathlib import Path
from keel import slot
from keel.config import Settings
settings = Settings(build=Path(sys.argv[1]))
with slot.taken(settings, "keel", sys.argv[2]) as mine:
    mine.note_run("keel", None)
    def end(*_):
        {}
        os._exit(0)
    signal.signal(signal.SIGUSR1, {})
    print("runs", flush=True)
    signal.pause(); signal.pause()
"""
STUBBORN, CUT_OFF, ORDERLY = ("", "signal.SIG_IGN"), ("mine.note_cut_off()", "end"), ("", "end")


@contextmanager
def running(settings: Settings, **kinds: tuple[str, str]) -> Iterator[None]:
    """Runs by these names."""
    with ExitStack() as stack:
        for name, kind in kinds.items():
            argv = [sys.executable, "-c", RUN.format(*kind), str(settings.build), name]
            environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "tools")}
            child = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment))
            stack.callback(child.kill)
            assert child.stdout and child.stdout.readline() == "runs\n"
        yield


@pytest.mark.parametrize("kind", [STUBBORN, CUT_OFF])
def test_a_guest_that_did_not_power_off_is_no_success(
    kind: tuple[str, str], settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script would go on and copy the disk. The others are stopped all the same."""
    monkeypatch.setattr(guest, "LONG_GRACE_S", 1.0)
    with running(settings, first=kind, second=ORDERLY), pytest.raises(KeelError, match="first did not power off") as caught:
        guests.stop(settings, ["first", "second"])
    assert caught.value.status == Status.NOT_POWERED_OFF and "second" not in caught.value.what
    assert slot.running(settings) == []
    assert ("was ended" in capsys.readouterr().err) == (kind == STUBBORN)


def test_guests_that_power_off_are_a_success(settings: Settings) -> None:
    with running(settings, first=ORDERLY, second=ORDERLY):
        guests.stop(settings, ["first", "second"])
    assert slot.running(settings) == []
