# SPDX-License-Identifier: GPL-2.0-only
"""Release sets: what is written, what is booted from one, and what is refused."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from keel import boot, bootconf, disks, release
from keel.cli import main
from keel.config import Settings, version
from keel.errors import KeelError, Status
from keel.qemu import Disk

MANIFEST = release.Manifest(release.FORMAT, version(), "abc", "6.1.1-1", "bookworm", "7.2", "max", 2048)


QEMU_IMG = ("qemu-img", "create", "-q", "-f", "qcow2")


def with_sums(directory: Path) -> None:
    """Write the sums of all files that are there."""
    names = sorted(path.name for path in directory.iterdir() if path.is_file() and path.name != release.SUMS)
    lines = [f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (directory / release.SUMS).write_text("".join(lines))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A set with short files."""
    directory = tmp_path / "set"
    directory.mkdir()
    for name in (*release.FIXED, "heartbeat"):
        (directory / name).write_text(f"this is {name}")
    subprocess.run([*QEMU_IMG, str(directory / release.ROOT), "1M"], check=True)
    (directory / release.MANIFEST).write_text(json.dumps(asdict(MANIFEST)))
    (directory / bootconf.NAME).write_text(bootconf.DEFAULT_TEMPLATE.read_text())
    with_sums(directory)
    return directory


def opened(settings: Settings, directory: Path) -> tuple[Settings, boot.Choices]:
    return release.opened(settings, boot.Choices(release=directory), directory)


def test_what_is_booted_is_the_sets(settings: Settings, made: Path, tmp_path: Path) -> None:
    used, choices = opened(settings, made)
    assert choices.boot_template == made / bootconf.NAME
    own = tmp_path / "own.conf"
    assert release.opened(settings, boot.Choices(boot_template=own), made)[1].boot_template == own
    assert {used.linux_server, used.init_archive, used.probe} <= set(made.iterdir())
    assert release.root_disk(used, made, keep=False).path == made / release.ROOT


def test_a_set_that_is_written_can_be_opened(settings: Settings, made: Path, tmp_path: Path) -> None:
    place = tmp_path / "other"
    with release.written(place) as aside:
        for path in made.iterdir():
            if path.name != release.SUMS:
                (aside / path.name).write_bytes(path.read_bytes())
        assert not place.exists()
    assert (place / release.SUMS).read_text() == (made / release.SUMS).read_text()
    opened(settings, place)


def test_a_set_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeelError, match="no room"), release.written(tmp_path / "set") as aside:
        (aside / release.ISO).write_text("half")
        raise KeelError("no room")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_is_there_is_not_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    place = tmp_path / "set"
    make(place)
    if place.is_dir():
        release.check_place(place)  # an empty folder
        (place / "file").touch()
    with pytest.raises(KeelError, match="is there already"):
        release.check_place(place)
    with pytest.raises(KeelError, match="cannot be written"):
        release.check_place(tmp_path / "none" / "set")


def edit_sums(directory: Path, old: str, new: str) -> None:
    sums = directory / release.SUMS
    assert old in sums.read_text()
    sums.write_text(sums.read_text().replace(old, new))


def other_manifest(directory: Path, **fields: object) -> None:
    (directory / release.MANIFEST).write_text(json.dumps(asdict(MANIFEST) | fields))
    with_sums(directory)


def to_link(directory: Path) -> None:
    """Move a file out of the set and leave a link to it."""
    (directory / "heartbeat").rename(directory.parent / "heartbeat")
    (directory / "heartbeat").symlink_to(directory.parent / "heartbeat")


def to_pipe(directory: Path, name: str) -> None:
    (directory / name).unlink()
    os.mkfifo(directory / name)


def wrong_text(directory: Path, name: str, text: bytes) -> None:
    (directory / name).write_bytes(text)
    if name != release.SUMS:
        with_sums(directory)


def other_root(directory: Path, *options: str) -> None:
    """The root as another image, with the sums of that."""
    (directory / release.ROOT).unlink()
    subprocess.run([*QEMU_IMG, "-u", *options, str(directory / release.ROOT), "1M"], check=True)
    with_sums(directory)


