# SPDX-License-Identifier: GPL-2.0-only
"""What the host must have."""

import fcntl
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from keel import emulators, packages
from keel.config import Settings
from keel.errors import KeelError
from keel.lock import locked
from keel.progress import Far

ABSENT = packages.Need("no-such-package", ("no-such-program", "/no/such/file"), "is not there")


def test_nothing_is_installed_against_the_users_will() -> None:
    with pytest.raises(KeelError) as caught:
        packages.require(Settings(install=False), [ABSENT])
    assert "apt-get install no-such-package" in caught.value.line()


def test_runs_side_by_side_install_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """apt-get would fail beside itself; who waited finds what the other has installed."""
    wanted, installed = tmp_path / "wanted", []

    def install(settings: Settings, names: list[str], command: str) -> None:
        with (tmp_path / "lock" / "packages.lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        installed.append(names)

    def other_run(directory: Path, name: str, *, shared: bool = False) -> AbstractContextManager[None]:
        if not shared:
            wanted.touch()
        return locked(directory, name, shared=shared)

    need = packages.Need("wanted", (str(wanted),), "is wanted")
    monkeypatch.setattr(packages, "_install", install)
    settings = Settings(build=tmp_path, install=True)
    with pytest.raises(KeelError, match="still missing"):
        packages.require(settings, [need])
    monkeypatch.setattr(packages, "locked", other_run)
    packages.require(settings, [need])
    assert installed == [["wanted"]]


def fake_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """An apt-get, run as root; returns the file that it is to make."""
    program, made = tmp_path / "apt-get", tmp_path / "made"
    program.write_text(f"#!/bin/sh\n{script.replace('MADE', str(made))}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return made


INSTALLS = "case $* in *update*) touch MADE.lists;; *) echo E: Unable to locate package; [ -e MADE.lists ] && touch MADE;; esac"


def test_lists_are_updated_where_a_package_is_not_found(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What apt-get prints is in the log alone."""
    made = fake_apt(tmp_path, monkeypatch, INSTALLS)
    packages.require(replace(settings, install=True), [packages.Need("wanted", (str(made),), "")])
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.endswith("...")]
    assert lines[0].startswith("keel: this machine lacks wanted: ") and "apt-get installs it now (--no-install" in lines[0]
    assert [line.partition(":")[2].partition(":")[0] for line in lines[1:]] == [
        " installing wanted",
        " updating the host's package lists",
        " installing wanted",
    ]
    assert "Unable to locate" in (settings.logs / "packages.log").read_text()


def test_why_packages_cannot_be_installed_is_shown(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_apt(tmp_path, monkeypatch, "echo E: no network; exit 100")
    with pytest.raises(KeelError, match="updating the host's package lists failed") as caught:
        packages.require(replace(settings, install=True), [ABSENT])
    assert "E: no network" in capsys.readouterr().err and "apt-get install no-such-package" in caught.value.line()


def test_installing_shows_how_far_it_is() -> None:
    measure = packages.apt_progress()
    assert measure(b"Reading package lists...") == ""
    assert measure(b"0 upgraded, 2 newly installed, 0 to remove and 3 not upgraded.") == Far(0, 100, "%")
    lines = [b"Get:1 http://m bc", b"Unpacking bc (1) ...", b"Unpacking flex (1) ...", b"Setting up bc (1) ..."]
    assert [measure(line) for line in lines] == [Far(done * 100 // 6, 100, "%") for done in (1, 2, 3, 4)]


def test_what_another_run_installs_is_waited_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are there before it can be used."""
    (file := settings.build / "library").parent.mkdir()
    file.touch()
    waits, order = threading.Event(), list[str]()
    monkeypatch.setattr("keel.lock.say", lambda _: waits.set())

    def use() -> None:
        packages.require(settings, [packages.Need("library", (str(file),), "is used")])
        order.append("used")

    with locked(settings.locks, "packages"):
        (user := threading.Thread(target=use)).start()
        assert waits.wait(60)
        order.append("installed")
    user.join()
    assert order == ["installed", "used"]


def test_a_program_or_a_file_meets_a_need(tmp_path: Path) -> None:
    assert packages.Need("bash", ("sh",), "").met()
    assert packages.Need("x", (str(tmp_path),), "").met()
    (tmp_path / "12").mkdir()
    assert packages.Need("x", (f"{tmp_path}/1*",), "").met() and not packages.Need("x", (f"{tmp_path}/2*",), "").met()
    assert not ABSENT.met()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7+deb12u16)", (7, 2)),
        ("QEMU emulator version 10.0.2", (10, 0)),
        ("nonsense", None),
    ],
)
def test_the_emulators_version_is_read(text: str, version: tuple[int, int] | None) -> None:
    assert packages.qemu_version(text) == version


def fake_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "qemu-system-x86_64"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_an_emulator_without_a_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = 'Storage devices:\nname "ide-hd", bus IDE, desc "disk"\nname "nvme-ns", bus nvme-bus\n'
    script = f"case $1 in --version) echo QEMU emulator version 8.0.1;; *) printf '{devices}';; esac"
    fake_emulator(tmp_path, monkeypatch, script)
    emulators.require_devices(Settings(install=False), ["ide-hd", "nvme-ns"])
    with pytest.raises(KeelError, match=r"no device nvme\Z"):
        emulators.require_devices(Settings(install=False), ["ide-hd", "nvme"])


def test_an_old_emulator_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_emulator(tmp_path, monkeypatch, "echo QEMU emulator version 5.2.0")
    with pytest.raises(KeelError, match=r"QEMU 5\.2 is too old"):
        packages.require_emulator(Settings(install=False))


def test_what_lies_in_sbin_is_found_for_ordinary_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian gives them no /sbin in PATH; what is nowhere keeps its name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert packages.program("mke2fs").endswith("sbin/mke2fs")
    assert packages.program("no-such-program") == "no-such-program"
