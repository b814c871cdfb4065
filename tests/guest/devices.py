# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the guest: writes each disk in a random order without the page cache and verifies it, then sends data to the host's
echo server and compares the answer. `devices.py BYTES URL DISK...`; the last line of each disk is the digest of its content.
"""

import hashlib
import mmap
import os
import random
import sys
import urllib.request

BLOCK = 16384


def content(disk: str, block: int) -> bytes:
    """The content of a block, different for every disk and block."""
    return hashlib.shake_128(f"{disk} {block}".encode()).digest(BLOCK)


def verify(disk: str, size: int) -> None:
    """Write all blocks, some of them twice, and read them back from the disk."""
    fd = os.open(disk, os.O_RDWR | os.O_DIRECT)
    buffer = mmap.mmap(-1, BLOCK)
    order = [*range(size // BLOCK), *random.sample(range(size // BLOCK), size // BLOCK // 2)]
    random.shuffle(order)
    for block in order:
        buffer[:] = content(disk, block)
        assert os.pwritev(fd, [buffer], block * BLOCK) == BLOCK
    os.fsync(fd)
    whole = hashlib.sha256()
    for block in range(size // BLOCK):
        assert os.preadv(fd, [buffer], block * BLOCK) == BLOCK
        assert buffer[:] == content(disk, block), f"{disk}: block {block} is wrong"
        whole.update(buffer)
    print(disk, whole.hexdigest())


def echo(url: str, size: int) -> None:
    """Send bytes and get them back."""
    data = random.randbytes(size)
    with urllib.request.urlopen(url, data, timeout=60) as answer:
        assert answer.read() == data
    print("network", size)


random.seed(os.urandom(8))
for name in sys.argv[3:]:
    verify(name, int(sys.argv[1]))
echo(sys.argv[2], int(sys.argv[1]))
