# SPDX-License-Identifier: GPL-2.0-only
"""The checks of 32-bit programs on Bochs, where segments have limits, which QEMU's translator does not check.

`./keel test linux-bochs` runs them. Bochs takes long to read a root from its disc: here it is a shell and the programs, on native
Linux too.
"""

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import GUEST_DIRECTORY, GUEST_PROGRAMS, REPOSITORY, keel, make_guest_programs
from test_linux import DYNAMIC_PROGRAM, DYNAMIC_TOPICS, LEAST_CHECKS, transcript_lines
from test_small import RESIDENT, ROOM, TELLS_ADDRESSES

sys.path.insert(0, str(REPOSITORY / "tools"))

from keel import cpio, image
from keel.config import Settings

ON_BOCHS = ["--emulator", "bochs"]
PLACES = {"small": [*ON_BOCHS, "--place", "i386=small"], "resident": [*ON_BOCHS, *RESIDENT], "large": ON_BOCHS}
PROGRAMS = ("transcript32", DYNAMIC_PROGRAM, "libc.so.6", "ld-linux.so.2")
# What of the default root a shell takes.
LIBRARIES = r"/x86_64-linux-gnu(/(libc\.so\.6|ld-linux-x86-64\.so\.2))?"
SHELL = re.compile(rf"bin|dev|lib(64)?|proc|sys|tmp|usr(/bin(/(da)?sh)?|/lib({LIBRARIES})?|/lib64(/.*)?)?")
# The static program, and the dynamic one with a mark before each of its lines.
MARK = "dynamic."
COMMAND = (
    f"cd {GUEST_DIRECTORY} && ./transcript32 && "
    f'./{DYNAMIC_PROGRAM} {" ".join(sorted(DYNAMIC_TOPICS))} | while IFS= read -r line; do echo "{MARK}$line"; done'
)
LIMIT_S = 3000
# The checks that print what the processor is, which is another one in Bochs.
TELLS_PROCESSOR = {
    "procfs.processor_description",
    "procfs.speculation_control",
    "procfs.weaknesses_of_the_processor",
    "sweeps.sysconf_names",
}
# The check of limits: what QEMU's translator does at an access beyond one, and at a store to a read-only segment, and what a
# processor does.
CHECKS_LIMITS = "ia32.thread_areas"
WITHOUT_LIMITS = re.compile("(?<=beyond_limit=)none|(?<=write=)signo:11,code:2,address:other")
REFUSED = "signo:11,code:128,address:expected"


def _root() -> bytes:
    """The archive of a root with the programs."""
    make_guest_programs()
    writer, folder = cpio.Writer(), GUEST_DIRECTORY.removeprefix("/")
    programs = [
        cpio.Entry(folder, cpio.DIRECTORY | 0o755),
        *(cpio.Entry(f"{folder}/{name}", cpio.REGULAR | 0o755, data=(GUEST_PROGRAMS / name).read_bytes()) for name in PROGRAMS),
    ]

    with image.default_archive(Settings()).open("rb") as file:
        of_shell = list(cpio.chosen(file, lambda name: name if SHELL.fullmatch(name) else ""))
    return b"".join(writer.entry(entry) for entry in [*of_shell, *programs]) + writer.end()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a shell and the programs."""
    archive = tmp_path_factory.mktemp("bochs") / "root.cpio"
    archive.write_bytes(_root())
    return archive


@cache
def transcript(root: Path, *options: str, before: str = "") -> dict[str, str]:
    """The observations of each check, by name."""
    arguments = ["run", *options, "--root", str(root), "--timeout", str(LIMIT_S), "--exec", before + COMMAND]
    result = keel(*arguments, timeout_s=LIMIT_S + 600)
    assert result.status == 0, result.error
    return transcript_lines(result)


@pytest.mark.parametrize("place", PLACES)
def test_transcripts_are_the_same_where_segments_have_limits(place: str, root: Path) -> None:
    """Each check prints what it prints on native Linux, but for the processor, and in windows for addresses."""
    native = transcript(root, "--native")
    got = transcript(root, *PLACES[place], before=f"{ROOM}; " if place == "small" else "")
    assert len(got) > LEAST_CHECKS and got.keys() == native.keys()
    expected = {
        name: WITHOUT_LIMITS.sub(REFUSED, text) if name.removeprefix(MARK) == CHECKS_LIMITS else text
        for name, text in native.items()
    }
    different = {
        name.removeprefix(MARK): f"{name}\n  native:{expected[name]}\n  {place}: {got[name]}"
        for name in got
        if got[name] != expected[name] and name.removeprefix(MARK) not in TELLS_PROCESSOR
    }
    assert different.keys() == (TELLS_ADDRESSES if place == "small" else set()), "\n".join(different.values())
