# SPDX-License-Identifier: GPL-2.0-only
"""Unpacks a tar archive that a guest sends: it is a stranger's, and nothing outside of its place is read or written.

The archive is what GNU tar writes with --format=pax, --hard-dereference and without sparse files. Only files, directories and
symbolic links come out of it; all else is left out and counted. Nothing is kept in memory but one header.

Each name is taken apart, and each directory opened in its parent without following links. A file is complete when it appears
under its name. A symbolic link may lead to what the archive can hold: from its directory up to the top, and then down.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from .errors import KeelError

BLOCK = 512
RECORD = 20 * BLOCK
PIECE_BYTES = 1 << 20
# A header with a name and a link of PATH_MAX, and much more.
MOST_EXTENDED = 1 << 16
MOST_NAME = 4096
# No file system here keeps a later time.
MOST_SECONDS = 1 << 34
# Others than its owner cannot write what comes from a guest, and it changes nobody's rights.
MODE = 0o755
NUMBER = re.compile(rb"[ \0]*([0-7]{1,12})[ \0]*")
EXTENDED = re.compile(rb"(\d{1,6}) (\w[\w.]*)=")
TIME = re.compile(rb"(\d{1,12})(?:\.(\d{1,9})\d*)?")
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class EndsEarly(KeelError):
    """The stream ended within an archive: whoever sends it has failed, and may say why."""


@dataclass(frozen=True)
class Member:
    """One member of an archive, its name without the top's."""

    kind: bytes
    parts: tuple[bytes, ...]
    link: bytes
    mode: int
    size: int
    time_ns: int | None


class Archives:
    """Archives that follow each other in a stream; each can be read once, member by member."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._count = 0
        self._left = 0
        self._padding = 0

    def members(self) -> Iterator[Member]:
        """The members of the next archive. The data of one are read before the next, or are skipped."""
        more: dict[bytes, bytes] = {}
        while any(header := self._exactly(BLOCK)):
            member = _member(header, more)
            more = {}
            self._left, self._padding = member.size, -member.size % BLOCK
            if member.kind == b"x":
                if member.size > MOST_EXTENDED:
                    raise _broken("a header is too long")
                more = _extended(b"".join(self.data()))
            else:
                yield member
            for _ in self.data():
                pass
            self._exactly(self._padding)
        if any(self._exactly(BLOCK)):
            raise _broken("its end is none")
        self._exactly(-self._count % RECORD)

    def data(self) -> Iterator[bytes]:
        """The data of the member that was given last."""
        while self._left:
            piece = self._stream.read(min(PIECE_BYTES, self._left))
            if not piece:
                raise EndsEarly("what the guest sent ended too early")
            self._count += len(piece)
            self._left -= len(piece)
            yield piece

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) != size:
            raise EndsEarly("what the guest sent ended too early")
        self._count += size
        return data


def _broken(why: str) -> KeelError:
    return KeelError(f"what the guest sent is no archive: {why}", "is the guest's tar Debian's?")


def _number(field: bytes) -> int:
    """A number in octal digits; one of GNU's, in binary, is above what tar writes in this format."""
    if (found := NUMBER.fullmatch(field)) is None:
        raise _broken("a number is none")
    return int(found[1], 8)


