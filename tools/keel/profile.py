# SPDX-License-Identifier: GPL-2.0-only
"""Where a command's instructions go: user programs, the Linux server, the µ-kernel, or the native kernel, by function.

A plugin of QEMU's translator (plugins/profile.c) counts blocks of code while the command runs; the guest is not changed.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import process
from .config import KERNEL_IMAGE, Settings
from .latency import plain_name

USER = "user"
SERVER = "server"
MICRO_KERNEL = "µ-kernel"
NATIVE_KERNEL = "kernel"
PROGRAMS = "all programs"
INSTRUCTIONS = "instructions"
# Where the upper half of an address space begins. Native Linux has all of it, the µ-kernel and the server share it.
UPPER_HALF = 1 << 63
# The code of an image lies within a GB.
IMAGE_BYTES = 1 << 30
# Symbols of code in what nm prints.
CODE = frozenset("tTwW")


@dataclass(frozen=True)
class Symbols:
    """The functions of one image, by address; `end` is where its code ends."""

    region: str
    starts: Sequence[int]
    names: Sequence[str]
    end: int

    def find(self, address: int) -> str | None:
        """The function that holds an address; nothing if the image's code has none there."""
        at = bisect_right(self.starts, address) - 1
        return self.names[at] if at >= 0 and address < self.end else None


@dataclass(frozen=True)
class Profile:
    """Executed instructions by region and function."""

    counts: Counter[tuple[str, str]]

    @property
    def total(self) -> int:
        """All of them."""
        return self.counts.total()

    def regions(self) -> Counter[str]:
        """By region."""
        sums: Counter[str] = Counter()
        for (region, _), count in self.counts.items():
            sums[region] += count
        return sums


def read_symbols(region: str, text: str) -> Symbols:
    """What `nm -n -C` prints of an image. Its code ends at `_etext` where it says so, or with its GB."""
    found: dict[int, str] = {}
    end = 0
    for line in text.splitlines():
        if symbol := re.match(r"([0-9a-f]+) (\w) (.+)", line):
            address, name = int(symbol[1], 16), plain_name(symbol[3])
            if name == "_etext":
                end = address
            elif symbol[2] in CODE:
                found.setdefault(address, name)
    last = max(found, default=0)
    return Symbols(region, list(found), list(found.values()), end or last - last % IMAGE_BYTES + IMAGE_BYTES)


def images(settings: Settings, *, native: bool) -> list[Symbols]:
    """The symbols of the kernels and servers of either system."""
    files: list[tuple[str, Path]] = (
        [(NATIVE_KERNEL, settings.native_symbols)]
        if native
        else [(MICRO_KERNEL, settings.keel_directory / KERNEL_IMAGE), (SERVER, settings.linux_server)]
    )
    return _read_images(files)


def task_images(settings: Settings, task: str) -> list[Symbols]:
    """The symbols of the µ-kernel and of the native task of this name, alone on it."""
    directory = settings.keel_directory
    return _read_images([(MICRO_KERNEL, directory / KERNEL_IMAGE), (USER, directory / task)])


def _read_images(files: Iterable[tuple[str, Path]]) -> list[Symbols]:
    return [read_symbols(region, process.output(["nm", "-n", "-C", str(file)])) for region, file in files]


def read_blocks(lines: Iterable[str], images: Sequence[Symbols]) -> Profile:
    """The plugin's output: address, instructions and executions of each block."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        address, instructions, executed = (int(word, 0) for word in line.split())
        counts[place(address, images)] += instructions * executed
    return Profile(counts)


def place(address: int, images: Sequence[Symbols]) -> tuple[str, str]:
    """The region and the function of an address."""
    # The µ-kernel's first symbols are of its boot code, in the lower half.
    same_half = [image for image in images if image.starts and image.starts[-1] // UPPER_HALF == address // UPPER_HALF]
    below = [image for image in same_half if image.starts[0] <= address]
    for image in below:
        if function := image.find(address):
            return image.region, function
    if address < UPPER_HALF:
        return USER, PROGRAMS
    # Modules lie above the image of the kernel or server that has loaded them.
    return max(below, key=lambda image: image.starts[0], default=images[0]).region, "?"


def rows(profile: Profile, top: int, unit: str = INSTRUCTIONS) -> list[list[str]]:
    """The regions, then the functions that took most."""
    table = [[unit, "share", "where", "function"]]
    whole = profile.total or 1
    table += [[f"{count:,}", f"{count / whole:.1%}", region, ""] for region, count in profile.regions().most_common()]
    table += [[f"{n:,}", f"{n / whole:.1%}", region, name] for (region, name), n in profile.counts.most_common(top)]
    return table


def as_folded(profile: Profile) -> str:
    """Lines `region;function count`, which tools for flame graphs read."""
    return "".join(f"{region};{name} {count}\n" for (region, name), count in sorted(profile.counts.items()))
