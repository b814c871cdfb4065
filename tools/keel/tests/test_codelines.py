# SPDX-License-Identifier: GPL-2.0-only
"""How lines of code are counted, and how many each part may have."""

import re

import pytest

from keel.codelines import KERNEL_MODE, PARTS, PROGRAM_ABI, Part, count
from keel.config import REPOSITORY


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_size(part: Part) -> None:
    lines = part.lines(REPOSITORY)
    assert lines > 0, f"{part.name} has moved"
    assert part.limit is None or lines <= part.limit, f"{part.name} has {lines} lines of code, {lines - part.limit} too many"


def test_the_kernel_has_no_use_for_the_abi_of_programs() -> None:
    """What it uses counts as its own."""
    text = (REPOSITORY / PROGRAM_ABI).read_text()
    constants = re.findall(r"^    ([A-Z_]+) = |pub const (\w+): u", text, re.MULTILINE)
    constant = re.compile(rf"\b(?:{'|'.join(name for pair in constants for name in pair if name)})\b")
    names = re.findall(r"pub const (?:fn )?(\w+)", text)
    types = "|".join(re.findall(r"impl (\w+)", text))
    uses = re.compile(rf"\b(?:{types})::(?:{'|'.join(names)})\b|\.(?:{'|'.join(names)})\(")
    assert constant.search("IPC_SEND_ZERO") and constant.search("TASK_MAX")
    assert len(names) > 5 and uses.search("Tag::new(1, 2).0") and uses.search("tag.with_maps(1)")
    for file in KERNEL_MODE.files(REPOSITORY):
        code = file.read_text().split("#[cfg(test)]")[0]
        assert not (found := uses.search(code) or constant.search(code)), f"{file} uses {found[0]}"


def test_each_file_counts_once() -> None:
    files = [file for part in PARTS for file in part.files(REPOSITORY)]
    assert len(files) == len(set(files))


@pytest.mark.parametrize(
    ("suffix", "text", "lines"),
    [
        (".c", '/* a\n   b */ int a; // c\n\nchar *url = "http://x/*";\nchar q = \'"\'; /* d */\n\n# if 1\n', 4),
        (".rs", "//! x\n#[inline]\nfn f<'a>(b: &'a str) {} // it's\n\n/* c\n*/\n", 2),
        (".rs", 'fn a() {}\n#[cfg(test)]\n#[path = "x.rs"]\nmod tests;\nfn b() {}\n', 2),
        (".rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n#[cfg(test)]\nuse x;\nfn c() {\n}\n", 3),
        (".s", "# a\n#\n    # b\nmov eax, 1 # c\n/* d */\n#if X\n", 2),
        ("Makefile", "# a\nobj-y += x/*.o\nall: # b\n\ty/*.c\n\n", 3),
        (".toml", '# a\ntext = """\n/* b\n * c */\nint d;\n#ifdef E\n"""\n', 4),
    ],
)
def test_what_is_a_line_of_code(suffix: str, text: str, lines: int) -> None:
    assert count(text, suffix) == lines
