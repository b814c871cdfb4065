# SPDX-License-Identifier: GPL-2.0-only
"""Lines of code, without blanks and comments: how they are counted, and how many each part may have.

`./keel bench lines` prints them; the unit tests hold the limits.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# A comment of C or Rust, or a string or character literal, which may contain the mark of one.
PIECE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
# A directive of the preprocessor and an attribute of Rust have no blank after the sign.
HASH_COMMENT = re.compile(r"^\s*#(?:\s.*)?$", re.MULTILINE)
# Code that is compiled only for the host's tests. rustfmt ends such a block in the first column.
RUST_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[.*\n)*(?:.*;$|.*\{\n(?:.*\n)*?\}$)", re.MULTILINE)
C_AND_RUST = {".c", ".h", ".S", ".rs"}
# The assembly of the µ-kernel has both kinds of comments, as have the hunks for files of Linux.
BOTH_KINDS = {".s", ".toml"}


def count(text: str, suffix: str = ".c") -> int:
    """Lines with code in the text of a file with this suffix."""
    if suffix == ".rs":
        text = RUST_TESTS.sub("", text)
    if suffix in C_AND_RUST | BOTH_KINDS:
        text = PIECE.sub(lambda piece: "\n" * piece[0].count("\n") if piece[0][0] == "/" else piece[0], text)
    if suffix not in C_AND_RUST:
        text = HASH_COMMENT.sub("", text)
    return sum(1 for line in text.splitlines() if line.strip())


def lines_of(file: Path) -> int:
    """Lines with code of a file."""
    return count(file.read_text(errors="replace"), file.suffix)


@dataclass(frozen=True)
class Part:
    """Files by their patterns in the repository, without those of `other`, and how many lines they may have."""

    name: str
    patterns: tuple[str, ...]
    limit: int | None = None
    other: tuple[str, ...] = ()

    def files(self, repository: Path) -> Iterator[Path]:
        """The files that count."""
        others = {file for pattern in self.other for file in repository.glob(pattern)}
        for pattern in self.patterns:
            yield from (file for file in sorted(repository.glob(pattern)) if file.is_file() and file not in others)

    def lines(self, repository: Path) -> int:
        """Their lines with code."""
        return sum(lines_of(file) for file in self.files(repository))


# The µ-kernel has all of the binary interface except the event trace's record, the descriptions for the C header, and what
# only programs call.
DEBUGGER_ABI, HEADER_ABI, PROGRAM_ABI = "abi/src/trace.rs", "abi/src/describe.rs", "abi/src/programs.rs"
KERNEL_MODE = Part(
    "kernel mode: kernel/src/, abi/",
    ("kernel/src/**/*.rs", "kernel/src/**/*.s", "abi/src/*.rs"),
    10_000,
    (DEBUGGER_ABI, HEADER_ABI, PROGRAM_ABI),
)
PARTS = (
    KERNEL_MODE,
    Part("its debugger: kernel/debugger/", ("kernel/debugger/**/*.rs", "kernel/debugger/**/*.s", DEBUGGER_ABI)),
    Part("linux/", ("linux/**/*",), 6_500),
    Part("ukl/", ("ukl/**/*",), 1_250),
)
