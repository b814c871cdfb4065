# SPDX-License-Identifier: GPL-2.0-only
"""A closed standard descriptor is no other file: the command's first act is to fill it with /dev/null."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keel.config import REPOSITORY

# What the first three descriptors are.
SHOWN = "[os.readlink(f'/proc/self/fd/{fd}') for fd in range(3)]"
# In place of the rest of the command: it notes them, whether the next file has another number, and a child's.
ASKS = f"""
import os, subprocess
from pathlib import Path

CHILD = "import os, sys; print(*{SHOWN}, sep=chr(10), file=open(sys.argv[1], 'w'))"

def main(arguments):
    with Path(__file__).open() as first:
        Path(arguments[0]).write_text(chr(10).join([str(first.fileno() > 2), *{SHOWN}]))
    print("an output", flush=True)
    return subprocess.run(["python3", "-c", CHILD, arguments[1]]).returncode
"""


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_a_closed_descriptor_is_empty_and_takes_everything(closed: tuple[int, ...], tmp_path: Path) -> None:
    """Also a child's, and the next file has another number."""
    shutil.copy(REPOSITORY / "keel", tmp_path)
    (tmp_path / "tools" / "keel").mkdir(parents=True)
    (tmp_path / "tools" / "keel" / "__init__.py").touch()
    (tmp_path / "tools" / "keel" / "cli.py").write_text(ASKS)
    ours, childs, other = tmp_path / "ours", tmp_path / "child", tmp_path / "other"
    script = f'exec "$@" {" ".join(f"{fd}>&-" for fd in closed)}'
    argv = ["sh", "-c", script, "sh", sys.executable, str(tmp_path / "keel"), str(ours), str(childs)]
    with other.open("w+") as file:
        done = subprocess.run(argv, stdin=file, stdout=file, stderr=file, check=False, timeout=60)
    expected = [os.devnull if fd in closed else str(other) for fd in range(3)]
    assert done.returncode == 0
    assert ours.read_text().splitlines() == ["True", *expected]
    assert childs.read_text().splitlines() == expected
    assert other.read_text() == ("" if 1 in closed else "an output\n")


def test_no_message_goes_to_the_output(tmp_path: Path) -> None:
    """Python prints what is for an error output that it has not to the standard output."""
    with (tmp_path / "output").open("w+") as output:
        argv = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, str(REPOSITORY / "keel"), "stop", "descriptors-absent"]
        done = subprocess.run(argv, stdout=output, check=False, timeout=60)
        output.seek(0)
        assert (done.returncode, output.read()) == (125, "")
