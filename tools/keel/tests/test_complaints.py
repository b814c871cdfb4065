# SPDX-License-Identifier: GPL-2.0-only
"""What Linux complains of, in the consoles of guests."""

from pathlib import Path

import pytest

from keel import complaints

LOG = """\
[    0.100000] Linux version 6.1.0
[    0.200000] Spectre V2 : WARNING: Unprivileged eBPF is enabled
[    1.000000] WARNING: CPU: 0 PID: 71 at arch/x86/kernel/ptrace.c:569 ptrace_write_dr7+0x1/0x2
[    2.000000][    T1] BUG: kernel NULL pointer dereference, address: 0000000000000010
[    3.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 26s!
[    4.000000] rcu: INFO: rcu_sched self-detected stall on CPU
[    5.000000] INFO: task sleep:80 blocked for more than 120 seconds.
[    6.000000] Oops: vector 14, error code 0, address 10
[    7.000000] audit: type=1400 comm="BUG: x"
WARNING: a program's
"""


def test_what_is_a_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of Linux's that begin so, whoever says it; and they are noted where that is asked for."""
    times = [line[5:6] for line in complaints.found(LOG)]
    assert times == ["1", "2", "3", "4", "5", "6"]
    (log := tmp_path / "log").write_text(LOG.replace("\n", "\r\n"))
    complaints.note(log)
    monkeypatch.setenv(complaints.VARIABLE, str(tmp_path / "said"))
    complaints.note(log)
    complaints.note(log)
    assert (tmp_path / "said").read_text().splitlines() == 2 * complaints.found(LOG)
