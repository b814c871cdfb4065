# SPDX-License-Identifier: GPL-2.0-only
"""What this machine runs or trusts later, which no guest may write, whichever option would let it; and what none may see."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from . import configuration, imageformat, slot
from .config import Settings
from .errors import KeelError
from .qemu import Disk, Share


def _places(settings: Settings) -> Iterator[tuple[Path, str]]:
    """The places without symbolic links in their paths, and what they are."""
    chosen = configuration.place()
    named = (
        (settings.build, "what is built here"),
        (settings.cache, "what was fetched and built"),
        (settings.data, "what other guests have written"),
        (configuration.usual_place().parent, "the defaults of your options"),
        *([(chosen.parent, "the defaults of your options")] if chosen else []),
        *([(settings.release, "the release set")] if settings.release else []),
        (settings.repository, "the command itself"),
    )
    for path, what in named:
        yield path.resolve(), what


def _has(outer: Path, inner: Path) -> bool:
    """Whether the second path is the first one, or lies in it, by whatever mount; the second need not be there."""
    if inner.is_relative_to(outer):
        return True
    return outer.exists() and any(path.exists() and path.samefile(outer) for path in (inner, *inner.parents))


def _meet(one: Path, other: Path) -> bool:
    """Return true if one of two directories is the other one, or lies in it."""
    return _has(one, other) or _has(other, one)


def check_shares(settings: Settings, shares: Iterable[Share]) -> None:
    """Refuse a directory that a guest may write and that has such a place, or is in one; and one that shows others' keys."""
    for share in shares:
        option = f"{share.directory} cannot be shared"
        if share.writable and (met := [(place, what) for place, what in _places(settings) if _meet(share.directory, place)]):
            place, what = met[0]
            raise KeelError(
                f"{option} to be written: the guest could change {what}, {place}", "leave :rw out, or share another directory"
            )
        private = slot.temporary_files().resolve()
        is_private = share.directory.is_relative_to(private) and _first(share.directory, private).startswith(slot.PRIVATE_PREFIX)
        if _has(share.directory, private) or is_private:
            remedy = f"share a directory in {private}, or have TMPDIR name another place"
            raise KeelError(f"{option}: guests' keys are in {private}", remedy)


def _first(path: Path, base: Path) -> str:
    """The name of the directory in the base that a path is in."""
    return next(iter(path.relative_to(base).parts), "")


def check_disks(settings: Settings, disks: Iterable[Disk]) -> None:
    """Refuse a file as a disk that a guest may write, if it is in such a place and no image that lies there for that."""
    for disk in disks:
        path = disk.path.resolve()
        met = [(place, what) for place, what in _places(settings) if _has(place, path)]
        if disk.keep and met and not _is_image(settings, path, disk.image_format):
            remedy = "leave --persist out, or move the image away"
            raise KeelError(f"{disk.path} cannot be written by a guest: it is in {met[0][0]}, {met[0][1]}", remedy)


def _is_image(settings: Settings, path: Path, image_format: str) -> bool:
    """Return true if this is an image for guests to write: a kept root, or one beside the sources, by its name."""
    kept = (settings.kept_roots.resolve(), (settings.build / "images").resolve())
    if path.parent in kept:
        return image_format == imageformat.QCOW2 and path.suffix == ".qcow2"
    within = [place for place, _ in _places(settings) if _has(place, path)]
    return within == [settings.repository.resolve()] and path.suffix in imageformat.ROOT_SUFFIXES
