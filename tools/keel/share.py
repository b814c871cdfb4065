# SPDX-License-Identifier: GPL-2.0-only
"""Directories of the host in the guest: the user's words for them, and what Linux and the emulator's starter are told.

The emulator serves them over 9P with the rights of the user who runs `./keel`. As the server obeys the guest, the emulator is
confined: confined.py says how.
"""

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from . import machine
from .errors import KeelError
from .progress import say
from .qemu import Share

FORM = "the form is DIR[:PATH][:rw], and PATH begins with a slash"
READ_ONLY = ":ro"
# The words for a mode, and whether the guest may write.
MODES = {":rw": True, READ_ONLY: False}
USUAL_PLACE = PurePosixPath("/mnt")
# Directories that the guest needs as its root has them, and those in which the guest's init mounts file systems.
COVERED = ("/", "/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", "/var")
KEPT = ("/dev", "/proc", "/run", "/sys")
# Debian's, because its module for the filter is for this one.
STARTER = ("/usr/bin/python3", "-I", str(Path(__file__).with_name("confined.py")))
# What root's emulator may still do: pass over modes, as its user asks for by being root, and listen at a low port.
# Without CAP_FSETID a file loses its setuid bit when it is written to.
KEPT_CAPABILITIES = ("dac_override", "fowner", "net_bind_service")
WITHOUT_CAPABILITIES = (
    "setpriv",
    f"--bounding-set=-all,{','.join(f'+{name}' for name in KEPT_CAPABILITIES)}",
    "--inh-caps=-all",
)


def parsed(texts: Sequence[str]) -> tuple[Share, ...]:
    """The shares in the order in which they are mounted, an outer one before what is below it."""
    return _ordered(_one(text) for text in texts)


def _ordered(unordered: Iterable[Share]) -> tuple[Share, ...]:
    shares = sorted(unordered, key=lambda share: share.place)
    if len(shares) > machine.MOST_SHARES:
        raise KeelError(f"there are too many shared directories: {len(shares)}", f"at most {machine.MOST_SHARES}")
    if twice := [one.place for one, other in pairwise(shares) if one.place == other.place]:
        raise KeelError(f"two directories are shared at {twice[0]}", "name another place: --share DIR:PATH")
    return tuple(shares)


def with_current(shares: tuple[Share, ...]) -> tuple[tuple[Share, ...], str]:
    """The shares with one that has the host's current directory, and the guest's path of that."""
    current = _current()
    for share in shares:
        if current.is_relative_to(share.directory):
            return shares, str(PurePosixPath(share.place) / current.relative_to(share.directory))
    place = _checked_place("--cwd", str(current))
    return _ordered([*shares, Share(_directory("--cwd", str(current)), place)]), place


def parameters(shares: Sequence[Share], directory: str) -> list[str]:
    """Linux's parameters for the guest's init: each share with its tag by its position, and the command's directory."""
    words = [f"keel.share={'rw' if share.writable else 'ro'}:{_encoded(share.place)}" for share in shares]
    return [*words, *([f"keel.cwd={_encoded(directory)}"] if directory else [])]


def confined(argv: Sequence[str], shares: Sequence[Share]) -> list[str]:
    """The emulator's command, in the confinement that it needs to serve shares."""
    if not shares:
        return list(argv)
    return [*(WITHOUT_CAPABILITIES if os.geteuid() == 0 else ()), *STARTER, *argv]


def _encoded(path: str) -> str:
    return quote(os.fsencode(path))


def _current() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise KeelError(f"--cwd: the current directory cannot be found: {error.strerror}", "change to another one") from error


def _one(text: str) -> Share:
    option = f"--share {text}"
    rest, mode = next(((text.removesuffix(mode), mode) for mode in MODES if text.endswith(mode)), (text, READ_ONLY))
    name, colon, place = rest.rpartition(":/")
    name, place = (name, f"/{place}") if colon else (rest, "")
    directory = _directory(option, name)
    if not place and not directory.name:
        raise KeelError(f"{option}: {directory} has no name for its place in the guest", FORM)
    return Share(directory, _checked_place(option, place or str(USUAL_PLACE / directory.name)), MODES[mode])


def _directory(option: str, name: str) -> Path:
    """The directory that is meant now, without symbolic links; QEMU must not follow one that changes later."""
    try:
        directory = Path(name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise KeelError(f"{option}: {name!r} cannot be shared: {reason}", FORM) from error
    if not name or not directory.is_dir():
        raise KeelError(f"{option}: {name!r} is no directory", FORM)
    if os.path.normpath(Path(name).absolute()) != str(directory):
        say(f"{option}: {name} leads to {directory}")
    if not os.access(directory, os.R_OK | os.X_OK):
        raise KeelError(f"{option}: you may not read {directory}", "share another directory, or change its mode")
    return directory


def _checked_place(option: str, place: str) -> str:
    """A place in the guest, unless a directory there would hide what the guest needs."""
    plain = "/" + os.path.normpath(place).lstrip("/")
    if plain in COVERED or any(PurePosixPath(plain).is_relative_to(kept) for kept in KEPT):
        raise KeelError(f"{option}: the guest needs its own {plain}", f"name another place: --share DIR:{USUAL_PLACE}/NAME")
    return plain
