# SPDX-License-Identifier: GPL-2.0-only
"""`./keel gdb`: gdb on a running guest, with the symbols of its programs."""

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from .. import packages, process, slot
from ..config import Settings
from ..errors import KeelError
from ..progress import say


def debug(settings: Settings, view: str | None) -> NoReturn:
    """Attach to the only running guest, or to the last one started."""
    packages.require(settings, packages.DEBUGGER)
    guests = [found for found in slot.running(settings) if found.gdb_socket]
    if not guests:
        raise KeelError("no guest runs", "start one: ./keel run, or ./keel run --gdb")
    newest = max(guests, key=lambda found: found.directory.stat().st_mtime)
    views = newest.symbols()
    if views and view and view not in views:
        raise KeelError(f"the guest that runs, {newest.name}, has no {view} with symbols", f"./keel gdb {' '.join(views)}")
    say(f"gdb on the guest {newest.name}; hbreak sets a breakpoint in what is not loaded yet")
    process.become(arguments(newest, view, views))


def arguments(guest: slot.Slot, view: str | None, views: Mapping[str, Path]) -> list[str]:
    """The gdb command: the view's symbols first, the other's beside them."""
    symbols = [str(path) for name, path in sorted(views.items(), key=lambda item: item[0] != view)]
    argv = ["gdb", "-q", *symbols[:1]]
    for other in symbols[1:]:
        # gdb would ask whether it may.
        argv += ["-ex", "set confirm off", "-ex", f"add-symbol-file {other}", "-ex", "set confirm on"]
    return [*argv, "-ex", f"target remote {guest.gdb_socket}"]
