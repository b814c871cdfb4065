# SPDX-License-Identifier: GPL-2.0-only
"""Shutdown of a machine without an exit port: power off, reset, and a panic, which the screen shows. Also faults of the first
tasks.
"""

import json
import re
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import REPOSITORY, keel

sys.path.insert(0, str(REPOSITORY / "tools"))

from keel import loader, qemu

LIMIT_S = 120
NATIVE = REPOSITORY / "build" / "keel"
QEMU = ["qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot", "-m", "512"]
CPU = ["-cpu", "max,-la57"]
# The shutdown codes that the suite requests instead of running its cases (docs/boot.md).
POWER_OFF, REBOOT, PANIC = 0x10, 0x11, 0x12
CONFIGURATION = (
    "log com3\non-panic stop\n{}task suite {{ image suite may-shutdown memory 16M tasks 1024 quota 4096 args end={} }}\n"
)


@dataclass
class Machine:
    """A running guest: its log, and QEMU's reason for its end."""

    log: Path
    events: "socket.socket"
    heard: bytes = b""
    reasons: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def hear(self, limit_s: float) -> bool:
        """Take QEMU's events within this time; false if there are no more."""
        if not select.select([self.events], [], [], limit_s)[0]:
            return True
        data = self.events.recv(65536)
        self.heard += data
        *lines, self.heard = self.heard.split(b"\n")
        told = [json.loads(line) for line in lines if line.strip()]
        self.reasons += [event["data"]["reason"] for event in told if event.get("event") == "SHUTDOWN"]
        self.done += [answer["id"] for answer in told if "return" in answer]
        return bool(data)

    def do(self, command: str, **arguments: object) -> None:
        """Execute a QEMU command and wait for its end."""
        name = f"{command} {len(self.done)}"
        self.events.sendall(json.dumps({"execute": command, "arguments": arguments, "id": name}).encode())
        end = time.monotonic() + LIMIT_S
        while name not in self.done:
            assert time.monotonic() < end, f"QEMU does not answer: {self.heard!r}"
            assert self.hear(1), f"it ended: {self.text()}"

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    def end(self) -> str:
        """Why it ended."""
        end = time.monotonic() + LIMIT_S
        while not self.reasons:
            left_s = end - time.monotonic()
            assert left_s > 0, f"it has not ended: {self.text()}"
            assert self.hear(left_s) or self.reasons, f"it ended without a reason: {self.text()}"
        return self.reasons[0]

    def wait_for(self, text: str) -> None:
        """Wait until the log has a text; the guest must still run."""
        end = time.monotonic() + LIMIT_S
        while text not in self.text():
            assert time.monotonic() < end, f"no {text!r}: {self.text()}"
            assert self.hear(0.1), f"it ended: {self.text()}"


@contextmanager
def machine(place: Path, *arguments: str) -> Iterator[Machine]:
    """Run QEMU with these arguments and its third serial line in a file."""
    log, monitor = place / "log", place / "monitor"
    log.touch()
    lines = ["-serial", "null", "-serial", "null", "-serial", f"file:{log}"]
    control = ["-S", "-qmp", f"unix:{monitor},server=on,wait=off"]
    with subprocess.Popen([*QEMU, *CPU, *lines, *control, *arguments]) as child, socket.socket(socket.AF_UNIX) as events:
        try:
            # The file exists shortly before QEMU listens.
            while events.connect_ex(str(monitor)) != 0:
                assert child.poll() is None, "QEMU does not start"
                time.sleep(0.01)
            guest = Machine(log, events)
            guest.do("qmp_capabilities")
            guest.do("cont")
            yield guest
        finally:
            child.terminate()


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    """The µ-kernel and the native tasks are up to date."""
    built = keel("build", "keel")
    assert built.status == 0, built.error


def modules(place: Path, text: str, **others: Path) -> list[str]:
    """The µ-kernel's arguments: the first two tasks, a configuration, and the suite."""
    (place / "boot.conf").write_text(text)
    first = [others.get(name, NATIVE / name) for name in ("sigma0", "root")]
    files = map(str, [*first, place / "boot.conf", NATIVE / "suite"])
    return ["-kernel", str(NATIVE / "kernel.elf"), "-append", "console=com3", "-initrd", ",".join(files)]


@pytest.mark.parametrize(("code", "reason"), [(POWER_OFF, "guest-shutdown"), (REBOOT, "guest-reset")])
@pytest.mark.parametrize("model", ["pc", "q35", "q35,smm=off"])
def test_what_is_asked_for_happens(tmp_path: Path, model: str, code: int, reason: str) -> None:
    """By ACPI's control register, and by ACPI's or the chipset's reset register."""
    with machine(tmp_path, "-machine", model, *modules(tmp_path, CONFIGURATION.format("", code))) as guest:
        assert guest.end() == reason
        assert f"(code {code:#x})" in guest.text()


