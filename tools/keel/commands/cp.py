# SPDX-License-Identifier: GPL-2.0-only
"""`./keel cp`: files and directories to and from a guest that runs with --ssh.

tar packs at one end and unpacks at the other, over one session of SSH. What comes from the guest is a stranger's: received.py
unpacks it. A script in the guest looks what is there; its last line of errors is ours, with nothing in it for our terminal.
"""

import contextlib
import errno
import os
import posixpath
import re
import shlex
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .. import process, slot
from ..config import Settings
from ..errors import FREE_SPACE, KeelError, Status, system_error
from ..received import DIRECTORY_FLAGS, Archives, EndsEarly, Tree
from . import ssh
from .guests import END_S

STREAM = "-"
COMPLAINT_BYTES = 4096
# Set-user-ID bits and the like are for files of the one machine.
MODE = 0o777
# The status of ssh's own failures.
SSH_FAILED = 255
INTO, AS = b"into\n", b"as\n"

# One archive for each source: of what is in a directory, or of one file.
PACK = """set -e
how='--create --file=- --format=pax --hard-dereference'
for place; do
  if [ -d "$place" ]; then tar $how -C "$place" .
  elif [ -f "$place" ]; then tar $how -h -C "$(dirname -- "$place")" -- "$(basename -- "$place")"
  elif [ -e "$place" ]; then echo "$place is neither a file nor a directory" >&2; exit 9
  else echo "$place does not exist" >&2; exit 9
  fi
done
"""
# What is sent comes into a directory that is there, or gets the place's name; the first word says how it is, then how many.
UNPACK = """what=$1 place=$2
if [ -d "$place" ]; then cd -- "$place" && echo into
elif [ "$what" = several ] || [ "${place%/}" != "$place" ]; then echo "$place is no directory" >&2; exit 9
elif [ "$what" = directory ] && [ -e "$place" ]; then echo "$place is no directory" >&2; exit 9
else cd -- "$(dirname -- "$place")" && echo as
fi || exit 9
exec tar --extract --file=- --preserve-permissions --no-same-owner
"""
WRITE = """if [ -d "$1" ]; then echo "$1 is a directory" >&2; exit 9; fi
exec cat > "$1"
"""
READ = """if [ -d "$1" ]; then echo "$1 is a directory" >&2; exit 9; fi
exec cat -- "$1"
"""


@dataclass(frozen=True)
class Operand:
    """A place on this machine, or in the guest of that name."""

    guest: str | None
    place: str

    @property
    def name(self) -> str:
        """Return the name of a copy in another directory; nothing where the place has no name."""
        last = posixpath.basename(posixpath.normpath(self.place))
        if last not in ("", ".", ".."):
            return last
        return "" if self.guest else Path(self.place).resolve().name


def parsed(word: str) -> Operand:
    """The place that a word names. As with scp, a colon after a slash is part of a name."""
    guest, colon, place = word.partition(":")
    return Operand(guest, place) if colon and slot.NAME.fullmatch(guest) else Operand(None, word)


def cp(settings: Settings, words: Sequence[str]) -> int:
    """Copy all but the last one of these places to the last one, which is on the other side."""
    *sources, target = map(parsed, words)
    guests = {operand.guest for operand in sources}
    if len(guests) != 1 or (target.guest is None) == (None in guests):
        raise _usage("one side must be a guest's, as NAME:PLACE", "./keel cp FILE... NAME:PLACE, or NAME:PLACE... PLACE")
    _check(sources, target)
    name = target.guest or guests.pop()
    assert name is not None
    found, configuration = ssh.reached(settings, name)
    session = _Session(found.name, configuration)
    if target.guest is None:
        _fetch(session, sources, target)
    else:
        _send(session, sources, target)
    return Status.OK


def _usage(what: str, remedy: str = "") -> KeelError:
    return KeelError(what, remedy, Status.USAGE)


