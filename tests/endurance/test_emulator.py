# SPDX-License-Identifier: GPL-2.0-only
"""Faults of QEMU's translator by which a program ends its guest: whether the emulators have them (docs/machines.md).

Where a test fails because the program gets the signal of a processor, that emulator is corrected, and the page can say so.
"""

import shutil
from pathlib import Path

import pytest
from conftest import GUEST_PROGRAMS, complains, keel, make_guest_programs, run_options
from keel import emulators
from keel.config import Settings
from keel.errors import Status

LIMIT_S = 60
BEFORE = "before\n"
# What a processor does.
RIGHT = {"cs": "SIGILL\n", "fault": "SIGSEGV\n", "spin": "SIGSEGV\n"}
EMULATORS: dict[str, list[str]] = {"7.2": ["--qemu", "7.2"], "10": ["--qemu", "10"]}
# By emulator, system and program; without an entry the guest stands still until it is ended.
KILLED = 128 + 9
ENDS = {
    ("7.2", "native", "cs"): Status.OK,
    ("7.2", "keel", "cs"): Status.OK,
    ("7.2", "native", "fault"): KILLED,
    ("7.2", "native", "spin"): KILLED,
    ("10", "keel", "cs"): Status.KERNEL_PANIC,
    ("10", "native", "cs"): Status.LINUX_PANIC,
    ("10", "keel", "fault"): Status.KERNEL_PANIC,
    ("10", "native", "fault"): Status.LINUX_PANIC,
}


@complains("")
@pytest.mark.parametrize("program", RIGHT)
@pytest.mark.parametrize("system", ["native", "keel"])
@pytest.mark.parametrize("emulator", EMULATORS)
def test_programs_end_it_as_the_page_says(tmp_path: Path, emulator: str, system: str, program: str) -> None:
    """What a program does to its guest, or that it gets the signal of a processor where the emulator is right."""
    own = emulators.shown(emulators.version(emulators.chosen(Settings())))
    if emulator == "7.2" and own != emulator:
        pytest.skip(f"the host's QEMU is {own}")
    make_guest_programs()
    (root := tmp_path / "root").mkdir()
    shutil.copy(GUEST_PROGRAMS / "emulator", root)
    options = [*EMULATORS[emulator], "--accel", "tcg", "--mem", "256", "--root", str(root), "--timeout", str(LIMIT_S)]
    done = keel(*run_options(system), *options, "--exec", f"/emulator {program}", timeout_s=LIMIT_S + 60)
    status = ENDS.get((emulator, system, program), Status.TIMEOUT)
    if (emulator, system) == ("7.2", "keel") and done.status == Status.OK:
        status = Status.OK  # Linux has ended a program whose fault comes again and again
    output = BEFORE + (RIGHT[program] if status == Status.OK else "")
    assert (done.output, done.status) == (output, status), done.error
