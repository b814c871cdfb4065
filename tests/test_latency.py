# SPDX-License-Identifier: GPL-2.0-only
"""How long the µ-kernel has interrupts off under Linux: while processes fork, run others and end, and while Linux is restarted.

The plugin of `./keel test kernel-latency` watches, with the same limit. KEEL_LATENCY_ROUNDS is how often each load runs (2).
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import PLACED, REPOSITORY, run_guest, write_small_root
from keel import latency
from keel.config import Settings
from test_restart import CRASH, RESTARTED, configuration

LIMIT_S = 1200
ROUNDS = int(os.environ.get("KEEL_LATENCY_ROUNDS", "2"))
SMALL = ("--place", "i386=small-unsafe")
# Checks of 32-bit processes that map, protect, unmap, fork and end.
CHECKS = " ".join(
    (
        "memory.unmap_and_touch memory.protect_after_fork memory.remap_grow_and_move memory.many_mappings",
        "process.fork_many_pages_cow process.fork_three_generations process.forty_at_once",
        "threads.fork_from_threads exec.twenty_in_a_row",
    )
)
# Processes that share pages with their parent and write to them, and others that run another program.
FORKS = "a=$(printf %50000s); for n in 1 2 3 4 5 6 7 8 9; do (b=$a$n; (c=$b$n)); /bin/sh -c 'd=1 & wait'; done"
CHURN = f"for r in $(seq {ROUNDS}); do {FORKS}; ./transcript32 {CHECKS}; done"


def judged(report: Path, under: str) -> list[str]:
    """Judge the longest sections of a run; return what is wrong."""
    sections = latency.parse(under, report.read_text())
    assert sections, "the plugin saw nothing"
    print(*(" ".join(row) for row in latency.table(Settings(), sections)), sep="\n")
    return [problem for _, problem in latency.judge(Settings(), sections) if problem]


def watched(under: str) -> tuple[Path, list[str]]:
    """Prepare the plugin; return where it will report, and options of `./keel run`."""
    report, arguments = latency.watch(Settings(), f"linux-{under}")
    return report, ["--icount", *(f"--qemu-arg={argument}" for argument in arguments)]


@pytest.mark.parametrize(("under", "options"), [("processes", ()), ("windows", SMALL)])
def test_interrupts_are_on_in_time_while_processes_come_and_go(tmp_path: Path, under: str, options: Sequence[str]) -> None:
    """Also those of 32 bits in windows, whose chief Linux is."""
    if PLACED and options:
        pytest.skip("Linux in supervisor mode has no windows")
    root = tmp_path / "root.cpio"
    write_small_root(root, ("transcript32",))
    report, watching = watched(under)
    command = f"cd /tmp/keel-tests && {CHURN}"
    result = run_guest("keel", command, limit_s=LIMIT_S, options=[*watching, *options, "--nic", "none", "--root", str(root)])
    assert result.status == 0, result.error
    assert not judged(report, under)


def test_interrupts_are_on_in_time_while_linux_is_restarted(tmp_path: Path) -> None:
    """With fifty processes, each time."""
    (root := tmp_path / "root").mkdir()
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", str(root / "init")], input=CRASH.encode(), check=True)
    report, watching = watched("restart")
    options = ["--verbose", "--mem", "512", "--nic", "none", "--boot-conf", str(configuration(tmp_path)), "--root", str(root)]
    argv = [sys.executable, str(REPOSITORY / "keel"), "run", *PLACED, *watching, *options]
    text = ""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr
        while len(RESTARTED.findall(text)) < ROUNDS:
            line = child.stderr.readline()
            assert line, f"the guest ended after {text[-2000:]}"
            text += line
        child.terminate()
    assert not judged(report, "restart")
