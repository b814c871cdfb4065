# SPDX-License-Identifier: GPL-2.0-only
"""The pages about native programs: their listings are parts of files in the repository."""

import re

import pytest

from keel.config import REPOSITORY
from keel.examples import OTHERS

PAGES = [(REPOSITORY / "docs" / name).read_text(encoding="utf-8") for name in ("native.md", "small-spaces.md")]
LISTINGS = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", "\n".join(PAGES), re.M | re.S)
# What a listing shows beside the file: the command, and what others than the program print.
AROUND = ("$ ", *OTHERS)


def test_the_tutorial_has_listings() -> None:
    assert {name.split("/")[-1] for name, _ in LISTINGS} >= {"main.rs", "boot.conf", "output.txt", "Cargo.toml"}


@pytest.mark.parametrize(("name", "text"), LISTINGS)
def test_a_listing_is_part_of_its_file(name: str, text: str) -> None:
    shown = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(AROUND))
    assert shown in (REPOSITORY / name).read_text(encoding="utf-8")
