# SPDX-License-Identifier: GPL-2.0-only
"""The end of a machine that has no exit port for it: power off, reset, panic; and the end of the first tasks."""

import json
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import REPOSITORY, keel

LIMIT_S = 120
NATIVE = REPOSITORY / "build" / "keel"
QEMU = ["qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot", "-m", "512"]
CPU = ["-cpu", "max,-la57"]
# What the suite asks for in place of its cases: docs/boot.md.
POWER_OFF, REBOOT, PANIC = 0x10, 0x11, 0x12
CONFIGURATION = "log com3\non-panic stop\n{}task suite {{ image suite may-end memory 16M tasks 1024 quota 4096 args end={} }}\n"


@dataclass
class Machine:
    """A guest that runs: its log, and why it ended, in QEMU's words."""

    log: Path
    events: "socket.socket"
    heard: bytes = b""
    reasons: list[str] = field(default_factory=list)

    def hear(self, limit_s: float) -> bool:
        """Take what QEMU tells within this time; false where there is no more to come."""
        if not select.select([self.events], [], [], limit_s)[0]:
            return True
        data = self.events.recv(65536)
        self.heard += data
        *lines, self.heard = self.heard.split(b"\n")
        told = [json.loads(line) for line in lines if line.strip()]
        self.reasons += [event["data"]["reason"] for event in told if event.get("event") == "SHUTDOWN"]
        return bool(data)

    def text(self) -> str:
        """What the log says by now."""
        return self.log.read_text(errors="replace")

    def end(self) -> str:
        """Why it ended."""
        end = time.monotonic() + LIMIT_S
        while not self.reasons:
            left_s = end - time.monotonic()
            assert left_s > 0, f"it has not ended: {self.text()}"
            assert self.hear(left_s) or self.reasons, f"it ended without a word: {self.text()}"
        return self.reasons[0]

    def wait_for(self, text: str) -> None:
        """Wait until the log has a text, which ends nothing."""
        end = time.monotonic() + LIMIT_S
        while text not in self.text():
            assert time.monotonic() < end, f"no {text!r}: {self.text()}"
            assert self.hear(0.1), f"it ended: {self.text()}"


@contextmanager
def machine(place: Path, *arguments: str) -> Iterator[Machine]:
    """QEMU with these arguments, its third serial line in a file, from the first instruction to its end."""
    log, monitor = place / "log", place / "monitor"
    log.touch()
    lines = ["-serial", "null", "-serial", "null", "-serial", f"file:{log}"]
    control = ["-S", "-qmp", f"unix:{monitor},server=on,wait=off"]
    with subprocess.Popen([*QEMU, *CPU, *lines, *control, *arguments]) as child, socket.socket(socket.AF_UNIX) as events:
        try:
            while not monitor.exists():
                assert child.poll() is None, "QEMU does not start"
                time.sleep(0.01)
            events.connect(str(monitor))
            for command in ("qmp_capabilities", "cont"):
                events.sendall(json.dumps({"execute": command}).encode())
            yield Machine(log, events)
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
    """By ACPI's control register, and by the reset register that ACPI names or the chipset has."""
    with machine(tmp_path, "-machine", model, *modules(tmp_path, CONFIGURATION.format("", code))) as guest:
        assert guest.end() == reason
        assert f"(code {code:#x})" in guest.text()


def test_a_machine_without_acpi(tmp_path: Path) -> None:
    """It can be reset; that it cannot be powered off is said."""
    for code in (POWER_OFF, REBOOT):
        with machine(tmp_path, "-machine", "pc,acpi=off", *modules(tmp_path, CONFIGURATION.format("", code))) as guest:
            if code == REBOOT:
                assert guest.end() == "guest-reset"
            else:
                guest.wait_for("that had no effect")


@pytest.mark.parametrize(("more", "code"), [("", PANIC), ("on-end stay\n", POWER_OFF), ("on-end stay\n", REBOOT)])
def test_a_machine_that_stands_still(tmp_path: Path, more: str, code: int) -> None:
    """After a panic what was said stays to be read, and where the configuration says so after anything."""
    with machine(tmp_path, "-machine", "pc", *modules(tmp_path, CONFIGURATION.format(more, code))) as guest:
        guest.wait_for(f"root: it stands still (code {code:#x})")
        assert guest.hear(2)
        assert not guest.reasons


# Where the µ-kernel wants the first two tasks, and how its console names their threads.
FIRST_TASKS = {"sigma0": (0x20_0000, "1.0v1"), "root": (0x40_0000, "2.0v1")}
# An undefined instruction; a read where no machine has memory.
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
