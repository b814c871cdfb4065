# SPDX-License-Identifier: GPL-2.0-only
"""Disk images: whole ones are taken, broken ones and ones in use are refused in one line."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from keel import attributes, cpio, disks, image, layers, overlay, packages, unpack
from keel.commands.clean import clean
from keel.config import Settings
from keel.errors import KeelError
from keel.qemu import Disk

MEGABYTE = 1 << 20


@pytest.fixture
def ext4(tmp_path: Path) -> Path:
    path = tmp_path / "root.img"
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", str(path), "4M"], check=True)
    return path


@pytest.fixture
def qcow2(ext4: Path) -> Path:
    path = ext4.with_suffix(".qcow2")
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", str(ext4), str(path)], check=True)
    return path


def test_both_formats_are_taken_as_roots(ext4: Path, qcow2: Path, settings: Settings) -> None:
    for path, kind in ((ext4, "raw"), (qcow2, "qcow2")):
        assert disks.examined(settings, path, root=True) == Disk(path, kind, "virtio", keep=False)


def refused(settings: Settings, path: Path) -> str:
    with pytest.raises(KeelError) as caught:
        disks.examined(settings, path, root=True)
    line = caught.value.line()
    assert str(path) in line and "\n" not in line
    return line


def test_a_root_that_is_cut_off_is_refused(ext4: Path, settings: Settings) -> None:
    ext4.write_bytes(ext4.read_bytes()[: 2 * MEGABYTE])
    assert "cut off" in refused(settings, ext4)


def test_a_root_without_a_file_system_is_refused(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "noise.img"
    path.write_bytes(bytes(MEGABYTE))
    assert "neither" in refused(settings, path)
    assert disks.examined(settings, path) == Disk(path, "raw")  # as one more disk it is welcome


@pytest.mark.parametrize("place", [slice(8, 80), slice(0x10000, 0x10200)], ids=["header", "tables"])
def test_a_broken_qcow2_is_refused_and_left_alone(place: slice, qcow2: Path, settings: Settings) -> None:
    data = bytearray(qcow2.read_bytes())
    data[place] = b"\x5a" * len(data[place])
    qcow2.write_bytes(data)
    refused(settings, qcow2)
    assert qcow2.read_bytes() == data


@pytest.mark.parametrize("length", [0, 1, 104, 0x10000, 0x20000, 0x30000, -0x10000])
def test_a_qcow2_that_is_cut_off_is_refused(length: int, qcow2: Path, settings: Settings) -> None:
    qcow2.write_bytes(qcow2.read_bytes()[:length])
    refused(settings, qcow2)


def test_an_empty_image_is_refused(tmp_path: Path, settings: Settings) -> None:
    raw, qcow2 = tmp_path / "empty.img", tmp_path / "empty.qcow2"
    raw.touch()
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(qcow2), "0"], check=True)
    for path in (raw, qcow2):
        with pytest.raises(KeelError, match="is empty"):
            disks.examined(settings, path)


def test_an_image_over_one_that_is_not_there_is_refused(ext4: Path, tmp_path: Path, settings: Settings) -> None:
    over = tmp_path / "over.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(ext4), str(over)], check=True)
    ext4.unlink()
    assert str(ext4) in refused(settings, over)
    subprocess.run(["qemu-img", "rebase", "-u", "-F", "qcow2", "-b", str(over), str(over)], check=True)
    assert "loop" in refused(settings, over)


@pytest.mark.parametrize(("at", "length", "byte"), [(0, 0x38, 0), (0, 0x38, 0xFF), (0x18, 4, 0xFF)])
def test_a_root_that_says_nonsense_is_refused_at_once(at: int, length: int, byte: int, ext4: Path, settings: Settings) -> None:
    data = bytearray(ext4.read_bytes())
    data[1024 + at : 1024 + at + length] = bytes([byte]) * length
    ext4.write_bytes(data)
    assert "damaged" in refused(settings, ext4)


def test_a_bus_that_is_none_is_named(settings: Settings) -> None:
    assert "virtio, ahci, nvme" in refused(settings, disks.parse("scsi:a.img")[2])


@pytest.mark.parametrize("name", ["none.img", "."])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path, settings: Settings) -> None:
    refused(settings, tmp_path / name)


def test_who_writes_has_an_image_for_himself(ext4: Path) -> None:
    reader, writer = Disk(ext4, "raw"), Disk(ext4, "raw", keep=True)
    with disks.held([reader]), disks.held([reader]):
        with pytest.raises(KeelError, match="in use"), disks.held([writer]):
            pass
    with disks.held([writer]), pytest.raises(KeelError, match="in use"), disks.held([reader]):
        pass


@pytest.mark.parametrize(
    ("text", "bus", "form", "file"),
    [
        ("a.img", "virtio", None, "a.img"),
        ("nvme:a.img", "nvme", None, "a.img"),
        ("ahci:/x:y", "ahci", None, "/x:y"),
        ("usb:a", "virtio", None, "usb:a"),
        ("qcow2:a.img", "virtio", "qcow2", "a.img"),
        ("nvme:raw:a.qcow2", "nvme", "raw", "a.qcow2"),
        ("raw:nvme:a", "virtio", "raw", "nvme:a"),
    ],
)
def test_a_drive_may_name_its_bus_and_format(text: str, bus: str, form: str | None, file: str) -> None:
    assert disks.parse(text) == (bus, form, Path(file))


@pytest.mark.parametrize("name", ["2026-11-23T10:00.img", "nbd:localhost:1", "json:{}", "-l", "a,b.img"])
def test_no_name_means_anything_to_qemu(name: str, ext4: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ext4.parent)
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", str(ext4), str(other := ext4.parent / f"{name}.qcow2")], check=True)
    ext4.rename(name)
    assert disks.examined(settings, Path(name), root=True).path == ext4.parent / name
    assert disks.examined(settings, Path(other.name), root=True).image_format == "qcow2"


@pytest.fixture
def cached(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A default root in the cache, small, and made again with another identity and other contents when it is missing."""
    base = image.default_archive(settings).with_suffix(".ext4")
    made: list[Path] = []

    def make(settings: Settings, wish: object) -> Disk:
        if not base.exists():
            made.append(tree := tmp_path / f"tree-{len(made)}")
            tree.mkdir()
            for number in range(50):
                (tree / f"{number}").write_text(f"{tree.name} {number}" * 500)
            base.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), str(base), "16M"], check=True)
        return Disk(base, "raw")

    monkeypatch.setattr(disks, "_cached", make)
    return base


