# SPDX-License-Identifier: GPL-2.0-only
"""`./keel gdb`: gdb on a running guest, with the symbols of what runs in it."""

from pathlib import Path
from typing import NoReturn

from .. import packages, process, slot
from ..config import Settings
from ..errors import KeelError
from ..progress import say
from ..rust import KERNEL_IMAGE

VIEWS = ("kernel", "linux")


def debug(settings: Settings, view: str | None) -> NoReturn:
    """Attach to the only running guest, or to the last one started."""
    packages.require(settings, packages.DEBUGGER)
    guests = [found for found in slot.running(settings) if found.gdb_socket]
    if not guests:
        raise KeelError("no guest runs", "start one: ./keel run, or ./keel run --gdb")
    newest = max(guests, key=lambda found: found.directory.stat().st_mtime)
    native = newest.name.startswith("native")
    if native and view == "kernel":
        raise KeelError("the guest that runs is native Linux, without the µ-kernel", "./keel gdb linux")
    say(f"gdb on the guest {newest.name}; hbreak sets a breakpoint in what is not loaded yet")
    process.become(arguments(settings, newest, view or "linux", native))


def arguments(settings: Settings, guest: slot.Slot, view: str, native: bool) -> list[str]:
    """The gdb command: the view's symbols first, the other's beside them."""
    server = settings.linux_server
    kernel = settings.keel_directory / KERNEL_IMAGE
    if native:
        symbols: list[Path] = [settings.native_symbols]
    else:
        symbols = [kernel, server] if view == "kernel" else [server, kernel]
    argv = ["gdb", "-q", str(symbols[0])]
    for other in symbols[1:]:
        # gdb would ask whether it may.
        argv += ["-ex", "set confirm off", "-ex", f"add-symbol-file {other}", "-ex", "set confirm on"]
    return [*argv, "-ex", f"target remote {guest.gdb_socket}"]
