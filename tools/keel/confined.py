# SPDX-License-Identifier: GPL-2.0-only
"""Starts a program that serves files to a guest: confined.py PROGRAM ARGUMENT ...

The server in the emulator does what the guest asks for with the rights of its user, root's perhaps. A filter of system calls
withholds what would give the guest's root a power on the host: files of other owners, devices, and the bits setuid and setgid,
with which a program of the guest would run with the user's rights. The emulator's own `-sandbox` filters none of these.

It runs in Debian's Python, which has the module for the filter, and imports nothing of Keel.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator

from seccomp import ALLOW, ERRNO, MASKED_EQ, Arg, SyscallFilter

# The positions of the arguments: of a mode in calls that set one, and of owner and group.
SET_MODE = {"chmod": 1, "fchmod": 1, "fchmodat": 2}
CREATE_WITH_MODE = {"creat": 1, "mknod": 1, "mknodat": 2}
SET_OWNER = {"chown": (1, 2), "lchown": (1, 2), "fchown": (1, 2), "fchownat": (2, 3)}
MAKE_DEVICE = {"mknod": 1, "mknodat": 2}
# Flags and mode; the mode counts only with one of these flags.
OPEN = {"open": (1, 2), "openat": (2, 3)}
CREATING = (os.O_CREAT, os.O_TMPFILE & ~os.O_DIRECTORY)
# x86-64's number of a call that libseccomp 2.5 does not know, and one whose mode is in memory, where no filter can read it.
FCHMODAT2 = 452
FCHMODAT2_MODE = 2
UNREADABLE = "openat2"
PRIVILEGED = (stat.S_ISUID, stat.S_ISGID)
FILE_TYPE = 0o170000
ID_BITS = 32
DEVICES = (stat.S_IFCHR, stat.S_IFBLK)


def filter_of_calls() -> SyscallFilter:
    """The filter: a refused call fails with EPERM."""
    calls = SyscallFilter(ALLOW)
    refused = ERRNO(errno.EPERM)
    for bit in PRIVILEGED:
        for call, mode in (SET_MODE | CREATE_WITH_MODE | {FCHMODAT2: FCHMODAT2_MODE}).items():
            calls.add_rule(refused, call, Arg(mode, MASKED_EQ, bit, bit))
        for call, (flags, mode) in OPEN.items():
            for flag in CREATING:
                calls.add_rule(refused, call, Arg(flags, MASKED_EQ, flag, flag), Arg(mode, MASKED_EQ, bit, bit))
    for call, mode in MAKE_DEVICE.items():
        for kind in DEVICES:
            calls.add_rule(refused, call, Arg(mode, MASKED_EQ, FILE_TYPE, kind))
    for call, positions in SET_OWNER.items():
        for position, own in zip(positions, (os.getuid(), os.getgid()), strict=True):
            for mask, value in others(own):
                calls.add_rule(refused, call, Arg(position, MASKED_EQ, mask, value))
    calls.add_rule(ERRNO(errno.ENOSYS), UNREADABLE)
    return calls


def others(own: int) -> Iterator[tuple[int, int]]:
    """Yield masks and values: a number matches one of them unless it is `own` or -1, which leaves an owner as it is.

    A rule can compare an argument only once. Another number has a zero where `own` has a one, or else ones there and, where
    `own` has zeros, both: so in some place of those, in a circle, a one and then a zero.
    """
    ones = [1 << bit for bit in range(ID_BITS) if own >> bit & 1]
    zeros = [1 << bit for bit in range(ID_BITS) if not own >> bit & 1]
    yield from ((bit, 0) for bit in ones)
    yield from ((bit | after, bit) for bit, after in zip(zeros, [*zeros[1:], *zeros[:1]], strict=True) if bit != after)


if __name__ == "__main__":
    filter_of_calls().load()
    os.execvp(sys.argv[1], sys.argv[1:])
