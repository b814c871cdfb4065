# SPDX-License-Identifier: GPL-2.0-only
"""Running a guest, with a program in the emulator's place."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from keel import boot, guest, qemu
from keel.commands import run
from keel.config import Settings
from keel.slot import Slot

Emulator = Callable[[str], None]


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """Makes a program the emulator: it has the guest's accelerator, and its console, channel and log as files."""

    def use(program: str) -> None:
        def arguments(described: qemu.Guest) -> list[str]:
            opened = (f"os.fdopen({fd}, 'wb', 0)" for fd in (described.console_fd, described.exec_fd, described.log_fd))
            files = f"console, channel, log = {', '.join(opened)}"
            script = f"import os, sys, time\naccelerator = {described.accelerator!r}\n{files}\n{program}"
            return [sys.executable, "-c", script]

        monkeypatch.setattr(qemu, "arguments", arguments)

    return use


@pytest.fixture
def plan(settings: Settings, tmp_path: Path) -> guest.Plan:
    return guest.Plan(slot=Slot("test", tmp_path, settings.logs), command=b"true", timeout_s=60)


LINE = "log.write(b'keel: boot\\nro'); log.write(b'ot: task linux\\n')"
KVM = qemu.Guest(Path("kernel"), accelerator="kvm")


def said_by(
    settings: Settings, plan: guest.Plan, choices: boot.Choices, monkeypatch: pytest.MonkeyPatch, limit_s: float = 30
) -> tuple[int | None, list[str]]:
    said: list[str] = []
    monkeypatch.setattr(run, "say", said.append)
    monkeypatch.setattr(run, "KVM_BEGINS_S", limit_s)
    return run._run_guest(settings, choices, KVM, plan).emulator_status, said


@pytest.mark.parametrize(
    ("under_kvm", "told"),
    [
        ("print('kvm: no'); os._exit(1)", ["ended with status 1", "kvm: no"]),
        ("log.write(b'keel: panic\\n'); os._exit(1)", ["ended with status 1"]),
        ("time.sleep(60)", ["stood for 0.5 s"]),
    ],
)
def test_a_guest_that_kvm_does_not_begin_is_emulated(
    under_kvm: str, told: list[str], emulator: Emulator, settings: Settings, plan: guest.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator(f"if accelerator == 'kvm':\n    {under_kvm}\n{LINE}\nos._exit(7)")
    status, said = said_by(settings, plan, boot.Choices(), monkeypatch, limit_s=0.5 if "sleep" in under_kvm else 30)
    assert status == 7 and len(said) == 2
    assert all(words in said[0] for words in told), said


@pytest.mark.parametrize("first", [LINE, "console.write(b'Linux')", "channel.write(bytes([3, 0, 0, 0]))"])
def test_a_guest_that_has_begun_is_not_run_again(
    first: str, emulator: Emulator, settings: Settings, plan: guest.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator(f"{first}\nos._exit(3)")
    assert said_by(settings, plan, boot.Choices(), monkeypatch) == (3, [])


@pytest.mark.parametrize("choices", [boot.Choices(accelerator="kvm"), boot.Choices(native=True), boot.Choices(gdb=True)])
def test_only_auto_falls_back(
    choices: boot.Choices, emulator: Emulator, settings: Settings, plan: guest.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator("os._exit(1)")
    assert said_by(settings, plan, choices, monkeypatch) == (1, [])
