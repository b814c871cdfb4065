# SPDX-License-Identifier: GPL-2.0-only
"""A run with a stand-in for the emulator, which plays the guest's part on the serial lines."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from keel import boot, guest, machine, qemu, slot
from keel.channel import CREDIT, FRAME_DATA_MAX, HEADER, STATUS_WHOLE, Kind, encode
from keel.commands import run as run_command
from keel.commands.run import conclude
from keel.config import Settings
from keel.errors import KeelError, Status
from keel.guest import Outcome, Plan

EXEC = boot.Choices(command="true")
PERSIST = replace(EXEC, persist=True)
# Finds its lines as the emulator does.
STAND_IN = """#!{python}
import re, socket, sys, time
fds = dict(reversed(re.search("fd=(.*),id=(.*)", word).groups()) for word in sys.argv if word.startswith("socket,fd="))
lines = {{name: socket.socket(fileno=int(fd)) for name, fd in fds.items()}}
"""
Run = Callable[..., Outcome]
Emulator = Callable[[str], None]


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """Makes this script the emulator."""
    program = tmp_path / "bin" / machine.EMULATOR
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def use(script: str) -> None:
        program.write_text(STAND_IN.format(python=sys.executable) + script)
        program.chmod(0o755)

    return use


@pytest.fixture
def run(settings: Settings, emulator: Emulator) -> Run:
    """Runs a command in a guest that is this script."""

    def run(script: str, command: str = "true", **changes: float) -> Outcome:
        emulator(script)
        with slot.taken(settings, "keel") as mine:
            return guest.run(settings, qemu.Guest(kernel=Path("k")), replace(Plan(mine, command.encode()), **changes))

    return run


READY = f"lines['exec'].sendall({encode(Kind.READY, b'')!r})\n"
STATUS_0 = f"lines['exec'].sendall({encode(Kind.STATUS, bytes([0, STATUS_WHOLE]))!r})\n"


def test_a_guest_that_powers_off_gives_its_commands_status(run: Run) -> None:
    ended = run(READY + STATUS_0 + f"sys.exit({machine.emulator_status(machine.EXIT_POWER_OFF)})")
    assert conclude(PERSIST, ended) == 0


@pytest.mark.parametrize("end", ["time.sleep(600)", "import os; os.abort()"])
def test_an_emulator_that_goes_before_the_guest_has_written_is_no_success(end: str, run: Run) -> None:
    """The command has ended with 0, and the emulator is ended, or ends, while the guest still writes a disk that is kept."""
    begun = time.monotonic()
    ended = run(READY + STATUS_0 + end, power_off_s=0.5)
    assert time.monotonic() - begun < 60
    assert conclude(PERSIST, ended) == Status.NOT_POWERED_OFF
    assert conclude(EXEC, ended) == 0


# What an init sends when it begins, with what ends a frame that the one before it did not.
BEGIN = f"lines['exec'].sendall({bytes(HEADER.size + FRAME_DATA_MAX) + encode(Kind.READY, b'')!r})\n"
HALF_A_FRAME = f"lines['exec'].sendall({encode(Kind.STDOUT, bytes([1]) * FRAME_DATA_MAX)[:300]!r})\n"


HALF_A_STATUS = f"lines['exec'].sendall({encode(Kind.STATUS, bytes([0, STATUS_WHOLE]))[:-2]!r})\n"


@pytest.mark.parametrize(
    "between", ["", HALF_A_FRAME, HALF_A_STATUS], ids=["between frames", "within a frame", "within a status"]
)
@pytest.mark.parametrize(
    ("console", "status"), [(b"Kernel panic - not syncing: x\n", Status.LINUX_PANIC), (b"rebooting", Status.REBOOTED)]
)
def test_linux_started_anew_ends_its_command(between: str, console: bytes, status: Status, run: Run) -> None:
    say = f"lines['console'].sendall({console!r}); time.sleep(0.3)\n"
    ended = run(BEGIN + between + say + BEGIN + "time.sleep(600)", timeout_s=60.0)
    assert conclude(EXEC, ended) == status


@pytest.mark.parametrize(
    "frames",
    [encode(Kind.READY, b""), encode(Kind.STDOUT, b""), encode(Kind.CREDIT, CREDIT.pack(1 << 30)) + encode(Kind.STDERR, b"")],
    ids=["ready", "answered", "credit"],
)
def test_a_guest_that_reads_nothing_does_not_fill_our_memory(frames: bytes, run: Run) -> None:
    """It is ended, by a status or an error, before it could send a megabyte."""
    script = READY + f"for _ in range(1 << 20):\n    lines['exec'].sendall({frames!r} * 1000)\n"
    try:
        assert run(script, command="x" * 100_000, timeout_s=60.0).restarted
    except KeelError as error:
        assert "reads nothing" in error.what


KVM = qemu.Guest(Path("kernel"), accelerator="kvm")
ROOT_SPEAKS = "lines['log'].sendall(b'keel: boot\\nro'); lines['log'].sendall(b'ot: task linux\\n')\n"
Start = Callable[[boot.Choices, float], tuple[int | None, list[str]]]


@pytest.fixture
def start(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a guest under KVM as the command does: the emulator's status, and what is said."""

    def start(choices: boot.Choices, begins_s: float) -> tuple[int | None, list[str]]:
        said: list[str] = []
        monkeypatch.setattr(run_command, "say", said.append)
        monkeypatch.setattr(run_command, "KVM_BEGINS_S", begins_s)
        with slot.taken(settings, "keel") as mine:
            return run_command._run_guest(settings, choices, KVM, Plan(mine, b"true", timeout_s=60.0)).emulator_status, said

    return start


@pytest.mark.parametrize(
    ("under_kvm", "begins_s", "told"),
    [
        ("print('kvm: no'); sys.exit(1)", 60.0, "ended with status 1 before the root task's first line: kvm: no"),
        ("lines['log'].sendall(b'keel: panic\\n'); sys.exit(1)", 60.0, "ended with status 1"),
        ("time.sleep(600)", 0.5, "stood for 0.5 s"),
    ],
    ids=["ends", "panics", "stands"],
)
def test_a_guest_that_kvm_does_not_begin_is_emulated(
    under_kvm: str, begins_s: float, told: str, emulator: Emulator, start: Start
) -> None:
    emulator(f"if 'kvm' in sys.argv:\n    {under_kvm}\n{ROOT_SPEAKS}sys.exit(7)")
    status, said = start(boot.Choices(), begins_s)
    assert status == 7 and len(said) == 2 and told in said[0], said


@pytest.mark.parametrize("first", [ROOT_SPEAKS, "lines['console'].sendall(b'Linux')\n", READY], ids=["root", "linux", "init"])
def test_a_guest_that_has_begun_is_not_run_again(first: str, emulator: Emulator, start: Start) -> None:
    emulator(f"{first}sys.exit(3)")
    assert start(boot.Choices(), 60.0) == (3, [])


@pytest.mark.parametrize("choices", [boot.Choices(accelerator="kvm"), boot.Choices(native=True), boot.Choices(gdb=True)])
def test_only_our_own_choice_of_kvm_is_changed(choices: boot.Choices, emulator: Emulator, start: Start) -> None:
    emulator("sys.exit(1)")
    assert start(choices, 60.0) == (1, [])
