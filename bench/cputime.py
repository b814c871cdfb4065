# SPDX-License-Identifier: GPL-2.0-only
"""The host's processor time, user and system, that the emulator spends on a piece of a guest's work.

The guest prints a line where a piece begins and where it ends. The time is the emulator's, not a machine's: it includes the
emulator's own work at a change of address space, and it varies with the host's load.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

EMULATOR = "qemu-system-x86"
# The first words of the guest's lines.
BEGINS, ENDS = "begins", "ends"
# Fields of /proc/PID/stat after the name, which ends with the last bracket: time in user mode and in the kernel.
USER_TIME, SYSTEM_TIME = 11, 12


class TimeError(Exception):
    """A piece cannot be timed; the text says why."""


def descendants(pid: int) -> Iterator[int]:
    """All descendants of a process."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from descendants(child)


def emulator_below(pid: int) -> int:
    """The process id of the emulator that a `keel` command started."""
    for child in descendants(pid):
        if Path(f"/proc/{child}/comm").read_text().startswith(EMULATOR):
            return child
    raise TimeError("there is no emulator")


def seconds_of(stat: str, ticks_a_second: int) -> float:
    """The processor time in a line of /proc/PID/stat, in seconds."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])) / ticks_a_second


def spent(pid: int) -> float:
    """The processor time that a process has used, in seconds."""
    return seconds_of(Path(f"/proc/{pid}/stat").read_text(), os.sysconf("SC_CLK_TCK"))


def mark(name: str, command: str) -> str:
    """Shell commands that run `command` and print a line before and after it."""
    return f"echo {BEGINS} {name} && {{ {command}; }} > /dev/null 2>&1 && echo {ENDS} {name}"


def time_pieces(argv: Sequence[str], stdin: bytes) -> dict[str, float]:
    """Run a `keel` command and return the seconds of each piece that its guest marks."""
    pieces: dict[str, float] = {}
    began: dict[str, float] = {}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin and running.stdout
        running.stdin.write(stdin)
        running.stdin.close()
        for line in running.stdout:
            word, _, name = line.decode(errors="replace").strip().partition(" ")
            if word == BEGINS:
                began[name] = spent(emulator_below(running.pid))
            elif word == ENDS and name in began:
                pieces[name] = spent(emulator_below(running.pid)) - began[name]
    if running.returncode:
        raise TimeError(f"the guest ended with status {running.returncode}")
    return pieces
