# SPDX-License-Identifier: GPL-2.0-only
"""The checks of 32-bit programs on Bochs, where segments have limits, which QEMU's translator does not check.

`./keel test linux-bochs` runs them. Bochs takes long to read a root from its disc: here it is a shell and the programs, on native
Linux too.
"""

from functools import cache
from pathlib import Path

import pytest
from conftest import GUEST_DIRECTORY, keel, write_small_root
from test_linux import DYNAMIC_PROGRAM, DYNAMIC_TOPICS, LEAST_CHECKS, transcript_lines
from test_small import ON_BOCHS, RESIDENT, TELLS_ADDRESSES, with_limits

PLACES = {"small": [*ON_BOCHS, "--place", "i386=small"], "resident": [*ON_BOCHS, *RESIDENT], "large": ON_BOCHS}
PROGRAMS = ("transcript32", DYNAMIC_PROGRAM, "libc.so.6", "ld-linux.so.2")
# The static program, and the dynamic one with a mark before each of its lines.
MARK = "dynamic."
COMMAND = (
    f"cd {GUEST_DIRECTORY} && ./transcript32 && "
    f'./{DYNAMIC_PROGRAM} {" ".join(sorted(DYNAMIC_TOPICS))} | while IFS= read -r line; do echo "{MARK}$line"; done'
)
LIMIT_S = 1200
# The checks that print what the processor is, which is another one in Bochs.
TELLS_PROCESSOR = {
    "procfs.processor_description",
    "procfs.speculation_control",
    "procfs.weaknesses_of_the_processor",
    "sweeps.sysconf_names",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a shell and the programs."""
    archive = tmp_path_factory.mktemp("bochs") / "root.cpio"
    write_small_root(archive, PROGRAMS)
    return archive


@cache
def transcript(root: Path, *options: str) -> dict[str, str]:
    """The observations of each check, by name."""
    arguments = ["run", *options, "--root", str(root), "--timeout", str(LIMIT_S), "--exec", COMMAND]
    result = keel(*arguments, timeout_s=LIMIT_S + 600)
    assert result.status == 0, result.error
    return transcript_lines(result)


@pytest.mark.parametrize("place", PLACES)
def test_transcripts_are_the_same_where_segments_have_limits(place: str, root: Path) -> None:
    """Each check prints what it prints on native Linux, except for the processor, and in windows for addresses.

    There some have no room for their threads' stacks, which leave their windows then.
    """
    native = transcript(root, "--native")
    got = transcript(root, *PLACES[place])
    assert len(got) > LEAST_CHECKS and got.keys() == native.keys()
    expected = {name: with_limits(text) for name, text in native.items()}
    different = {
        name.removeprefix(MARK): f"{name}\n  native:{expected[name]}\n  {place}: {got[name]}"
        for name in got
        if got[name] != expected[name] and name.removeprefix(MARK) not in TELLS_PROCESSOR
    }
    assert different.keys() == (TELLS_ADDRESSES if place == "small" else set()), "\n".join(different.values())
