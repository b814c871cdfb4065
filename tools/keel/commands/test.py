# SPDX-License-Identifier: GPL-2.0-only
"""`./keel test`: runs the suites and adds up their counts."""

import sys
import time
from collections.abc import Sequence

from .. import counts
from ..arguments import in_columns
from ..config import Settings
from ..errors import KeelError, Status
from ..suites import PARTS, SUITES, chosen


def test(settings: Settings, names: Sequence[str]) -> int:
    """Run the named suites, all by default; a suite that cannot run counts as failed."""
    if not (settings.repository / "tests").is_dir():
        raise KeelError("the tests are not in the Debian package", "run ./keel test in a clone of the sources")
    total, started = counts.Count(), time.monotonic()
    lasted: list[tuple[str, float]] = []
    for name in chosen(names):
        print(f"suite {name}", flush=True)
        began = time.monotonic()
        try:
            count = {**SUITES, **PARTS}[name].run(settings)
        except KeelError as error:
            print(error.line(), file=sys.stderr)
            count = counts.failed(f"did not run: {error.what}")
        lasted.append((name, time.monotonic() - began))
        print(f"suite {name}: {lasted[-1][1]:.0f} s", flush=True)
        print(f"{name}: {count.line()}", flush=True)
        total.add(count.within(name))
    print(times(lasted))
    print(f"all suites: {time.monotonic() - started:.0f} s", flush=True)
    print("".join(f"{line}\n" for line in total.failures()), end="")
    print(f"total: {total.line()}", flush=True)
    return Status.TESTS_FAILED if total.failed else Status.OK


def times(lasted: Sequence[tuple[str, float]]) -> str:
    """Return a table of how many minutes each suite took, beside those that it may take; more is said, and is no failure."""
    rows = [("SUITE", "MINUTES", "BUDGET", "")]
    for name, seconds in lasted:
        budget = {**SUITES, **PARTS}[name].budget
        over = "over its budget" if budget is not None and seconds > 60 * budget else ""
        rows.append((name, f"{seconds / 60:.1f}", "-" if budget is None else str(budget), over))
    return in_columns(rows)
