# SPDX-License-Identifier: GPL-2.0-only
"""gdb on a guest that waits at its first instruction: source lines and types of Linux, and Linux's own commands in gdb."""

import re
import subprocess
import sys
import time

import pytest
from conftest import REPOSITORY, SYSTEMS, keel, run_options, together

LIMIT_S = 300
NAME = "debugged"
SOCKET = REPOSITORY / "build" / "run" / NAME / "private" / "gdb"
# At the breakpoint: the line, a field of a type, one of Linux's own commands. Leaving gdb ends the guest.
COMMANDS = """set pagination off
set confirm off
hbreak start_kernel
continue
info line
print init_task.comm
lx-version
kill
quit
"""


@together("gdb")
@pytest.mark.parametrize("system", SYSTEMS)
def test_linux_has_source_lines_and_its_own_commands(system: str) -> None:
    SOCKET.unlink(missing_ok=True)
    argv = [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--gdb", "--name", NAME, "--exec", "true"]
    with subprocess.Popen([*argv, "--timeout", str(LIMIT_S)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as guest:
        assert guest.stderr
        while b"waits at its first instruction" not in guest.stderr.readline():
            assert guest.poll() is None
        while not SOCKET.exists():  # the emulator makes it
            assert guest.poll() is None
            time.sleep(0.05)
        seen = keel("gdb", "linux", stdin=COMMANDS.encode(), timeout_s=LIMIT_S)
        guest.kill()
    assert re.search(r"Breakpoint 1, start_kernel \(\) at .*init/main\.c:\d+", seen.output), seen
    assert re.search(r'Line \d+ of ".*init/main\.c"', seen.output), seen.output
    assert '"swapper' in seen.output, seen.output
    assert "Linux version 6.1" in seen.output, seen.output
