# SPDX-License-Identifier: GPL-2.0-only
"""Tries each wrong way to load the module on standard input, then loads it, reads its output, and removes it."""

import ctypes
import errno
import os
import sys
from pathlib import Path

INIT_MODULE = 175
DELETE_MODULE = 176
NAME = b"keel_probe"

libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> str:
    """The answer of a system call in a word."""
    result = libc.syscall(number, *arguments)
    return "ok" if result == 0 else errno.errorcode[ctypes.get_errno()]


def load(image: bytes, parameters: bytes) -> str:
    """Give the kernel a module."""
    return call(INIT_MODULE, image, ctypes.c_ulong(len(image)), parameters)


def main() -> None:
    """Load, use and remove the module."""
    image = sys.stdin.buffer.read()
    print("cut", load(image[: len(image) // 2], b""))
    print("bad parameter", load(image, b"factor=many"))
    print("refuses itself", load(image, b"factor=0"))
    for factor in (2, 3):
        print("loaded", load(image, b"factor=%d" % factor))
        print("twice", load(image, b""))
        print(Path("/proc/keel_probe").read_text(), end="")
        print(Path("/sys/module/keel_probe/parameters/factor").read_text(), end="")
        file = os.open("/proc/keel_probe", os.O_RDONLY)
        listed = [line.split()[2:4] for line in Path("/proc/modules").read_text().splitlines() if line.startswith("keel_probe ")]
        os.close(file)
        print("listed", listed)
        print("removed", call(DELETE_MODULE, NAME, os.O_NONBLOCK))
        print("gone", not Path("/proc/keel_probe").exists(), call(DELETE_MODULE, NAME, os.O_NONBLOCK))
    for _ in range(20):
        load(image, b"")
        call(DELETE_MODULE, NAME, os.O_NONBLOCK)
    print("at last", load(image, b""), call(DELETE_MODULE, NAME, os.O_NONBLOCK))


main()
