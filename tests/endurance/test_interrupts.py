# SPDX-License-Identifier: GPL-2.0-only
"""Ctrl-C at every moment of a boot."""

from pathlib import Path

from test_shell import both, interrupted_at_each_step, slow_root


@both
def test_interrupts_from_the_start(system: str, tmp_path: Path) -> None:
    """From the command's first instruction, Ctrl-C ends the run until the shell handles it, which has read its whole profile by
    then.
    """
    interrupted_at_each_step(system, slow_root(tmp_path))