def test_a_machine_without_acpi(tmp_path: Path) -> None:
    """It can be reset. The log says that it cannot be powered off."""
    for code in (POWER_OFF, REBOOT):
        with machine(tmp_path, "-machine", "pc,acpi=off", *modules(tmp_path, CONFIGURATION.format("", code))) as guest:
            if code == REBOOT:
                assert guest.end() == "guest-reset"
            else:
                guest.wait_for("that had no effect")


@pytest.mark.parametrize(("more", "code"), [("", PANIC), ("on-shutdown halt\n", POWER_OFF), ("on-shutdown halt\n", REBOOT)])
def test_a_machine_that_stands_still(tmp_path: Path, more: str, code: int) -> None:
    """The machine halts with its output on the screen after a panic, or after any shutdown if the configuration says so."""
    with machine(tmp_path, "-machine", "pc", *modules(tmp_path, CONFIGURATION.format(more, code))) as guest:
        guest.wait_for(f"root: the machine halts (code {code:#x})")
        assert guest.hear(2)
        assert not guest.reasons


# The addresses of the first two tasks, and their threads' names on the µ-kernel's console.
FIRST_TASKS = {"sigma0": (0x20_0000, "1.0v1"), "root": (0x40_0000, "2.0v1")}
# An undefined instruction; a read at an address without memory.
FAULTS = {"ud2": "vector 6 error 0x0", "movabs 0x700000000000, %al": "vector 14 error 0x4 address 0x700000000000"}


def program(path: Path, base: int, instruction: str) -> Path:
    """A program that consists of one instruction."""
    command = ["gcc", "-nostdlib", "-static", "-no-pie", f"-Wl,-Ttext-segment={base:#x}", "-x", "assembler", "-"]
    source = f".globl _start\n_start: {instruction}\n.section .note.GNU-stack\n"
    subprocess.run([*command, "-o", str(path)], input=source.encode(), check=True)
    return path


@pytest.mark.parametrize("instruction", FAULTS)
@pytest.mark.parametrize("task", FIRST_TASKS)
def test_what_the_first_tasks_do_wrong_is_told(tmp_path: Path, task: str, instruction: str) -> None:
    """The µ-kernel's console names the thread, the exception or page fault, and the instruction."""
    base, thread = FIRST_TASKS[task]
    made = {task: program(tmp_path / task, base, instruction)}
    with machine(tmp_path, "-machine", "pc", *modules(tmp_path, "", **made)) as guest:
        guest.wait_for(f"{thread} stopped: {FAULTS[instruction]}")
        guest.wait_for("nobody handles it")
        assert f"ip {base + 0x1000:#x}" in guest.text()


# The image's µ-kernel finds no root task, and has a framebuffer.
LOADER = """set timeout=0
insmod all_video
multiboot2 /boot/kernel.elf console=com3
set gfxpayload='1024x768x32'
module2 /boot/sigma0 sigma0
boot
"""
NO_ROOT = "no boot module is named root"
# Letters on a framebuffer of this width: the repetition of each pixel, the columns and lines of a letter and of its glyph.
WIDTH, SCALE, LETTER, GLYPH = 1024, 2, (6, 10), (5, 8)
# Letters side by side in the picture of all that the µ-kernel has.
SIDE_BY_SIDE = 16


def disc(place: Path) -> Path:
    """An ISO image that boots the µ-kernel and sigma0 by GRUB."""
    (boot := place / "disc" / "boot" / "grub").mkdir(parents=True)
    (boot / "grub.cfg").write_text(LOADER)
    for name in ("kernel.elf", "sigma0"):
        shutil.copy(NATIVE / name, boot.parent)
    subprocess.run(["grub-mkrescue", "-o", str(place / "disc.iso"), str(place / "disc")], check=True, capture_output=True)
    return place / "disc.iso"


