# SPDX-License-Identifier: GPL-2.0-only
"""A layer's disk: debugfs makes of the base's file system what the layer's archive says, and a failure leaves nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from keel import attributes, cpio, layerarchive, layerdisk, packages
from keel.config import Settings
from keel.errors import KeelError

from .test_layerarchive import BASE, FILE, FOLDER, LINK, WHOLE, write

# Each is made after one in another folder.
STRANGE = [
    cpio.Entry("etc/one", FILE, links=2, inode=902),
    cpio.Entry("two", FILE, links=2, inode=902),
    cpio.Entry("etc/three", FILE),
    cpio.Entry("folder", FOLDER),
    cpio.Entry("etc/four", FILE),
    cpio.Entry("link", LINK, b"../etc/same"),
    cpio.Entry("etc/five", FILE),
    cpio.Entry("pipe", cpio.FIFO | 0o600),
    cpio.Entry("etc/six", FILE),
    cpio.Entry('a "b" (c) ő', FILE, b"strange", mtime=1_700_000_000),
    cpio.Entry("empty", FILE),
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The disk of the base of test_layerarchive; its archive and the layer's are beside it."""
    disk = tmp_path / "base.ext4"
    archive = write(tmp_path / "base.cpio", BASE)
    tree = tmp_path / "tree"
    tree.mkdir()
    script = f'{sys.executable} -m keel.unpack "$0" "$1" && "$2" -q -F -t ext4 -d "$1" "$3" 16M'
    words = [str(archive), str(tree), packages.program("mke2fs"), str(disk)]
    tools = {"PYTHONPATH": str(Path(layerdisk.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    subprocess.run(["fakeroot", "sh", "-c", script, *words], check=True, env=tools)
    layerarchive.difference(archive, write(tmp_path / "whole.cpio", [*WHOLE, *STRANGE]), tmp_path / "layer.cpio")
    return disk


def debugfs(disk: Path, request: str) -> str:
    command = [packages.program("debugfs"), "-R", request, str(disk)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make(settings: Settings, base: Path, layer: Path) -> Path:
    disk = base.with_name("layer.qcow2")
    layerdisk.make(settings, base.with_suffix(".cpio"), base, layer, disk)
    return disk


def test_the_disk_has_the_files_of_the_layer(base: Path, settings: Settings, tmp_path: Path) -> None:
    disk, raw = make(settings, base, tmp_path / "layer.cpio"), tmp_path / "raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(disk), str(raw)], check=True)
    subprocess.run([packages.program("e2fsck"), "-f", "-n", str(raw)], check=True)
    folders = {"": debugfs(raw, "ls -p /"), "etc/": debugfs(raw, "ls -p /etc"), "vi/": debugfs(raw, "ls -p /vi")}
    found = {
        folder + name: (int(mode, 8), int(uid))
        for folder, listing in folders.items()
        for mode, uid, name in re.findall(r"^/\d+/(\d+)/(\d+)/\d+/(.*)/\d*/$", listing, re.MULTILINE)
        if name not in (".", "..", "lost+found")
    }
    wanted = {entry.name: (entry.mode, entry.uid) for entry in [*WHOLE, *STRANGE] if entry.name != "dev/null"}
    assert found == wanted
    assert debugfs(raw, "cat /perl6") == "perl" and debugfs(raw, "cat /etc/changed") == "new"
    assert "Links: 3" in debugfs(raw, "stat /perl5")
    assert 'link dest: "../etc/same"' in debugfs(raw, "stat /link")
    assert f"mtime: {1_700_000_000:#x}" in debugfs(raw, 'stat "a ""b"" (c) ő"')
    assert not list(tmp_path.glob("layer.[fn]*"))


def test_attributes_are_on_the_disk(base: Path, settings: Settings, tmp_path: Path) -> None:
    """Those of a file that is changed, and of one that was not there; a folder that stays gets and loses them."""
    value, raw = bytes.fromhex("01000002ffffffff00000000ff01000000000000"), tmp_path / "raw"
    access = bytes.fromhex("0200000001000700ffffffff04000500ffffffff20000500ffffffff")
    new = cpio.Entry("a (b) ő", FILE, b"new")
    kept = {"etc/changed": {attributes.CAPABILITY: value}, "etc": {"system.posix_acl_default": access}}
    whole = {**kept, "a (b) ő": {attributes.CAPABILITY: value}, "etc": {"system.posix_acl_access": access}}
    packed(tmp_path / "with.cpio", BASE, kept)
    packed(tmp_path / "without.cpio", [*BASE, new], whole)
    for archive in ("with", "without"):
        layer = tmp_path / "layer.cpio"
        layerarchive.difference(base.with_suffix(".cpio"), tmp_path / f"{archive}.cpio", layer)
        disk = make(settings, base, layer)
        (tmp_path / f"{archive}.cpio").replace(base.with_suffix(".cpio"))
        subprocess.run(["qemu-img", "convert", "-O", "raw", str(disk), str(raw)], check=True)
        raw.replace(base)
    subprocess.run([packages.program("e2fsck"), "-f", "-n", str(base)], check=True)
    for name in ("etc/changed", "a (b) ő"):
        out = tmp_path / "value"
        debugfs(base, f'ea_get -f {out} "/{name}" {attributes.CAPABILITY}')
        assert out.read_bytes() == value
    assert "posix_acl_access" in debugfs(base, "ea_list /etc") and "posix_acl_default" not in debugfs(base, "ea_list /etc")
    assert attributes.CAPABILITY not in debugfs(base, "ea_list /etc/same") and attributes.FOLDER not in debugfs(base, "ls -p /")


def packed(path: Path, entries: list[cpio.Entry], values: dict[str, dict[str, bytes]]) -> None:
    """Write an archive of files with attributes."""
    writer = attributes.Writer()
    parts = [writer.entry(entry) + writer.notes(entry.name, values.get(entry.name, {})) for entry in entries]
    path.write_bytes(b"".join([*parts, writer.end()]))


def test_what_a_killed_command_has_left_does_not_matter(base: Path, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "layer.files").mkdir()
    (tmp_path / "layer.files" / "copy").write_text("not whole")
    assert make(settings, base, tmp_path / "layer.cpio").exists() and not (tmp_path / "layer.files").exists()


def test_a_base_that_is_not_the_layer_s_is_refused(base: Path, settings: Settings, tmp_path: Path) -> None:
    subprocess.run([packages.program("debugfs"), "-w", "-R", "rm /etc/changed", str(base)], check=True, capture_output=True)
    with pytest.raises(KeelError):
        make(settings, base, tmp_path / "layer.cpio")
    assert sorted(path.name for path in tmp_path.iterdir() if "layer" in path.name) == ["layer.cpio"]


def test_a_name_is_no_command(base: Path, settings: Settings, tmp_path: Path) -> None:
    """A line feed would begin the next command, which could read or write files of the host."""
    layer = write(tmp_path / "layer.cpio", [cpio.Entry("a\nwrite /etc/passwd b", FILE, b"x")])
    with pytest.raises(KeelError, match="cannot have the file"):
        make(settings, base, layer)
    assert not base.with_name("layer.qcow2").exists()
