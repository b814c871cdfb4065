# SPDX-License-Identifier: GPL-2.0-only
"""How far a program is, from the lines that it prints."""

import re
from collections.abc import Callable
from typing import TypeAlias

from .progress import Far

# Of a line: how far the step is by then, or nothing new.
Measure: TypeAlias = Callable[[bytes], "str | Far"]
PERCENT = re.compile(rb"(\d+)(?:\.\d+)?(?:/100)? ?%")


def percent(line: bytes) -> str | Far:
    """The percentage in a line, as qemu-img and xorriso print it."""
    found = PERCENT.search(line)
    return Far(int(found[1]), 100, "%") if found else ""


def counted(pattern: bytes, of: int, unit: str) -> Measure:
    """Counts the lines in which a pattern occurs."""
    wanted, done = re.compile(pattern), 0

    def measure(line: bytes) -> str | Far:
        nonlocal done
        done += wanted.search(line) is not None
        return Far(done, max(of, done) if of else 0, unit)

    return measure
