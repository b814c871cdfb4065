# SPDX-License-Identifier: GPL-2.0-only
"""`./keel test`: runs the suites and adds up their counts."""

import sys
import time
from collections.abc import Sequence

from .. import counts
from ..config import Settings
from ..errors import KeelError, Status
from ..suites import PARTS, SUITES, chosen


def test(settings: Settings, names: Sequence[str]) -> int:
    """Run the named suites, all by default; a suite that cannot run counts as failed."""
    if not (settings.repository / "tests").is_dir():
        raise KeelError("the tests are not in the Debian package", "run ./keel test in a clone of the sources")
    total, started = counts.Count(), time.monotonic()
    for name in chosen(names):
        print(f"suite {name}", flush=True)
        began = time.monotonic()
        try:
            count = {**SUITES, **PARTS}[name].run(settings)
        except KeelError as error:
            print(error.line(), file=sys.stderr)
            count = counts.failed(f"did not run: {error.what}")
        print(f"suite {name}: {time.monotonic() - began:.0f} s", flush=True)
        print(f"{name}: {count.line()}", flush=True)
        total.add(count.within(name))
    print(f"all suites: {time.monotonic() - started:.0f} s", flush=True)
    print("".join(f"{line}\n" for line in total.failures()), end="")
    print(f"total: {total.line()}", flush=True)
    return Status.TESTS_FAILED if total.failed else Status.OK
