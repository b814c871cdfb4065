# SPDX-License-Identifier: GPL-2.0-only
"""A guest whose emulator is stopped and stepped by its debugger's stub and controlled by its monitor. This file has no tests."""

import contextlib
import json
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from conftest import REPOSITORY, complains

LIMIT_S = 300
# The mark of a test in which the processor stands still, and the clock does not.
stands_still = complains("detected stalls")
# The stub's answer to `g` has 16 registers, then the instruction pointer.
STACK, ADDRESS = 7, 16


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
        """The answer to a packet."""
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
        """Set a breakpoint."""
        assert self.ask(f"Z0,{address:x},1") == "OK"

    def forget(self, address: int) -> None:
        """Remove it."""
        assert self.ask(f"z0,{address:x},1") == "OK"

    def register(self, number: int) -> int:
        """A register's value."""
        return int(struct.unpack_from("<Q", bytes.fromhex(self.registers()), 8 * number)[0])

    def registers(self) -> str:
        """All registers, in the stub's form."""
        return self.ask("g")

    def set_registers(self, registers: str) -> None:
        """Change them all."""
        assert self.ask(f"G{registers}") == "OK"

    def set_register(self, number: int, value: int) -> None:
        """Change one of them."""
        registers = bytearray.fromhex(self.registers())
        struct.pack_into("<Q", registers, 8 * number, value)
        self.set_registers(registers.hex())

    def write(self, address: int, content: bytes) -> None:
        """Change memory, even code."""
        assert self.ask(f"M{address:x},{len(content):x}:{content.hex()}") == "OK"

    def memory(self, address: int, size: int) -> bytes:
        """Bytes at an address of the present space."""
        return bytes.fromhex(self.ask(f"m{address:x},{size:x}"))

    def word(self, address: int) -> int:
        """Eight of them as a number."""
        return int(struct.unpack("<Q", self.memory(address, 8))[0])

    def step(self) -> int:
        """Run one instruction; where the next one is. After a change the emulator's first step may do nothing."""
        before = self.register(ADDRESS)
        for _ in range(2):
            assert self.ask("s").startswith("T05")
            if (address := self.register(ADDRESS)) != before:
                break
        return address

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
        """Give a command, and wait until it is done."""
        self.lines.write(json.dumps({"execute": command}) + "\n")
        self.lines.flush()
        while "return" not in (answer := json.loads(self.lines.readline())):
            assert "error" not in answer, answer


@contextlib.contextmanager
def stopped(directory: Path, command: Sequence[str]) -> "Iterator[tuple[subprocess.Popen[bytes], Stub, Monitor]]":
    """The guest of a command of Keel's, stopped, and the sockets to its emulator."""
    debugger, control = directory / "debugger", directory / "monitor"
    # A separate socket for the debugger, because the address of the usual one is not known.
    line = ["-chardev", f"socket,path={debugger},server=on,wait=off,id=debugger", "-gdb", "chardev:debugger"]
    words = [f"--qemu-arg={word}" for word in (*line, "-qmp", f"unix:{control},server=on,wait=off")]
    argv = [sys.executable, str(REPOSITORY / "keel"), *command, "--timeout", str(LIMIT_S), *words]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        try:
            yield child, Stub(connected(debugger, child)), Monitor(connected(control, child))
        finally:
            child.terminate()
