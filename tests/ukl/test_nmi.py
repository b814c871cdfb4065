# SPDX-License-Identifier: GPL-2.0-only
"""An NMI, and the interrupt that it brings, between STI and the jump back to an application, at each such jump.

The emulator is stopped at the jump by its debugger's stub, gets the NMI there, and is seen to take both at that address.
"""

import subprocess
from pathlib import Path

import pytest
from conftest import GRACE_S, LINUX, keel
from stub import LIMIT_S, STACK, Monitor, Stub, stands_still, stopped
from test_ukl import OPTIONS, SOURCES

TIMES = 3
# The first calls, faults and bypassing calls of applications.
JUMPS = ("ukl_jump", "ukl_ret_ways", "ukl_leaf_jump", "ukl_bypass_jump")
COMMAND = "for asked in '' bypass; do for check in registers faults; do /run/ukl/interrupted $check $asked; done; done"
SYMBOLS = LINUX / "ukl-kernels" / "-".join(["base", *OPTIONS.split(",")]) / "vmlinux"
# An indirect JMP by a word in memory.
JUMP_BY_MEMORY = b"\xff\x25"
# This many steps inside the NMI last longer than the time from one of the clock's interrupts to the next.
STEPS = 400


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
        stub.step()
    stub.run_to(symbols["ukl_frame"])
    # Above the return address and the word in place of the error code.
    assert stub.word(stub.register(STACK) + 16) == jump


@stands_still
def test_an_nmi_between_sti_and_the_jump(symbols: dict[str, int], tmp_path: Path) -> None:
    """Kernel code with the user's GS is interrupted twice, and the application notices nothing."""
    with stopped(tmp_path, ["ukl", "run", "interrupted", "--exec", COMMAND]) as (child, stub, monitor):
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
