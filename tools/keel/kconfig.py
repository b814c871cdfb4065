# SPDX-License-Identifier: GPL-2.0-only
"""Kernel configuration fragments: their settings, and whether these took effect. Pure."""

import re
from collections.abc import Iterable

NOT_SET = "n"
_SET = re.compile(r"CONFIG_(\w+)=(.*)")
_UNSET = re.compile(r"# CONFIG_(\w+) is not set")


def parse(text: str) -> dict[str, str]:
    """Symbol to value; `is not set` counts as n."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if match := _SET.fullmatch(line.strip()):
            values[match[1]] = match[2]
        elif match := _UNSET.fullmatch(line.strip()):
            values[match[1]] = NOT_SET
    return values


def without_effect(fragments: Iterable[str], final: str) -> list[str]:
    """One line for each symbol that a fragment asks for and the final configuration lacks."""
    wanted: dict[str, str] = {}
    for fragment in fragments:
        wanted.update(parse(fragment))
    got = parse(final)
    return [
        f"CONFIG_{symbol}: asked for {value}, got {got.get(symbol, NOT_SET)}"
        for symbol, value in sorted(wanted.items())
        if got.get(symbol, NOT_SET) != value
    ]
