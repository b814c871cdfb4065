# SPDX-License-Identifier: GPL-2.0-only
"""The choice of the accelerator, with stand-ins for the device and for the probe guest."""

from pathlib import Path

import pytest

from keel import accel, machine, process
from keel.config import Settings
from keel.errors import KeelError

ANSWERED = machine.emulator_status(machine.EXIT_PROBE)


def prepare(monkeypatch: pytest.MonkeyPatch, device: Path, status: int | None) -> None:
    monkeypatch.setattr(accel, "KVM_DEVICE", device)
    monkeypatch.setattr(accel, "_build_probe", lambda settings: device)
    monkeypatch.setattr(process, "status_of", lambda argv, timeout_s: status)


def test_a_host_without_the_device_emulates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prepare(monkeypatch, tmp_path / "none", ANSWERED)
    assert accel.choose(Settings(), "auto", icount=False) == "tcg"
    with pytest.raises(KeelError, match="not there"):
        accel.choose(Settings(), "kvm", icount=False)


@pytest.mark.parametrize(("status", "chosen"), [(ANSWERED, "kvm"), (0, "tcg"), (None, "tcg")])
def test_only_a_probe_that_answers_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int | None, chosen: str
) -> None:
    prepare(monkeypatch, tmp_path, status)
    assert accel.choose(Settings(), "auto", icount=False) == chosen


def test_counting_instructions_emulates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prepare(monkeypatch, tmp_path, ANSWERED)
    assert accel.choose(Settings(), "auto", icount=True) == "tcg"
