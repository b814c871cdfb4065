# SPDX-License-Identifier: GPL-2.0-only
"""What is told of processors that stand still, from an emulator that is not there."""

import re
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from keel import gdbremote, guest, machine, profile, qemu, slot, standstill
from keel.config import Settings

# As QEMU prints it, shortened.
REGISTERS = """
CPU#0
RAX=0000000000000001 RBX=0000000000000000
RSP=ffffffff80200ff0 R8 =0000000000000000
RIP=ffffffff80101303 RFL=00000002 [-------] CPL=0 II=0 A20=1 SMM=0 HLT=0
CS =0008 0000000000000000 ffffffff 00af9b00 DPL=0 CS64 [-RA]
CR0=80010033 CR2=0000000000000007 CR3=0000000000123000 CR4=003006f8

CPU#1
RSP=0000000000001000
RIP=0000000000400010 RFL=00000202 [-------] CPL=3 II=0 A20=1 SMM=0 HLT=1
CR0=80010033 CR2=0000000000000000 CR3=0000000000124000 CR4=003006f8
"""
KERNEL = profile.read_symbols("kernel", "ffffffff80101000 t kernel_entry\nffffffff80102000 t _etext\n")


def emulator(place: Path, text: str) -> threading.Thread:
    """Answers gdb as QEMU does, one connection after the other: that the guest stops, then what the monitor says, in pieces."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(place))
    server.listen()

    def serve() -> None:
        for _ in range(standstill.LOOKS):
            gdb, _ = server.accept()
            with gdb:
                received, answered = b"", False
                gdb.sendall(gdbremote.packet("T02thread:01;"))
                while gdbremote.packet("D") not in received:
                    received += gdb.recv(gdbremote.CHUNK)
                    if not answered and re.search(rb"\$qRcmd,[0-9a-f]+#..", received):
                        answered = True
                        pieces = [text[at : at + 100].encode().hex() for at in range(0, len(text), 100)]
                        gdb.sendall(b"+" + b"".join(gdbremote.packet(f"O{piece}") for piece in pieces) + gdbremote.packet("OK"))
                gdb.sendall(b"+" + gdbremote.packet("OK"))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_each_processor_has_a_line() -> None:
    first, second = standstill.said(REGISTERS, [KERNEL])
    assert first == (
        "processor 0 is at 0xffffffff80101303 (kernel_entry), CPL 0, HLT 0, RSP ffffffff80200ff0, RFL 00000002, "
        "CR2 0000000000000007, CR3 0000000000123000"
    )
    assert second.startswith("processor 1 is at 0x400010 (") and "CPL 3, HLT 1" in second


def test_the_emulator_is_asked_several_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "BETWEEN_S", 0.0)
    monkeypatch.setattr("keel.process.output", lambda _: "ffffffff80101000 t kernel_entry\n")
    serving = emulator(tmp_path / "gdb", REGISTERS)
    lines = list(standstill.report(tmp_path / "gdb", Path("k")))
    serving.join(10)
    assert len(lines) == 2 * standstill.LOOKS and lines[0].startswith("look 1: processor 0")


def test_an_emulator_that_does_not_answer_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keel.process.output", lambda _: "")
    monkeypatch.setattr(standstill, "LIMIT_S", 0.1)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "gdb"))
        assert "no look at the processors" in "".join(standstill.report(tmp_path / "gdb", Path("k")))
        deaf.listen()
        assert "no look at the processors" in "".join(standstill.report(tmp_path / "gdb", Path("k")))
    assert not list(standstill.report(None, Path("k")))


def test_it_is_told_when_the_time_is_over(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the emulator is ended, and not where the guest ends by itself."""
    program = tmp_path / "bin" / machine.EMULATOR
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    told: list[float] = []
    for script, limit_s, times in (("time.sleep(600)", 0.5, 1), ("sys.exit(3)", 60.0, 0)):
        program.write_text(f"#!{sys.executable}\nimport sys, time\n{script}\n")
        program.chmod(0o755)
        told.clear()
        with slot.taken(settings, "keel") as mine:
            plan = guest.Plan(
                mine, timeout_s=limit_s, watch_log=lambda _: False, on_timeout=lambda: told.append(time.monotonic())
            )
            guest.run(settings, qemu.Guest(kernel=Path("k")), plan)
        assert len(told) == times
