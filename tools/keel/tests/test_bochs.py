# SPDX-License-Identifier: GPL-2.0-only
"""Bochs's configuration, its boot disk's, and the guest's last words."""

import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from keel import bochs, loader, process, qemu
from keel.slot import Slot

GUEST = qemu.Guest(
    kernel=Path("/k/kernel.elf"),
    command_line="debug-exit",
    modules=(qemu.Module(Path("/k/sigma0")), qemu.Module(Path("/k/suite"), "x=1,2")),
    memory_mb=512,
    processors=2,
)


def test_the_configuration_says_what_the_guest_is() -> None:
    described = replace(GUEST, console=bochs.TERMINAL.format("/dev/pts/5"), log=bochs.FILE.format("/dev/fd/6"))
    lines = bochs.configuration(described, "atom_n270").splitlines()
    assert "megs: 512" in lines
    assert any(line.startswith("cpu: model=atom_n270, count=2,") for line in lines)
    assert "com1: enabled=1, mode=term, dev=/dev/pts/5" in lines
    assert "com3: enabled=1, mode=file, dev=/dev/fd/6" in lines
    assert not any(line.startswith("com2:") for line in lines)
    assert "error: action=ignore" in lines
    assert "error: action=report" in bochs.configuration(described, "atom_n270", tells_faults=True).splitlines()


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([b"root: the machine is powered off (code 0x20)\r\n"], 0x20),
        ([b"keel: the machine stands st", b"ill (code 0x1", b"3)\n"], 0x13),
        ([b"the machine stands still (code 0x"], None),
        ([b"ok ids/own-id\n", b"x" * 4096, b"\nroot: the machine halts (code 0x21)\n"], 0x21),
        ([b"a line (code 0x10)\n"], None),
        ([b""], None),
    ],
)
def test_the_last_words_tell_the_code(pieces: list[bytes], code: int | None) -> None:
    words = bochs.LastWords(by_root=True)
    for piece in pieces:
        words.feed(piece)
    assert words.code == code


def test_programs_cannot_say_the_last_words_of_the_root_task() -> None:
    """Nor can what comes over one line cut what comes over another."""
    console, log = bochs.LastWords(by_root=False), bochs.LastWords(by_root=True)
    console.feed(b"root: the machine is powered off (code 0x10)\n")
    log.feed(b"root: the machine is powered off (co")
    console.feed(b"late\n")
    assert bochs.code_of(console, log) is None
    log.feed(b"de 0x10)\r\n")
    assert bochs.code_of(console, log) == 0x10
    console.feed(b"a prompt keel: the machine stands still (code 0x13)\n")
    assert console.code == 0x13


def test_the_version_that_repeats_breakpoints() -> None:
    """Debian 12's Bochs takes them with two processors, Debian 13's does not."""
    assert not bochs.repeats_breakpoints("2.7+dfsg-2+b1")
    assert bochs.repeats_breakpoints("3.0+dfsg-1")


def test_a_display_that_others_reach_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(loader, "make_disc", lambda *_: None)
    slot = SimpleNamespace(private=tmp_path, log=lambda name: tmp_path / name)
    apart: list[str] = ["unshare", "--net", "--"]
    for words, is_told in ((apart, False), (apart[:0], True)):
        monkeypatch.setattr(bochs, "without_network", partial(list, words))
        assert bochs.command(GUEST, "atom_n270", cast(Slot, slot))[: len(words)] == words
        assert ("port 5900" in capsys.readouterr().err) == is_told


NO_NAMESPACES = not bochs.without_network()
# Does with a port what Bochs's display does.
LISTEN = """
import socket
server = socket.create_server(("0.0.0.0", 0))
print(server.getsockname()[1], flush=True)
server.accept()
"""


@pytest.mark.skipif(NO_NAMESPACES, reason="this system gives ordinary users no network namespace")
def test_nobody_reaches_its_display() -> None:
    argv = [*bochs.without_network(), sys.executable, "-c", LISTEN]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        try:
            assert child.stdout
            port = int(child.stdout.readline())
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=10)
        finally:
            child.kill()


def test_it_runs_where_no_network_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "status_of", lambda *_: 1)
    assert bochs.without_network() == []
