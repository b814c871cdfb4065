# SPDX-License-Identifier: GPL-2.0-only
"""What the µ-kernel and the overlay of Linux may have in physical lines."""

import pytest

from keel.config import REPOSITORY

# The kernel's are Rust and assembly; the overlay's are all there are.
LIMITS = [("kernel", ("*.rs", "*.s"), 10_000), ("linux", ("*",), 6_500)]


@pytest.mark.parametrize(("folder", "patterns", "limit"), LIMITS, ids=[folder for folder, _, _ in LIMITS])
def test_size(folder: str, patterns: tuple[str, ...], limit: int) -> None:
    files = [file for pattern in patterns for file in (REPOSITORY / folder).rglob(pattern) if file.is_file()]
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    assert 0 < lines <= limit, f"{folder}/ has {lines} lines, {lines - limit} too many"
