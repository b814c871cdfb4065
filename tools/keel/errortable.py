# SPDX-License-Identifier: GPL-2.0-only
"""The errors of the µ-kernel's calls: those of the table in docs/abi.md against those that the suite has seen."""

import re
from collections.abc import Iterator
from pathlib import Path

TABLE = Path("docs/abi.md")
HEADING = "## Errors"
# A call, the side on which it failed, and the error; names as in the interface.
Refusal = tuple[str, str, str]
# What no case of the suite can see, and which test sees it instead.
UNSEEN: dict[Refusal, str] = {
    ("LTHREAD_EX_REGS", "CALL", "RETIRED"): "takes a million lthreads; the host test of task.rs",
    ("THREAD_SCHEDULE", "CALL", "NOT_SUPPORTED"): "takes a machine without segment limits; kernel-qemu-1-small",
    ("TASK_NEW", "CALL", "RETIRED"): "takes a million tasks; the host test of task.rs",
}


def documented(text: str) -> set[Refusal]:
    """The table's rows: a call, a side, and the errors, each in backquotes."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    found: set[Refusal] = set()
    for row in section.splitlines():
        cells = [re.findall(r"`(\w+)`", cell) for cell in row.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[0]:
            found.update((call, side, error) for call in cells[0] for side in cells[1] for error in cells[2])
    return found


def seen(output: str) -> set[Refusal]:
    """What the suite says at its end."""
    lines = re.findall(r"^error (\w+) (\w+) (\w+)$", output.replace("\r", ""), re.MULTILINE)
    return {(call, side, error) for call, side, error in lines}


def problems(table: set[Refusal], found: set[Refusal]) -> Iterator[str]:
    """What is in the table and was not seen, and what was seen and is not in the table."""
    for call, side, error in sorted(table - found - UNSEEN.keys()):
        yield f"no case sees {error} of {call} on side {side}"
    for call, side, error in sorted(found - table):
        yield f"{TABLE} says nothing of {error} of {call} on side {side}"
    for call, side, error in sorted((UNSEEN.keys() & found) | (UNSEEN.keys() - table)):
        yield f"{error} of {call} on side {side} is no exception any more"