def content(path: Path) -> bytes:
    raw = path.with_suffix(".raw")
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(path), str(raw)], check=True)
    return raw.read_bytes()


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_persistent_root_outlives_the_one_in_the_cache(made_anew: bool, cached: Path, settings: Settings) -> None:
    kept = disks.default_root(settings, keep=True).path
    before = content(kept)
    cached.unlink()
    if made_anew:
        disks.default_root(settings, keep=False)
        assert cached.read_bytes() != before
    assert disks.default_root(settings, keep=True) == Disk(kept, "qcow2", keep=True)
    assert content(kept) == before


def test_a_persistent_root_over_the_one_in_the_cache_is_refused(cached: Path, settings: Settings) -> None:
    """An earlier Keel made them so. What the refusal advises helps where the cache is unchanged."""
    disks.default_root(settings, keep=False)
    old = settings.build / "images" / f"{cached.stem}-persistent.qcow2"
    old.parent.mkdir(parents=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(cached), str(old)], check=True)
    before = content(old)
    with pytest.raises(KeelError, match="may be another file system") as caught:
        disks.default_root(settings, keep=True)
    assert f"qemu-img rebase -b '' {old};" in caught.value.line()
    subprocess.run(["qemu-img", "rebase", "-b", "", str(old)], check=True)
    assert disks.default_root(settings, keep=True).path == old
    assert content(old) == before


