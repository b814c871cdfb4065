# SPDX-License-Identifier: GPL-2.0-only
"""The choice of the accelerator, with stand-ins for the device and for the probe guest."""

from pathlib import Path

import pytest

from keel import accel, machine, process
from keel.config import Settings
from keel.errors import KeelError

ANSWERED = machine.emulator_status(machine.EXIT_PROBE)


def prepare(monkeypatch: pytest.MonkeyPatch, device: Path, status: int | None, flags: str = "fpu svm lm") -> None:
    """Stand-ins: the device, which is there where it is a directory of the test's, the probe's end, the processor's flags."""
    processors = device.parent / "cpuinfo"
    processors.write_text(f"model name\t: a processor\nflags\t\t: {flags}\n")
    monkeypatch.setattr(accel, "PROCESSORS", processors)
    monkeypatch.setattr(accel, "KVM_DEVICE", device)
    monkeypatch.setattr(accel, "build_probe", lambda settings: device)
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


@pytest.mark.parametrize(
    ("flags", "chosen"), [("fpu vmx lm", "kvm"), ("fpu svm lm", "kvm"), ("fpu hypervisor lm svm_lock", "tcg")]
)
def test_a_kvm_without_virtualization_by_the_processor_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str, chosen: str
) -> None:
    prepare(monkeypatch, tmp_path, ANSWERED, flags)
    assert accel.choose(Settings(), "auto", icount=False) == chosen


def test_counting_instructions_emulates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prepare(monkeypatch, tmp_path, ANSWERED)
    assert accel.choose(Settings(), "auto", icount=True) == "tcg"
