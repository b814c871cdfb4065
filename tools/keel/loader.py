# SPDX-License-Identifier: GPL-2.0-only
"""GRUB: a disc that boots the µ-kernel and its modules, on a PC with BIOS or with UEFI."""

import shutil
import string
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from . import process, qemu

# What the µ-kernel is given to draw on, where it is to have a screen: this, or what there is.
SCREEN_MODES = "1024x768x32;1024x768;auto"
# On a PC: how long the menu waits, its entries, and the µ-kernel's word by which its console is on the screen too.
MENU_S = 3
ENTRY = "Linux on Keel"
DEBUG_ENTRY = "Linux on Keel, with the console of the micro-kernel on the screen"
CONSOLE_ON_SCREEN = "screen"
REMEDY = "is there room on the disk?"
# Characters that mean nothing to GRUB's script language.
PLAIN = string.ascii_letters + string.digits + "-_.,:=/"


def configuration(guest: qemu.Guest, *, menu: bool = False) -> str:
    """What GRUB is told: the µ-kernel and its modules, by the names that they have on the disc.

    With a menu the user may choose an entry that has the µ-kernel's console on the screen.
    """
    video = ["insmod all_video"] if guest.has_screen else []
    if not menu:
        return "\n".join(["set timeout=0", *video, *_commands(guest), "boot", ""])
    debug = replace(guest, command_line=f"{guest.command_line} {CONSOLE_ON_SCREEN}".strip())
    lines = [f"set timeout={MENU_S}", *video]
    for title, entry in ((ENTRY, guest), (DEBUG_ENTRY, debug)):
        lines += [f"menuentry '{title}' {{", *(f"    {line}" for line in _commands(entry)), "}"]
    return "\n".join([*lines, ""])


def _commands(guest: qemu.Guest) -> Iterator[str]:
    """What loads the µ-kernel and its modules."""
    yield f"multiboot2 /boot/{guest.kernel.name} {_quoted(guest.command_line)}".rstrip()
    # After multiboot2, which sets it by the kernel's header.
    yield f"set gfxpayload='{SCREEN_MODES if guest.has_screen else 'text'}'"
    for module in guest.modules:
        name = module.path.name
        yield f"module2 /boot/{name} {name} {_quoted(module.arguments)}".rstrip()


def _quoted(words: str) -> str:
    """Words as GRUB's script language takes them: nothing in them means anything but itself."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" if word.strip(PLAIN) else word for word in words.split())


def make_disc(guest: qemu.Guest, directory: Path, disc: Path, log: Path, *, menu: bool = False) -> None:
    """The disc with GRUB, the µ-kernel and the modules, perhaps with a menu; it is put together in the directory."""
    tree = directory / "disc"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "boot" / "grub").mkdir(parents=True)
    for path in [guest.kernel, *(module.path for module in guest.modules)]:
        shutil.copyfile(path, tree / "boot" / path.name)
    (tree / "boot" / "grub" / "grub.cfg").write_text(configuration(guest, menu=menu))
    argv = ["grub-mkrescue", "-o", str(disc), str(tree)]
    process.run_logged(argv, what="making the disc that boots", log=log, env={"TMPDIR": str(directory)}, remedy=REMEDY)
    shutil.rmtree(tree)
