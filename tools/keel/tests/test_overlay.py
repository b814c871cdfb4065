# SPDX-License-Identifier: GPL-2.0-only
"""Overlays: QEMU takes them for what they are, whatever was changed."""

import subprocess
from pathlib import Path

import pytest

from keel import imageformat, overlay

SIZE = 3 << 30


def image(path: Path, places: dict[int, bytes]) -> Path:
    """A raw image with holes except at some places."""
    with path.open("wb") as file:
        file.truncate(SIZE)
        for at, data in places.items():
            file.seek(at)
            file.write(data)
    return path


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ({}, {}),
        ({0: b"a" * 70000}, {0: b"a" * 70000}),
        ({0: b"a" * 70000, 1 << 30: b"b"}, {65536: b"c", 1 << 30: b"d", SIZE - 1: b"e"}),
        ({number << 20: b"x" * 4096 for number in range(64)}, {}),
    ],
    ids=["empty", "same", "changed", "emptied"],
)
def test_an_overlay_is_the_new_image(base: dict[int, bytes], new: dict[int, bytes], tmp_path: Path) -> None:
    one, other, over = image(tmp_path / "base", base), image(tmp_path / "new", new), tmp_path / "places" / "over.qcow2"
    over.parent.mkdir()
    overlay.write(other, one, over)
    subprocess.run(["qemu-img", "check", "-q", "-f", "qcow2", str(over)], check=True)
    subprocess.run(["qemu-img", "compare", "-q", "-f", "qcow2", "-F", "raw", str(over), str(other)], check=True)
    assert imageformat.check_chain(over).backing_name == "../base"
    assert over.stat().st_size < 80 * overlay.CLUSTER
