# SPDX-License-Identifier: GPL-2.0-only
"""The table of errors and what the suite says of them."""

import pytest

from keel import errortable
from keel.config import REPOSITORY

TEXT = """\
# Interface
| `IPC` | `CALL` | `BUSY` |
## Errors
Words with `CODE`.
| call | side | errors |
|---|---|---|
| `IPC` | `SEND` `RECEIVE` | `TIMEOUT`, `ABORTED` |
| `TASK_NEW` | `CALL` | `DENIED` |
## 0: ipc
| `IPC` | `CALL` | `INVALID` |
"""


def test_rows_are_read_from_the_section_alone() -> None:
    """A row covers all its sides and errors."""
    assert errortable.documented(TEXT) == {
        ("IPC", "SEND", "TIMEOUT"),
        ("IPC", "SEND", "ABORTED"),
        ("IPC", "RECEIVE", "TIMEOUT"),
        ("IPC", "RECEIVE", "ABORTED"),
        ("TASK_NEW", "CALL", "DENIED"),
    }


def test_lines_of_the_suite() -> None:
    """Other lines are not meant."""
    output = "ok errors/error IPC\r\nerror IPC SEND TIMEOUT\r\nerror SOURCE CALL BUSY\n12 passed, 0 failed\n"
    assert errortable.seen(output) == {("IPC", "SEND", "TIMEOUT"), ("SOURCE", "CALL", "BUSY")}


def test_both_differences_and_stale_exceptions_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that was not seen, an error without a row, and an exception that is none."""
    monkeypatch.setattr(errortable, "UNSEEN", {("A", "CALL", "BUSY"): "", ("B", "CALL", "BUSY"): ""})
    table = {("A", "CALL", "BUSY"), ("A", "CALL", "DENIED"), ("B", "CALL", "BUSY")}
    found = {("B", "CALL", "BUSY"), ("C", "CALL", "BUSY")}
    assert list(errortable.problems(table, found)) == [
        "no case sees DENIED of A on side CALL",
        "docs/abi.md says nothing of BUSY of C on side CALL",
        "BUSY of B on side CALL is no exception any more",
    ]


def test_the_table_is_there() -> None:
    """Every exception has its row."""
    table = errortable.documented((REPOSITORY / errortable.TABLE).read_text())
    assert errortable.UNSEEN.keys() <= table and len(table) > len(errortable.UNSEEN)
