# SPDX-License-Identifier: GPL-2.0-only
"""Which build of Linux `./keel gdb` shows, with small objects in place of the builds."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from keel import linux, slot
from keel.commands import debug
from keel.config import Settings
from keel.errors import KeelError

Compile = Callable[[Path, str, str], None]


@pytest.fixture
def made(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compiles a file as one of the builds; the build for gdb is there, but out of date, until it is asked for."""

    def compiled(image: Path, code: str, option: str) -> None:
        image.parent.mkdir(parents=True, exist_ok=True)
        source = image.with_suffix(".c")
        source.write_text(code)
        subprocess.run(["gcc", option, "-c", "-o", str(image), str(source)], check=True)

    def built(asked: Settings, target: linux.Target) -> None:
        compiled(linux.image_for_gdb(asked, target), "int f(void) { return 1; }\n", "-g")

    monkeypatch.setattr(linux, "build_for_gdb", built)
    return compiled


def for_gdb(settings: Settings) -> Path:
    return linux.image_for_gdb(settings, linux.SERVER)


@pytest.mark.parametrize(
    ("there", "wanted", "has_lines"),
    [
        (None, False, False),
        (None, True, True),
        ("int f(void) { return 1; }\n", False, True),
        ("int f(void) { return 2; }\n", False, False),
        ("int f(void) { return 2; }\n", True, True),
    ],
    ids=["none", "none, wanted", "the same", "another", "another, wanted"],
)
def test_source_lines_are_of_the_same_code(
    there: str | None, wanted: bool, has_lines: bool, settings: Settings, made: Compile
) -> None:
    made(settings.linux_server, "int f(void) { return 1; }\n", "-g0")
    if there:
        made(for_gdb(settings), there, "-g")
    kernel = Path("/k/kernel.elf")
    views = debug.with_source_lines(settings, {"linux": settings.linux_server, "kernel": kernel}, wanted)
    assert views == {"linux": for_gdb(settings) if has_lines else settings.linux_server, "kernel": kernel}


def test_other_kernels_are_left_as_they_are(settings: Settings) -> None:
    """Those of release sets, too."""
    others: tuple[dict[str, Path], ...] = ({}, {"linux": Path("/u/bypass/vmlinux")}, {"linux": Path("/set/vmlinux")})
    for views in others:
        assert debug.with_source_lines(settings, views, wanted=True) == views


def test_a_guest_is_chosen_by_its_name(settings: Settings) -> None:
    """Without a name it is the one that was started last."""
    with pytest.raises(KeelError, match="no guest runs"):
        debug.chosen(settings, None)
    with slot.taken(settings, "keel", "first") as first, slot.taken(settings, "keel", "second") as second:
        for number, guest in enumerate((first, second)):
            guest.note_run("keel", None)
            os.utime(guest.directory, (number, number))
        assert debug.chosen(settings, None) == second
        assert debug.chosen(settings, "first") == first
        with pytest.raises(KeelError, match="no guest named third runs"):
            debug.chosen(settings, "third")


def test_only_linux_beside_its_scripts_is_trusted(settings: Settings) -> None:
    with slot.taken(settings, "keel") as mine:
        argv = debug.arguments(mine, "kernel", {"linux": Path("/l/vmlinux"), "kernel": Path("/k/kernel.elf")})
    assert [argv[at + 1] for at, word in enumerate(argv) if word == "-iex"] == ["add-auto-load-safe-path /l"]
