# SPDX-License-Identifier: GPL-2.0-only
"""The faults of tests/mutations.py fit the µ-kernel's sources: no suite runs them."""

import tomllib

from keel.config import REPOSITORY

SOURCES = REPOSITORY / "kernel" / "src"


def test_each_fault_has_one_place() -> None:
    faults = tomllib.loads((REPOSITORY / "tests" / "mutations.toml").read_text())["fault"]
    assert [fault["name"] for fault in faults if (SOURCES / fault["file"]).read_text().count(fault["old"]) != 1] == []
