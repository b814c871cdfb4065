# SPDX-License-Identifier: GPL-2.0-only
"""What Linux in a guest complains of: lines of its log that no test may cause without saying so (tests/conftest.py)."""

import os
import re
from pathlib import Path

# Names the file that gets such lines, where somebody wants them.
VARIABLE = "KEEL_COMPLAINTS"
# Linux's lines begin with their time, and perhaps the processor or thread.
COMPLAINT = re.compile(r"^\[ *\d+\.\d+\](?:\[[^]]*\])? (?:[\w-]+: )*(?:WARNING: |BUG: |Oops|INFO: .*(?:stall|blocked for more))")


def found(log: str) -> list[str]:
    """The complaints in a guest's console log."""
    return [line for line in log.splitlines() if COMPLAINT.match(line)]


def note(console_log: Path) -> None:
    """Add those of a guest that has ended to the file, if there is one."""
    if file := os.environ.get(VARIABLE):
        lines = found(console_log.read_text(errors="replace"))
        with Path(file).open("a") as out:
            out.writelines(f"{line}\n" for line in lines)
