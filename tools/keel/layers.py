# SPDX-License-Identifier: GPL-2.0-only
"""Layers of Debian packages over the default root: their names, where they are, and their life.

A base is the archive of a default root, and its layers are folders in one beside it, each with a description, an archive and,
once it was needed, a disk. A layer is current as long as its base is there and older than it.
Others are removed when one is made.
The lock "roots" is held while a base or a layer is made or removed.
"""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import image, layerarchive, layerdisk, packages, rootarchive
from .config import Settings
from .debian import SUITE
from .errors import KeelError, Status, system_error
from .lock import locked
from .progress import Step, say

# A name that a user gives. Without one a layer has the names of its packages, with commas.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
DESCRIPTION = "layer.json"
# The suffix of the folder with the layers of a base, and the folder in it where a layer is made.
FOLDER, ASIDE = ".layers", ".new"
LISTED = "./keel root list shows those that are there"


@dataclass(frozen=True)
class Wanted:
    """What a user wants over the default root: packages, sorted, or those of a layer that has a name already, or both."""

    packages: tuple[str, ...]
    given_name: str = ""

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.given_name or ",".join(self.packages)


@dataclass(frozen=True)
class Layer:
    """A layer that is there."""

    name: str
    packages: tuple[str, ...]
    folder: Path

    @property
    def archive(self) -> Path:
        """What it adds to the archive of its base (layerarchive.py)."""
        return self.folder / "root.cpio"

    @property
    def disk(self) -> Path:
        """The same over the disk of its base (layerdisk.py); it may not be there yet."""
        return self.folder / "root.qcow2"


def wanted(names: Sequence[str], layer: str | None) -> Wanted | None:
    """What options ask for; None if that is the default root. KeelError if it cannot be."""
    more = image.additional(names)
    if layer is None:
        return Wanted(more) if more else None
    if not NAME.fullmatch(layer):
        raise KeelError(
            f"--layer: {layer!r} cannot be a layer's name", "up to 32 letters, digits, dots, dashes and underscores", Status.USAGE
        )
    if names and not more:
        raise KeelError(f"the default root has {' '.join(names)} without a layer", "leave --layer out")
    return Wanted(more, layer)


def find(settings: Settings, wish: Wanted) -> Layer | None:
    """The current layer; None if it is to be made, and KeelError if it cannot be made with this name."""
    found = next((layer for layer in of_base(image.default_archive(settings)) if layer.name == wish.name), None)
    if found and wish.packages and found.packages != wish.packages:
        remedy = f"give another name with --layer, or: ./keel root remove {found.name}"
        raise KeelError(f"the layer {found.name} has other packages: {' '.join(found.packages)}", remedy)
    if not found and not wish.packages:
        raise KeelError(f"there is no layer {wish.name}", f"--packages with --layer makes one, and {LISTED}")
    return found


def check_packages(settings: Settings, wish: Wanted) -> None:
    """Refuse a layer that is to be made of what Debian does not have, before anything long begins.

    Those of another architecture are in no lists here.
    """
    if find(settings, wish) is None:
        image.check_known(settings, [name for name in wish.packages if not image.is_apart(name)])


def needs(settings: Settings, wish: Wanted | None) -> tuple[packages.Need, ...]:
    """The packages that making the layer, and its base, takes; none if they are there."""
    missing = wish is not None and find(settings, wish) is None
    return image.making_needs() if missing else image.needs(settings)


def stem(settings: Settings, wish: Wanted | None) -> str:
    """The default root's, or its layer's, part of the names of files in a clone."""
    if wish and not wish.packages and (found := find(settings, wish)):
        wish = replace(wish, packages=found.packages)
    return f"debian-{SUITE}-{image.key(wish.packages, wish.given_name) if wish else image.key()}"


