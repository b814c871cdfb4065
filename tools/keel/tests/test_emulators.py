# SPDX-License-Identifier: GPL-2.0-only
"""Which QEMU runs a guest, with stand-ins for the host's and for Debian's packages."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from keel import cli, debian, emulators, machine, plugins, qemu, share
from keel.config import Settings
from keel.errors import KeelError, Status

Host = Callable[[str], None]
SAYS = '#!/bin/sh\ncase "$*" in *--version) echo "QEMU emulator version {}";; esac; echo "libraries: $LD_LIBRARY_PATH" >&2\n'
TWO = qemu.Guest(kernel=Path("k"), processors=2, takes_turns=True)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Makes the host's emulator one of this version."""
    program = tmp_path / "bin" / machine.EMULATOR
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.delenv("KEEL_QEMU", raising=False)

    def use(version: str) -> None:
        program.write_text(SAYS.format(version))
        program.chmod(0o755)

    return use


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Packages in place of Debian's; returns the names of those that were fetched."""
    fetched: list[str] = []

    def fetch(self: debian.Archive, package: str) -> Path:
        assert self.kind == debian.BACKPORTS
        fetched.append(package)
        tree = tmp_path / "packages" / package
        files = {emulators.PROGRAM: SAYS.format("10.0.2")} if package == emulators.PACKAGES[0] else {}
        if package.startswith("lib"):
            files[emulators.LIBRARIES / f"{package}.so.1"] = ""
        needs = "libone (>= 1), libc6 (>= 2.34), qemu-system-common" if files and not package.startswith("lib") else "libtwo"
        control = f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@y>\nDepends: {needs}\nDescription: x\n"
        for name, text in {Path("DEBIAN/control"): control, **files}.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
            (tree / name).chmod(0o755)
        file = tmp_path / f"{package}_1_all.deb"
        subprocess.run(["dpkg-deb", "--build", str(tree), str(file)], check=True, capture_output=True)
        return file

    monkeypatch.setattr(debian.Archive, "fetch", fetch)
    monkeypatch.setattr(emulators, "_lacking", lambda _: [])
    return fetched


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("9", r"no such QEMU \(this machine's is 7\.2, and Debian's backports have 10\)"),
        ("11.1", r"no such QEMU"),
        ("7.3", r"no such QEMU"),
        ("10.9", r"backports have 10\.0"),
        ("6", r"too old"),
        ("7.1", r"too old"),
        ("x", r"no version"),
        ("10/../x", r"no version"),
        ("-1", r"no version"),
        ("10.0.2", r"no version"),
    ],
)
def test_what_cannot_be_had_is_refused(wanted: str, reason: str, host: Host, archive: list[str], settings: Settings) -> None:
    host("7.2.22")
    with pytest.raises(KeelError) as refused:
        emulators.chosen(replace(settings, qemu=wanted))
    assert "\n" not in refused.value.line()
    assert refused.match(reason.split(r" \(")[0]) and (r"\(" not in reason or "backports have 10" in refused.value.line())
    assert bool(archive) is (wanted == "10.9")


@pytest.mark.parametrize(
    ("version", "wanted"), [("7.2.22", "7"), ("7.2.22", "7.2"), ("10.0.2", "10"), ("10.0.2", "10.0"), ("9.1.0", "9")]
)
def test_the_hosts_own_is_used_where_it_is_that(
    version: str, wanted: str, host: Host, archive: list[str], settings: Settings
) -> None:
    host(version)
    assert emulators.chosen(replace(settings, qemu=wanted)) == emulators.chosen(settings) == [machine.EMULATOR]
    assert not archive


