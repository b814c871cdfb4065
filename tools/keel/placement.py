# SPDX-License-Identifier: GPL-2.0-only
"""Where the parts of a guest are placed: the words of `--place`."""

from .errors import KeelError, Status

LINUX = "linux"
# A task of its own in user mode; in supervisor mode, in the upper half of every process's space.
TASK, KERNEL = "task", "kernel"
PLACES = (TASK, KERNEL)
# The word of the µ-kernel's command line by which the root task may create tasks in supervisor mode.
SUPERVISOR_TASKS = "supervisor"


def linux_place(words: list[str]) -> str:
    """Where Linux is, by the values of --place in their order."""
    place = TASK
    for word in words:
        who, separator, where = word.partition("=")
        if not separator or who != LINUX or where not in PLACES:
            wanted = " or ".join(f"{LINUX}={place}" for place in PLACES)
            raise KeelError(f"--place {word!r}: nothing can be placed so", f"known are {wanted}", Status.USAGE)
        place = where
    return place
