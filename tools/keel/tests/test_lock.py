# SPDX-License-Identifier: GPL-2.0-only
"""Locks of build steps: they name their holders, and who removes a directory has all of its locks."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from keel import lock, slot
from keel.commands.clean import clean
from keel.config import REPOSITORY, Settings
from keel.errors import KeelError

# Holds a lock until its input ends, and says when it has it.
HOLDS = "import sys; from pathlib import Path; from keel.lock import *\nwith {}: print('has it', flush=True); sys.stdin.read()"


class Holder:
    """Another process with a lock."""

    def __init__(self, expression: str) -> None:
        argv = [sys.executable, "-c", HOLDS.format(expression), "build", "linux"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "tools")}
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.child.stdout
        assert self.child.stdout.readline() == "has it\n"

    def end(self, *, killed: bool = False) -> None:
        if killed:
            self.child.kill()
        self.child.communicate("")


def waits(action: Callable[[], object], said: str, capsys: pytest.CaptureFixture[str]) -> Callable[[], None]:
    """Start an action that waits for a lock and says so; the result checks that it ends."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    heard = ""
    while said not in heard:
        assert time.monotonic() < until and thread.is_alive(), heard
        heard += capsys.readouterr().err
        time.sleep(0.01)

    def ends() -> None:
        thread.join(60)
        assert not thread.is_alive()

    return ends


def hold(directory: Path, name: str) -> None:
    with lock.locked(directory, name):
        pass


@pytest.mark.parametrize("killed", [False, True])
def test_who_waits_is_told_for_whom_and_for_what(killed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holder = Holder(f"locked(Path({str(tmp_path)!r}), 'linux-l4')")
    said = f"waiting for ./keel build linux (process {holder.child.pid}, for "
    ends = waits(lambda: hold(tmp_path, "linux-l4"), said, capsys)
    holder.end(killed=killed)
    ends()
    hold(tmp_path, "linux-l4")
    assert not capsys.readouterr().err


@pytest.mark.parametrize("note", [b"", b"x", b"1 2", b"999999999 1 ./keel", b"\xff 1 x", b"-1 1 x", b"99999999999999999999 1 x"])
def test_a_note_that_is_not_whole_or_of_the_dead_is_none(note: bytes, tmp_path: Path) -> None:
    (tmp_path / "rust.lock").write_bytes(note)
    assert lock._noted_in(tmp_path / "rust.lock") == ""
    assert "another run of keel, busy with 'rust'" in lock._holder(tmp_path, "rust")


def test_shared_locks_exclude_those_that_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holder = Holder(f"locked(Path({str(tmp_path)!r}), 'packages', shared=True)")
    with lock.locked(tmp_path, "packages", shared=True):
        pass
    ends = waits(lambda: hold(tmp_path, "packages"), "another run of keel, busy with 'packages'", capsys)
    holder.end()
    ends()


@pytest.mark.parametrize("name", ["rust", "linux-l4", "ukl-redis"])
def test_clean_waits_for_a_build_and_a_build_for_clean(name: str, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it builds, also what has no lock yet; who comes later has the new directory's lock."""
    (settings.build / "cargo").mkdir(parents=True)
    builder = Holder(f"locked(Path({str(settings.locks)!r}), {name!r})")
    ends = waits(lambda: clean(settings, cache=False, persistent=False), f"busy with '{name}'", capsys)
    assert (settings.build / "cargo").is_dir()
    builder.end()
    ends()
    assert not settings.build.exists()
    cleaner = Holder(f"locked_whole(Path({str(settings.locks)!r}))")
    ends = waits(lambda: hold(settings.locks, name), "other runs of keel", capsys)
    clean_aside = settings.build.with_name("aside")
    settings.build.rename(clean_aside)
    cleaner.end()
    ends()
    assert (settings.locks / f"{name}.lock").exists() and not (clean_aside / "lock" / f"{name}.lock").exists()


def test_clean_of_the_cache_waits_for_another_clone(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    holder = Holder(f"locked(Path({str(settings.cache)!r}), 'roots')")
    ends = waits(lambda: clean(settings, cache=True, persistent=False), "busy with 'roots'", capsys)
    assert settings.cache.exists()
    holder.end()
    ends()
    assert not settings.cache.exists()


def test_no_guest_starts_while_clean_removes(settings: Settings) -> None:
    with slot.taken(settings, "keel"), pytest.raises(KeelError, match="still runs"):
        clean(settings, cache=False, persistent=False)
    started: list[slot.Slot] = []

    def start() -> None:
        with slot.taken(settings, "keel") as mine:
            started.append(mine)
            assert mine.directory.is_dir() and slot.running(settings) == [mine]

    with slot.none_running(settings):
        thread = threading.Thread(target=start, daemon=True)
        thread.start()
        thread.join(0.3)
        assert not started
        settings.build.rename(settings.build.with_name("aside"))
    thread.join(60)
    assert len(started) == 1


def test_what_a_clean_that_was_killed_left_is_removed(settings: Settings) -> None:
    left = settings.build.with_name(".build.removed-1")
    (left / "linux").mkdir(parents=True)
    clean(settings, cache=False, persistent=False)
    assert not left.exists() and not settings.build.exists()


def test_a_directory_that_is_elsewhere_is_emptied(settings: Settings, tmp_path: Path) -> None:
    """A link to another disk stays, and so does a mount."""
    (tmp_path / "disk" / "keel").mkdir(parents=True)
    settings.build.symlink_to(tmp_path / "disk")
    clean(settings, cache=False, persistent=False)
    assert settings.build.is_symlink() and not list(settings.build.iterdir())
