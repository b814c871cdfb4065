# SPDX-License-Identifier: GPL-2.0-only
"""What a guest writes into a disk names no file of the host: formats come from the user, and chains of images are checked."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from keel import disks, imageformat, qemu
from keel.config import Settings
from keel.errors import KeelError
from keel.qemu import Disk

MEGABYTE = 1 << 20
QEMU_IMG = ["qemu-img", "create", "-q", "-f", "qcow2"]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the host's user that no guest is given."""
    path = tmp_path / "secret"
    path.write_bytes(b"secret" * MEGABYTE)
    return path


def over(path: Path, base: str, *, form: str = "raw") -> Path:
    """An image over a name that qemu-img need not be able to open."""
    subprocess.run([*QEMU_IMG, "-u", "-F", form, "-b", base, str(path), "1M"], check=True)
    return path


def with_data_file(path: Path, data: Path) -> Path:
    subprocess.run([*QEMU_IMG, "-o", f"data_file={data},data_file_raw=on", str(path), "1M"], check=True)
    return path


def without_backing_format(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    at = data.index(imageformat.BACKING_FORMAT.to_bytes(4, "big"))
    data[at : at + 4] = b"none"
    path.write_bytes(data)
    return path


def refused(settings: Settings, path: Path, form: str | None = imageformat.CHAIN) -> str:
    with pytest.raises(KeelError) as caught:
        disks.examined(settings, path, form)
    line = caught.value.line()
    assert str(path) in line and "\n" not in line
    return line


@pytest.mark.parametrize("has_data_file", [False, True])
def test_what_a_guest_wrote_into_a_raw_disk_names_no_file(
    has_data_file: bool, secret: Path, tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """The header that a guest would write for the next run, to read and with --persist to write the host's file."""
    before, header = secret.read_bytes(), tmp_path / "header"
    drive = tmp_path / "drive.img"
    written = with_data_file(header, secret) if has_data_file else over(header, str(secret))
    secret.write_bytes(before)
    drive.write_bytes(written.read_bytes().ljust(MEGABYTE, b"\0"))
    for keep in (False, True):
        disk = disks.examined(settings, drive, keep=keep)
        assert disk == Disk(drive, "raw", keep=keep)
        options = qemu._devices(qemu.Guest(Path("kernel"), disks=(disk,)))[1]
        assert f"file={drive},id=disk0,format=raw" in options
    assert "begins like qcow2" in capsys.readouterr().err
    assert secret.read_bytes() == before
    with pytest.raises(KeelError, match="neither an ext4"):
        disks.examined(settings, drive, root=True)


def test_only_the_user_says_the_format(tmp_path: Path, settings: Settings) -> None:
    named = tmp_path / "a.qcow2"
    subprocess.run([*QEMU_IMG, str(named), "1M"], check=True)
    other = tmp_path / "a.img"
    other.write_bytes(named.read_bytes())
    assert disks.examined(settings, named).image_format == "qcow2"
    assert disks.examined(settings, named, "raw").image_format == "raw"
    assert disks.examined(settings, other).image_format == "raw"
    assert disks.examined(settings, other, "qcow2").image_format == "qcow2"


@pytest.mark.parametrize("form", [None, "qcow2"])
@pytest.mark.parametrize("keep", [False, True])
def test_an_image_of_somebody_else_shows_no_file_of_the_host(
    form: str | None, keep: bool, secret: Path, tmp_path: Path, settings: Settings
) -> None:
    """Its maker chose what it is over; it is the user who says that this is meant."""
    image = over(tmp_path / "a.qcow2", str(secret))
    with pytest.raises(KeelError, match="which the guest would read") as caught:
        disks.examined(settings, image, form, keep=keep)
    assert f"chain:{image} takes" in caught.value.remedy
    assert disks.examined(settings, image, imageformat.CHAIN).image_format == "qcow2"
    middle = over(tmp_path / "b.qcow2", str(image), form="qcow2")
    assert "which the guest would read" in refused(settings, middle, form)


def test_a_raw_file_is_no_qcow2_by_its_name(secret: Path, settings: Settings) -> None:
    named = secret.rename(secret.with_suffix(".qcow2"))
    assert f"raw:{named}" in refused(settings, named)


@pytest.mark.parametrize(
    "name", ["json:{}", "nbd:localhost:1", "file:a", "http://localhost/a", 'json:{"driver":"raw","file":{}}', "fat:rw:/tmp"]
)
def test_a_protocol_is_not_followed(name: str, tmp_path: Path, settings: Settings) -> None:
    assert "not named as a file" in refused(settings, over(tmp_path / "a.qcow2", name))
    base = over(tmp_path / "base.qcow2", name)
    assert "not named as a file" in refused(settings, over(tmp_path / "b.qcow2", str(base), form="qcow2"))


def test_a_data_file_is_not_followed(secret: Path, tmp_path: Path, settings: Settings) -> None:
    before = secret.read_bytes()
    image = with_data_file(tmp_path / "a.qcow2", secret)
    secret.write_bytes(before)
    assert "another file" in refused(settings, image)
    assert "another file" in refused(settings, over(tmp_path / "b.qcow2", str(image), form="qcow2"))
    assert secret.read_bytes() == before


def test_the_format_of_what_an_image_is_over_stands_in_its_header(secret: Path, tmp_path: Path, settings: Settings) -> None:
    """QEMU would look for it in the content, which a guest may have written."""
    image = without_backing_format(over(tmp_path / "a.qcow2", str(secret)))
    assert "is not in its header" in refused(settings, image)
    assert "is not in its header" in refused(settings, over(tmp_path / "b.qcow2", str(image), form="qcow2"))
    assert "'vmdk'" in refused(settings, over(tmp_path / "c.qcow2", str(secret), form="vmdk"))


def test_what_is_over_a_raw_image_does_not_parse_it(secret: Path, tmp_path: Path, settings: Settings) -> None:
    base = over(tmp_path / "base.img", "json:{}")
    image = over(tmp_path / "a.qcow2", str(base))
    assert disks.examined(settings, image, imageformat.CHAIN).image_format == "qcow2"


def test_a_chain_is_followed_as_qemu_does(tmp_path: Path, settings: Settings) -> None:
    """Relative to the image that names it; and each file once."""
    (folder := tmp_path / "folder").mkdir()
    (folder / "base.img").write_bytes(bytes(MEGABYTE))
    over(folder / "middle.qcow2", "base.img")
    top = over(tmp_path / "top.qcow2", "folder/middle.qcow2", form="qcow2")
    assert disks.examined(settings, top, imageformat.CHAIN) == Disk(top, "qcow2")
    chain = json.loads(subprocess.check_output(["qemu-img", "info", "--backing-chain", "--output=json", "-f", "qcow2", str(top)]))
    assert [Path(image["filename"]).name for image in chain] == ["top.qcow2", "middle.qcow2", "base.img"]
    over(folder / "middle.qcow2", str(top), form="qcow2")
    assert "loop" in refused(settings, top)
    over(folder / "middle.qcow2", "/dev/zero")
    assert "no file" in refused(settings, top)


@pytest.mark.parametrize("compat", ["0.10", "1.1"])
def test_both_versions_of_the_header_are_read(compat: str, secret: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.qcow2"
    options = f"compat={compat},backing_file={secret},backing_fmt=raw"
    subprocess.run([*QEMU_IMG, "-o", options, str(path), "1M"], check=True)
    header = imageformat.check_chain(path)
    assert (header.backing_name, header.backing_format) == (str(secret), "raw")


def test_random_headers_are_taken_or_refused(secret: Path, tmp_path: Path) -> None:
    """With any one byte of the header changed: no other end than a refusal, and never another file."""
    path = over(tmp_path / "a.qcow2", str(secret))
    whole = path.read_bytes()
    for at in range(0x120):
        for value in (0, 1, 0x7F, 0xFF):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                header = imageformat.check_chain(path)
            except KeelError:
                continue
            assert header.backing_name in ("", os.fspath(secret))


@pytest.mark.parametrize(
    ("text", "form", "file"),
    [
        ("root.cpio", None, "root.cpio"),
        ("root", None, "root"),
        ("root.img", "raw", "root.img"),
        ("root.qcow2", "qcow2", "root.qcow2"),
        ("qcow2:root", "qcow2", "root"),
        ("chain:root", "chain", "root"),
        ("raw:root.cpio", "raw", "root.cpio"),
        ("./raw:root", None, "raw:root"),
    ],
)
def test_a_root_is_a_disk_by_its_name_or_by_what_is_said(text: str, form: str | None, file: str) -> None:
    assert imageformat.of_root(text) == (form, Path(file))


def test_a_directory_is_no_disk(tmp_path: Path) -> None:
    place = tmp_path / "a.img"
    place.mkdir()
    assert imageformat.of_root(str(place)) == (None, place)
