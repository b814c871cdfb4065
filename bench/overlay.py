# SPDX-License-Identifier: GPL-2.0-only
"""Makes an archive that compiles a part of Linux's port in a guest: the commands of the server's build, and the files they read.

Linux's build keeps both beside each object (`.NAME.o.cmd`). In the guest everything is in one folder: the commands run in `l4`,
and `l4-src` has the sources.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

COMMAND = re.compile(r"^(?:saved)?cmd_\S+ := (?:ccache )?(.*?)\s*(?:;.*)?$", re.MULTILINE)
SOURCE = re.compile(r"^source_\S+ := (\S+)$", re.MULTILINE)
DEPENDENCIES = re.compile(r"^deps_\S+ := \\\n((?:.*\\\n)*)", re.MULTILINE)
OBJECT = re.compile(r" -o (\S+)")
# Linux's fixdep replaces this file by the options that are used (scripts/basic/fixdep.c).
OPTIONS = "include/generated/autoconf.h"


def commands_and_files(kept: Sequence[Path], linux: Path) -> tuple[str, dict[str, Path]]:
    """A script for the directory `l4`, and each file that it needs by its path. On the host, `l4` and `l4-src` are in `linux`."""
    lines = ["set -e"]
    files: dict[str, Path] = {}
    for path in kept:
        text = path.read_text()
        command = COMMAND.search(text)
        if not command or not SOURCE.search(text):
            raise ValueError(f"{path} has no command that compiles")
        lines += [f"mkdir -p {Path(made).parent}" for made in OBJECT.findall(command[1])]
        lines.append(command[1].replace(f"{linux}/", "../"))
        files |= {os.path.relpath(file, linux): file for file in read_by(text, linux / "l4")}
    return "\n".join([*lines, ""]), files


def read_by(text: str, directory: Path) -> Iterator[Path]:
    """The files that one of the commands reads."""
    dependencies = DEPENDENCIES.search(text)
    names = [OPTIONS, *SOURCE.findall(text), *(dependencies[1].split("\\\n") if dependencies else [])]
    for name in (name.strip() for name in names):
        if name and not name.startswith("$("):
            yield Path(os.path.normpath(directory / name))