def letters(picture: Path) -> str:
    """The text on a framebuffer, recognised by the µ-kernel's own glyphs."""
    drawn = (REPOSITORY / "kernel/src/arch/x86_64/letters.txt").read_text().splitlines()

    def columns_of(number: int) -> tuple[int, ...]:
        top, left = number // SIDE_BY_SIDE * LETTER[1], number % SIDE_BY_SIDE * LETTER[0]
        spots = [[drawn[top + y][left + x] for y in range(GLYPH[1])] for x in range(GLYPH[0])]
        return tuple(sum((spot == "#") << y for y, spot in enumerate(column)) for column in spots)

    glyphs = {columns_of(number): chr(ord(" ") + number) for number in range(95)}
    data = picture.read_bytes()
    found = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    assert found
    assert int(found[1]) == WIDTH
    red = data[found.end() :: 3]

    def glyph(row: int, column: int) -> tuple[int, ...]:
        at = (row * LETTER[1] * WIDTH + column * LETTER[0]) * SCALE
        spots = [[at + (y * WIDTH + x) * SCALE for y in range(GLYPH[1])] for x in range(GLYPH[0])]
        return tuple(sum((red[spot] == 0xFF) << y for y, spot in enumerate(column)) for column in spots)

    rows, columns = int(found[2]) // (LETTER[1] * SCALE), WIDTH // (LETTER[0] * SCALE)
    return "\n".join("".join(glyphs.get(glyph(row, column), "?") for column in range(columns)) for row in range(rows))


def text_mode(guest: Machine, place: Path) -> str:
    """The text on a screen in text mode."""
    guest.do("pmemsave", val=0xB8000, size=2 * 80 * 25, filename=str(place))
    return place.read_bytes()[::2].decode("latin1")


def test_a_panic_is_on_the_screen(tmp_path: Path) -> None:
    """In the firmware's text mode."""
    kernel = ["-kernel", str(NATIVE / "kernel.elf"), "-append", "console=com3", "-initrd", str(NATIVE / "sigma0")]
    with machine(tmp_path, "-machine", "pc", "-vga", "std", *kernel) as guest:
        guest.wait_for("keel: the machine stands still (code 0x13)")
        shown = text_mode(guest, tmp_path / "screen")
        assert shown.startswith("keel: PANIC: panicked at kernel/")
        assert NO_ROOT in shown


def test_a_panic_is_on_a_framebuffer(tmp_path: Path) -> None:
    """In the graphics mode that a boot loader has set."""
    drive = ["-drive", f"file={disc(tmp_path)},format=raw,if=virtio,readonly=on"]
    with machine(tmp_path, "-machine", "pc", "-vga", "std", *drive) as guest:
        guest.wait_for("keel: the machine stands still (code 0x13)")
        guest.do("screendump", filename=str(tmp_path / "picture"))
        shown = letters(tmp_path / "picture")
        assert shown.startswith("keel: PANIC: panicked at kernel/")
        assert NO_ROOT in shown


def test_the_console_is_on_the_screen_if_that_is_asked_for(tmp_path: Path) -> None:
    """The log from the start with the option, and nothing without it."""
    for word in ("screen", ""):
        arguments = modules(tmp_path, CONFIGURATION.format("", PANIC))
        arguments[arguments.index("-append") + 1] += f" {word}"
        with machine(tmp_path, "-machine", "pc", "-vga", "std", *arguments) as guest:
            guest.wait_for(f"root: the machine halts (code {PANIC:#x})")
            assert ("keel: Keel u-kernel, 1 processors" in text_mode(guest, tmp_path / "screen")) == bool(word)


@pytest.mark.parametrize("key", ["ret", loader.DEBUG_KEY])
def test_an_entry_of_a_discs_menu_has_the_console_on_the_screen(tmp_path: Path, key: str) -> None:
    """A drive that a PC's firmware cannot boot from."""
    (tmp_path / "boot.conf").write_text(CONFIGURATION.format("", PANIC))
    files = [NATIVE / "sigma0", NATIVE / "root", tmp_path / "boot.conf", NATIVE / "suite"]
    booted = qemu.Guest(NATIVE / "kernel.elf", modules=tuple(map(qemu.Module, files)), has_screen=True)
    loader.make_disc(booted, tmp_path, tmp_path / "disc.iso", tmp_path / "disc.log", menu=True)
    drive = ["-drive", f"file={tmp_path / 'disc.iso'},format=raw,if=virtio,readonly=on"]
    with machine(tmp_path, "-machine", "pc", "-vga", "std", *drive) as guest:
        end = time.monotonic() + LIMIT_S
        while "root: " not in guest.text() and time.monotonic() < end:  # the menu takes a moment to appear
            guest.do("send-key", keys=[{"type": "qcode", "data": key}])
            assert guest.hear(0.1), f"it ended: {guest.text()}"
        guest.wait_for(f"root: the machine halts (code {PANIC:#x})")
        guest.do("screendump", filename=str(tmp_path / "picture"))
        assert ("keel: Keel u-kernel, 1 processors" in letters(tmp_path / "picture")) == (key == loader.DEBUG_KEY)