def unlisted_and_missing(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with_sums(directory)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda made: (made / "vmlinux").write_text("other"), "vmlinux does not have the sum"),
        (lambda made: (made / release.ISO).write_text(""), "keel.iso does not have the sum"),
        (lambda made: (made / release.ROOT).unlink(), "lacks root.qcow2"),
        (lambda made: unlisted_and_missing(made, release.ROOT), "lacks root.qcow2"),
        (lambda made: edit_sums(made, "  keel.iso\n", "  keel2.iso\n"), "no file of a set: 'keel2.iso'"),
        (lambda made: (made / "more").touch(), "has a file that SHA256SUMS does not name: 'more'"),
        (lambda made: (made / "more").mkdir(), "does not name: 'more'"),
        (lambda made: (made / release.SUMS).unlink(), "is no release set"),
        (lambda made: edit_sums(made, "  heartbeat\n", "  ../heartbeat\n"), r"no file of a set: '\.\./heartbeat'"),
        (lambda made: edit_sums(made, "  heartbeat\n", "  /etc/passwd\n"), "no file of a set: '/etc/passwd'"),
        (lambda made: edit_sums(made, "  heartbeat\n", "  ..\n"), "no file of a set"),
        (lambda made: edit_sums(made, "  heartbeat\n", "  root\n"), "has a wrong line"),
        (lambda made: edit_sums(made, "  heartbeat\n", " heartbeat\n"), "has a wrong line"),
        (lambda made: wrong_text(made, release.SUMS, b"\xff\n"), "is not text"),
        (lambda made: wrong_text(made, release.SUMS, b"x" * (release.MOST_TEXT_BYTES + 1)), "is too large"),
        (lambda made: wrong_text(made, release.SUMS, b""), "does not name"),
        (lambda made: other_root(made, "-F", "raw", "-b", "/etc/shadow"), "is over another file, '/etc/shadow'"),
        (lambda made: other_root(made, "-F", "qcow2", "-b", release.ROOT), "is over another file"),
        (lambda made: other_root(made, "-F", "raw", "-b", 'json:{"driver":"raw"}'), "is not named as a file"),
        (lambda made: other_root(made, "-F", "raw", "-b", "fat:/etc"), "is not named as a file"),
        (lambda made: other_root(made, "-o", f"data_file={made.parent / 'data'}"), "data are in another file"),
        (lambda made: wrong_text(made, release.ROOT, b"raw"), "has no header of qcow2"),
        (to_link, "heartbeat is no file"),
        (lambda made: to_pipe(made, "heartbeat"), "heartbeat is no file"),
        (lambda made: to_pipe(made, release.SUMS), "SHA256SUMS is no file"),
        (lambda made: other_manifest(made, version="9.9"), "is a set of Keel 9.9"),
        (lambda made: other_manifest(made, format=2), r"\(format 2\)"),
        (lambda made: other_manifest(made, more=1), "is no manifest"),
        (lambda made: wrong_text(made, release.MANIFEST, b"[]"), "is no manifest"),
        (lambda made: wrong_text(made, release.MANIFEST, b"{"), "is no manifest"),
        (lambda made: wrong_text(made, release.MANIFEST, b"[" * 60000), "is no manifest"),
    ],
)
def test_a_set_that_is_not_whole_is_refused(
    spoil: Callable[[Path], object], complaint: str, settings: Settings, made: Path
) -> None:
    opened(settings, made)
    spoil(made)
    with pytest.raises(KeelError, match=complaint) as refused:
        opened(settings, made)
    assert refused.value.remedy and "\n" not in refused.value.line()
    assert not settings.build.exists()


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        (boot.Choices(native=True), "--native"),
        (boot.Choices(packages=("vim",)), "--packages"),
        (boot.Choices(icount=True), "--icount"),
    ],
)
def test_what_a_set_has_nothing_for_is_refused(choices: boot.Choices, complaint: str) -> None:
    with pytest.raises(KeelError, match=complaint):
        release.refuse(choices)
    release.refuse(replace(boot.Choices(icount=True), root="directory"))


def test_what_a_guest_writes_is_kept_apart_from_the_set(settings: Settings, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "examined", lambda settings, path, **others: Disk(path, "qcow2"))
    content = (made / release.ROOT).read_bytes()
    kept = release.root_disk(settings, made, keep=True).path
    assert kept in disks.persistent(settings)
    kept.write_bytes(content + b"changed")
    assert release.root_disk(settings, made, keep=True).path.read_bytes() == content + b"changed"
    assert (made / release.ROOT).read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["image"], "FILE.iso and --release DIR"),
        (["image", "a.iso", "--release", "b"], "FILE.iso and --release DIR"),
        (["image", "--release", "b", "--append", "quiet"], "without --root, --append and --boot-conf"),
    ],
)
def test_an_image_is_a_file_or_a_set(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == Status.USAGE
    said = capsys.readouterr().err
    assert complaint in said and said.count("\n") == 1


def test_nothing_runs_from_a_folder_that_is_no_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path, tmp_path / "none"):
        assert main(["run", "--from", str(place), "--exec", "true"]) == Status.ERROR
        assert "./keel image --release" in capsys.readouterr().err
