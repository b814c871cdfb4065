# SPDX-License-Identifier: GPL-2.0-only
"""Runs native tasks alone on the µ-kernel in QEMU, silently, and returns their output."""

from dataclasses import dataclass

from . import boot, guest, machine, slot
from .config import Settings

SLOT = "measure"
ROOT_SAYS = "root: "


@dataclass(frozen=True)
class Ended:
    """What was printed on the log line, and what the guest wrote to the exit port, if it did."""

    output: str
    exit_value: int | None

    def last_line(self) -> str:
        """The last that was said that is no figure: a task's own words rather than the root task's that it has ended."""
        said = [line for line in self.output.splitlines() if not line.startswith("{")]
        said = [line for line in said if not line.startswith(ROOT_SAYS)] or said
        return said[-1] if said else "nothing was said"


def run(settings: Settings, choices: boot.Choices, timeout_s: float) -> Ended:
    """Boot the µ-kernel with the tasks of a boot configuration and wait for their end."""
    log = bytearray()

    def keep(data: bytes) -> bool:
        log.extend(data)
        return False

    with slot.taken(settings, SLOT) as mine:
        described = boot.tests_guest(settings, choices, mine)
        mine.note_symbols({slot.KERNEL: described.kernel})
        outcome = guest.run(settings, described, guest.Plan(slot=mine, timeout_s=timeout_s, watch_log=keep))
    return Ended(log.decode(errors="replace"), machine.exit_value(outcome.emulator_status))
