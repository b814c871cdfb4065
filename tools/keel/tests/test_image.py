# SPDX-License-Identifier: GPL-2.0-only
"""The default root: the command that makes it, and its conversion to an archive."""

import io
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from keel import attributes, cpio, image, layerarchive, packages, tararchive
from keel.config import Settings
from keel.debian import DEFAULT_MIRROR, Mirror
from keel.errors import KeelError

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


def test_packages_are_installed_into_the_base_alone() -> None:
    argv = image.mmdebstrap_arguments(Path("/c/root.tar"), "root", [], MIRROR, ("gdb", "vim-tiny"), Path("/c/a b.tar"))
    assert not [word for word in argv if word.startswith("--include")]
    assert "--setup-hook=tar-in '/c/a b.tar' /" in argv
    install = next(at for at, word in enumerate(argv) if "apt-get" in word)
    assert argv[install].endswith(" install gdb vim-tiny") and " --no-remove " in argv[install]
    # What apt-get needs on this host is removed after it.
    assert install < min(at for at, word in enumerate(argv) if "sources.list" in word or "99mmdebstrap" in word)


def test_packages_of_the_other_architecture_are_unpacked_apart(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a folder beside all that the base has; only the others are installed there."""
    ran: list[list[str]] = []

    def run(settings: Settings, more: Sequence[str], argv: list[str], what_for: str = "") -> None:
        ran.append(argv)
        apart = "--architectures=i386" in argv
        with tarfile.open(next(word for word in argv if word.startswith(str(tmp_path)) and word.endswith(".tar")), "w") as out:
            add(out, "./dev", tarfile.DIRTYPE)
            add(out, "./dev/null", tarfile.CHRTYPE)
            add(out, "./bin/cat", tarfile.REGTYPE, data=b"narrow" if apart else b"wide!")
            add(out, "./bin/dog", tarfile.LNKTYPE, link="./bin/cat")

    monkeypatch.setattr(image, "_run_mmdebstrap", run)
    monkeypatch.setattr(packages, "require", lambda settings, needs: None)
    monkeypatch.setattr(image, "host_access_settings", list)
    base, whole = tmp_path / "base.cpio", tmp_path / "whole.cpio"
    image.make_archive(settings, base)
    image.make_archive(settings, whole, ("coreutils:i386",), base)
    assert len(ran) == 2 and {"--variant=extract", "--include=coreutils"} <= set(ran[1])
    sizes = {entry.name: entry.size for entry in layerarchive.entries(whole)}
    own = {entry.name: entry.size for entry in layerarchive.entries(base)}
    assert own == {"dev": 0, "dev/null": 0, "bin/cat": 5, "bin/dog": 0}
    apart: dict[str, int | None] = {"i386": 0, "i386/dev": 0, "i386/bin/cat": 6, "i386/bin/dog": 0}
    assert sizes == own | apart
    assert inode(whole, "i386/bin/cat") == inode(whole, "i386/bin/dog") != inode(whole, "bin/cat")
    assert [path.name for path in tmp_path.glob("*.tar")] == []
    image.make_archive(settings, whole, ("coreutils:i386", "gdb"), base)
    assert any(word.endswith(" install gdb") for word in ran[2]) and "--include=coreutils" in ran[3]


def test_absolute_links_of_a_base_lead_to_its_copy(tmp_path: Path) -> None:
    """Without user name spaces; those to the host's own file systems stay."""
    tar, root = tmp_path / "a b.tar", tmp_path / "root"
    links = {
        "awk": "/etc/alternatives/awk",
        "null": "/dev/null",
        "mounts": "/proc/mounts",
        "device": "/devices",
        "bin": "usr/bin",
    }
    with tarfile.open(tar, "w") as out:
        add(out, "./usr/file", tarfile.REGTYPE, data=b"12345")
        add(out, "./usr/other", tarfile.LNKTYPE, link="./usr/file")
        for name, link in links.items():
            add(out, f"./{name}", tarfile.SYMTYPE, link=link)
    root.mkdir()
    argv = image.mmdebstrap_arguments(Path("/c/root.tar"), image.FAKECHROOT, [], MIRROR, ("gdb",), tar)
    setup = next(word.removeprefix("--setup-hook=") for word in argv if word.startswith("--setup-hook="))
    subprocess.run(["sh", "-c", setup, "sh", str(root)], check=True)
    led = {"awk": f"{root}/etc/alternatives/awk", "device": f"{root}/devices"}
    assert {name: str((root / name).readlink()) for name in links} == {**links, **led}
    assert (root / "usr" / "other").samefile(root / "usr" / "file")


def test_a_user_without_name_spaces_may_empty_the_machines_number() -> None:
    """systemd leaves the file read-only, and fakeroot does not make that writable."""
    argv = image.mmdebstrap_arguments(Path("/c/root.tar"), image.FAKECHROOT, [], MIRROR)
    writable, emptied = (next(at for at, word in enumerate(argv) if form in word) for form in ("chmod u+w", ": > "))
    assert argv[writable].endswith('"$1/etc/machine-id"') and writable < emptied
    assert not [word for word in image.mmdebstrap_arguments(Path("/c/root.tar"), "root", [], MIRROR) if "u+w" in word]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("E: Unable to locate package nonesuch\nE: Unable to locate package also\n", "no package also, nonesuch"),
        ("Error: Unable to locate package nonesuch\n", "no package nonesuch"),
        ("E: Package 'vim-gtk' has no installation candidate\n", "no package vim-gtk"),
        (
            "E: Failed to fetch http://m/main/Packages.xz  File has unexpected size (1 != 2). Mirror sync in progress? [IP: 1]\n",
            "http://m/main/Packages.xz is not what its index says (try again later",
        ),
        (
            "The following packages will be REMOVED:\n  libpam-systemd\n  systemd-sysv\n0 upgraded",
            "libpam-systemd systemd-sysv (",
        ),
    ],
)
def test_what_apt_refuses_is_said_in_one_line(log: str, words: str) -> None:
    error = image.explanation(f"Reading package lists...\n{log}E: apt-get failed\n")
    assert error and words in error.line() and "\n" not in error.line()


