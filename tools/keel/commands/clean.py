# SPDX-License-Identifier: GPL-2.0-only
"""`./keel clean`: removes what was built, and on request what was fetched."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from .. import disks, slot
from ..config import INSTALLED_BUILD, Settings
from ..errors import KeelError
from ..lock import locked, locked_whole
from ..progress import Step, say
from .root import written


def clean(settings: Settings, *, cache: bool, persistent: bool) -> None:
    """Remove the build directory; the cache, which other clones share, and what guests wrote only when asked to.

    Meanwhile no guest of this clone starts and nothing is built, and none of it has the old directory after that.
    """
    with slot.none_running(settings), locked_whole(settings.locks):
        if (old := disks.old_persistent(settings)) and not persistent:
            names = ", ".join(map(str, old))
            raise KeelError(f"what guests wrote would be removed: {names}", "move it away, or give --persistent as well")
        if persistent and settings.kept_roots.is_dir():
            _remove_kept(settings)
        slot.remove_left(settings)
        _remove(settings.build)
    if cache:
        with locked_whole(settings.cache):
            _remove_cache(settings)
    else:
        say(f"kept: {settings.cache}, what was fetched (--cache removes it)")
    if kept := disks.persistent(settings):
        say(f"kept: {', '.join(map(str, kept))}, what guests wrote (--persistent removes it)")


def _remove_kept(settings: Settings) -> None:
    """Remove this clone's kept roots; none where one of them is used."""
    with locked(settings.kept_roots, "kept"):
        mine = disks.persistent(settings)
        with disks.held([written(path) for path in mine]):
            for path in mine:
                path.unlink()
                say(f"removed {path}")


def _remove_cache(settings: Settings) -> None:
    """Remove the cache, without what the installed package builds and keeps there, whose guests may run."""
    package = settings.cache / INSTALLED_BUILD
    if settings.build == package or not package.exists():
        _remove(settings.cache)
        return
    with Step(f"removing what is in {settings.cache}"):
        _remove_all(path for path in settings.cache.iterdir() if path != package)
    say(f"kept: {package}, what the installed keel has built (keel clean removes it)")


def _remove(place: Path) -> None:
    """Remove a directory: nobody finds half of it, because it has another name first, where it may have."""
    aside = place.with_name(f".{place.name}.removed-{os.getpid()}")
    with Step(f"removing {place}"):
        _remove_all(place.parent.glob(f".{place.name}.removed-*"))  # of one that was killed
        try:
            if not place.is_symlink():
                place = place.rename(aside)
        except OSError:  # of a mount, or in a directory that may not be written
            pass
        _remove_all([place] if place == aside else place.iterdir())


def _remove_all(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
