# SPDX-License-Identifier: GPL-2.0-only
"""The format of a disk image, which the user gives, and the backing files of a qcow2 image.

A guest can write anything into a raw image, also the header of another format. Such a header can name files of the host that
QEMU would open. So the format never comes from the content. An image that comes from elsewhere can name such files, too: another
file is followed only where the user says `chain`, and only as far as it is checked here.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import KeelError

RAW, QCOW2 = "raw", "qcow2"
FORMATS = (RAW, QCOW2)
# The user's word for qcow2 over other images. It is not QEMU's.
CHAIN = "chain"
WORDS = (*FORMATS, CHAIN)
# The suffixes by which a root file is a disk and not an archive.
ROOT_SUFFIXES = {".img": RAW, ".raw": RAW, ".ext4": RAW, ".qcow2": QCOW2}
QCOW2_MAGIC = b"QFI\xfb"

# The header of a qcow2 image (QEMU's docs/interop/qcow2.txt); numbers are big-endian.
_VERSION, _BACKING_AT, _BACKING_LENGTH, _CLUSTER_BITS = slice(4, 8), slice(8, 16), slice(16, 20), slice(20, 24)
_TABLE_ENTRIES, _TABLE_AT, _TABLE_ENTRY_BYTES = slice(36, 40), slice(40, 48), 8
_INCOMPATIBLE, _HEADER_LENGTH = slice(72, 80), slice(100, 104)
_HEADER_LENGTH_OF_2, _LEAST_HEADER_LENGTH_OF_3 = 72, 104
_CLUSTER_BITS_ALLOWED = range(9, 22)
_LONGEST_NAME = 1023
_HAS_DATA_FILE = 1 << 2
# Extensions of the header: each a type, a length, and the data at a multiple of 8 bytes.
_EXTENSION_HEAD, _EXTENSION_ALIGNMENT = 8, 8
_END, BACKING_FORMAT, _DATA_FILE = 0, 0xE2792ACA, 0x44415441


def of_name(path: Path) -> str:
    """The format of a disk that the user named without one."""
    return QCOW2 if path.suffix == ".qcow2" else RAW


def said(text: str) -> tuple[str | None, Path]:
    """Format, where one is said, and file of `[FORMAT:]FILE`."""
    word, colon, rest = text.partition(":")
    return (word, Path(rest)) if colon and word in WORDS else (None, Path(text))


def of_root(text: str) -> tuple[str | None, Path]:
    """The same of a root; the format of a directory or an archive is None. A given format means a disk."""
    form, path = said(text)
    if form is None and not path.is_dir():
        form = ROOT_SUFFIXES.get(path.suffix)
    return form, path


@dataclass(frozen=True)
class Header:
    """A qcow2 image's header: the image's least length, and its backing file."""

    least_bytes: int
    backing_name: str = ""
    backing_format: str = RAW


def check_alone(path: Path, remedy: str) -> Header:
    """The header of a qcow2 image that is over no other; KeelError with this remedy where it is."""
    header = read_header(path, path)
    if header.backing_name:
        raise _refused(path, f"it is over another file, {header.backing_name!r}, which the guest would read", remedy)
    return header


def check_chain(path: Path) -> Header:
    """The header of a qcow2 image, after a check of all its backing files; KeelError says what is not supported."""
    header = first = read_header(path, path)
    file, seen = path, {_identity(path)}
    while header.backing_name:
        file = file.absolute().parent / header.backing_name
        if not file.is_file():
            raise _refused(path, f"it is over {str(file)!r}, which is no file")
        if _identity(file) in seen:
            raise _refused(path, f"it is over itself, in a loop by {str(file)!r}")
        seen.add(_identity(file))
        if header.backing_format == RAW:
            break
        header = read_header(file, path)
    return first


def read_header(file: Path, path: Path) -> Header:
    """The header of a qcow2 image, for which the user gave `path`."""
    try:
        with file.open("rb") as opened:
            data = opened.read(1 << _CLUSTER_BITS_ALLOWED[-1])
    except OSError as error:
        raise KeelError(f"{file} cannot be read: {error.strerror or error}") from error
    if not data.startswith(QCOW2_MAGIC):
        raise _refused(path, f"{file} has no header of qcow2", f"raw:{file} takes it as it is" if file == path else "")
    if len(data) < _LEAST_HEADER_LENGTH_OF_3:
        raise _refused(path, "it is cut off")
    if _number(data, _CLUSTER_BITS) not in _CLUSTER_BITS_ALLOWED:
        raise _refused(path, "its header is damaged")
    data = data[: 1 << _number(data, _CLUSTER_BITS)]
    least = _number(data, _TABLE_AT) + _number(data, _TABLE_ENTRIES) * _TABLE_ENTRY_BYTES
    extensions = _extensions(path, data)
    if _has_data_file(data) or any(kind == _DATA_FILE for kind, _ in extensions):
        raise _refused(path, "its data are in another file")
    name = _backing_name(path, data)
    return Header(least, name, _backing_format(path, name, extensions)) if name else Header(least)


def _has_data_file(data: bytes) -> bool:
    return _number(data, _VERSION) > 2 and bool(_number(data, _INCOMPATIBLE) & _HAS_DATA_FILE)


def _backing_name(path: Path, data: bytes) -> str:
    """The name of this image's backing file, as QEMU interprets it; empty if there is none."""
    at, length = _number(data, _BACKING_AT), _number(data, _BACKING_LENGTH)
    if at == 0 or length == 0:
        return ""
    if length > _LONGEST_NAME or at + length > len(data):
        raise _refused(path, "its header is damaged")
    name = data[at : at + length]
    # As QEMU does: a colon before the first slash makes it a protocol.
    if b":" in name.partition(b"/")[0] or b"\0" in name:
        raise _refused(path, f"what it is over, {os.fsdecode(name)!r}, is not named as a file")
    return os.fsdecode(name)


