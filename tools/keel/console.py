# SPDX-License-Identifier: GPL-2.0-only
"""Recognises the guest's end on Linux's console. Pure: bytes in, an event out."""

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

# How the guest's init ends the boot log (guest/init/shell.c).
SHELL_BEGINS = b"\033_keel:shell\033\\"


class BootLog:
    """Keeps the boot log from the user: what comes after its end is shown."""

    def __init__(self) -> None:
        self.over = False
        # Something has been shown that does not end a line, as a prompt does.
        self.has_prompt = False
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """What of the next bytes is to be shown; the mark may be cut between two calls."""
        if not self.over:
            before, mark, data = (self._kept + data).partition(SHELL_BEGINS)
            self.over = bool(mark)
            self._kept = before[1 - len(SHELL_BEGINS) :]
        self.has_prompt |= bool(data) and not data.endswith(b"\n")
        return data


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
