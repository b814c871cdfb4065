# SPDX-License-Identifier: GPL-2.0-only
"""GRUB: a disc that boots the µ-kernel and its modules, on a PC with BIOS or with UEFI."""

import shutil
import string
from pathlib import Path

from . import process, qemu

# What the µ-kernel is given to draw on, where it is to have a screen: this, or what there is.
SCREEN_MODES = "1024x768x32;1024x768;auto"
REMEDY = "is there room on the disk?"
# Characters that mean nothing to GRUB's script language.
PLAIN = string.ascii_letters + string.digits + "-_.,:=/"


def configuration(guest: qemu.Guest) -> str:
    """What GRUB is told: the µ-kernel and its modules, by the names that they have on the disc."""
    lines = ["set timeout=0", *(["insmod all_video"] if guest.has_screen else [])]
    lines.append(f"multiboot2 /boot/{guest.kernel.name} {_quoted(guest.command_line)}".rstrip())
    # Behind multiboot2, which sets it by the kernel's header.
    lines.append(f"set gfxpayload='{SCREEN_MODES if guest.has_screen else 'text'}'")
    for module in guest.modules:
        name = module.path.name
        lines.append(f"module2 /boot/{name} {name} {_quoted(module.arguments)}".rstrip())
    return "\n".join([*lines, "boot", ""])


def _quoted(words: str) -> str:
    """Words as GRUB's script language takes them: nothing in them means anything but itself."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" if word.strip(PLAIN) else word for word in words.split())


def make_disc(guest: qemu.Guest, directory: Path, disc: Path, log: Path) -> None:
    """The disc with GRUB, the µ-kernel and the modules; it is put together in the directory."""
    tree = directory / "disc"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "boot" / "grub").mkdir(parents=True)
    for path in [guest.kernel, *(module.path for module in guest.modules)]:
        shutil.copyfile(path, tree / "boot" / path.name)
    (tree / "boot" / "grub" / "grub.cfg").write_text(configuration(guest))
    argv = ["grub-mkrescue", "-o", str(disc), str(tree)]
    process.run_logged(argv, what="making the disc that boots", log=log, env={"TMPDIR": str(directory)}, remedy=REMEDY)
    shutil.rmtree(tree)