def _check(sources: Sequence[Operand], target: Operand) -> None:
    places = [operand.place for operand in sources]
    if STREAM in (places if target.guest else [target.place]) and len(sources) > 1:
        raise _usage("- is the content of one file", "give one FILE with it")
    if not all(places) or not (target.place or target.guest):
        raise _usage("a place is empty", "NAME:. is root's home in the guest")
    if STREAM in [*places, target.place]:
        return
    names = [operand.name for operand in sources]
    if nameless := [operand.place for operand in sources if not operand.name]:
        raise _usage(f"{nameless[0]} has no name for its copy", "give the directory by its name")
    if twice := [name for name in names if names.count(name) > 1]:
        raise _usage(f"two copies would have the name {twice[0]}", "copy them one by one")


class _Session:
    """Sessions of SSH in a guest, each for one script."""

    def __init__(self, name: str, configuration: Path) -> None:
        self.name = name
        self._configuration = configuration

    @contextmanager
    def script(
        self, text: str, words: Sequence[str], *, stdin: int | None = subprocess.DEVNULL, stdout: int | None = subprocess.DEVNULL
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """For the length of a block the script runs in the guest; raises KeelError with its reason where it fails."""
        line = shlex.join(["sh", "-c", text, "keel-cp", *words])
        argv = ssh.arguments(self._configuration, self.name, [line], terminal=False)
        child = process.start(argv, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
        complaint = bytearray()
        assert child.stderr
        listener = threading.Thread(target=_keep_end, args=[child.stderr, complaint], daemon=True)
        listener.start()
        failed: OSError | None = None
        try:
            try:
                yield child
            except BrokenPipeError as error:  # the script has ended, and says why
                failed = error
            for pipe in filter(None, (child.stdin, child.stdout)):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
            status = child.wait()
            listener.join()
        finally:
            if child.poll() is None:
                process.end(child)
        if status or failed:
            raise self._failure(status, bytes(complaint))

    def _failure(self, status: int, complaint: bytes) -> KeelError:
        lines = [_shown(line) for line in complaint.decode(errors="replace").splitlines() if line.strip()]
        if status == SSH_FAILED:
            return KeelError(
                f"the session in {self.name} broke off{f': {lines[-1]}' if lines else ''}", "does the guest still run?"
            )
        full = next((line for line in lines if os.strerror(errno.ENOSPC) in line), "")
        return KeelError(f"{self.name}: {full or (lines[0] if lines else f'status {status}')}", FREE_SPACE if full else "")


def _keep_end(pipe: IO[bytes], kept: bytearray) -> None:
    """Keep the last bytes of what is said there, however much that is."""
    while data := os.read(pipe.fileno(), COMPLAINT_BYTES):
        kept += data
        del kept[:-COMPLAINT_BYTES]


def _shown(text: str) -> str:
    """A guest's words for our terminal."""
    return re.sub(r"[^ -~]", "?", text.strip())


def _fetch(session: _Session, sources: Sequence[Operand], target: Operand) -> None:
    """From the guest to here."""
    places = [_quoted(operand.place) for operand in sources]
    if target.place == STREAM:
        with session.script(READ, places, stdout=sys.stdout.fileno()):
            return
    with ExitStack() as stack:
        directory, names = _local(sources, target)
        parent = os.open(directory, DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        stack.callback(os.close, parent)
        trees = [Tree(parent, name) for name in names]
        child = stack.enter_context(session.script(PACK, places, stdout=subprocess.PIPE))
        assert child.stdout
        archives = Archives(child.stdout)
        for tree, source in zip(trees, sources, strict=True):
            _unpack(tree, archives, source, child)
    if left := [tree for tree in trees if tree.left_out]:
        raise KeelError(f"{sum(tree.left_out for tree in left)} left out: {left[0].reason}", "all else was copied")


def _unpack(tree: Tree, archives: Archives, source: Operand, child: "subprocess.Popen[bytes]") -> None:
    try:
        tree.unpack(archives)
    except OSError as error:
        process.end(child)
        raise system_error(f"{source.place} cannot be copied to {error.filename or 'here'}", error) from error
    except EndsEarly as early:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if child.wait(END_S):
                raise BrokenPipeError from early  # the script in the guest says why
        process.end(child)
        raise


def _quoted(place: str) -> str:
    """A place that no program takes for an option."""
    return f"./{place}" if place.startswith("-") else place or "."


def _local(sources: Sequence[Operand], target: Operand) -> tuple[Path, list[str]]:
    """The directory that gets the copies, and their names in it."""
    place = Path(target.place)
    if place.is_dir():
        return place, [operand.name for operand in sources]
    if len(sources) > 1 or target.place.endswith("/"):
        raise KeelError(f"{place} is no directory", "make it first")
    if not place.parent.is_dir():
        raise KeelError(f"{place.parent} is no directory", "make it first")
    return place.parent, [place.name]


def _send(session: _Session, sources: Sequence[Operand], target: Operand) -> None:
    """From here to the guest."""
    place = _quoted(target.place)
    if sources[0].place == STREAM:
        with session.script(WRITE, [place], stdin=sys.stdin.fileno()):
            return
    files = [Path(operand.place) for operand in sources]
    for file in files:
        if not file.exists():
            raise KeelError(f"{file} does not exist", "give a file or a directory")
        if not (file.is_file() or file.is_dir()):
            raise KeelError(f"{file} is neither a file nor a directory", "- copies a stream")
    what = "several" if len(files) > 1 else "directory" if files[0].is_dir() else "file"
    left_out: list[str] = []
    with session.script(UNPACK, [what, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin and child.stdout
        answer = child.stdout.readline(len(INTO))
        if answer not in (INTO, AS):
            raise BrokenPipeError
        names = [operand.name for operand in sources] if answer == INTO else [posixpath.basename(posixpath.normpath(place))]
        with tarfile.open(fileobj=child.stdin, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for file, name in zip(files, names, strict=True):
                _pack(archive, file.resolve(), name, left_out)
    if left_out:
        raise KeelError(f"{len(left_out)} left out: {left_out[0]} is no file, directory or link", "all else was copied")


def _pack(archive: tarfile.TarFile, source: Path, name: str, left_out: list[str]) -> None:
    """Add a file or a directory with all that is in it, links as they are."""
    waiting = [(source, name)]
    while waiting:
        file, called = waiting.pop()
        try:
            if file.is_dir() and not file.is_symlink():
                waiting += [(below, f"{called}/{below.name}") for below in sorted(file.iterdir(), reverse=True)]
            if not _add(archive, file, called):
                left_out.append(repr(str(file)))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise system_error(f"{file} cannot be copied", error) from error


def _add(archive: tarfile.TarFile, file: Path, name: str) -> bool:
    """Add one file, directory or link; false where it is something else."""
    state = file.lstat()
    if stat.S_ISREG(state.st_mode):
        with file.open("rb") as content:
            archive.addfile(_described(name, os.fstat(content.fileno())), content)
        return True
    described = _described(name, state)
    described.size = 0
    if stat.S_ISLNK(state.st_mode):
        described.type, described.linkname = tarfile.SYMTYPE, str(file.readlink())
    elif stat.S_ISDIR(state.st_mode):
        described.type = tarfile.DIRTYPE
    else:
        return False
    archive.addfile(described)
    return True


def _described(name: str, state: os.stat_result) -> tarfile.TarInfo:
    described = tarfile.TarInfo(name)
    described.mode, described.size = state.st_mode & MODE, state.st_size
    seconds, rest = divmod(state.st_mtime_ns, 10**9)
    described.mtime = max(0, seconds)
    if seconds >= 0 and rest:
        described.pax_headers = {"mtime": f"{seconds}.{rest:09}"}
    return described
