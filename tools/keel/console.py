# SPDX-License-Identifier: GPL-2.0-only
"""What Linux's console tells about the guest's end. Pure: bytes in, an event out."""

from enum import Enum, auto

KEEP_BYTES = 64


class End(Enum):
    """How a guest can end, as its console shows it."""

    POWER_OFF = auto()
    REBOOT = auto()
    PANIC = auto()


MARKS = {
    b"Kernel panic - not syncing": End.PANIC,
    b"reboot: Power down": End.POWER_OFF,
    b"reboot: System halted": End.POWER_OFF,
    b"reboot: Restarting system": End.REBOOT,
}


class Watcher:
    """Watches the console for the kernel's last words; the last of them counts."""

    def __init__(self) -> None:
        self.end: End | None = None
        self._kept = b""

    def feed(self, data: bytes) -> None:
        """Look at the next bytes; a mark may be cut between two calls."""
        text = self._kept + data
        last = max(MARKS, key=text.rfind)
        if last in text:
            self.end = MARKS[last]
        self._kept = text[-KEEP_BYTES:]
