# SPDX-License-Identifier: GPL-2.0-only
"""Boots and ends of two processors that run in parallel, in each placement, while programs run on both.

KEEL_ROUNDS says how often each (5), and KEEL_QEMU which emulator (10).
"""

import os
import shutil
from pathlib import Path

import pytest
from conftest import GUEST_PROGRAMS, complains, keel, make_guest_programs
from keel.errors import Status

ROUNDS = int(os.environ.get("KEEL_ROUNDS", "5"))
EMULATOR = os.environ.get("KEEL_QEMU") or "10"
LIMIT_S = 180
PLACES: dict[str, list[str]] = {
    "task": [],
    "kernel": ["--place", "linux=kernel"],
    "windows": ["--place", "i386=small-unsafe"],
    "resident": ["--place", "i386=resident"],
}
# What the program `ends` does, and the status of the run.
ENDS = {"exit": 7, "power-off": Status.POWERED_OFF, "reboot": Status.REBOOTED, "panic": Status.LINUX_PANIC}


@complains("sysrq triggered crash")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", PLACES)
def test_a_machine_ends_as_it_should(tmp_path: Path, place: str, end: str) -> None:
    """Each time, by itself, and without a panic of the µ-kernel."""
    make_guest_programs()
    (root := tmp_path / "root").mkdir()
    shutil.copy(GUEST_PROGRAMS / "ends", root)
    machine = ["--qemu", EMULATOR, "--smp", "2", "--mem", "256", "--root", str(root), "--timeout", str(LIMIT_S)]
    for number in range(ROUNDS):
        done = keel("run", *PLACES[place], *machine, "--exec", f"/ends {end}", timeout_s=LIMIT_S + 60)
        assert done.status == ENDS[end], f"round {number}: {done.status}, {done.error}"
