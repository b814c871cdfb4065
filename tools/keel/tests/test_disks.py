# SPDX-License-Identifier: GPL-2.0-only
"""Disk images: whole ones are taken, broken ones and ones in use are refused in one line."""

import errno
import fcntl
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from keel import attributes, config, cpio, disks, image, layers, overlay, packages, unpack
from keel.commands import root
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


def refused(settings: Settings, path: Path, form: str | None = None) -> str:
    with pytest.raises(KeelError) as caught:
        disks.examined(settings, path, form, root=True)
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
    assert str(ext4) in refused(settings, over, "chain")
    subprocess.run(["qemu-img", "rebase", "-u", "-F", "qcow2", "-b", str(over), str(over)], check=True)
    assert "loop" in refused(settings, over, "chain")


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
        ("ahci:chain:a.img", "ahci", "chain", "a.img"),
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
    said = capsys.readouterr().err
    assert f"a new persistent root begins: {first}" in said and "others" not in said
    second = disks.default_root(settings, layers.Wanted(("gdb",)), keep=True).path
    assert second != first and f"others are {first}" in capsys.readouterr().err
    disks.default_root(settings, keep=True)
    assert "persistent root" not in capsys.readouterr().err


def test_a_persistent_root_is_a_users_data_and_one_clones(cached: Path, settings: Settings, tmp_path: Path) -> None:
    """Not in the clone nor the cache, both of which are cleaned; and two clones never write one image, whatever their names."""
    kept = disks.default_root(settings, keep=True).path
    assert kept.parent == settings.data / "roots"
    others = [replace(settings, repository=tmp_path / name) for name in ("a/keel", "b/keel", "a/keel - x", "installed")]
    installed = replace(settings, repository=config.INSTALLED)
    made = {kept, *(disks.default_root(clone, keep=True).path for clone in (*others, installed))}
    assert len(made) == 6 and {path.parent for path in made} == {kept.parent}
    for clone in (settings, *others, installed):
        assert len(disks.persistent(clone)) == 1
    assert sorted(disks.all_persistent(settings)) == sorted(made)


def test_a_persistent_root_at_the_old_place_is_used_there(
    cached: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, with the command that moves it, after which the same image is used."""
    disks.default_root(settings, keep=False)
    old = settings.build / "images" / f"{cached.stem}-persistent.qcow2"
    old.parent.mkdir(parents=True)
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", str(cached), str(old)], check=True)
    assert disks.default_root(settings, keep=True) == Disk(old, "qcow2", keep=True)
    move = re.search("mv .*?(?= moves)", capsys.readouterr().err)
    assert move
    subprocess.run(["sh", "-c", move[0]], check=True)
    kept = disks.default_root(settings, keep=True).path
    assert kept.parent == settings.data / "roots" and disks.all_persistent(settings) == [kept]
    assert not capsys.readouterr().err


def test_a_home_that_cannot_be_written_is_one_line(cached: Path, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KeelError, match=r"cannot write in .*file/roots: Not a directory") as caught:
        disks.default_root(replace(settings, data=tmp_path / "file"), keep=True)
    assert "XDG_DATA_HOME" in caught.value.remedy


def test_a_full_home_leaves_no_half_of_a_root(settings: Settings) -> None:
    def fail(aside: Path) -> None:
        aside.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(KeelError, match="No space left on device"):
        disks.kept_root(settings, "x", fail)
    assert disks.all_persistent(settings) == [] and not list(settings.kept_roots.glob("*.new"))


def test_a_kept_root_has_no_other_file_in_its_header(cached: Path, settings: Settings) -> None:
    kept = disks.default_root(settings, keep=True).path
    subprocess.run(["qemu-img", "rebase", "-u", "-F", "raw", "-b", "/etc/passwd", str(kept)], check=True)
    with pytest.raises(KeelError, match="was made over /etc/passwd"):
        disks.default_root(settings, keep=True)


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


def test_clean_leaves_what_guests_wrote_among_the_data(
    cached: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """--persistent removes this clone's alone, unless a guest has one."""
    mine = disks.default_root(settings, keep=True)
    other = disks.default_root(replace(settings, repository=Path("/other/keel")), keep=True).path
    clean(settings, cache=True, persistent=False)
    assert mine.path.exists() and f"{mine.path}, what guests wrote" in capsys.readouterr().err
    with disks.held([mine]), pytest.raises(KeelError, match="in use"):
        clean(settings, cache=False, persistent=True)
    clean(settings, cache=False, persistent=True)
    assert not mine.path.exists() and other.exists()


def test_all_kept_roots_are_listed_and_removed_by_name(
    cached: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = disks.default_root(settings, keep=True)
    other = disks.default_root(replace(settings, repository=Path("/other/keel")), keep=True)
    old = settings.build / "images" / "debian-persistent.qcow2"
    old.parent.mkdir(parents=True)
    old.touch()
    root.show(settings)
    rows = capsys.readouterr().out
    assert all(disk.path.stem in rows for disk in (mine, other)) and "of another clone" in rows and str(old) in rows
    with disks.held([other]), pytest.raises(KeelError, match="in use"):
        root.remove(settings, [mine.path.stem, other.path.stem])
    root.remove(settings, [other.path.stem, old.stem])
    assert disks.all_persistent(settings) == [mine.path]


@pytest.mark.parametrize("name", ["images/x-persistent.qcow2", "run/keel/lock", "kernel.elf"])
def test_the_cache_is_cleaned_without_what_the_package_keeps_there(name: str, settings: Settings) -> None:
    """Its roots, and the slots of its guests that run."""
    kept, fetched = settings.cache / "build" / name, settings.cache / "roots" / "x.cpio"
    for path in (kept, fetched, settings.build / "file"):
        path.parent.mkdir(parents=True)
        path.touch()
    clean(settings, cache=True, persistent=False)
    assert kept.exists() and not fetched.exists() and not settings.build.exists()
    clean(replace(settings, build=settings.cache / "build"), cache=True, persistent=True)
    assert not settings.cache.exists()


def test_an_image_is_locked_before_it_is_looked_at(qcow2: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its check repairs it, and would meet the emulator of another run."""
    monkeypatch.setattr(disks, "_ask", lambda *arguments, **others: pytest.fail("it was opened"))
    with disks.held([Disk(qcow2, "qcow2", keep=True)]), pytest.raises(KeelError, match="in use"):
        disks.examined(settings, qcow2, keep=False)
    with disks.held([Disk(qcow2, "qcow2")]), pytest.raises(KeelError, match="in use"):
        disks.examined(settings, qcow2, keep=True)


def test_on_a_networks_file_system_the_emulators_locks_count(
    ext4: Path, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a lock of the file is one of its bytes, which needs a descriptor to write, and would refuse the emulator."""
    device = ext4.stat().st_dev
    place = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    lines = (f"30 1 0:99 / /proc rw - proc proc rw\n31 1 {place} / /home rw,relatime shared:1 - {{}} host:/home rw\n").format
    monkeypatch.setattr(disks, "MOUNTS", mounts)
    for kind, locks in (("ext4", True), ("nfs4", False), ("nfs", False), ("cifs", False)):
        mounts.write_text(lines(kind))
        with disks.held([Disk(ext4, "raw", keep=True)]), ext4.open("rb") as file:
            if locks:
                with pytest.raises(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            else:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
