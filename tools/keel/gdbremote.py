# SPDX-License-Identifier: GPL-2.0-only
"""gdb's remote protocol, by which the emulator stops a guest and shows its memory and registers."""

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 16
# Bytes of memory in one answer, which are two digits each: QEMU's packets have 4096.
MOST_BYTES = 2000
# gdb's key that stops the guest.
INTERRUPT = b"\x03"
DIGITS = re.compile(r"([0-9a-f]{2})+")
# A piece of what the monitor says.
OUTPUT = re.compile(r"O((?:[0-9a-f]{2})+)")
# What the emulator says once when the guest stops, as it does at a connection; by itself, so perhaps before an answer.
STOPPED = re.compile(r"[ST][0-9a-f]{2}.*")
# How much of a wrong answer an error message has, in characters.
SHOWN = 40


def packet(text: str) -> bytes:
    """A packet of gdb's remote protocol."""
    return f"${text}#{sum(text.encode()) % 256:02x}".encode()


def connect(gdb: socket.socket, address: Path, limit_s: float) -> None:
    """Wait until the emulator listens, and connect, by which the guest stops; after the limit TimeoutError."""
    end = time.monotonic() + limit_s
    while gdb.connect_ex(str(address)) != 0:
        if time.monotonic() >= end:
            raise TimeoutError(f"no emulator listened at {address} for {limit_s:g} s")
        time.sleep(0.05)


def ask(gdb: socket.socket, text: str) -> str:
    """Send a packet; the answer, empty if the guest has gone. After the socket's limit, if it has one, TimeoutError."""
    with contextlib.suppress(ConnectionError), _telling(text):
        gdb.sendall(packet(text))
        return next(_answers(gdb), "")
    return ""


def monitor(gdb: socket.socket, command: str) -> str:
    """Return what the emulator's monitor says to a command; as far as it came if the guest has gone. TimeoutError as above."""
    said = ""
    with contextlib.suppress(ConnectionError), _telling(command):
        gdb.sendall(packet(f"qRcmd,{command.encode().hex()}"))
        for answer in _answers(gdb):
            if piece := OUTPUT.fullmatch(answer):
                said += bytes.fromhex(piece[1]).decode(errors="replace")
            elif not STOPPED.fullmatch(answer):
                break
    return said


def _answers(gdb: socket.socket) -> Iterator[str]:
    """The packets that come, each confirmed, until the guest has gone."""
    received = b""
    while True:
        while not (answer := re.search(rb"\$([^#]*)#..", received)):
            if not (data := gdb.recv(CHUNK)):
                return
            received += data
        received = received[answer.end() :]
        gdb.sendall(b"+")
        yield answer[1].decode(errors="replace")


@contextlib.contextmanager
def _telling(text: str) -> Iterator[None]:
    """Says what was not answered in time."""
    try:
        yield
    except TimeoutError as error:
        raise TimeoutError(f"the emulator gave no answer to gdb's {text}") from error


def memory(gdb: socket.socket, address: int, size: int) -> bytes:
    """Memory at an address of the stopped guest's; shorter if the guest has gone, or there is nothing.

    An answer that is no memory is a ValueError.
    """
    found = b""
    while len(found) < size:
        answer = ask(gdb, f"m{address + len(found):x},{min(MOST_BYTES, size - len(found)):x}")
        if not answer or answer.startswith("E"):
            break
        if not DIGITS.fullmatch(answer):
            raise ValueError(f"the emulator answered {answer[:SHOWN]!r} where memory was asked for")
        found += bytes.fromhex(answer)
    return found
