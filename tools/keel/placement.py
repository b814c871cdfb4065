# SPDX-License-Identifier: GPL-2.0-only
"""Where the parts of a guest run: the words of `--place`, which docs/placements.md describes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import KeelError, Status

LINUX = "linux"
# A task of its own in user mode; in supervisor mode, in the upper half of every process's space.
TASK, KERNEL = "task", "kernel"
PLACES = (TASK, KERNEL)
# A program in the task of Linux itself, in user mode; in supervisor mode, in a space of its own, where Linux is.
SERVER = "server"
# Where programs can be by the place of Linux, beside which both places are one if there are two.
PROGRAMS = {TASK: (SERVER,), KERNEL: (KERNEL, SERVER)}
# The word of the µ-kernel's command line by which the root task may create tasks in supervisor mode.
SUPERVISOR_TASKS = "supervisor"
# 32-bit programs: in windows of Linux's tables, also where segments have no limits that protect them (docs/small-spaces.md).
I386, SMALL, UNSAFE = "i386", "small", "small-unsafe"
# Or Linux in the spaces of all of them, in user mode; a word of Linux's task, too.
RESIDENT = "resident"
# The limits of Linux's side (linux/arch/l4/kernel/place.c).
MOST_PROGRAMS = 8
LONGEST_PATH = 255
KNOWN = f"{LINUX}={TASK}, {LINUX}={KERNEL}, /PATH={KERNEL}, /PATH={SERVER}, {I386}={SMALL}, {I386}={UNSAFE}, {I386}={RESIDENT}"


@dataclass(frozen=True)
class Placement:
    """Where Linux runs on Keel, the paths and places (`PROGRAMS`) of programs, and a word of I386 for where 32-bit ones are."""

    linux: str = TASK
    programs: tuple[tuple[str, str], ...] = ()
    i386: str = ""

    def kernel_words(self) -> list[str]:
        """What the µ-kernel's command line says of it."""
        return [SUPERVISOR_TASKS] * (self.linux_place() != TASK) + [UNSAFE] * (self.i386 == UNSAFE)

    def linux_place(self) -> str:
        """The place of Linux's task in the boot configuration."""
        return RESIDENT if self.i386 == RESIDENT else self.linux

    def linux_words(self) -> list[str]:
        """What Linux's command line says of it."""
        place = RESIDENT if self.i386 == RESIDENT else SMALL
        narrow = [f"keel.place={I386}={place}"] if self.i386 else []
        return narrow + [f"keel.place={program}={where}" for program, where in self.programs]


# What is so without --place.
TASKS = Placement()


def parse(words: Sequence[str]) -> Placement:
    """The placement by the values of --place in their order; the last one of Linux's counts."""
    linux, i386, programs = TASK, "", list[tuple[str, str]]()
    for word in words:
        who, separator, where = word.rpartition("=")
        if who == LINUX and where in PLACES:
            linux = where
        elif who == I386 and where in (SMALL, UNSAFE, RESIDENT):
            i386 = where
        elif separator and who.startswith("/") and where in (KERNEL, SERVER):
            programs.append((_program(who), where))
        else:
            raise KeelError(f"--place {word!r}: nothing can be placed so", f"known are {KNOWN}", Status.USAGE)
    for program, where in programs:
        if where not in PROGRAMS[linux]:
            reason = f"--place {program}={where}: a program is there only beside {LINUX}={KERNEL}"
            raise KeelError(reason, f"give --place {LINUX}={KERNEL}, or {program}={SERVER}", Status.USAGE)
    if i386 and (linux == KERNEL or programs):
        reason = f"--place {I386}={i386}: Linux's tables then have no programs, and Linux runs in user mode"
        raise KeelError(reason, f"leave out {LINUX}={KERNEL} and programs in the server", Status.USAGE)
    if len(programs) > MOST_PROGRAMS:
        raise KeelError(f"--place: {len(programs)} programs", f"at most {MOST_PROGRAMS} can be named", Status.USAGE)
    return Placement(linux, tuple(programs), i386)


def _program(path: str) -> str:
    if any(character.isspace() or character == '"' for character in path) or len(os.fsencode(path)) > LONGEST_PATH:
        reason = f"--place {path!r}: the path has a blank or a quotation mark, or more than {LONGEST_PATH} bytes"
        raise KeelError(reason, "give it another name in the root, such as a link", Status.USAGE)
    return path