def test_a_package_that_another_architecture_lacks_is_said_so() -> None:
    error = image.explanation("E: Unable to locate package nonesuch\n", " for i386")
    assert error and "no package nonesuch for i386" in error.line()


def test_other_failures_are_not_explained() -> None:
    assert image.explanation("E: Failed to fetch http://m/debian: Connection refused\n") is None


def test_an_archive_becomes_the_tar_file_that_it_was(tmp_path: Path) -> None:
    tar, archive, again = tmp_path / "root.tar", tmp_path / "root.cpio", tmp_path / "again.cpio"
    with tarfile.open(tar, "w") as out:
        add(out, "./dev", tarfile.DIRTYPE)
        add(out, "./dev/null", tarfile.CHRTYPE)
        add(out, "./etc/apt/sources.list", tarfile.REGTYPE, data=b"deb")
        add(out, "./a", tarfile.REGTYPE, data=b"12345", uid=7, mode=0o4755)
        add(out, "./b", tarfile.LNKTYPE, link="./a")
        add(out, "./ő c", tarfile.SYMTYPE, link="a")
        add(out, "./pipe", tarfile.FIFOTYPE)
    tararchive.to_cpio(tar, archive)
    tararchive.from_cpio(archive, tar, lambda name: True)
    tararchive.to_cpio(tar, again)
    assert again.read_bytes() == archive.read_bytes()
    tararchive.from_cpio(archive, tar, lambda name: not image.MADE_AGAIN.match(name))
    with tarfile.open(tar) as found:
        assert found.getnames() == ["dev", "a", "b", "ő c", "pipe"]


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


