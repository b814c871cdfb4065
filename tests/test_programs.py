# SPDX-License-Identifier: GPL-2.0-only
"""Needs of programs beyond system calls: modules built outside of Linux's tree, and swap on a disk."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import GUEST_SOURCES, LINUX, PLACED, SYSTEMS, Result, complains, run_guest, run_in_tests, together
from keel.errors import Status

LIMIT_S = 400
SWAP_BYTES = 256 << 20
# Less than the hungry program needs, more than the guest needs without it.
MEMORY_MB = "384"
ARCHITECTURES = {"native": ("native", "x86", "pristine"), "keel": ("l4", "l4", "l4-src")}


def build_module(system: str, directory: Path, name: str) -> bytes:
    """A module of tests/guest/module, built against the system's kernel."""
    out, arch, source = ARCHITECTURES[system]
    shutil.copytree(GUEST_SOURCES / "module", directory, dirs_exist_ok=True)
    # Tests in other processes prepare the same tree.
    alone = ["flock", str(GUEST_SOURCES / "module" / "Makefile")]
    make = [*alone, "make", "-s", "-C", str(LINUX / source), f"O={LINUX / out}", f"ARCH={arch}"]
    environment = {**os.environ, "KEEL_ABI_H": str(LINUX / out / "keel_abi.h")}
    # No part of Linux is a module here, so the only symbols are those of the kernel itself.
    for goal in (["modules_prepare"], [f"M={directory}", "KBUILD_MODPOST_WARN=1", "modules"]):
        done = subprocess.run([*make, *goal], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    return (directory / f"{name}.ko").read_bytes()


@pytest.fixture(scope="module")
def module_output(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """The output of module.py with the system's module."""
    script = (GUEST_SOURCES / "module.py").read_text()
    results: dict[str, Result] = {}

    def run(system: str) -> Result:
        if system not in results:
            image = build_module(system, tmp_path_factory.mktemp(system), "keel_probe")
            command = f"cat > /tmp/module.py <<'END'\n{script}END\npython3 /tmp/module.py"
            results[system] = run_guest(system, command, stdin=image, limit_s=LIMIT_S)
        return results[system]

    return run


@together("module")
@pytest.mark.parametrize("system", SYSTEMS)
def test_module_lives(module_output: Callable[[str], Result], system: str) -> None:
    """It is loaded, uses Linux's interfaces, and is removed, repeatedly."""
    result = module_output(system)
    assert result.status == 0, result.error
    lines = result.output.splitlines()
    assert lines[:4] == ["cut ENOEXEC", "bad parameter EINVAL", "refuses itself EINVAL", "loaded ok"]
    said = {"memory 100 6291456", "sums 200, wrong 0", "thread 42 7", "branch 0 1 0", "quotient 500000000003"}
    assert {*said, "removed ok"} <= set(lines)
    assert lines[-1] == "at last ok ok"


@together("module")
def test_module_says_the_same(module_output: Callable[[str], Result]) -> None:
    """On Keel it prints the same as on native Linux."""
    assert module_output("keel").output == module_output("native").output


@pytest.mark.parametrize("name", [pytest.param("faults", marks=complains(r"WARNING: .* at fault\+")), "requests"])
def test_interrupt_handlers_run_to_their_end(tmp_path: Path, name: str) -> None:
    """Handlers run on the second processor too, even if they fault, and while an interrupt is requested there."""
    image = build_module("keel", tmp_path, "keel_interrupts")
    command = f"cat > /tmp/module.ko && insmod /tmp/module.ko && cat /proc/keel_interrupts/{name} && rmmod keel_interrupts"
    result = run_guest("keel", command, stdin=image, limit_s=LIMIT_S, options=["--smp", "2"])
    assert result.output == f"{name}: 0\n", result.output + result.error


# The first command dies on the second processor. Then the first processor unmaps memory, and the second one must continue.
OOPS = (
    "cat > keel_oops.ko; insmod keel_oops.ko || exit 1; taskset 2 cat /proc/keel_oops; echo $?; "
    "for i in $(seq 20); do taskset 1 /bin/true || exit 1; done; taskset 2 echo alive; dmesg | grep -o 'Oops: vector 14'"
)


@complains("Oops: vector 14")
def test_an_oops_within_a_copy_ends_one_process(tmp_path: Path) -> None:
    """A process that faults in the kernel while it accesses user memory dies. No other processor waits for the end of that
    access.
    """
    image = build_module("keel", tmp_path, "keel_oops")
    result = run_guest("keel", OOPS, stdin=image, limit_s=LIMIT_S, options=["--smp", "2"])
    assert result.output.splitlines() == [str(128 + signal.SIGSEGV), "alive", "Oops: vector 14"], result.output + result.error


@complains("Oops: vector")
@pytest.mark.parametrize("address", ["10", "7fffffff0000", "800000000000", "ffff700000000000", "ffffffffffffff00"])
def test_a_fault_without_a_stack_is_an_oops(tmp_path: Path, address: str) -> None:
    """Linux's own code has lost its stack pointer: it says so, and panics."""
    image = build_module("keel", tmp_path, "keel_stack")
    command = f"cat > keel_stack.ko; insmod keel_stack.ko && echo {address} > /proc/keel_stack"
    result = run_guest("keel", command, stdin=image, limit_s=LIMIT_S, options=["--verbose"])
    assert result.status == Status.LINUX_PANIC, result.error
    assert "Oops: vector" in result.error and "Fatal exception without a stack" in result.error, result.error[-2000:]


@pytest.mark.skipif(bool(PLACED), reason="the module calls the µ-kernel as in user mode")
def test_pages_of_the_kernel_are_mapped_when_they_are_used(tmp_path: Path) -> None:
    """Those that the µ-kernel lacks, as where it had no room for them, although Linux's tables have them."""
    image = build_module("keel", tmp_path, "keel_again")
    command = "cat > keel_again.ko; insmod keel_again.ko && cat /proc/keel_again; dmesg | grep Oops"
    result = run_guest("keel", command, stdin=image, limit_s=LIMIT_S)
    assert result.output == "status 0\n64 of 64 pages\n", result.output + result.error


def test_memory_pressure_swaps_to_a_disk(tmp_path: Path) -> None:
    """A program that needs more memory than the guest has continues with swap on a virtio disk, and its data is correct."""
    results = {}
    for system in SYSTEMS:
        area = tmp_path / f"{system}.img"
        with area.open("wb") as file:
            file.truncate(SWAP_BYTES)
        command = "mkswap /dev/vdb > /dev/null && swapon /dev/vdb && ./stress memory 400 && swapoff -a && echo off"
        options = ["--mem", MEMORY_MB, "--drive", f"virtio:{area}"]
        results[system] = run_in_tests(system, command, limit_s=LIMIT_S, options=options)
        assert results[system].status == 0, results[system].error
    assert results["keel"].output == results["native"].output
    assert results["keel"].output.endswith("off\n")


def test_out_of_memory_kills_the_greedy(tmp_path: Path) -> None:
    """Without swap the greedy program is killed, and no other."""
    for system in SYSTEMS:
        result = run_in_tests(system, "./stress memory 600; echo $?; echo alive", limit_s=LIMIT_S, options=["--mem", MEMORY_MB])
        assert result.output.endswith("137\nalive\n"), result.output + result.error
