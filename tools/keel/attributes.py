# SPDX-License-Identifier: GPL-2.0-only
"""Attributes of files in root archives, for which the newc format has no place: file capabilities and access lists.

An archive has each one as a file of its own, a note: in a folder of the root, and there in one with the path of the file that
has it. Whoever unpacks an archive sets it in place of making the note: unpack.py, layerdisk.py, and the guest's init where Linux
has unpacked it (guest/init/attributes.c).
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from . import cpio

FOLDER = ".keel-attributes"
# How the name of a note begins, before that of the attribute, so that it is no folder's as a rule.
MARK = "="
CAPABILITY = "security.capability"
KEPT = (CAPABILITY, "system.posix_acl_access", "system.posix_acl_default")
FOLDER_MODE, MODE = 0o700, 0o600
# What getxattr says of a file without it, and of a file system that has no attributes.
ABSENT = (errno.ENODATA, errno.ENOTSUP)


def is_ours(name: str) -> bool:
    """Tell whether an entry of this name is a note, or a folder for them."""
    return name == FOLDER or name.startswith(f"{FOLDER}/")


def noted(name: str) -> tuple[str, str] | None:
    """Return the file and the attribute that a note of this name is about; None if it is none."""
    folder, _, last = name.removeprefix(f"{FOLDER}/").rpartition("/")
    return (folder, last.removeprefix(MARK)) if is_ours(name) and folder and last.startswith(MARK) else None


def of_file(path: Path) -> dict[str, bytes]:
    """Read the attributes of a file of the host. OSError if that fails."""
    found = {}
    for attribute in KEPT:
        try:
            found[attribute] = os.getxattr(path, attribute, follow_symlinks=False)
        except OSError as error:
            if error.errno not in ABSENT:
                raise
    return found


class Writer(cpio.Writer):
    """Makes an archive whose files have attributes; a folder for notes comes once."""

    def __init__(self) -> None:
        super().__init__()
        self._folders: set[str] = set()

    def notes(self, name: str, values: Mapping[str, bytes]) -> bytes:
        """Make what follows the entry of a file with these attributes; nothing where there are none."""
        place = f"{FOLDER}/{name}"
        above = [parent.as_posix() for parent in PurePosixPath(place).parents][-2::-1]
        missing = [folder for folder in (*above, place) if values and folder not in self._folders]
        self._folders.update(missing)
        made = [cpio.Entry(folder, cpio.DIRECTORY | FOLDER_MODE) for folder in missing]
        made += [cpio.Entry(f"{place}/{MARK}{key}", cpio.REGULAR | MODE, value) for key, value in sorted(values.items())]
        return b"".join(map(self.entry, made))
