# SPDX-License-Identifier: GPL-2.0-only
"""A release set: made here, and booted where nothing can be built."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPOSITORY, Result, keel, together
from test_network import free_port
from test_shell import terminal

LIMIT_S = 400
# One set for all of them.
pytestmark = together("release")
# What a host with nothing but the command has, apart from Python. The second one checks disk images.
EMULATOR, CHECKER = "qemu-system-x86_64", "qemu-img"
# What a shared directory takes where the user is root, and SSH.
FOR_SHARES, FOR_SSH = ("setpriv",), ("ssh", "ssh-keygen")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of what is built here."""
    place = tmp_path_factory.mktemp("release") / "set"
    made = keel("image", "--release", str(place), timeout_s=1800)
    assert made.status == 0, made.error
    return place


class Host:
    """A host with a copy of the command alone, whose PATH has only these programs."""

    def __init__(self, place: Path) -> None:
        self.place = place
        shutil.copytree(REPOSITORY / "tools", place / "tools", ignore=shutil.ignore_patterns("tests", "__pycache__"))
        for name in ("keel", "Cargo.toml"):
            shutil.copy(REPOSITORY / name, place / name)
        (place / "bin").mkdir()
        self.have(EMULATOR)

    def have(self, program: str) -> None:
        """Install a program."""
        found = shutil.which(program)
        assert found
        (self.place / "bin" / program).symlink_to(found)

    def keel(self, *arguments: str) -> Result:
        """Run the command."""
        return keel(*arguments, timeout_s=LIMIT_S, environment=self.environment, command=self.place / "keel")

    @property
    def environment(self) -> dict[str, str]:
        """The command's."""
        own = {f"XDG_{name.upper()}_HOME": str(self.place / name) for name in ("cache", "data")}
        return {**os.environ, **own, "PATH": str(self.place / "bin")}

    def run(self, release: Path, command: str, *options: str) -> Result:
        """Run a command in a guest of the set."""
        return self.keel("run", "--no-install", "--from", str(release), *options, "--exec", command)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Such a host."""
    host = Host(tmp_path / "host")
    yield host
    left = {path.name for path in host.place.iterdir()}
    assert left <= {"keel", "Cargo.toml", "tools", "bin", "build", "data"}, left


def test_a_set_boots_where_nothing_can_be_built(release: Path, host: Host) -> None:
    assert shutil.which("gcc", path=str(host.place / "bin")) is None
    command = "uname -r; nproc; ls /sys/class/net; setpriv --reuid 65534 --regid 65534 --clear-groups ping -q -c 1 127.0.0.1"
    result = host.run(release, command, "--smp", "2", "--mem", "512", "--nic", "none")
    assert result.status == 0, result.error
    assert re.match(r"6\.1\.\d+-keel\n2\nlo\nPING", result.output)


def test_a_set_boots_on_other_machines(release: Path) -> None:
    """By UEFI, with a screen and an IOMMU, where the programs for that are there."""
    command = "cat /proc/fb; dmesg | grep -c 'ACPI: DMAR'; ls /sys/firmware"
    result = keel("run", "--from", str(release), "--uefi", "--graphic", "--iommu", "--exec", command, timeout_s=LIMIT_S)
    assert (result.status, result.output) == (0, "0 simple\n1\nacpi\n"), result.error


def test_gdb_has_the_sets_symbols(release: Path) -> None:
    """The µ-kernel's with source lines, Linux's by name."""
    name = "release-gdb"
    begun = ["run", "--from", str(release), "--gdb", "--name", name]
    with terminal(*begun) as guest:
        guest.wait_for(b"./keel gdb")
        commands = b"hbreak unready\nhbreak vfs_read\ncontinue\ndelete 1\ncontinue\nkill\n"
        seen = keel("gdb", "kernel", stdin=commands, timeout_s=LIMIT_S)
        guest.end()
    assert re.search(r"Breakpoint 1, .*unready .* at .*sched.rs:", seen.output), seen
    assert re.search(r"Breakpoint 2, 0x[0-9a-f]+ in vfs_read \(\)", seen.output), seen


@pytest.mark.parametrize("option", ["--uefi", "--graphic"])
def test_what_the_host_lacks_is_named(option: str, release: Path, host: Host) -> None:
    result = host.run(release, "true", option)
    assert result.status == 125 and "xorriso" in result.last_error_line(), result.error
    assert result.error.count("error") == 1


def test_what_a_guest_writes_is_kept_on_request(release: Path, host: Host, tmp_path: Path) -> None:
    """And only then, and never in the set; another disk can be given."""
    host.have(CHECKER)
    disk = tmp_path / "disk"
    disk.write_bytes(b"written here".ljust(1 << 20, b"\0"))
    more = ("--drive", f"raw:{disk}")
    assert host.run(release, "echo kept > /root/kept; head -c 12 /dev/vdb", "--persist", *more).output == "written here"
    assert host.run(release, "cat /root/kept", "--persist").output == "kept\n"
    assert host.run(release, "test -e /root/kept").status == 1
    assert len(list((host.place / "data" / "keel" / "roots").glob("*.qcow2"))) == 1


def test_a_set_in_the_background_has_directories_ports_and_a_console(
    release: Path, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a set."""
    for program in (*FOR_SHARES, *FOR_SSH):
        host.have(program)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "file").write_text("of the host\n")
    monkeypatch.chdir(shared)
    port = free_port()
    options = ("--share", f"{shared}:rw", "--cwd", "--ssh", "--forward", f"{port}:22")
    begun = host.keel("run", "--no-install", "--from", str(release), "--name", "set", "--detach", *options)
    assert begun.status == 0, begun.error
    assert host.keel("ssh", "set", "--", "cat", "/mnt/shared/file").output == "of the host\n"
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as line:
        assert line.recv(4) == b"SSH-"
    with terminal("console", "set", command=host.place / "keel", environment=host.environment) as console:
        console.wait_for(b":/mnt/shared# ")
        console.say(b"echo of the guest > made; exit\r")
        assert console.end() == 0 and b"set has ended" in console.heard
    assert (shared / "made").read_text() == "of the guest\n"


def test_a_damaged_set_is_not_booted(release: Path, host: Host, tmp_path: Path) -> None:
    damaged = shutil.copytree(release, tmp_path / "damaged")
    with (damaged / "vmlinux").open("r+b") as file:
        file.seek(1 << 20)
        file.write(b"damaged")
    result = host.run(damaged, "true")
    assert result.status == 125 and "vmlinux does not have the sum" in result.last_error_line(), result.error
    assert not (host.place / "build").exists()


def test_what_the_set_lacks_is_refused(release: Path, host: Host) -> None:
    for options, word in ((["--native"], "--native"), (["--packages", "vim"], "--packages"), (["--icount"], "--icount")):
        result = host.run(release, "true", *options)
        assert result.status == 125 and word in result.last_error_line(), result.error


def test_the_sets_own_check_agrees(release: Path) -> None:
    """coreutils' program reads the sums, too."""
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=release, check=True)
