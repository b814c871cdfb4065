# SPDX-License-Identifier: GPL-2.0-only
"""What each processor of a guest runs that has not ended in time: asked of the emulator, through its socket for gdb.

Several looks tell a processor that stands still, or faults without end, from one that works.
"""

import re
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import gdbremote, process, profile

LOOKS = 4
# Between two looks the guest runs on.
BETWEEN_S = 0.25
LIMIT_S = 10.0
# Of the monitor's `info registers -a`.
PROCESSOR = re.compile(r"^CPU#(\d+)", re.MULTILINE)
SHOWN = ("CPL", "HLT", "RSP", "RFL", "CR2", "CR3")


def report(address: Path | None, kernel: Path) -> Iterator[str]:
    """Lines for the output of a test; one that says why where the emulator cannot be asked."""
    if address is None:
        return
    try:
        symbols = [profile.read_symbols("kernel", process.output(["nm", "-n", "-C", str(kernel)]))]
        for number in range(1, LOOKS + 1):
            for line in said(_look(address), symbols):
                yield f"look {number}: {line}"
            time.sleep(BETWEEN_S)
    except (OSError, ValueError) as error:
        yield f"no look at the processors: {error}"


def _look(address: Path) -> str:
    """The registers of all processors; the guest stops for that, and runs on."""
    with socket.socket(socket.AF_UNIX) as gdb:
        gdb.settimeout(LIMIT_S)
        gdbremote.connect(gdb, address, LIMIT_S)
        text = gdbremote.monitor(gdb, "info registers -a")
        gdbremote.ask(gdb, "D")
    return text


def said(text: str, symbols: Sequence[profile.Symbols]) -> Iterator[str]:
    """A line for each processor, from what the monitor says of their registers."""
    parts = PROCESSOR.split(text)[1:]
    for number, part in zip(parts[::2], parts[1::2], strict=True):
        registers = dict(re.findall(r"\b([A-Z0-9]{2,3}) ?=([0-9a-f]+)", part))
        at = int(registers.get("RIP", registers.get("EIP", "0")), 16)
        _, function = profile.place(at, symbols)
        rest = ", ".join(f"{name} {registers[name]}" for name in SHOWN if name in registers)
        yield f"processor {number} is at {at:#x} ({function}), {rest}"