def _backing_format(path: Path, name: str, extensions: Sequence[tuple[int, bytes]]) -> str:
    formats = [data.decode("latin-1") for kind, data in extensions if kind == BACKING_FORMAT]
    if len(formats) != 1:
        remedy = f"qemu-img rebase -u -F FORMAT -b {name!r} {path} says it"
        raise _refused(path, f"the format of what it is over, {name!r}, is not in its header", remedy)
    if formats[0] not in FORMATS:
        raise _refused(path, f"the format of what it is over is {formats[0]!r}, not {' or '.join(FORMATS)}")
    return formats[0]


def _extensions(path: Path, data: bytes) -> list[tuple[int, bytes]]:
    """Type and data of each extension of the header; they end before the name of the backing file."""
    version = _number(data, _VERSION)
    at = _HEADER_LENGTH_OF_2 if version == 2 else _number(data, _HEADER_LENGTH)
    if version not in (2, 3) or at < (_HEADER_LENGTH_OF_2 if version == 2 else _LEAST_HEADER_LENGTH_OF_3):
        raise _refused(path, "its header is damaged")
    end, found = min(_number(data, _BACKING_AT) or len(data), len(data)), []
    while at + _EXTENSION_HEAD <= end:
        kind, length = _number(data, slice(at, at + 4)), _number(data, slice(at + 4, at + 8))
        at += _EXTENSION_HEAD
        if kind == _END:
            break
        if length > end - at:
            raise _refused(path, "its header is damaged")
        found.append((kind, data[at : at + length]))
        at += -(-length // _EXTENSION_ALIGNMENT) * _EXTENSION_ALIGNMENT
    return found


def _number(data: bytes, place: slice) -> int:
    return int.from_bytes(data[place], "big")


def _identity(path: Path) -> tuple[int, int]:
    info = path.stat()
    return info.st_dev, info.st_ino


def _refused(path: Path, reason: str, remedy: str = "") -> KeelError:
    return KeelError(f"{path} is not a usable disk image: {reason}", remedy)
