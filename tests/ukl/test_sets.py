# SPDX-License-Identifier: GPL-2.0-only
"""Every possible set of options, except the empty and the full one, which test_ukl.py has. Each has its own kernel.

And a stack that grows for a minute. This takes ten minutes, so that only `./keel test ukl-options` runs it.
"""

import re
from itertools import combinations

import pytest
from conftest import GRACE_S, REPOSITORY, keel, together
from test_ukl import CHECKS, DIFFERENT, GUEST, LIMIT_S, OPTIONS, SOURCES, lines

NAMES = OPTIONS.split(",")
SETS = [
    ",".join(words)
    for count in range(1, len(NAMES))
    for words in combinations(NAMES, count)
    if "shortcuts" not in words or "bypass" in words
]
GROWTH_S, GROWTH_MS = 60, 60_000
ORDINARY = REPOSITORY / "build" / "ukl" / "ordinary" / "level"


@together("sets")
@pytest.mark.parametrize("options", SETS)
def test_set(options: str) -> None:
    """An application does the same as the ordinary program, and uses the bypass if its kernel has it."""
    source = ["--cflags=-D_GNU_SOURCE", str(SOURCES / "level.c")]
    for words in (["--ordinary"], ["--options", options]):
        built = keel("ukl", "build", *words, *source, timeout_s=3600)
        assert built.status == 0, built.error
    asking = "all bypass" if "bypass" in options.split(",") else ""
    command = f"cat > /run/ordinary && chmod +x /run/ordinary && /run/ordinary && /run/ukl/level {asking} && uname -n"
    run = [*GUEST, "--smp", "2", "--exec", command]
    result = keel("ukl", "run", "level", *run, stdin=ORDINARY.read_bytes(), timeout_s=LIMIT_S + GRACE_S)
    assert result.output.endswith("\nkeel\n"), result.error
    for check in CHECKS:
        ordinary, application = lines(result.output, check)
        assert application == DIFFERENT.get(ordinary, ordinary)


@together("sets")
@pytest.mark.parametrize("options", ["", OPTIONS])
def test_a_stack_grows_for_a_minute(options: str) -> None:
    """Page by page, with interrupts: none is lost (the timer would stop then), and no page is wrong."""
    built = keel("ukl", "build", "--options", options, str(SOURCES / "growth.c"), timeout_s=3600)
    assert built.status == 0, built.error
    run = [*GUEST, "--smp", "2", "--exec", f"/run/ukl/growth {GROWTH_S}"]
    result = keel("ukl", "run", "growth", *run, timeout_s=LIMIT_S + GRACE_S)
    found = re.match(r"growth: (\d+) pages, 0 wrong, (\d+) ms, the timer reported (\d+)$", result.output)
    assert found, result.output + result.error
    pages, passed_ms, told_of = map(int, found.groups())
    assert pages > GROWTH_MS and passed_ms >= GROWTH_MS and abs(passed_ms - told_of) <= GROWTH_MS // 100