def test_a_new_persistent_root_names_the_others(cached: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    first = disks.default_root(settings, keep=True).path
    assert "persistent root" not in capsys.readouterr().err
    second = disks.default_root(settings, layers.Wanted(("gdb",)), keep=True).path
    assert second != first and str(first) in capsys.readouterr().err


def test_a_persistent_root_with_a_layer_depends_on_neither(
    cached: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks.default_root(settings, keep=False)
    layer, other = cached.with_suffix(".qcow2"), cached.with_suffix(".other")
    other.write_bytes(b"changed".ljust(MEGABYTE) + cached.read_bytes()[MEGABYTE:])
    overlay.write(other, cached, layer)
    monkeypatch.setattr(disks, "_cached", lambda settings, wish: Disk(layer, "qcow2"))
    monkeypatch.setattr(disks, "examined", lambda settings, path, **rest: Disk(path, "qcow2", keep=True))
    kept = disks.default_root(settings, layers.Wanted(("gdb",)), keep=True).path
    layer.unlink()
    cached.unlink()
    assert content(kept) == other.read_bytes()


def test_clean_asks_before_it_removes_what_guests_wrote(settings: Settings) -> None:
    kept = settings.build / "images" / "debian-persistent.qcow2"
    kept.parent.mkdir(parents=True)
    kept.touch()
    with pytest.raises(KeelError) as caught:
        clean(settings, cache=False, persistent=False)
    assert str(kept) in caught.value.line() and kept.exists()
    clean(settings, cache=False, persistent=True)
    assert not settings.build.exists()


@pytest.mark.parametrize("owners", [[], ["fakeroot"]])
def test_an_image_has_the_capabilities_of_an_archive(owners: list[str], tmp_path: Path) -> None:
    """A user's, too, who cannot give files capabilities."""
    if not owners and os.geteuid() != 0:
        pytest.skip("only root gives files capabilities")
    writer, archive, tree = attributes.Writer(), tmp_path / "x.cpio", tmp_path / "x"
    value = bytes.fromhex("01000002ffffffff00000000ff01000000000000")
    entries = [cpio.Entry("bin", cpio.DIRECTORY | 0o755), cpio.Entry("bin/a ő", cpio.REGULAR | 0o4755, b"12345")]
    archive.write_bytes(
        b"".join([*map(writer.entry, entries), writer.notes("bin/a ő", {attributes.CAPABILITY: value}), writer.end()])
    )
    tree.mkdir()
    script = f"{sys.executable} -m keel.unpack $0 $1 && mke2fs -q -F -t ext4 -d $1 $2 16M"
    names = [str(archive), str(tree), str(tmp_path / "ext4")]
    tools = {"PYTHONPATH": str(Path(unpack.__file__).parents[1]), "PATH": packages.roots_path()}
    subprocess.run([*owners, "sh", "-c", script, *names], check=True, env=tools)
    assert not (tree / attributes.FOLDER).exists()
    found = tmp_path / "value"
    request = f'ea_get -f {found} "/bin/a ő" {attributes.CAPABILITY}'
    subprocess.run([packages.program("debugfs"), "-R", request, names[2]], check=True, capture_output=True)
    assert found.read_bytes() == value


def test_an_archive_is_unpacked_as_it_is(tmp_path: Path) -> None:
    writer = cpio.Writer()
    inode = writer.new_inode()
    entries = [
        cpio.Entry("folder", cpio.DIRECTORY | 0o550, mtime=1000),
        cpio.Entry("folder/a", cpio.REGULAR | 0o4755, b"12345", mtime=2000, links=2, inode=inode),
        cpio.Entry("folder/b", cpio.REGULAR | 0o4755, links=2, inode=inode),
        cpio.Entry("folder/empty", cpio.REGULAR | 0o600),
        cpio.Entry("link", cpio.SYMLINK | 0o777, b"folder/a"),
        cpio.Entry("pipe", cpio.FIFO | 0o644),
        cpio.Entry("null", cpio.CHARACTER | 0o666, device=(1, 3)),
    ]
    me = tmp_path.stat()
    mine = [replace(entry, uid=me.st_uid, gid=me.st_gid) for entry in entries]
    archive, place = tmp_path / "x.cpio", tmp_path / "x"
    archive.write_bytes(b"".join(map(writer.entry, mine)) + writer.end())
    place.mkdir()
    unpack.unpack(archive, place)
    assert sorted(path.relative_to(place).as_posix() for path in place.rglob("*")) == sorted(
        e.name for e in entries if e.name != "null"
    )
    first, folder = (place / "folder/a").stat(), (place / "folder").stat()
    assert (place / "folder/b").read_bytes() == b"12345" and (place / "folder/b").stat().st_ino == first.st_ino
    assert (first.st_mode, first.st_mtime) == (cpio.REGULAR | 0o4755, 2000)
    assert (folder.st_mode, folder.st_mtime) == (cpio.DIRECTORY | 0o550, 1000)
    assert place.stat().st_mtime == 2000
    assert (place / "folder/empty").stat().st_size == 0
    assert (place / "link").readlink() == Path("folder/a") and (place / "pipe").is_fifo()