def test_the_newer_one_is_unpacked_once(host: Host, archive: list[str], settings: Settings) -> None:
    host("7.2.22")
    wants = replace(settings, qemu="10")
    words = emulators.chosen(wants)
    assert emulators.version(words) == (10, 0) and emulators.version([machine.EMULATOR]) == (7, 2)
    at = words.index(str(settings.cache / "qemu-10" / emulators.PROGRAM))
    assert all(str(settings.cache) in word for word in words[at:] if word != "-L") and words[0] == "env"
    assert words.count("-L") == len(emulators.FIRMWARE) and words[1].startswith(f"QEMU_MODULE_DIR={settings.cache}/")
    emulators.require_devices(wants, ["any"])
    assert emulators.chosen(wants) == words and archive == list(emulators.PACKAGES)
    assert emulators.beside(settings) == "10.0"
    assert emulators.chosen(settings) == [machine.EMULATOR]


def test_libraries_that_the_host_lacks_are_its_alone(
    host: Host, archive: list[str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its packages, and what these need; the search path is after the confinement, and only in its environment."""
    host("7.2.22")
    monkeypatch.setattr(emulators, "_lacking", lambda tree: [] if (tree / emulators.LIBRARIES).exists() else ["libone.so.1"])
    words = emulators.chosen(replace(settings, qemu="10"))
    assert archive == [*emulators.PACKAGES, "libtwo", "libone"] or archive == [*emulators.PACKAGES, "libone", "libtwo"]
    said = subprocess.run(words, check=False, capture_output=True, text=True, env={"PATH": "/usr/bin"})
    assert said.stderr == f"libraries: {emulators.OWN_LIBRARIES}\n"
    assert not any(word.startswith("LD_") for word in emulators.chosen(settings))
    confined = share.confined(qemu.arguments(TWO, words), [qemu.Share(Path("/s"), "/mnt/s")])
    assert confined.index(words[1]) > confined.index(share.STARTER[-1])


def test_one_that_cannot_start_leaves_nothing(
    host: Host, archive: list[str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    host("7.2.22")
    monkeypatch.setattr(emulators, "_lacking", lambda _: ["libone.so.1"])
    with pytest.raises(KeelError, match=r"there is no libone\.so\.1"):
        emulators.chosen(replace(settings, qemu="10"))
    assert not emulators.beside(settings) and not list(settings.cache.glob("tmp*"))


@pytest.mark.parametrize(("version", "turns"), [("7.2.22", True), ("8.1.5", True), ("8.2.0", False), ("10.0.2", False)])
def test_processors_take_turns_where_the_emulator_needs_it(version: str, turns: bool, host: Host, settings: Settings) -> None:
    host(version)
    assert ("tcg,thread=single" in emulators.command(settings, TWO)) is turns
    shown = emulators.summary(settings, TWO)
    assert shown == f"QEMU {version.rpartition('.')[0]}, 2 processors {'that take turns' if turns else 'in parallel'}"
    assert not any("thread=" in word for word in emulators.command(settings, replace(TWO, takes_turns=False)))
    assert "take turns" in emulators.summary(settings, replace(TWO, icount=True))


def test_a_run_and_its_plugins_use_the_chosen_one(
    host: Host, archive: list[str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    host("7.2.22")
    wants = replace(settings, qemu="10")
    assert emulators.command(wants, TWO)[:3] == emulators.chosen(wants)[:3]
    monkeypatch.setattr("keel.process.run_logged", lambda argv, **_: asked.append(argv))
    asked: list[list[str]] = []
    places = [plugins.build(chosen, "profile").parent.name for chosen in (settings, wants)]
    assert places == ["1", "3"] and [argv[-1] for argv in asked] == ["API=1", "API=3"]


def test_the_option_holds_for_what_the_verb_starts(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host("7.2.22")
    monkeypatch.setenv("KEEL_QEMU", "7")
    for verb in (["run"], ["test"], ["bench", "kernel"], ["example"], ["trace"], ["profile", "true"], ["ukl", "run"]):
        assert cli.main([*verb, "--qemu", "9"]) == Status.ERROR
        assert capsys.readouterr().err.startswith("keel: error: --qemu 9: there is no such QEMU (")
    assert Settings().qemu == "9"
    assert cli.main(["run", "--qemu", "10", "--emulator", "bochs"]) == Status.USAGE
