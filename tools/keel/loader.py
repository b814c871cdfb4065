# SPDX-License-Identifier: GPL-2.0-only
"""GRUB: a bootable ISO image with the µ-kernel and its modules, for a PC with BIOS or UEFI."""

import hashlib
import shutil
import string
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from . import measures, process, qemu
from .progress import Step

# What the µ-kernel is given to draw on, where it is to have a screen: this, or what there is.
SCREEN_MODES = "1024x768x32;1024x768;auto"
# On a PC: how long the menu waits; its entries, the second with a key that boots it at once; and the µ-kernel's word by which
# its console is on the screen too.
MENU_S = 3
ENTRY = "Linux on Keel"
DEBUG_ENTRY = "Linux on Keel, with the console of the micro-kernel on the screen (d)"
DEBUG_KEY = "d"
CONSOLE_ON_SCREEN = "screen"
REMEDY = "is there room on the disk?"
# The range of an image's date, in seconds since 1970: the years 2000 to 2024.
FIRST_DATE, DATES = 946_684_800, 25 * 365 * 86400
# GRUB's program gives the partition table random identifiers, unless xorriso takes them from the date.
FIXED_IDENTIFIERS = ("--", "-boot_image", "any", "gpt_disk_guid=modification-date")
# Characters that mean nothing to GRUB's script language.
PLAIN = string.ascii_letters + string.digits + "-_.,:=/"


def configuration(guest: qemu.Guest, *, menu: bool = False) -> str:
    """GRUB's configuration: the µ-kernel and its modules, by their names on the image.

    With a menu the user may choose an entry that has the µ-kernel's console on the screen.
    """
    video = ["insmod all_video"] if guest.has_screen else []
    if not menu:
        return "\n".join(["set timeout=0", *video, *_commands(guest), "boot", ""])
    debug = replace(guest, command_line=f"{guest.command_line} {CONSOLE_ON_SCREEN}".strip())
    lines = [f"set timeout={MENU_S}", *video]
    for head, entry in ((f"'{ENTRY}'", guest), (f"'{DEBUG_ENTRY}' --hotkey={DEBUG_KEY}", debug)):
        lines += [f"menuentry {head} {{", *(f"    {line}" for line in _commands(entry)), "}"]
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


def make_disc(guest: qemu.Guest, directory: Path, disc: Path, log: Path, *, menu: bool = False, step: Step | None = None) -> None:
    """Make the ISO image with GRUB, the µ-kernel and the modules, perhaps with a menu, in the directory."""
    tree = directory / "disc"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "boot" / "grub").mkdir(parents=True)
    for path in [guest.kernel, *(module.path for module in guest.modules)]:
        shutil.copyfile(path, tree / "boot" / path.name)
    (tree / "boot" / "grub" / "grub.cfg").write_text(configuration(guest, menu=menu))
    argv = ["faketime", "-f", date(tree), "grub-mkrescue", "-o", str(disc), str(tree), *FIXED_IDENTIFIERS]
    environment = {"TMPDIR": str(directory), "TZ": "UTC"}
    process.run_logged(
        argv, what="making the ISO image", log=log, step=step, measure=measures.percent, env=environment, remedy=REMEDY
    )
    shutil.rmtree(tree)


def date(tree: Path) -> str:
    """The date of an image, made from its contents, so that the same contents give the same image.

    GRUB finds its medium by this date: images with other contents, which may be in the same machine, need another one.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest.update(path.relative_to(tree).as_posix().encode() + hashlib.file_digest(file, "sha256").digest())
    seconds = FIRST_DATE + int.from_bytes(digest.digest()) % DATES
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
