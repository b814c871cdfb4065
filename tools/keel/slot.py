# SPDX-License-Identifier: GPL-2.0-only
"""A name for each guest that runs, so that guests at the same time share no log and no socket."""

import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from .config import Settings
from .errors import KeelError, Status, system_error
from .lock import is_file

MOST_GUESTS = 64
# The system's limit for the path of a local socket, its end mark included.
SOCKET_PATH_MAX = 108
# Guests' folders lie beside it. It begins with a dot, which no guest's name does.
LOOKING = ".slots.lock"
SYMBOLS = "symbols"
RUN, CUT_OFF = "run", "cut-off"
# The link in a slot's folder to its private directory, and how the name of that begins.
PRIVATE = "private"
PRIVATE_PREFIX = "keel-"
# A socket's path may be too long because of the directory for temporary files.
SHORTER = "set TMPDIR to a shorter path"
# It is a part of the names of files and sockets.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
# Reading a note fails with these: there is none, it is no JSON, it is other JSON than we write.
NOT_WHOLE = (FileNotFoundError, ValueError, TypeError, AttributeError)
# The socket for gdb, in the private directory.
GDB = "gdb"
# What gdb can look at in a guest.
VIEWS = KERNEL, LINUX = "kernel", "linux"


@dataclass(frozen=True)
class Run:
    """What a run notes of itself."""

    process: int
    began: float
    system: str
    # None at a shell.
    command: str | None
    # The command that started the guest has returned.
    detached: bool = False


@dataclass(frozen=True)
class Slot:
    """One guest's name and files."""

    name: str
    directory: Path
    logs: Path

    @property
    def gdb_socket(self) -> Path | None:
        """Where gdb, whose commands are the emulator's too, can reach the guest; None where the path is too long for a socket."""
        path = self.private / GDB
        return path if len(str(path)) < SOCKET_PATH_MAX else None

    @property
    def private(self) -> Path:
        """The directory for what only this user, and no guest, may read; it is empty at first, and gone when the guest is.

        It is among the temporary files, because a guest may be shown the clone. Not in $XDG_RUNTIME_DIR: that goes when the user
        logs out, and a guest in the background continues.
        """
        link = self.directory / PRIVATE
        return link.readlink() if link.is_symlink() else link

    def note_symbols(self, views: Mapping[str, Path]) -> None:
        """Note for gdb which files have the symbols of what runs in the guest; the first is the usual one."""
        self._note(SYMBOLS, {view: str(path) for view, path in views.items()})

    def symbols(self) -> dict[str, Path]:
        """What was noted; nothing where nothing was, or where the note is not whole."""
        try:
            noted: dict[str, str] = json.loads((self.directory / SYMBOLS).read_text())
            return {view: Path(path) for view, path in noted.items()}
        except NOT_WHOLE:
            return {}

    @property
    def console(self) -> Path:
        """Where a terminal can be attached to the console of a guest that continues without one."""
        return self.private / "console"

    def note_run(self, system: str, command: str | None, *, detached: bool = False) -> None:
        """Note for other commands whose slot this is: our process's."""
        self._note(RUN, asdict(Run(os.getpid(), time.time(), system, command, detached)))

    def run(self) -> Run | None:
        """What was noted; None where nothing was, or where the note is not whole."""
        try:
            return Run(**json.loads((self.directory / RUN).read_text()))
        except NOT_WHOLE:
            return None

    def note_cut_off(self) -> None:
        """Note for who stops our guest that it was ended while it kept a disk and nothing in it listened."""
        self._note(CUT_OFF, {"process": os.getpid()})

    def was_cut_off(self, run: Run) -> bool:
        """Return true if that was noted of this run, which has ended; the note stays when another one has the slot."""
        try:
            return bool(json.loads((self.directory / CUT_OFF).read_text())["process"] == run.process)
        except (*NOT_WHOLE, KeyError):
            return False

    def _note(self, name: str, content: Mapping[str, object]) -> None:
        """Write a note that another command sees whole or not at all."""
        new = self.directory / f"{name}.new"
        new.write_text(json.dumps(content))
        new.replace(self.directory / name)

    def log(self, line: str) -> Path:
        """The log of one of the guest's lines."""
        return self.logs / f"{self.name}-{line}.log"


