# SPDX-License-Identifier: GPL-2.0-only
"""`./keel root`: lists and removes the default roots in the cache and their layers of packages."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from .. import disks, image, imageformat, layers
from ..arguments import in_columns
from ..config import Settings
from ..errors import KeelError, system_error
from ..lock import locked
from ..qemu import Disk

MEGABYTE = 1_000_000
# The unit of the space that a file takes.
BLOCK_BYTES = 512


def show(settings: Settings) -> None:
    """Print a table of the default roots, each before its layers, and of what guests wrote to such."""
    rows = [("NAME", "MB", "PACKAGES")]
    for base in layers.bases(settings):
        what = "(the default root)" if base == image.default_archive(settings) else "(of another version of Keel)"
        rows.append((base.stem, _size(_files_of(base)), what))
        rows += [(layer.name, _size(layer.folder.iterdir()), " ".join(layer.packages)) for layer in layers.of_base(base)]
    rows += [(path.stem, _size([path]), _kept_by(settings, path)) for path in disks.all_persistent(settings)]
    print(in_columns(rows))


def _kept_by(settings: Settings, path: Path) -> str:
    """Whose the root is that a guest has written to."""
    if path.parent != settings.kept_roots:
        return f"(kept by --persist of an earlier Keel: {path})"
    return f"(kept by --persist{'' if disks.is_own(settings, path) else ' of another clone'})"


def remove(settings: Settings, names: Sequence[str]) -> None:
    """Remove layers, bases with their layers, and kept roots.

    If one of them does not exist or is used by a guest, none is removed.
    """
    with ExitStack() as locks:
        locks.enter_context(locked(settings.cache, "roots"))
        if settings.kept_roots.is_dir():
            locks.enter_context(locked(settings.kept_roots, "kept"))
        kept = {path.stem: path for path in disks.all_persistent(settings)}
        known = {base.stem: (base, layers.of_base(base)) for base in layers.bases(settings)}
        for name in names:
            if name not in (*known, *kept) and not any(name == layer.name for _, there in known.values() for layer in there):
                raise KeelError(f"there is no layer or default root {name}", layers.LISTED)
        wanted = [base for base, _ in known.values() if base.stem in names]
        chosen = [layer for base, there in known.values() for layer in there if layer.name in names or base in wanted]
        files = [path for base in wanted for path in _files_of(base)] + [path for name, path in kept.items() if name in names]
        with disks.held([written(path) for path in [*files, *(layer.disk for layer in chosen)] if path.exists()]):
            try:
                for layer in chosen:
                    layers.remove(layer.folder)
                for path in files:
                    path.unlink()
            except OSError as error:
                raise system_error(f"{error.filename} cannot be removed", error) from error


def written(path: Path) -> Disk:
    """The file as one that no guest may use meanwhile."""
    return Disk(path, imageformat.RAW, keep=True)


def _files_of(base: Path) -> list[Path]:
    """What belongs to a base, without its layers; its archive is the last one, because it makes the rest valid."""
    return [*(path for path in sorted(base.parent.glob(f"{base.stem}.*")) if path.is_file() and path != base), base]


def _size(files: Iterable[Path]) -> str:
    return str(sum(path.stat().st_blocks * BLOCK_BYTES for path in files) // MEGABYTE)