def provided(settings: Settings, wish: Wanted) -> Layer:
    """The layer; made if it is not there, and its base if that is not."""
    base = image.default_root(settings).path
    if found := find(settings, wish):
        return found
    with locked(settings.cache, "roots"):
        _remove_outdated(settings)
        return find(settings, wish) or _make(settings, base, wish)


def in_memory(settings: Settings, wish: Wanted | None) -> rootarchive.Root:
    """The default root with a layer, or without one, as a RAM disk."""
    base = image.default_root(settings)
    if wish is None:
        return base
    layer = provided(settings, wish).archive
    return rootarchive.over(base, rootarchive.checked(layer, settings))


def on_disk(settings: Settings, layer: Layer, base_disk: Path) -> Path:
    """The layer's disk over its base's; made if it is not there or if its base's was made again."""
    if not _is_newer(layer.disk, base_disk):
        with locked(settings.cache, "roots"):
            if not _is_newer(layer.disk, base_disk):
                layerdisk.make(settings, image.default_archive(settings), base_disk, layer.archive, layer.disk)
    return layer.disk


def of_base(base: Path) -> list[Layer]:
    """The current layers of a base, by their names."""
    found = (_read(description, base) for description in base.with_suffix(FOLDER).glob(f"*/{DESCRIPTION}"))
    return sorted((layer for layer in found if layer), key=lambda layer: layer.name)


def bases(settings: Settings) -> list[Path]:
    """The bases in the cache: the default root's archive, and those of other recipes, which another version of Keel has."""
    return sorted((settings.cache / "roots").glob("*.cpio"))


def remove(folder: Path) -> None:
    """Remove a layer, and the folder of all if it was the last one."""
    (folder / DESCRIPTION).unlink(missing_ok=True)  # without it the rest is no layer
    shutil.rmtree(folder)
    if not any(folder.parent.iterdir()):
        folder.parent.rmdir()


def _make(settings: Settings, base: Path, wish: Wanted) -> Layer:
    """Make a layer aside, so that it is complete when it appears."""
    made = Layer(wish.name, wish.packages, base.with_suffix(FOLDER) / image.key(wish.packages, wish.given_name))
    aside = made.folder.with_name(ASIDE)
    try:
        whole, inside = aside / "whole.cpio", replace(made, folder=aside)
        image.make_archive(settings, whole, wish.packages, base)
        with Step("comparing it with the default root", mostly_short=True):
            layerarchive.difference(base, whole, inside.archive)
        whole.unlink()
        (aside / DESCRIPTION).write_text(json.dumps({"name": made.name, "packages": made.packages}))
        aside.replace(made.folder)
    except OSError as error:
        raise system_error("cannot write the layer", error) from error
    finally:
        if aside.exists():
            remove(aside)
    return made


def _remove_outdated(settings: Settings) -> None:
    """Remove the layers whose base has gone, and what a command that was killed has left."""
    names = []
    for folder in (settings.cache / "roots").glob(f"*{FOLDER}/*"):
        base = folder.parent.with_suffix(".cpio")
        if folder not in (layer.folder for layer in of_base(base)):
            names += [] if folder.name == ASIDE else [_name(folder)]
            remove(folder)
    if names:
        say(f"removed the layers whose default root has gone: {' '.join(sorted(names))}")


def _read(description: Path, base: Path) -> Layer | None:
    """A layer by its description; None if that is not whole or the base not the one that it was made over."""
    try:
        noted = json.loads(description.read_text())
        layer = Layer(str(noted["name"]), tuple(map(str, noted["packages"])), description.parent)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return layer if _is_newer(description, base) and description.parent.name != ASIDE else None


def _name(folder: Path) -> str:
    """The name of an outdated layer."""
    try:
        return str(json.loads((folder / DESCRIPTION).read_text())["name"])
    except (OSError, ValueError, TypeError, KeyError):
        return folder.name


def _is_newer(file: Path, than: Path) -> bool:
    """Whether both files are there and the first is not older."""
    return file.exists() and than.exists() and file.stat().st_mtime_ns >= than.stat().st_mtime_ns
