# SPDX-License-Identifier: GPL-2.0-only
"""`./keel gdb`: gdb on a running guest, with the symbols of its programs.

The Linux that boots has function names only. `./keel gdb linux` makes a second build with source lines and types
(linux.build_for_gdb), and uses it if its code is the running kernel's to the byte.
"""

import filecmp
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from .. import linux, packages, process, rust, slot
from ..config import REPOSITORY, Settings
from ..errors import KeelError
from ..progress import say
from .guests import named

# The sections with Linux's code.
CODE = (".text", ".init.text")


def debug(settings: Settings, view: str | None, name: str | None = None) -> NoReturn:
    """Attach to the guest of this name; without one to the only running guest, or to the last one started."""
    guest = chosen(settings, name)
    views = guest.symbols()
    if views and view and view not in views:
        raise KeelError(f"the guest {guest.name} has no {view} with symbols", f"it has {', '.join(views)}")
    packages.require(settings, packages.DEBUGGER)
    views = with_source_lines(settings, views, wanted=view == slot.LINUX)
    say(f"gdb on the guest {guest.name}; hbreak sets a breakpoint in what is not loaded yet")
    process.become(arguments(guest, view, views))


def chosen(settings: Settings, name: str | None) -> slot.Slot:
    """Returns the guest of this name, or else the one started last; refuses one that gdb cannot reach."""
    if name:
        guest = named(settings, name)
        if not guest.gdb_socket:
            raise KeelError(f"{guest.directory} is too long a path for a socket", "clone into a shorter path")
        return guest
    guests = [found for found in slot.running(settings) if found.gdb_socket]
    if not guests:
        raise KeelError("no guest runs", "start one: ./keel run, or ./keel run --gdb")
    return max(guests, key=lambda found: found.directory.stat().st_mtime)


def with_source_lines(settings: Settings, views: Mapping[str, Path], wanted: bool) -> dict[str, Path]:
    """The views, with the build for gdb in place of the Linux that boots, if there is one or it is wanted, and it fits."""
    targets = {settings.linux_server: linux.SERVER, settings.native_symbols: linux.NATIVE}
    booted = views.get(slot.LINUX)
    if booted is None or booted not in targets:
        return dict(views)
    target = targets[booted]
    built = linux.image_for_gdb(settings, target)
    if wanted:
        if not built.exists():
            say("source lines of Linux need a build of their own, once: some ten minutes and a gigabyte")
        linux.build_for_gdb(settings, target)
    if not built.exists():
        say("Linux has function names only; ./keel gdb linux makes a build with source lines")
        return dict(views)
    if not has_same_code(booted, built):
        say(f"{built} has other code than the Linux that boots: without source lines")
        return dict(views)
    return {**views, slot.LINUX: built}


def has_same_code(one: Path, other: Path) -> bool:
    """Whether two images of Linux have the same machine code."""
    with TemporaryDirectory() as aside:
        codes = Path(aside) / "one", Path(aside) / "other"
        for image, code in zip((one, other), codes, strict=True):
            sections = [f"--only-section={name}" for name in CODE]
            process.output(["objcopy", "-O", "binary", *sections, str(image), str(code)])
        return filecmp.cmp(codes[0], codes[1], shallow=False)


def arguments(guest: slot.Slot, view: str | None, views: Mapping[str, Path]) -> list[str]:
    """The gdb command: the view's symbols first, the other's beside them. Linux's scripts lie beside its build for gdb."""
    symbols = [str(path) for name, path in sorted(views.items(), key=lambda item: item[0] != view)]
    argv = ["gdb", "-q", "-ex", f'set substitute-path {rust.SOURCES} "{REPOSITORY}"']
    if slot.LINUX in views:
        argv += ["-iex", f"add-auto-load-safe-path {views[slot.LINUX].parent}"]
    argv += symbols[:1]
    for other in symbols[1:]:
        # gdb would ask whether it may.
        argv += ["-ex", "set confirm off", "-ex", f"add-symbol-file {other}", "-ex", "set confirm on"]
    return [*argv, "-ex", f"target remote {guest.gdb_socket}"]
