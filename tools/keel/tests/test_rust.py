# SPDX-License-Identifier: GPL-2.0-only
"""What a failure of cargo means."""

from keel.rust import explanation

NO_NETWORK = """    Updating crates.io index
error: failed to get `object` as a dependency of package `std v0.0.0 (/usr/lib/rustlib/src/rust/library/std)`

Caused by:
  failed to download from `https://index.crates.io/config.json`

Caused by:
  [6] Couldn't resolve host name
"""


def test_crates_that_cannot_be_fetched_are_one_line() -> None:
    error = explanation(NO_NETWORK)
    assert error and "resolve host name" in error.line() and "bookworm-security" in error.line()
    assert "\n" not in error.line()


def test_other_failures_are_not_explained() -> None:
    assert explanation("error[E0425]: cannot find value `x` in this scope\n") is None