# cap_net_raw+ep as Linux has it in an attribute, another with a byte that is no UTF-8, and an access list.
NET_RAW = {attributes.CAPABILITY: bytes.fromhex("0100000200200000000000000000000000000000")}
ALL = {attributes.CAPABILITY: bytes.fromhex("01000002ffffffff00000000ff01000000000000")}
ACCESS = {"system.posix_acl_default": bytes.fromhex("0200000001000700ffffffff04000500ffffffff20000500ffffffff")}


def test_attributes_of_files_are_kept(tmp_path: Path) -> None:
    """In the archive and back; those of a file with several names come once."""
    tar, archive, again = tmp_path / "root.tar", tmp_path / "root.cpio", tmp_path / "again.cpio"
    with tarfile.open(tar, "w", format=tarfile.PAX_FORMAT) as out:
        add(out, "./bin", tarfile.DIRTYPE, attributes=ACCESS)
        add(out, "./bin/ping", tarfile.REGTYPE, data=b"ping", attributes=NET_RAW)
        add(out, "./bin/ping4", tarfile.LNKTYPE, link="./bin/ping", attributes=NET_RAW)
        add(out, "./bin/all ő", tarfile.REGTYPE, attributes=ALL | ACCESS)
    tararchive.to_cpio(tar, archive, within=(tar, "i386"))
    own = {"bin": ACCESS, "bin/ping": NET_RAW, "bin/all ő": ALL | ACCESS}
    noted = own | {f"i386/{name}": values for name, values in own.items()}
    assert attributes_in(archive) == noted
    tararchive.from_cpio(archive, tar, lambda name: True)
    with tarfile.open(tar) as found:
        assert not [name for name in found.getnames() if attributes.is_ours(name)]
    tararchive.to_cpio(tar, again)
    assert attributes_in(again) == noted
    listed = subprocess.run(
        ["tar", "--xattrs", "--xattrs-include=*", "-tvvf", str(tar)], capture_output=True, text=True, check=True
    )
    assert listed.stdout.count(attributes.CAPABILITY) == 4


def attributes_in(archive: Path) -> dict[str, dict[str, bytes]]:
    """Those that an archive has, by the files that they are for."""
    values: dict[str, dict[str, bytes]] = {}
    with archive.open("rb") as file:
        for entry in cpio.chosen(file, lambda name: name):
            if found := attributes.noted(entry.name):
                values.setdefault(found[0], {})[found[1]] = entry.data
    return values


@pytest.mark.parametrize("header", ["SCHILY.xattr.user.mime_type", "SCHILY.xattr.trusted.overlay.opaque", "SCHILY.acl.access"])
def test_another_attribute_is_refused(header: str, tmp_path: Path) -> None:
    tar = tmp_path / "root.tar"
    with tarfile.open(tar, "w", format=tarfile.PAX_FORMAT) as out:
        add(out, "./etc/file", tarfile.REGTYPE, headers={header: "x", "SCHILY.xattr.security.selinux": "of the host"})
    with pytest.raises(KeelError, match=f"^/etc/file has an attribute that a root cannot keep: {header}"):
        tararchive.to_cpio(tar, tmp_path / "root.cpio")


def add(
    out: tarfile.TarFile,
    name: str,
    kind: bytes,
    data: bytes = b"",
    link: str = "",
    uid: int = 0,
    mode: int = 0o755,
    attributes: Mapping[str, bytes] | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    info = tarfile.TarInfo(name)
    held = {f"SCHILY.xattr.{key}": value.decode("utf-8", "surrogateescape") for key, value in (attributes or {}).items()}
    info.pax_headers = {**held, **(headers or {})}
    info.type, info.linkname, info.uid, info.mode, info.size = kind, link, uid, mode, len(data)
    out.addfile(info, io.BytesIO(data))


def inode(archive: Path, name: str) -> bytes:
    data = archive.read_bytes()
    header = data.index(f"{name}\0".encode()) - cpio.HEADER_BYTES
    return data[header + 6 : header + 14]
