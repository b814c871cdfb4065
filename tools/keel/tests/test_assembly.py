# SPDX-License-Identifier: GPL-2.0-only
"""How assembly is laid out: a label has its line for itself.

Linux's numbered labels, to which the next lines jump, stand before their instruction as in Linux.
"""

import re
import subprocess

import pytest

from keel.config import REPOSITORY

SHARED = re.compile(r"^\s*[\w.$\\@()]*[A-Za-z_][\w.$\\@()]*:[ \t]+(?!#|//|/\*)\S")
# Directives of a linker script end so.
NOT_ASSEMBLY = "vmlinux.lds.S"


def shared_lines(text: str) -> list[int]:
    """Return the numbers of the lines where something stands after a label."""
    return [number for number, line in enumerate(text.splitlines(), 1) if SHARED.match(line)]


def test_no_label_shares_its_line_with_an_instruction() -> None:
    command = ["git", "ls-files", "*.s", "*.S"]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout.split()
    assert len(listed) > 5
    files = [REPOSITORY / name for name in listed if not name.endswith(NOT_ASSEMBLY)]
    shared = [f"{file.relative_to(REPOSITORY)}:{number}" for file in files for number in shared_lines(file.read_text())]
    assert not shared, f"a label is not alone on its line: {', '.join(shared[:20])}"


@pytest.mark.parametrize("line", [".Lbeyond: mov byte ptr [x], 1", ".Lturn_\\@: nop", ".Lslow_\\name: save", "gdt:\t.quad 0"])
def test_a_label_before_an_instruction_is_found(line: str) -> None:
    assert shared_lines(f"# a\n{line}\n") == [2]


@pytest.mark.parametrize("line", ["start:", "start: # begins", "start:\t/* begins */", "1:\thlt", "mov eax, gs:[0]", "# a: b"])
def test_a_label_alone_is_not(line: str) -> None:
    assert shared_lines(line) == []
