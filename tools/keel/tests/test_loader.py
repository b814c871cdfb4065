# SPDX-License-Identifier: GPL-2.0-only
"""GRUB's configuration on a bootable ISO image."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

from keel import loader, qemu

GUEST = qemu.Guest(
    kernel=Path("/k/kernel.elf"),
    command_line="debug-exit",
    modules=(qemu.Module(Path("/k/sigma0")), qemu.Module(Path("/k/suite"), "x=1,2")),
)


def test_the_loader_names_the_modules_as_qemu_does() -> None:
    assert loader.configuration(GUEST).splitlines() == [
        "set timeout=0",
        "multiboot2 /boot/kernel.elf debug-exit",
        "set gfxpayload='text'",
        "module2 /boot/sigma0 sigma0",
        "module2 /boot/suite suite x=1,2",
        "boot",
    ]


def test_a_pc_is_asked_where_the_console_shall_be() -> None:
    """The first entry is taken by itself; the second differs by the µ-kernel's word alone."""
    lines = loader.configuration(replace(GUEST, has_screen=True), menu=True).splitlines()
    assert lines[:2] == ["set timeout=3", "insmod all_video"]
    entry, debug = lines[2:8], lines[8:]
    assert [entry[0], debug[0]] == [f"menuentry '{loader.ENTRY}' {{", f"menuentry '{loader.DEBUG_ENTRY}' --hotkey=d {{"]
    assert entry[1:] == [
        "    multiboot2 /boot/kernel.elf debug-exit",
        f"    set gfxpayload='{loader.SCREEN_MODES}'",
        "    module2 /boot/sigma0 sigma0",
        "    module2 /boot/suite suite x=1,2",
        "}",
    ]
    assert debug[1:] == [f"{entry[1]} screen", *entry[2:]]


def test_only_a_guest_with_a_screen_gets_a_mode() -> None:
    assert loader.SCREEN_MODES in loader.configuration(replace(GUEST, has_screen=True))
    assert loader.SCREEN_MODES not in loader.configuration(GUEST)


def test_what_means_something_to_grub_is_quoted() -> None:
    line = "a=$b it's {x} \\;"
    text = loader.configuration(replace(GUEST, command_line=line)).splitlines()[1]
    # A shell quotes by the same rules.
    words = subprocess.run(["sh", "-c", f"printf '%s ' {text}"], capture_output=True, text=True, check=True).stdout.split()
    assert words == ["multiboot2", "/boot/kernel.elf", *line.split()]


def test_a_disc_takes_the_place_of_the_kernel() -> None:
    argv = qemu.arguments(replace(GUEST, disc=Path("/r/a,b.iso"), uefi=True, has_screen=True, display="vnc=unix:/r/vnc"))
    assert not {"-kernel", "-initrd", "-append"} & set(argv)
    assert any("/r/a,,b.iso" in word for word in argv)
    assert sum("if=pflash" in word for word in argv) == 2
    assert "vnc=unix:/r/vnc" in argv
    plain = qemu.arguments(GUEST)
    assert "none" in plain
    assert "-vga" not in plain


def test_the_date_of_an_image_depends_on_its_files_alone(tmp_path: Path) -> None:
    dates = []
    for place, content in (("a", "x"), ("another", "x"), ("c", "y")):
        (tmp_path / place / "boot").mkdir(parents=True)
        (tmp_path / place / "boot" / "file").write_text(content)
        os.utime(tmp_path / place / "boot" / "file", (len(place), len(place)))
        dates.append(loader.date(tmp_path / place))
    assert dates[0] == dates[1] != dates[2]
    assert all("2000" <= date < "2025" for date in dates)
