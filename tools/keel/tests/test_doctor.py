# SPDX-License-Identifier: GPL-2.0-only
"""What the verbs need of the machine, and the status for it."""

import pytest

from keel import packages
from keel.commands import doctor
from keel.config import Settings
from keel.errors import Status
from keel.packages import Need

RUN_NEED, TEST_NEED = Need("runner", ("/bin/sh",), "runs"), Need("tester", ("/bin/sh",), "tests")
ABSENT = "/no/such/file"


def told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *lacking: str
) -> tuple[int, list[str]]:
    """The status and the lines, where these packages are missing and all else that is looked at is well."""
    needs = {"run": [RUN_NEED], "test": [RUN_NEED, TEST_NEED, TEST_NEED]}
    absent = {
        verb: [Need(need.package, (ABSENT,) if need.package in lacking else need.files, need.why) for need in needed]
        for verb, needed in needs.items()
    }
    monkeypatch.setattr(doctor, "needs_of_verbs", lambda: absent)
    for look in ("_emulator", "_disk", "_report_choices"):
        monkeypatch.setattr(doctor, look, lambda *_: [])
    return doctor.doctor(settings), capsys.readouterr().out.splitlines()


def test_each_package_is_told_once_with_its_verbs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = told(settings, monkeypatch, capsys)
    assert status == Status.OK
    assert lines == ["  ok  runner  runs   run, test", "  ok  tester  tests  test", "run: all is there", "test: all is there"]


def test_what_run_does_not_need_is_no_failure(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = told(settings, monkeypatch, capsys, "tester")
    assert status == Status.OK
    assert lines[-2:] == ["run: all is there", "test: missing: apt-get install tester"]


def test_what_run_needs_is_one(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = told(settings, monkeypatch, capsys, "runner")
    assert status == Status.ERROR
    assert "run: missing: apt-get install runner" in lines


def test_run_and_image_need_what_they_install(settings: Settings) -> None:
    """The table has all that these verbs ask for where nothing is there."""
    needs = doctor.needs_of_verbs()
    assert {*packages.EMULATOR, *packages.LINUX, *packages.RUST, *packages.ROOT, *packages.IMAGES} <= set(needs["run"])
    assert {*packages.UEFI_LOADER, *packages.SQUASHFS} <= set(needs["image"])
    assert set(needs[doctor.FROM]) == set(packages.EMULATOR)
