# SPDX-License-Identifier: GPL-2.0-only
"""The failures that end a command with one line, and the exit statuses it may end with."""

import errno
from enum import IntEnum

from . import plain

FREE_SPACE = "free some space and run it again"


class Status(IntEnum):
    """Exit statuses of `./keel`; those of `run --exec` stay clear of small ones of a command."""

    OK = 0
    TESTS_FAILED = 1
    USAGE = 2
    POWERED_OFF = 110
    REBOOTED = 111
    LINUX_PANIC = 112
    KERNEL_PANIC = 113
    BOOT_CONFIGURATION = 114
    EMULATOR = 115
    NOT_POWERED_OFF = 116
    TIMEOUT = 124
    ERROR = 125
    INTERRUPTED = 130


class KeelError(Exception):
    """What went wrong, what the user can do about it, and the exit status."""

    def __init__(self, what: str, remedy: str = "", status: Status = Status.ERROR) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.status = status

    def line(self) -> str:
        """The one line that the user sees."""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return plain.line(f"keel: error: {self.what}{remedy}")


def system_error(what: str, error: OSError, remedy: str = "") -> KeelError:
    """A system error with its reason; a full disk has its own remedy."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return KeelError(f"{what}: {error.strerror or error}", FREE_SPACE if full else remedy)


class Interrupted(Exception):
    """A signal asked the command to end: everything is cleaned up while it propagates."""
