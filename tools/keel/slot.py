# SPDX-License-Identifier: GPL-2.0-only
"""A name for each guest that runs, so that guests at the same time share no log and no socket."""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .config import Settings
from .errors import KeelError

MOST_GUESTS = 64
# The system's limit for the path of a local socket, its end mark included.
SOCKET_PATH_MAX = 108
SYMBOLS = "symbols"
# What gdb can look at in a guest.
VIEWS = KERNEL, LINUX = "kernel", "linux"


@dataclass(frozen=True)
class Slot:
    """One guest's name and files."""

    name: str
    directory: Path
    logs: Path

    @property
    def gdb_socket(self) -> Path | None:
        """Where gdb can reach the guest; None where the path is too long for a socket."""
        path = self.directory / "gdb"
        return path if len(str(path)) < SOCKET_PATH_MAX else None

    def note_symbols(self, views: Mapping[str, Path]) -> None:
        """Note for gdb which files have the symbols of what runs in the guest; the first is the usual one."""
        (self.directory / SYMBOLS).write_text(json.dumps({view: str(path) for view, path in views.items()}))

    def symbols(self) -> dict[str, Path]:
        """What was noted; nothing where nothing was."""
        try:
            noted: dict[str, str] = json.loads((self.directory / SYMBOLS).read_text())
        except FileNotFoundError:
            return {}
        return {view: Path(path) for view, path in noted.items()}

    def log(self, line: str) -> Path:
        """The log of one of the guest's lines."""
        return self.logs / f"{self.name}-{line}.log"


def _named(settings: Settings, kind: str, number: int) -> Slot:
    name = kind if number == 1 else f"{kind}-{number}"
    return Slot(name, settings.run / name, settings.logs)


@contextmanager
def taken(settings: Settings, kind: str) -> Iterator[Slot]:
    """The first free slot of a kind; free again at the end, even when we are killed."""
    for number in range(1, MOST_GUESTS + 1):
        slot = _named(settings, kind, number)
        slot.directory.mkdir(parents=True, exist_ok=True)
        with (slot.directory / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            (slot.directory / SYMBOLS).unlink(missing_ok=True)
            yield slot
            return
    raise KeelError(f"{MOST_GUESTS} guests run already", "end some of them")


def running(settings: Settings) -> list[Slot]:
    """The slots of the guests that run now."""
    found = []
    for lock in sorted(settings.run.glob("*/lock")):
        with lock.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(Slot(lock.parent.name, lock.parent, settings.logs))
    return found
