# SPDX-License-Identifier: GPL-2.0-only
"""A clone that was copied or moved with what it has built."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from keel import linux, moved, rust
from keel.config import Settings

COMMAND = (
    "savedcmd_kernel/fork.o := gcc -I{0}/build/linux/l4-src/include -o x.o\ndeps := {0}/build/linux/l4/include/x.h ../a \\\n"
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a build of Linux leaves."""
    place = tmp_path / "old"
    pristine, tree, built = (place / "build" / "linux" / name for name in ("pristine", "l4-src", "l4"))
    for name in ("Makefile", "kernel/fork.c"):
        (pristine / name).parent.mkdir(parents=True, exist_ok=True)
        (pristine / name).write_text(name)
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(pristine / name)
    (place / "linux" / "arch").mkdir(parents=True)
    (place / "linux" / "arch" / "new.c").touch()
    (tree / "new.c").symlink_to(place / "linux" / "arch" / "new.c")
    (tree / "changed.c").write_text("a copy")
    (tree / "elsewhere").symlink_to("/dev/null")
    (built / "kernel").mkdir(parents=True)
    (built / "source").symlink_to(tree)
    for name in ("kernel/.fork.o.cmd", "kernel/.fork.o.d"):
        (built / name).write_text(COMMAND.format(place))
        os.utime(built / name, (1000, 1000))
    (built / "kernel" / "fork.o").write_bytes(b"\xff")
    return place


def check(place: Path) -> None:
    """All of it is this clone's."""
    at = place / "build" / "linux"
    links = {path.relative_to(at).as_posix(): path.readlink() for path in at.rglob("*") if path.is_symlink()}
    assert links == {
        "l4/source": at / "l4-src",
        "l4-src/Makefile": at / "pristine" / "Makefile",
        "l4-src/kernel/fork.c": at / "pristine" / "kernel" / "fork.c",
        "l4-src/new.c": place / "linux" / "arch" / "new.c",
        "l4-src/elsewhere": Path("/dev/null"),
    }
    for name in ("kernel/.fork.o.cmd", "kernel/.fork.o.d"):
        assert (at / "l4" / name).read_text() == COMMAND.format(place)
        assert (at / "l4" / name).stat().st_mtime == 1000


@pytest.mark.parametrize("copied", [False, True])
def test_linux_is_not_compiled_again(copied: bool, clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing leads to the old clone, which may be gone, or have other sources."""
    new = tmp_path / "new"
    if copied:
        shutil.copytree(clone, new, symlinks=True)
    else:
        clone.rename(new)
    moved.settle(new / "build" / "linux")
    check(new)
    assert f"came here from {clone}/build/linux" in capsys.readouterr().err
    moved.settle(new / "build" / "linux")
    assert not capsys.readouterr().err
    if copied:
        check(clone)


def test_what_is_interrupted_is_adapted_again(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each step."""
    new = clone.rename(tmp_path / "new")
    steps = 0
    real = Path.replace, os.utime

    def counted(step: int) -> bool:
        nonlocal steps
        steps += 1
        if steps == step:
            raise KeyboardInterrupt
        return False

    for step in range(1, 12):
        steps = 0
        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", lambda *words, step=step: counted(step) or real[0](*words))
            patched.setattr(os, "utime", lambda *words, step=step, **named: counted(step) or real[1](*words, **named))
            try:
                moved.settle(new / "build" / "linux")
                break
            except KeyboardInterrupt:
                continue
    moved.settle(new / "build" / "linux")
    at = new / "build" / "linux"
    assert not [path for path in at.rglob("*") if path.is_symlink() and str(clone) in str(path.readlink())]
    assert (at / "l4/kernel/.fork.o.cmd").read_text() == COMMAND.format(new)


def test_the_state_of_a_build_is_the_same_at_another_place(settings: Settings, tmp_path: Path) -> None:
    def state(place: Path) -> str:
        own = replace(settings, repository=place, build=place / "build")
        for name in ("config/common.config", "config/x86.config"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).touch()
            os.utime(place / name, (1000, 1000))
        own.pristine.mkdir(parents=True)
        (own.pristine / linux.VERSION_STAMP).write_text("6.1\n")
        return linux._build_state(own, linux.NATIVE)

    assert state(tmp_path / "a") == state(tmp_path / "b")


def test_why_cargo_builds_again_is_said_once(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    rust._tell_moved(settings)
    assert not capsys.readouterr().err
    other = replace(settings, repository=Path("/other"))
    rust._tell_moved(other)
    assert f"this clone was {settings.repository} when cargo built" in capsys.readouterr().err
    rust._tell_moved(other)
    assert not capsys.readouterr().err
