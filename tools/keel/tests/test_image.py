# SPDX-License-Identifier: GPL-2.0-only
"""The default root: the command that makes it, and its conversion to an archive."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from keel import cpio, image, tararchive
from keel.debian import DEFAULT_MIRROR, Mirror

MIRROR = Mirror("http://m/debian", "http://m/security")


def test_the_root_has_the_promised_packages() -> None:
    argv = image.mmdebstrap_arguments(Path("/c/root.tar"), "unshare", [], MIRROR)
    included = next(word for word in argv if word.startswith("--include=")).split("=")[1].split(",")
    promised = {"bash", "coreutils", "python3", "gcc", "perl", "sqlite3", "git", "redis-server"}
    assert promised <= set(included)
    assert "--mode=unshare" in argv
    assert argv[-5:] == ["bookworm", "/c/root.tar", *MIRROR.sources()]


@pytest.mark.parametrize(
    "archive",
    ["http://user:secret@near/debian", "mirror+file:/etc/apt/mirrors/debian.list", "file:/srv/debian", "http://m/debian"],
)
def test_how_the_host_reaches_its_mirror_stays_there(archive: str, tmp_path: Path) -> None:
    """The hooks run on what mmdebstrap leaves: the settings that it was given, and its sources."""
    access = 'Acquire::http::Proxy "http://user:secret@proxy:3128";'
    argv = image.mmdebstrap_arguments(tmp_path / "root.tar", "root", [access], Mirror(archive, MIRROR.security))
    root = tmp_path / "root"
    files = ("etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/sources.list", "etc/hostname", "etc/shadow", "usr/local/sbin/reboot")
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("\n".join(argv))
    for hook in (word.removeprefix("--customize-hook=") for word in argv if word.startswith("--customize-hook=")):
        subprocess.run(["sh", "-c", hook, "sh", str(root)], check=True)
    left = "".join(path.read_text() for path in (root / "etc" / "apt").rglob("*") if path.is_file())
    assert "Install-Recommends" in left and "Acquire" not in left and "secret" not in left and "file:" not in left
    expected = archive if archive == "http://m/debian" else DEFAULT_MIRROR
    assert (root / "etc/apt/sources.list").read_text().splitlines() == Mirror(expected, MIRROR.security).sources()


def test_a_tar_file_becomes_an_archive(tmp_path: Path) -> None:
    tar, archive = tmp_path / "root.tar", tmp_path / "root.cpio"
    with tarfile.open(tar, "w") as out:
        add(out, "./", tarfile.DIRTYPE)
        add(out, "./a", tarfile.REGTYPE, data=b"12345", uid=7, mode=0o4755)
        add(out, "./b", tarfile.LNKTYPE, link="./a")
        add(out, "./c", tarfile.SYMTYPE, link="a")
        add(out, "./null", tarfile.CHRTYPE)
    tararchive.to_cpio(tar, archive)
    with archive.open("rb") as file:
        entries = {entry.name: entry for entry in cpio.read_headers(file)}
    assert {name: entry.size for name, entry in entries.items()} == {
        "a": 5,
        "b": 0,
        "c": 1,
        "null": 0,
    }
    assert entries["a"].mode == cpio.REGULAR | 0o4755
    assert entries["b"].mode == entries["a"].mode
    assert entries["a"].uid == 7
    assert inode(archive, "a") == inode(archive, "b") != inode(archive, "c")


def add(
    out: tarfile.TarFile,
    name: str,
    kind: bytes,
    data: bytes = b"",
    link: str = "",
    uid: int = 0,
    mode: int = 0o755,
) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.uid, info.mode, info.size = kind, link, uid, mode, len(data)
    out.addfile(info, io.BytesIO(data))


def inode(archive: Path, name: str) -> bytes:
    data = archive.read_bytes()
    header = data.index(f"{name}\0".encode()) - cpio.HEADER_BYTES
    return data[header + 6 : header + 14]