def _member(header: bytes, more: Mapping[bytes, bytes]) -> Member:
    if _number(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        raise _broken("a sum is wrong")
    kind = header[156:157].replace(b"\0", b"0")
    name, link, prefix = (field.partition(b"\0")[0] for field in (header[:100], header[157:257], header[345:500]))
    name = more.get(b"path", prefix + b"/" + name if prefix else name)
    size = more.get(b"size")
    if size is not None and not re.fullmatch(rb"\d{1,18}", size):
        raise _broken("a size is none")
    if any(key.startswith(b"GNU.sparse") for key in more):
        kind = b"S"
    time = TIME.fullmatch(more.get(b"mtime", b"%d" % _number(header[136:148])))
    return Member(
        kind,
        _parts(name) if kind != b"x" else (),
        more.get(b"linkpath", link),
        _number(header[100:108]) & MODE,
        int(size) if size is not None else _number(header[124:136]),
        None if time is None or int(time[1]) > MOST_SECONDS else int(time[1]) * 10**9 + int((time[2] or b"").ljust(9, b"0")),
    )


def _parts(name: bytes) -> tuple[bytes, ...]:
    """The parts of a name; there is no way out of its directory."""
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if name.startswith(b"/") or b".." in parts or b"\0" in name or len(name) > MOST_NAME:
        raise KeelError(
            f"the guest sent the name {os.fsdecode(name[:MOST_NAME])!r}, which leads elsewhere", "nothing more is copied"
        )
    return parts


def _extended(data: bytes) -> dict[bytes, bytes]:
    """The records of an extended header, each with its length in front."""
    found = {}
    while data:
        start = EXTENDED.match(data)
        length = int(start[1]) if start else 0
        if start is None or not len(start[0]) < length <= len(data) or data[length - 1 : length] != b"\n":
            raise _broken("a header is none")
        found[start[2]] = data[len(start[0]) : length - 1]
        data = data[length:]
    return found


class Tree:
    """The place of one archive: a new name, or a directory of that name, in a directory that the user named."""

    def __init__(self, parent: int, name: str) -> None:
        self._parent = parent
        self._name = os.fsencode(name)
        # Those around the last member. One gets its mode and time when it is left: these could keep its files out, or change.
        self._open: list[tuple[tuple[bytes, ...], Member]] = []
        self._is_directory: bool | None = None
        # How many members were left out, and why the first one was.
        self.left_out = 0
        self.reason = ""

    def unpack(self, archives: Archives) -> None:
        """Unpack the next archive. Raises KeelError where it is broken, and OSError where it cannot be written."""
        for member in archives.members():
            self._take(member, archives)
        self._leave(())
        if self._is_directory is None:
            raise _broken("it is empty")

    def _leave(self, parts: tuple[bytes, ...]) -> None:
        """Finish the directories that this name is not in."""
        while self._open and self._open[-1][0] != parts[: len(self._open[-1][0])]:
            left, member = self._open.pop()
            with self._opened(left) as fd:
                os.fchmod(fd, member.mode)
                _set_time(fd, member)

    def _take(self, member: Member, archives: Archives) -> None:
        if self._is_directory is None:
            self._is_directory = member.kind == b"5" and not member.parts
            if not self._is_directory and member.kind != b"0":
                raise KeelError("the guest sent neither a file nor a directory", "devices and the like are not copied")
        elif not self._is_directory or not member.parts:
            raise _broken("it has more than what was asked for")
        parts = (self._name, *(member.parts if self._is_directory else ()))
        self._leave(parts)
        try:
            if member.kind == b"5":
                self._make_directory(parts, member)
            elif member.kind == b"0":
                with self._opened(parts[:-1]) as fd:
                    _write(fd, parts[-1], member, archives)
            elif member.kind == b"2" and _stays(member):
                with self._opened(parts[:-1]) as fd:
                    _link(fd, parts[-1], member)
            else:
                self._leave_out(parts, "leads out" if member.kind == b"2" else "is no file, directory or link")
        except OSError as error:
            if len(parts) == 1 or error.errno not in (errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
                raise
            self._leave_out(parts, "cannot replace what is there")

    def _leave_out(self, parts: tuple[bytes, ...], why: str) -> None:
        self.left_out += 1
        self.reason = self.reason or f"{os.fsdecode(b'/'.join(parts))!r} {why}"

    def _make_directory(self, parts: tuple[bytes, ...], member: Member) -> None:
        with self._opened(parts[:-1]) as fd:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parts[-1], 0o700, dir_fd=fd)
        with self._opened(parts) as fd:  # it is none, or a link: refused
            os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | 0o700)
        if not self._open or self._open[-1][0] != parts:
            self._open.append((parts, member))

    @contextmanager
    def _opened(self, parts: tuple[bytes, ...]) -> Iterator[int]:
        """The directory with these parts, none of which is a link."""
        fd = os.dup(self._parent)
        try:
            for part in parts:
                below = os.open(part, DIRECTORY_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)


def _stays(member: Member) -> bool:
    """Return whether a link's text goes up at most to the top, and then only down."""
    parts = [part for part in member.link.split(b"/") if part not in (b"", b".")]
    ups = next((count for count, part in enumerate(parts) if part != b".."), len(parts))
    downs = parts[ups:]
    return bool(parts) and not member.link.startswith(b"/") and b".." not in downs and ups < len(member.parts)


def _set_time(fd: int, member: Member) -> None:
    if member.time_ns is not None:
        os.utime(fd, ns=(member.time_ns, member.time_ns))


def _write(directory: int, name: bytes, member: Member, archives: Archives) -> None:
    """Write a file beside its name, and give it that when it is complete."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(name))
    new = b".keel-cp-" + os.urandom(8).hex().encode()
    fd = os.open(new, FILE_FLAGS, 0o600, dir_fd=directory)
    try:
        with os.fdopen(fd, "wb", buffering=0) as file:
            for piece in archives.data():
                rest = memoryview(piece)
                while rest:
                    rest = rest[file.write(rest) :]
            os.fchmod(fd, member.mode)
            _set_time(fd, member)
        os.replace(new, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=directory)
        raise


def _link(directory: int, name: bytes, member: Member) -> None:
    """Make a symbolic link in place of a file or link; the system refuses to remove a directory so."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    os.symlink(member.link, name, dir_fd=directory)
    if member.time_ns is not None:
        os.utime(name, ns=(member.time_ns, member.time_ns), dir_fd=directory, follow_symlinks=False)
