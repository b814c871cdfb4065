# SPDX-License-Identifier: GPL-2.0-only
"""How lines of code are counted, and how many each part may have."""

import re

import pytest

from keel.codelines import KERNEL_MODE, PARTS, PROGRAM_ABI, Part, count, count_all
from keel.config import REPOSITORY


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_size(part: Part) -> None:
    """An alarm: a change that needs more raises the limit, as CONTRIBUTING.md says."""
    lines = part.lines(REPOSITORY)
    assert lines > 0, f"{part.name} has moved"
    assert part.limit is None or lines <= part.limit, (
        f"{part.name} has {lines} lines of code, and its alarm is at {part.limit}. Do not edit for the count: "
        "if the change needs them, a commit of its own raises the number and says what came in"
    )


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
def test_blank_lines_and_comments_never_count(suffix: str, text: str, lines: int) -> None:
    """The paper's count, which has imports and attributes."""
    assert count_all(text, suffix) == lines


@pytest.mark.parametrize(
    ("suffix", "text", "lines"),
    [
        pytest.param(".rs", "use a::b;\npub use c;\npub(crate) use d;\nfn f() {\n    use e;\n}\n", 2, id="imports"),
        pytest.param(".rs", "use a::{\n    b::{c, d}, // e\n\n    f,\n};\nuser();\n", 1, id="imports-of-several-lines"),
        pytest.param(".rs", "use a; use b;\nuse c; fn f() {}\n", 1, id="imports-that-share-a-line"),
        pytest.param(".rs", "mod a;\npub mod b;\npub(super) mod c;\nmod d {\n    mode();\n}\n", 3, id="modules"),
        pytest.param(".rs", 'extern crate a;\nextern "C" {\n}\n', 2, id="crates"),
        pytest.param(".rs", '#![no_std]\n#[cfg(a)]\n    #[x = "]"]\nfn f() {}\nlet a = b[c];\n', 2, id="attributes"),
        pytest.param(".rs", '#[allow(\n    a,\n    reason = "b [c",\n)]\nfn f() {}\n', 1, id="attributes-of-several-lines"),
        pytest.param(".rs", "#[a([1, [2]])] #[b]\n#[default] None,\n", 1, id="attributes-before-code"),
        pytest.param(".rs", "#[a]\n#[b] mod c;\n#[d]\nuse e::{\n    f,\n};\n", 0, id="attributes-of-imports"),
        pytest.param(".rs", "'a: loop {\n    b:\n        1,\n}\n", 4, id="labels-of-loops-and-fields"),
        pytest.param(".c", '#include <a.h>\n  # include "b.h" /* c */\n#define INCLUDE\n#ifdef D\n#endif\n', 3, id="includes"),
        pytest.param(".c", "out:\n\tgoto out;\nno: a();\n\tdefault:\n\tcase B:\n", 4, id="labels-of-c"),
        pytest.param(".c", "a = (b) {\n\t.type = 1,\n\t.size\t= 2,\n\t.file  = 3,\n\t.text = d,\n};\n", 6, id="members"),
        pytest.param(".s", ".La: # b\nc_\\@:\n\\d\\()_e: 1:\n2:\nf: nop\n.Lg: .skip 8\n", 2, id="labels"),
        pytest.param(".s", ".globl a\n.global b # c\n.type a, @function\n.size a, . - a\n.weak d\n.hidden d\n", 0, id="symbols"),
        pytest.param(
            ".s", '.text\n.text 1\n.data\n.section .a, "ax"\n.pushsection .b\n.popsection\n.previous\n', 0, id="sections"
        ),
        pytest.param(".s", ".code16\n.code32\n.code64\n.intel_syntax noprefix\n.cfi_startproc\n", 0, id="modes"),
        pytest.param(".s", ".balign 8\n.align 4\n.long 1\n.skip 2\n.set a, 1\n.if a\n.endif\n.macro b\n.endm\n", 9, id="image"),
        pytest.param(".s", ".globl a; nop\n", 1, id="statements-that-share-a-line"),
        pytest.param(".S", "SYM_CODE_START(a)\nSYM_INNER_LABEL(b, SYM_L_GLOBAL)\nSYM_FUNC_END(a)\n", 0, id="symbols-of-linux"),
        pytest.param(".S", "SYM_DATA_START(a)\nSYM_DATA(b, .quad 0)\nSYM_DATA_END(a)\nEXPORT_SYMBOL(a)\n", 2, id="data-of-linux"),
        pytest.param(".S", "\t.text : AT(a) {\n\t.data : { *(.data) }\n\t_b = .;\n", 3, id="linker-scripts"),
        pytest.param(".toml", '[a]\ntext = """\n#include <b.h>\nout:\n\t.globl c\n"""\n', 3, id="hunks"),
        pytest.param("Makefile", "include a\nall:\n\t.text\n", 3, id="makefiles"),
        pytest.param("Kconfig", "# a\nconfig B\n\thelp\n\t  use c;\n", 3, id="configuration"),
    ],
)
def test_what_is_a_line_of_code(suffix: str, text: str, lines: int) -> None:
    assert count(text, suffix) == lines
