# SPDX-License-Identifier: GPL-2.0-only
"""An NMI, and the interrupt that it brings, between STI and the jump back to an application, at each such jump.

The emulator is stopped at the jump by its debugger's stub, gets the NMI there, and is seen to take both at that address.
"""

import contextlib
import json
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import GRACE_S, LINUX, REPOSITORY, keel
from test_ukl import OPTIONS, SOURCES

LIMIT_S = 300
TIMES = 3
# The first calls, faults and bypassing calls of applications.
JUMPS = ("ukl_jump", "ukl_ret_ways", "ukl_leaf_jump", "ukl_bypass_jump")
COMMAND = "for asked in '' bypass; do for check in registers faults; do /run/ukl/interrupted $check $asked; done; done"
SYMBOLS = LINUX / "ukl-kernels" / "-".join(["base", *OPTIONS.split(",")]) / "vmlinux"
# The stub's answer to `g` has 16 registers, then the instruction pointer.
STACK, ADDRESS = 7, 16
# An indirect JMP by a word in memory.
JUMP_BY_MEMORY = b"\xff\x25"
# This many steps inside the NMI last longer than the time from one of the clock's interrupts to the next.
STEPS = 400


def connected(place: Path, child: "subprocess.Popen[bytes]") -> socket.socket:
    """A socket to the emulator, which opens it when it starts."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and child.poll() is None:
        line = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            line.connect(str(place))
            line.settimeout(LIMIT_S)
            return line
        line.close()
        time.sleep(0.1)
    raise AssertionError(f"the emulator did not open {place}")


class Stub:
    """A client of the emulator's gdb stub: packets of text, each with one answer."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.heard = b""

    def ask(self, text: str) -> str:
        self.line.sendall(f"${text}#{sum(text.encode()) % 256:02x}".encode())
        # Its report that it stopped at the connection comes some time later.
        while not (found := re.search(rb"\$(?!T02)([^#]*)#..", self.heard)):
            data = self.line.recv(65536)
            assert data, f"the emulator ended at {text!r}"
            self.heard += data
        self.heard = self.heard[found.end() :]
        self.line.sendall(b"+")
        return found[1].decode()

    def stop_at(self, address: int) -> None:
        assert self.ask(f"Z0,{address:x},1") == "OK"

    def forget(self, address: int) -> None:
        assert self.ask(f"z0,{address:x},1") == "OK"

    def register(self, number: int) -> int:
        return int(struct.unpack_from("<Q", bytes.fromhex(self.ask("g")), 8 * number)[0])

    def memory(self, address: int, size: int) -> bytes:
        return bytes.fromhex(self.ask(f"m{address:x},{size:x}"))

    def word(self, address: int) -> int:
        return int(struct.unpack("<Q", self.memory(address, 8))[0])

    def run_to(self, address: int) -> None:
        """Continue to this address, and remove the breakpoint."""
        self.stop_at(address)
        assert self.ask("c").startswith("T05")
        assert self.register(ADDRESS) == address
        self.forget(address)


class Monitor:
    """The emulator's monitor."""

    def __init__(self, line: socket.socket) -> None:
        self.lines = line.makefile("rw")
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command: str) -> None:
        self.lines.write(json.dumps({"execute": command}) + "\n")
        self.lines.flush()
        while "return" not in (answer := json.loads(self.lines.readline())):
            assert "error" not in answer, answer


@contextlib.contextmanager
def guest(directory: Path) -> "Iterator[tuple[subprocess.Popen[bytes], Stub, Monitor]]":
    """The application's guest, stopped, and the sockets to its emulator."""
    debugger, control = directory / "debugger", directory / "monitor"
    # A separate socket for the debugger, because the address of the usual one is not known.
    line = ["-chardev", f"socket,path={debugger},server=on,wait=off,id=debugger", "-gdb", "chardev:debugger"]
    words = [f"--qemu-arg={word}" for word in (*line, "-qmp", f"unix:{control},server=on,wait=off")]
    argv = [sys.executable, str(REPOSITORY / "keel"), "ukl", "run", "interrupted", "--timeout", str(LIMIT_S), *words]
    with subprocess.Popen([*argv, "--exec", COMMAND], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        try:
            yield child, Stub(connected(debugger, child)), Monitor(connected(control, child))
        finally:
            child.terminate()


@pytest.fixture(scope="module")
def symbols(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The addresses of the kernel with every option; the application is built for it."""
    source = tmp_path_factory.mktemp("ukl") / "interrupted.c"
    source.write_bytes((SOURCES / "level.c").read_bytes())
    built = keel("ukl", "build", "--options", OPTIONS, "--cflags=-D_GNU_SOURCE", str(source), timeout_s=3600)
    assert built.status == 0, built.error
    listed = subprocess.run(["nm", str(SYMBOLS)], stdout=subprocess.PIPE, check=True, text=True).stdout
    return {name: int(address, 16) for address, _, name in (line.split() for line in listed.splitlines())}


def interrupted(stub: Stub, monitor: Monitor, symbols: dict[str, int], jump: int) -> None:
    """An NMI at a jump, and the next interrupt there as well."""
    stub.run_to(jump)
    monitor.ask("inject-nmi")
    stub.run_to(symbols["asm_exc_nmi"])
    assert stub.word(stub.register(STACK)) == jump
    for _ in range(STEPS):
        assert stub.ask("s").startswith("T05")
    stub.run_to(symbols["ukl_frame"])
    # Above the return address and the word in place of the error code.
    assert stub.word(stub.register(STACK) + 16) == jump


def test_an_nmi_between_sti_and_the_jump(symbols: dict[str, int], tmp_path: Path) -> None:
    """Kernel code with the user's GS is interrupted twice, and the application notices nothing."""
    with guest(tmp_path) as (child, stub, monitor):
        # Time advances while single steps are made.
        assert stub.ask("Qqemu.sstep=1") == "OK"
        for name in JUMPS:
            jump = symbols[name]
            if name == "ukl_ret_ways":
                # The first processor's report, which ends the run.
                stub.run_to(jump)
                jump += stub.memory(jump, symbols["ukl_ret_ways_end"] - jump).index(JUMP_BY_MEMORY)
            for _ in range(TIMES):
                interrupted(stub, monitor, symbols, jump)
        assert stub.ask("D") == "OK"
        output, _ = child.communicate(timeout=LIMIT_S + GRACE_S)
    lines = [line for line in output.decode().splitlines() if line.startswith(("registers:", "faults:"))]
    expected = ["registers: changed by 0 calls, no call's number gives -1 and -1", "faults: changed something 0 times"]
    assert lines == expected * 2
    assert child.returncode == 0
