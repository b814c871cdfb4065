# SPDX-License-Identifier: GPL-2.0-only
"""Layers of packages: their names, when they are made and removed, and what is left when that fails."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from keel import boot, cpio, disks, image, layerdisk, layers
from keel.commands import root
from keel.config import Settings
from keel.errors import KeelError
from keel.qemu import Disk

from .test_layerarchive import write

GDB = layers.Wanted(("gdb",))


class Installation:
    """Stands for mmdebstrap: counts, and fails on demand after it has written something."""

    def __init__(self) -> None:
        self.made: list[tuple[str, ...]] = []
        self.error: BaseException | None = None

    def make(self, settings: Settings, archive: Path, more: Sequence[str] = (), base: Path | None = None) -> None:
        archive.parent.mkdir(parents=True, exist_ok=True)
        write(archive, [cpio.Entry(name, cpio.REGULAR | 0o644, b"x") for name in ("sh", *more)])
        self.made.append(tuple(more))
        if self.error:
            raise self.error


@pytest.fixture
def installation(monkeypatch: pytest.MonkeyPatch) -> Installation:
    stand_in = Installation()
    monkeypatch.setattr(image, "make_archive", stand_in.make)
    return stand_in


def left(settings: Settings) -> list[str]:
    """What is in the cache beside the default root."""
    place = settings.cache / "roots"
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.parent != place or path.is_dir())


def test_a_layer_is_made_once(installation: Installation, settings: Settings) -> None:
    layer = layers.provided(settings, GDB)
    assert layer == layers.provided(settings, GDB) == layers.find(settings, GDB)
    assert installation.made == [(), ("gdb",)]
    assert (layer.name, layer.packages) == ("gdb", ("gdb",))
    assert sorted(path.name for path in layer.folder.iterdir()) == ["layer.json", "root.cpio"]
    assert layer.folder.parent.name == f"{image.default_archive(settings).stem}.layers"


def test_packages_of_the_default_root_need_no_layer() -> None:
    assert layers.wanted(("less", "nano"), None) is None
    assert layers.wanted(("vim-tiny", "less", "gdb", "gdb"), None) == layers.Wanted(("gdb", "vim-tiny"))
    with pytest.raises(KeelError, match="without a layer"):
        layers.wanted(("less",), "mine")


def test_a_set_has_the_key_that_it_always_had() -> None:
    """Persistent roots of packages are found by it."""
    assert image.key(("gdb",)) != image.key() != image.key((), "gdb")


def test_a_named_layer_is_found_by_its_name(installation: Installation, settings: Settings) -> None:
    made = layers.provided(settings, layers.Wanted(("gdb",), "mine"))
    assert layers.provided(settings, layers.Wanted((), "mine")) == made
    assert layers.stem(settings, layers.Wanted((), "mine")) == layers.stem(settings, layers.Wanted(("gdb",), "mine"))
    assert layers.stem(settings, GDB) != layers.stem(settings, layers.Wanted((), "mine"))
    assert layers.provided(settings, GDB) != made


def test_a_name_that_is_taken_is_refused(installation: Installation, settings: Settings) -> None:
    layers.provided(settings, layers.Wanted(("gdb",), "mine"))
    with pytest.raises(KeelError, match="has other packages: gdb") as caught:
        layers.provided(settings, layers.Wanted(("vim",), "mine"))
    assert "./keel root remove mine" in caught.value.line()


def test_a_name_without_a_layer_is_refused(installation: Installation, settings: Settings) -> None:
    with pytest.raises(KeelError, match="no layer mine"):
        layers.needs(settings, layers.Wanted((), "mine"))
    assert installation.made == []


@pytest.mark.parametrize("name", ["", "a,b", "../x", ".new", "-x", "a b", "x" * 33])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(KeelError, match="cannot be a layer's name"):
        boot.check(boot.Choices(packages=("gdb",), layer=name))


@pytest.mark.parametrize("packages", [("gdb",), ()])
def test_a_layer_of_a_given_root_is_refused(packages: tuple[str, ...]) -> None:
    with pytest.raises(KeelError, match="adds to the default root"):
        boot.check(boot.Choices(packages=packages, layer="mine", root="root.img"))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KeelError("there is no package gdb"), OSError("the disk is full")])
def test_nothing_is_left_of_an_installation_that_fails(
    error: BaseException, installation: Installation, settings: Settings
) -> None:
    image.default_root(settings)
    installation.error = error
    with pytest.raises((KeyboardInterrupt, KeelError)):
        layers.provided(settings, GDB)
    assert left(settings) == []
    installation.error = None
    assert layers.provided(settings, GDB).archive.exists()


def test_what_a_killed_command_has_left_is_removed(installation: Installation, settings: Settings) -> None:
    image.default_root(settings)
    aside = image.default_archive(settings).with_suffix(".layers") / ".new"
    aside.mkdir(parents=True)
    (aside / "whole.cpio").touch()
    (aside / "layer.json").write_text('{"name": "gdb", "packages": ["gdb"]}')
    assert layers.of_base(image.default_archive(settings)) == []
    layers.provided(settings, GDB)
    assert not aside.exists()


@pytest.mark.parametrize("again", [False, True])
def test_layers_go_with_their_base(
    again: bool, installation: Installation, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    old = layers.provided(settings, GDB)
    base = image.default_archive(settings)
    base.unlink()
    if again:
        image.default_root(settings)
    assert layers.find(settings, GDB) is None
    layers.provided(settings, layers.Wanted(("vim",)))
    assert "whose default root has gone: gdb" in capsys.readouterr().err
    assert not old.folder.exists()


def test_a_description_that_is_not_whole_is_no_layer(installation: Installation, settings: Settings) -> None:
    description = layers.provided(settings, GDB).folder / "layer.json"
    for text in ("", "[]", '{"name": "gdb"}', "{"):
        description.write_text(text)
        assert layers.find(settings, GDB) is None
    assert layers.provided(settings, GDB) == layers.find(settings, GDB)


def test_a_disk_is_made_again_with_its_base_s(
    installation: Installation, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = layers.provided(settings, GDB)
    made: list[Path] = []
    base_disk = image.default_archive(settings).with_suffix(".ext4")
    base_disk.touch()

    def make(settings: Settings, base_archive: Path, base_disk: Path, archive: Path, disk: Path) -> None:
        made.append(disk)
        disk.touch()

    monkeypatch.setattr(layerdisk, "make", make)
    assert layers.on_disk(settings, layer, base_disk) == layers.on_disk(settings, layer, base_disk) == layer.disk
    assert len(made) == 1
    later = layer.disk.stat().st_mtime_ns + 1
    os.utime(base_disk, ns=(later, later))
    layers.on_disk(settings, layer, base_disk)
    assert len(made) == 2


def test_roots_are_listed_and_removed(installation: Installation, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    layers.provided(settings, layers.Wanted(("gdb", "vim"), "mine"))
    layers.provided(settings, GDB)
    base = image.default_archive(settings)
    base.with_suffix(".ext4").touch()
    capsys.readouterr()
    root.show(settings)
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in words] == ["NAME", base.stem, "gdb", "mine"] and words[3][2:] == ["gdb", "vim"]
    root.remove(settings, ["gdb"])
    assert layers.find(settings, GDB) is None and layers.find(settings, layers.Wanted((), "mine"))
    root.remove(settings, [base.stem])
    assert list((settings.cache / "roots").iterdir()) == []


def test_what_is_not_there_or_is_used_is_not_removed(installation: Installation, settings: Settings) -> None:
    layer = layers.provided(settings, GDB)
    with pytest.raises(KeelError, match="no layer or default root none"):
        root.remove(settings, ["gdb", "none"])
    layer.disk.touch()
    for name in ("gdb", image.default_archive(settings).stem):
        with disks.held([Disk(layer.disk, "qcow2")]), pytest.raises(KeelError, match="in use"):
            root.remove(settings, [name])
    assert layers.find(settings, GDB) == layer
