# SPDX-License-Identifier: GPL-2.0-only
"""A guest writes nothing that this machine runs or trusts later, and sees no other guest's key, by no option."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from keel import boot, configuration, share, slot, trusted
from keel.commands import run
from keel.config import REPOSITORY, Settings
from keel.errors import KeelError
from keel.qemu import Disk, Share


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home, with a folder for data beside it."""
    place = tmp_path / "home"
    (place / "src" / "project").mkdir(parents=True)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", configuration.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return place


@pytest.fixture
def own(home: Path) -> Settings:
    """A clone in that home."""
    clone = home / "keel"
    for name in ("tools", "build/run", "build/images"):
        (clone / name).mkdir(parents=True)
    return replace(Settings(), repository=clone, build=clone / "build", install=False)


PLACES = ["", "keel", "keel/tools", "keel/build", "keel/build/run", ".config", ".config/keel", ".cache", ".cache/keel/build"]
PLACES += [".local/share", ".local/share/keel", "..", "elsewhere"]


@pytest.mark.parametrize("name", PLACES)
def test_a_share_that_the_host_trusts_is_only_read(name: str, home: Path, own: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is such a place, has one or lies in one; also where none of it is there yet."""
    monkeypatch.setenv(configuration.VARIABLE, str(home / "elsewhere" / "keel.toml"))
    directory = home / name
    directory.mkdir(parents=True, exist_ok=True)
    with pytest.raises(KeelError, match="cannot be shared to be written"):
        trusted.check_shares(own, share.parsed([f"{directory}:/mnt/x:rw"]))
    if name != "..":
        trusted.check_shares(own, share.parsed([f"{directory}:/mnt/x"]))


def test_other_directories_are_shared(home: Path, own: Settings) -> None:
    trusted.check_shares(own, share.parsed([f"{home / 'src'}:rw", f"{home / 'src' / 'project'}:rw"]))


def test_the_release_set_and_the_installed_command_are_trusted(home: Path, own: Settings) -> None:
    with pytest.raises(KeelError, match="the release set"):
        trusted.check_shares(replace(own, release=home / "src"), share.parsed([f"{home / 'src'}:rw"]))
    installed = replace(own, repository=Path("/usr/share/keel"), build=home / ".cache" / "keel" / "build")
    with pytest.raises(KeelError, match="the command itself"):
        trusted.check_shares(installed, share.parsed(["/usr/share:rw"]))


def test_a_run_refuses_before_anything_begins(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also `ukl run`, which runs by the same function, and where --cwd leads into the share."""
    monkeypatch.setattr(run, "_run", lambda *arguments: pytest.fail("it begins"))
    for directory in (REPOSITORY, REPOSITORY.parent, settings.cache):
        directory.mkdir(exist_ok=True)
        with pytest.raises(KeelError, match="cannot be shared to be written"):
            run.run(settings, boot.Choices(shares=(Share(directory, "/mnt/x", writable=True),)))
    assert not settings.build.exists()


def test_another_name_of_the_place_is_the_place(home: Path, own: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount at a second place has the same file."""
    other = home / "src" / "project"
    real = Path.samefile
    monkeypatch.setattr(
        Path, "samefile", lambda one, two: {one, Path(two)} == {other, own.repository} or real(one, two), raising=True
    )
    with pytest.raises(KeelError, match="cannot be shared to be written"):
        trusted.check_shares(own, [Share(other, "/mnt/x", writable=True)])


@pytest.mark.parametrize("name", ["temporary", "", "temporary/keel-box-1", "temporary/keel-box-1/ssh"])
def test_no_share_shows_what_is_private(name: str, home: Path, own: Settings) -> None:
    directory = home.parent / name
    directory.mkdir(parents=True, exist_ok=True)
    with pytest.raises(KeelError, match="guests' keys are in") as caught:
        trusted.check_shares(own, [Share(directory, "/mnt/x")])
    assert "TMPDIR" in caught.value.remedy
    (slot.temporary_files() / "other").mkdir()
    trusted.check_shares(own, [Share(slot.temporary_files() / "other", "/mnt/x")])


def test_the_directory_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    assert slot.temporary_files() == Path("/var/tmp")


@pytest.mark.parametrize(
    ("name", "image_format", "fine"),
    [
        ("keel/keel", "raw", False),
        ("keel/tools/a.img", "raw", True),
        ("keel/a.img", "raw", True),
        ("keel/tools/cli.py", "raw", False),
        ("keel/build/a.img", "raw", False),
        ("keel/build/images/x-persistent.qcow2", "qcow2", True),
        ("keel/build/images/x-persistent.qcow2", "raw", False),
        ("keel/build/images/x.checked", "raw", False),
        (".local/share/keel/roots/x.qcow2", "qcow2", True),
        (".local/share/keel/roots/x.qcow2", "raw", False),
        (".cache/keel/roots/x.ext4", "raw", False),
        (".config/keel/config.toml", "raw", False),
        ("src/a.img", "raw", True),
        ("src/anything", "raw", True),
    ],
)
def test_a_disk_that_is_kept_is_no_file_of_the_commands(
    name: str, image_format: str, fine: bool, home: Path, own: Settings
) -> None:
    """A link to one is the file itself, and without --persist nothing is written."""
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    (home / "src" / "link.img").symlink_to(file)
    for path in (file, home / "src" / "link.img"):
        trusted.check_disks(own, [Disk(path, image_format)])
        if fine:
            trusted.check_disks(own, [Disk(path, image_format, keep=True)])
            continue
        with pytest.raises(KeelError, match="cannot be written by a guest"):
            trusted.check_disks(own, [Disk(path, image_format, keep=True)])


def test_no_file_of_the_sources_is_named_as_an_image() -> None:
    tops = [path for path in REPOSITORY.iterdir() if path.name not in ("build", ".git")]
    found = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*"))]
    assert not [path for path in found if path.suffix in (".img", ".raw", ".ext4", ".qcow2") and os.access(path, os.R_OK)]
