# SPDX-License-Identifier: GPL-2.0-only
"""Debian's systemd as process 1: it reaches multi-user with no failed units except those that fail natively, a login works, units
are confined.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import REPOSITORY, SYSTEMS, Result, run_guest, run_options, together
from test_devices import needs_recovery, overlay

LIMIT_S = 400
READ_BYTES = 65536
SYSTEMD = ["--init", "systemd"]
UNITS = "multi-user.target dbus systemd-logind systemd-journald systemd-udevd redis-server"
# Each line of output is one observation: the same on both systems.
CONFINED = f"""
systemctl is-active {UNITS}
run() {{ systemd-run --quiet --wait --pipe "$@" 2>&1; echo "status $?"; }}
run -p MemoryMax=64M -p TasksMax=20 -p CPUQuota=50% sh -c 'cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); cat *.max'
run -p PrivateNetwork=yes sh -c 'ip -o link | cut -d: -f2'
run -p PrivateUsers=yes -p PrivateTmp=yes sh -c 'wc -l < /proc/self/uid_map; touch /tmp/here; ls /tmp'
run -p PrivateDevices=yes sh -c 'ls /dev | grep -c vda'
run -p DeviceAllow='/dev/null rw' -p DevicePolicy=strict sh -c 'true > /dev/null && echo null; head -c1 /dev/vda'
run -p ProtectSystem=strict touch /etc/nothing
run -p ProtectProc=invisible -p User=nobody sh -c 'ls /proc | grep -c "^1$"'
run -p SystemCallFilter=~@clock -p SystemCallErrorNumber=EPERM date -s 2030-01-01
run -p IPAddressDeny=any python3 -c 'import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))'
run -p MemoryMax=48M python3 -c 'print(len(bytearray(200 << 20)))'
run -p RuntimeMaxSec=1 sleep 100
run -p LimitNOFILE=50 -p LimitCORE=0 -p Nice=7 sh -c 'ulimit -n; nice'
journalctl -b -o cat -u keel-command.service | grep -ci started
loginctl list-sessions --no-legend | wc -l
"""
# The states of the units above, in their order.
STATUSES = "000111111110"


@cache
def booted(system: str) -> Result:
    """A boot whose command waits for the end of systemd's start, prints its failed units, and runs confined units."""
    command = f"systemctl is-system-running --wait >&2; systemctl --failed --plain --no-legend >&2; echo; {CONFINED}"
    return run_guest(system, command, limit_s=LIMIT_S, options=SYSTEMD)


def failed_units(result: Result) -> set[str]:
    """The units that systemd names as failed."""
    return {line.split()[0] for line in result.error.splitlines() if " failed " in line}


@together("systemd")
def test_no_unit_fails_that_native_does_not_have() -> None:
    """Keel's failed units are among the native ones, and both reach multi-user."""
    native, keel = booted("native"), booted("keel")
    assert native.output.splitlines()[1] == keel.output.splitlines()[1] == "active", keel.error
    assert failed_units(keel) <= failed_units(native), keel.error


@together("systemd")
def test_units_are_confined_as_on_native() -> None:
    """Control groups, name spaces, filters and limits of units have the same effects on both systems."""
    native, keel = booted("native"), booted("keel")
    statuses = [line.removeprefix("status ") for line in native.output.splitlines() if line.startswith("status ")]
    assert "".join(statuses) == STATUSES, native.output
    assert keel.output == native.output


class Console:
    """A guest with input at its console."""

    def __init__(self, system: str, *options: str) -> None:
        command = [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--timeout", str(LIMIT_S), *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.said = b""

    def expect(self, text: bytes) -> None:
        """Read up to the text, which must come before the guest ends."""
        assert self.process.stdout is not None
        while text not in self.said:
            data = os.read(self.process.stdout.fileno(), READ_BYTES)
            assert data, f"the guest ended before it printed {text!r}: {self.said[-2000:]!r}"
            self.said += data
        self.said = self.said[self.said.index(text) + len(text) :]

    def type(self, text: bytes) -> None:
        """Send keys."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()


@pytest.mark.parametrize("system", SYSTEMS)
def test_login_and_power_off(system: str, tmp_path: Path) -> None:
    """Root logs in on the console, gets a session, and powers off. The disk is clean and holds what was written."""
    root = overlay(tmp_path)
    console = Console(system, *SYSTEMD, "--persist", "--root", f"chain:{root}")
    console.expect(b"keel login: ")
    console.type(b"root\n")
    console.expect(b"root@keel:~# ")
    console.type(b"tty; loginctl --no-legend list-sessions | awk '{print $3, $4, $5}'; echo kept > file\n")
    console.expect(b"/dev/ttyS0\r\n")
    console.expect(b"root ttyS0")
    console.expect(b"root@keel:~# ")
    console.type(b"poweroff\n")
    assert console.process.wait() == 0
    assert not needs_recovery(root)
    assert run_guest(system, "cat file", options=["--root", f"chain:{root}"]).output == "kept\n"


def test_a_root_without_systemd_is_told(tmp_path: Path) -> None:
    """If the root has no systemd the guest ends, and its console says why."""
    (tmp_path / "sbin").mkdir()
    result = run_guest("native", "true", options=[*SYSTEMD, "--root", str(tmp_path)])
    console = Path(result.last_error_line().rsplit(" ", 1)[1])
    assert "the root has no systemd that starts" in console.read_text()
