# SPDX-License-Identifier: GPL-2.0-only
"""What the guest's root may try with a directory that the host shares to be written: hostile_share.py SHARE READ_ONLY_SHARE.

Each line of output is an attempt and what came of it; what the host has afterwards is for the test to see.
"""

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

SHARE, READ_ONLY = sys.argv[1:]
ROUNDS = 1500
FILE_CAPABILITIES = "security.capability"
# Version 2, effective: every capability.
ALL_CAPABILITIES = b"\x01\0\0\x02" + b"\xff" * 16


def attempt(name: str, call: Callable[[], object]) -> None:
    """Try it, and say what came of it."""
    try:
        result = call()
    except OSError as error:
        result = errno.errorcode[error.errno or 0]
    print(name, "done" if result is None else result)


def create(path: str, mode: int) -> None:
    """A new file with these permissions."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode))


def read(path: str) -> str:
    """A file's line."""
    return Path(path).read_text().strip()


def write(path: str) -> None:
    """Write into a file."""
    Path(path).write_text("written by the guest\n")


def powers() -> None:
    """Owners, devices, and the bits with which a program runs with another's rights."""
    os.umask(0)
    os.chdir(SHARE)
    create("made", 0o640)
    attempt("character device", lambda: os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
    attempt("block device", lambda: os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(8, 0)))
    attempt("setuid", lambda: Path("made").chmod(0o4755))
    attempt("setgid", lambda: Path("made").chmod(0o2755))
    attempt("setgid of a directory", lambda: Path("directory").mkdir(0o2777))
    attempt("created setuid", lambda: create("created", 0o4755))
    attempt("owner", lambda: os.chown("made", 12, 34))
    attempt("group", lambda: os.chown("made", -1, 34))
    attempt("no owner", lambda: os.chown("made", -1, -1))
    attempt("its own owner", lambda: os.chown("made", Path("made").stat().st_uid, -1))
    attempt("its own group", lambda: os.chown("made", -1, Path("made").stat().st_gid))
    attempt("capabilities", lambda: os.setxattr("made", FILE_CAPABILITIES, ALL_CAPABILITIES))
    attempt("written setuid", lambda: write("setuid"))


def ways_out() -> None:
    """Links, names and renames that lead out of the directory, on the host or in the guest."""
    os.chdir(SHARE)
    attempt("the host's link to a file", lambda: read("to-secret"))
    attempt("the host's link to a directory", lambda: read("to-outside/secret"))
    attempt("a link of the guest", lambda: Path("planted").symlink_to("../outside/secret"))
    attempt("through it", lambda: read("planted"))
    attempt("written through it", lambda: write("planted"))
    attempt("a hard link to it", lambda: os.link("planted", "linked", follow_symlinks=False))
    attempt("through that", lambda: read("linked"))
    attempt("a hard link from outside", lambda: os.link("/etc/hostname", "hard"))
    attempt("a parent's file", lambda: read("../outside/secret"))
    attempt("renamed out", lambda: Path("made").rename("../outside/made"))
    attempt("renamed over the root", lambda: Path("directory-of-host").rename("."))
    attempt("renamed into itself", lambda: Path("directory-of-host").rename("directory-of-host/x"))


def race() -> None:
    """A name that is a directory and a link out of the share by turns, while it is opened and written to."""
    os.chdir(SHARE)
    Path("turn").mkdir()
    create("turn/secret", 0o644)
    Path("turned").symlink_to("../outside")
    over = threading.Event()
    seen: set[str] = set()

    def turn() -> None:
        while not over.is_set():
            for old, new in (("turn", "aside"), ("turned", "turn"), ("aside", "turned")):
                Path(old).rename(new)

    turner = threading.Thread(target=turn)
    turner.start()
    for number in range(ROUNDS):
        for name in ("turn", "turned"):
            try:
                seen.add(read(f"{name}/secret"))
                create(f"{name}/planted{number % 7}", 0o644)
                Path(f"{name}/secret").chmod(0o666)
            except OSError:
                pass
    over.set()
    turner.join()
    print("race", sorted(seen))


def read_only() -> None:
    """What may only be read stays so, whatever the guest mounts."""
    attempt("read", lambda: read(f"{READ_ONLY}/file"))
    attempt("written", lambda: write(f"{READ_ONLY}/file"))
    subprocess.run(["mount", "-o", "remount,rw", READ_ONLY], check=False)
    for name, call in (
        ("written after a remount", lambda: write(f"{READ_ONLY}/file")),
        ("made", lambda: create(f"{READ_ONLY}/new", 0o644)),
        ("removed", lambda: Path(f"{READ_ONLY}/file").unlink()),
        ("mode", lambda: Path(f"{READ_ONLY}/file").chmod(0o777)),
        ("renamed", lambda: Path(f"{READ_ONLY}/file").rename(f"{READ_ONLY}/other")),
        ("linked", lambda: Path(f"{READ_ONLY}/link").symlink_to("x")),
        ("times", lambda: os.utime(f"{READ_ONLY}/file")),
    ):
        attempt(name, call)


powers()
ways_out()
race()
read_only()
