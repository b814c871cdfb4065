# SPDX-License-Identifier: GPL-2.0-only
"""Lines of code: which lines count, and beyond how many each part raises an alarm.

`count` leaves out what says nothing about how a program works, so that nobody gains by giving it up or by putting two lines into
one: blank lines, comments, imports, a label that is alone on its line, attributes of Rust, and directives of the assembler that
describe a symbol or say where what follows goes. `count_all` leaves out blank lines and comments alone, as the paper does.

`./keel bench lines` prints them; the unit tests hold the limits.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# A comment of C or Rust, or a string or character literal, which may contain the mark of one.
PIECE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
# A directive of the preprocessor and an attribute of Rust have no blank after the sign.
HASH_COMMENT = re.compile(r"^\s*#(?:\s.*)?$", re.MULTILINE)
# Code that is compiled only for the host's tests. rustfmt ends such a block in the first column.
RUST_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[.*\n)*(?:.*;$|.*\{\n(?:.*\n)*?\}$)", re.MULTILINE)
RUST, C_AND_ASSEMBLY = ".rs", {".c", ".h", ".S", ".s", ".toml"}
C_AND_RUST = {".c", ".h", ".S", RUST}
# The assembly of the µ-kernel has both kinds of comments, as have the hunks for files of Linux.
BOTH_KINDS = {".s", ".toml"}

# Attributes of Rust, which may go over several lines, and what stands on the same line after them counts. Of the brackets in one
# there are two more levels at most.
_STRING = r'"(?:\\.|[^"\\])*"'
_FLAT = rf'(?:[^\[\]"]|{_STRING})*'
_NESTED = rf"{_FLAT}(?:\[{_FLAT}(?:\[{_FLAT}\]{_FLAT})*\]{_FLAT})*"
RUST_ATTRIBUTES = re.compile(rf"^[ \t]*(?:#!?\[{_NESTED}\]\s*)+", re.MULTILINE)
# `use`, `mod` and `extern crate`; a module whose body follows counts.
RUST_IMPORTS = re.compile(
    r"^[ \t]*(?:(?:pub(?:\([^)]*\))?\s+)?(?:use\b[^;]*|mod\s+\w+|extern\s+crate\b[^;]*);[ \t]*)+", re.MULTILINE
)
C_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
# Of the assembler, and of C where `goto` leads to it; `default:` is a case.
LABEL = re.compile(r"^[ \t]*(?!default\b)(?:[\w.$\\@()]+:[ \t]*)+(?:#.*)?$", re.MULTILINE)
# The macros of Linux that are a label with `.globl`, `.type` and `.size`. SYM_DATA() has the data, too.
LINUX_LABEL = re.compile(r"^[ \t]*SYM_(?:\w+_)?(?:START|END|LABEL)\w*\([^()\n]*\)[ \t]*$", re.MULTILINE)
# What a symbol is, where code goes, how it is read and unwound. Alignment, space and values are in the image: they count.
# A member of a C structure may have the name of one.
DESCRIBED = (
    r"globl|global|weak|local|hidden|protected|internal|type|size|section|pushsection|previous|popsection|subsection|text|data|bss"
    r"|code(?:16|32|64)|(?:intel|att)_syntax|arch|file|ident|cfi_\w+"
)
DIRECTIVE = re.compile(rf"^[ \t]*\.(?:{DESCRIBED})(?:[ \t]+(?![ \t={{:])[^;\n]*|[ \t]*)$", re.MULTILINE)


def _without_comments(text: str, suffix: str) -> str:
    """Return the text of a file with this suffix without comments and the host's tests."""
    if suffix == RUST:
        text = RUST_TESTS.sub("", text)
    if suffix in C_AND_RUST | BOTH_KINDS:
        text = PIECE.sub(lambda piece: "\n" * piece[0].count("\n") if piece[0][0] == "/" else piece[0], text)
    if suffix not in C_AND_RUST:
        text = HASH_COMMENT.sub("", text)
    return text


def _filled(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def count_all(text: str, suffix: str = ".c") -> int:
    """Count the lines that are neither blank nor comments in the text of a file with this suffix."""
    return _filled(_without_comments(text, suffix))


def count(text: str, suffix: str = ".c") -> int:
    """Count the lines of code in the text of a file with this suffix."""
    text = _without_comments(text, suffix)
    uncounted: tuple[re.Pattern[str], ...] = ()
    if suffix == RUST:
        uncounted = RUST_ATTRIBUTES, RUST_IMPORTS
    elif suffix in C_AND_ASSEMBLY:
        uncounted = C_INCLUDE, LABEL, LINUX_LABEL, DIRECTIVE
    for pattern in uncounted:
        text = pattern.sub("", text)
    return _filled(text)


def lines_of(file: Path, counted: Callable[[str, str], int] = count) -> int:
    """Count the lines of a file, those of code unless `counted` says otherwise."""
    return counted(file.read_text(errors="replace"), file.suffix)


@dataclass(frozen=True)
class Part:
    """Files by their patterns in the repository, without those of `other`, and the number of lines beyond which a test fails."""

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
        """Count their lines of code."""
        return sum(lines_of(file) for file in self.files(repository))


# The limits are alarms, not room to fill: CONTRIBUTING.md says how one is raised.
# The µ-kernel has all of the binary interface except the event trace's record, the descriptions for the C header, and what
# only programs call.
DEBUGGER_ABI, HEADER_ABI, PROGRAM_ABI = "abi/src/trace.rs", "abi/src/describe.rs", "abi/src/programs.rs"
KERNEL_MODE = Part(
    "kernel mode: kernel/src/, abi/",
    ("kernel/src/**/*.rs", "kernel/src/**/*.s", "abi/src/*.rs"),
    11_000,
    (DEBUGGER_ABI, HEADER_ABI, PROGRAM_ABI),
)
PARTS = (
    KERNEL_MODE,
    Part("its debugger: kernel/debugger/", ("kernel/debugger/**/*.rs", "kernel/debugger/**/*.s", DEBUGGER_ABI)),
    Part("linux/", ("linux/**/*",), 7_500),
    Part("ukl/", ("ukl/**/*",), 1_250),
)