def check_name(name: str) -> None:
    """Refuse what cannot be a guest's name. `./keel gdb` takes a view or a name."""
    if name in VIEWS:
        raise KeelError(f"--name: {name} is what ./keel gdb shows of a guest", "give the guest another name", Status.USAGE)
    if not NAME.fullmatch(name):
        raise KeelError(
            f"--name: {name!r} cannot be a guest's name", "up to 32 letters, digits, dots, dashes and underscores", Status.USAGE
        )


@contextmanager
def _looking(settings: Settings) -> Iterator[None]:
    """Keeps others from looking which slots are free, which for a moment makes them taken."""
    path = settings.run / LOOKING
    while True:
        settings.run.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_file(path, file):  # else the directory was removed meanwhile
                yield
                return


def _named(settings: Settings, kind: str, number: int) -> Slot:
    name = kind if number == 1 else f"{kind}-{number}"
    return Slot(name, settings.run / name, settings.logs)


def _take(settings: Settings, slots: Iterable[Slot]) -> tuple[Slot, TextIO] | None:
    """The first of the slots that is free, and the file that holds it."""
    with _looking(settings):
        for slot in slots:
            slot.directory.mkdir(parents=True, exist_ok=True)
            file = (slot.directory / "lock").open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            for note in (SYMBOLS, RUN):
                (slot.directory / note).unlink(missing_ok=True)
            _remove_private(slot)  # a command that was killed has left it
            _make_private(slot)
            return slot, file
    return None


def temporary_files() -> Path:
    """Return the place of the private directories and of QEMU's temporary files."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp").absolute()


def _make_private(slot: Slot) -> None:
    """Make the private directory, which nobody else may enter, and note where it is."""
    try:
        place = Path(tempfile.mkdtemp(prefix=f"{PRIVATE_PREFIX}{slot.name}-", dir=temporary_files()))
    except OSError as error:
        raise system_error(f"cannot write in {temporary_files()}", error, "TMPDIR names another place") from error
    (slot.directory / PRIVATE).symlink_to(place)


def _remove_private(slot: Slot) -> None:
    """Remove the private directory, if it is one of ours, and the link to it."""
    place, link = slot.private, slot.directory / PRIVATE
    if not link.is_symlink() or _is_private(place):
        shutil.rmtree(place, ignore_errors=True)
    link.unlink(missing_ok=True)


def _is_private(place: Path) -> bool:
    """Return true if this is a directory that `_make_private` made, as far as can be seen."""
    try:
        info = place.lstat()
    except OSError:
        return False
    is_ours = stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) == 0o700 and info.st_uid == os.geteuid()
    return is_ours and place.name.startswith(PRIVATE_PREFIX)


@contextmanager
def _in_use(directory: Path) -> Iterator[None]:
    """Keep what cleans directories of temporary files from this one: systemd-tmpfiles leaves alone what is locked."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def taken(settings: Settings, kind: str, name: str | None = None) -> Iterator[Slot]:
    """The slot of this name, or else the first free one of a kind; free again at the end, even when we are killed."""
    numbers = range(1, MOST_GUESTS + 1)
    mine = _take(settings, [_named(settings, name, 1)] if name else (_named(settings, kind, number) for number in numbers))
    if mine is None and name:
        raise KeelError(f"a guest named {name} runs already", f"./keel stop {name} ends it")
    if mine is None:
        raise KeelError(f"{MOST_GUESTS} guests run already", "end some of them")
    slot, file = mine
    with file, _in_use(slot.private):
        try:
            yield slot
        finally:
            _remove_private(slot)


def running(settings: Settings) -> list[Slot]:
    """The slots of the guests that run now."""
    with _looking(settings):
        return _running(settings)


@contextmanager
def none_running(settings: Settings) -> Iterator[None]:
    """Keep guests from starting; KeelError where one runs."""
    with _looking(settings):
        if found := _running(settings):
            raise KeelError(f"the guest {found[0].name} still runs", f"end it first: ./keel stop {found[0].name}")
        yield


def remove_left(settings: Settings) -> None:
    """Remove what runs that were killed have left in private directories; the caller knows that no guest runs."""
    for directory in settings.run.glob("*/"):
        _remove_private(Slot(directory.name, directory, settings.logs))


def _running(settings: Settings) -> list[Slot]:
    found = []
    for lock in sorted(settings.run.glob("*/lock")):
        with lock.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(Slot(lock.parent.name, lock.parent, settings.logs))
    return found
