# SPDX-License-Identifier: GPL-2.0-only
"""The symlink tree is complete and follows the repository; one kernel begins with another's objects."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from keel import linux, process
from keel.config import Settings
from keel.linux import BUILD_STAMP, VERSION_STAMP, copy_objects


@pytest.fixture
def pristine(settings: Settings) -> Path:
    (settings.pristine / "scripts").mkdir(parents=True)
    (settings.pristine / VERSION_STAMP).write_text("6.1.1-1\n")
    (settings.pristine / "scripts" / "last").write_text("last")
    return settings.pristine


@pytest.mark.parametrize("how", ["left by an earlier Keel", "interrupted now"])
def test_half_a_farm_is_made_anew(how: str, pristine: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is among the first links that cp makes."""

    def begin(argv: Sequence[str], **_: object) -> None:
        (place := Path(argv[-1])).mkdir()
        (place / VERSION_STAMP).symlink_to(pristine / VERSION_STAMP)
        raise KeyboardInterrupt

    if how == "interrupted now":
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(process, "run_logged", begin)
            linux._symlink_tree(settings, linux.UKL)
    else:
        with pytest.raises(KeyboardInterrupt):
            begin([str(settings.linux / "ukl-src")])
    tree = linux._symlink_tree(settings, linux.UKL)
    assert (tree / "scripts" / "last").read_text() == "last"
    assert {path.name for path in settings.linux.iterdir()} == {"pristine", "ukl-src"}


def test_a_whole_farm_stays_until_the_source_is_another(pristine: Path, settings: Settings) -> None:
    tree = linux._symlink_tree(settings, linux.UKL)
    (tree / "addition").touch()
    assert (linux._symlink_tree(settings, linux.UKL) / "addition").exists()
    (pristine / VERSION_STAMP).write_text("6.1.2-1\n")
    assert not (linux._symlink_tree(settings, linux.UKL) / "addition").exists()


def test_the_server_source_follows_the_repository(pristine: Path, settings: Settings) -> None:
    """Files of ours come and go as links, x86's adapted ones as copies; outside arch/l4 all stay links."""
    step = Path("arch/x86/kernel/step.c")
    (pristine / step).parent.mkdir(parents=True)
    (pristine / step).write_text("block step\n")
    settings = replace(settings, repository=settings.build / "repository")
    ours = settings.repository / "linux"
    port, hunks = ours / "arch" / "l4", ours / "replacements" / f"{step}.toml"
    for directory in (port / "kernel", hunks.parent):
        directory.mkdir(parents=True)
    (port / "Kconfig").write_text("a")
    (port / "kernel" / "setup.c").write_text("b")
    hunks.write_text('replacement = [{ old = "block", new = "single" }]\n')
    tree = linux.server_source(settings)
    place = tree / "arch" / "l4"
    assert (place / "kernel" / "setup.c").read_text() == "b"
    assert (place / "Kconfig").is_symlink()
    assert (place / "adapted" / "kernel" / "step.c").read_text() == "single step\n"
    assert (tree / step).is_symlink() and (pristine / step).read_text() == "block step\n"
    (port / "Kconfig").unlink()
    (port / "kernel" / "irq.c").write_text("c")
    hunks.unlink()
    linux.server_source(settings)
    assert not (place / "Kconfig").is_symlink()
    shared = {Path(name).name for name in linux.SHARED if name.endswith(".c")}
    assert {path.name for path in place.rglob("*.c")} == {"setup.c", "irq.c", *shared}


def test_objects_are_copied_with_their_times_and_commands_of_the_new_place(tmp_path: Path) -> None:
    built, out, pristine, source = (tmp_path / name for name in ("native", "other", "pristine", "other-src"))
    (built / "mm").mkdir(parents=True)
    (built / BUILD_STAMP).write_text("whole")
    (built / "mm" / "slab.o").write_bytes(b"\0code")
    command = "gcc -I{source}/include -fmacro-prefix-map=../{source.name}/= -o {source}/../x ; cd {out}\n"
    command += "deps_x := ../{source.name}/include/a.h\n"
    (built / "mm" / ".slab.o.cmd").write_text(command.format(source=pristine, out=built))
    for path in built.rglob("*"):
        os.utime(path, (1000, 1000))
    (tmp_path / "other.new").mkdir()  # left by one that was interrupted
    copy_objects(built, out, (pristine, source), tmp_path / "log")
    assert (out / "mm" / "slab.o").read_bytes() == b"\0code"
    assert (out / "mm" / ".slab.o.cmd").read_text() == command.format(source=source, out=out)
    assert {path.stat().st_mtime for path in out.rglob("*.*") if path.is_file()} == {1000}
    assert not (out / BUILD_STAMP).exists() and not (tmp_path / "other.new").exists()


def test_the_second_build_of_linux_is_announced(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once: whoever has waited for the server's would think that it begins again."""
    monkeypatch.setattr(linux, "_prepare", lambda settings: None)
    monkeypatch.setattr(linux, "_build", lambda *arguments: None)
    linux.build_native(settings)
    assert "native Linux is a build of its own" in capsys.readouterr().err
    settings.native_kernel.parent.mkdir(parents=True)
    settings.native_kernel.touch()
    linux.build_native(settings)
    assert not capsys.readouterr().err
