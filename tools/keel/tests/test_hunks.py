# SPDX-License-Identifier: GPL-2.0-only
"""Changes to copies of Linux's files: anchors, the symlink tree, and how much ukl/ may add."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from keel import codelines, linux
from keel.config import REPOSITORY, Settings
from keel.errors import KeelError
from keel.hunks import Hunk, Insertion, Replacement, additions, changed, copies, place, read
from keel.ukloptions import OPTIONS

# The base model, and with every option.
BASE_LINES, ALL_LINES = 450, 1_250
TEXT = "first\nlast one\nfirst\nthird\nlast two\n"


def insertion(**words: str) -> Insertion:
    return Insertion(name="here", file="Makefile", text="new\n", **words)


def replacement(old: str, new: str = "", through: str = "", count: int = 1) -> Replacement:
    return Replacement("Makefile", old, new, through, count)


def test_a_text_goes_behind_or_before_its_anchor() -> None:
    assert changed(TEXT, [insertion(after="third")]) == "first\nlast one\nfirst\nthird\nnew\nlast two\n"
    assert changed(TEXT, [insertion(before="third")]) == "first\nlast one\nfirst\nnew\nthird\nlast two\n"


def test_a_line_that_is_not_the_only_one_is_found_within_another() -> None:
    assert changed(TEXT, [insertion(within="third", before="last")]) == "first\nlast one\nfirst\nthird\nnew\nlast two\n"


def test_the_compiler_counts_the_lines_as_before() -> None:
    added = [replace(insertion(after=words), file="a.c") for words in ("third", "last two")]
    assert changed(TEXT, added) == "first\nlast one\nfirst\nthird\nnew\n#line 5\nlast two\nnew\n#line 6\n"


@pytest.mark.parametrize(
    "words",
    [{"after": "fourth"}, {"after": "first"}, {"within": "fourth", "after": "last"}, {"within": "third", "after": "last one"}],
)
def test_an_anchor_that_does_not_fit_is_refused_by_its_name(words: dict[str, str]) -> None:
    with pytest.raises(KeelError, match=r"here.*Makefile"):
        changed(TEXT, [insertion(**words)])


def test_a_text_is_replaced_as_often_as_expected() -> None:
    assert changed(TEXT, [replacement("first", new="1st", count=2)]) == TEXT.replace("first", "1st")
    assert changed(TEXT, [replacement("third\n")]) == TEXT.replace("third\n", "")


def test_a_replaced_text_extends_through_another() -> None:
    assert changed(TEXT, [replacement("last one", through="last ", new="one ")]) == "first\none two\n"


def test_a_replacement_sees_those_before_it() -> None:
    both = [replacement("third", through="last"), replacement("last", new="only")]
    assert changed(TEXT, both) == "first\nonly one\nfirst\n two\n"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (replacement("fourth"), "0 times instead of 1"),
        (replacement("first"), "2 times instead of 1"),
        (replacement("first", count=3), "2 times instead of 3"),
        (replacement("third\n", through="first"), "no 'first' follows"),
    ],
)
def test_an_old_text_that_does_not_fit_is_an_error_of_one_line(wrong: Replacement, why: str) -> None:
    with pytest.raises(KeelError) as error:
        changed(TEXT, [wrong])
    line = error.value.line()
    assert repr(wrong.old) in line and "Makefile" in line and why in line
    assert "\n" not in line


def test_an_anchor_of_the_server_that_does_not_fit_fails_before_anything_is_built(settings: Settings) -> None:
    """As with a source of Linux in which x86's files are other ones."""
    for hunk in read(REPOSITORY / "linux" / "replacements"):
        original = settings.pristine / hunk.file
        original.parent.mkdir(parents=True, exist_ok=True)
        original.write_text("other\n")
    (settings.pristine / linux.VERSION_STAMP).write_text("6.1.1-1\n")
    with pytest.raises(KeelError, match=r"call this directly.*arch/x86/include/asm/checksum_64\.h: it is there 0 times"):
        linux.server_source(settings)


@pytest.mark.parametrize(
    "text",
    [
        '[[replacement]]\nfile = "a.c"\nold = "here"\nnw = ""',
        '[[replacement]]\nold = "here"',
        '[[replacement]]\nfile = "here"\nold = ""',
        '[[here]]\nfile = "a.c"',
    ],
)
def test_a_replacement_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "here.toml").write_text(text)
    with pytest.raises(KeelError, match="here"):
        read(tmp_path)


def test_hunks_are_for_the_file_that_theirs_is_named_after(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.c.toml").write_text('replacement = [{ old = "b" }, { old = "c", file = "d.c" }]\n')
    assert read(tmp_path) == [Replacement(file="lib/a.c", old="b"), Replacement(file="d.c", old="c")]


@pytest.mark.parametrize("line", ['after = "x"\nbefore = "y"', 'afer = "x"', ""])
def test_an_entry_that_is_wrong_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.toml").write_text(f'[[insertion]]\nname = "here"\nfile = "a.c"\ntext = "new"\n{line}\n')
    with pytest.raises(KeelError, match="here"):
        read(tmp_path)


def put(hunks: Sequence[Hunk], ours: Path, pristine: Path, tree: Path) -> None:
    place(copies(hunks, pristine), additions(ours), pristine, tree)


def tree_of(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Additions, a pristine tree of two files, and links to it."""
    ours, pristine, tree = (tmp_path / name for name in ("ours", "pristine", "tree"))
    for directory in (ours, pristine, tree):
        directory.mkdir()
    for name in ("Makefile", "b.c"):
        (pristine / name).write_text(TEXT)
        (tree / name).symlink_to(pristine / name)
    return ours, pristine, tree


def test_a_farm_gets_copies_and_new_files_and_the_pristine_tree_stays(tmp_path: Path) -> None:
    ours, pristine, tree = tree_of(tmp_path)
    (ours / "arch").mkdir()
    (ours / "arch" / "new.c").write_text("ours")
    put([insertion(after="third"), insertion(after="two"), insertion(after="third")], ours, pristine, tree)
    assert (tree / "Makefile").read_text() == "first\nlast one\nfirst\nthird\nnew\nnew\nlast two\nnew\n"
    assert (tree / "b.c").is_symlink()
    assert (tree / "arch" / "new.c").read_text() == "ours"
    assert (pristine / "Makefile").read_text() == TEXT


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    ours, pristine, tree = tree_of(tmp_path)
    put([insertion(after="third")], ours, pristine, tree)
    before = (tree / "Makefile").stat().st_mtime_ns
    put([insertion(after="third")], ours, pristine, tree)
    assert (tree / "Makefile").stat().st_mtime_ns == before


def test_what_nobody_wants_any_more_is_taken_back(tmp_path: Path) -> None:
    ours, pristine, tree = tree_of(tmp_path)
    (ours / "new.c").write_text("ours")
    put([insertion(after="third")], ours, pristine, tree)
    built = (tree / "Makefile").stat().st_mtime_ns
    (ours / "new.c").unlink()
    put([], ours, pristine, tree)
    assert (tree / "Makefile").read_text() == TEXT
    assert (tree / "Makefile").stat().st_mtime_ns > built
    assert not (tree / "new.c").exists()


def test_a_new_file_does_not_hide_one_of_linux(tmp_path: Path) -> None:
    ours, pristine, tree = tree_of(tmp_path)
    (ours / "Makefile").write_text("ours")
    with pytest.raises(KeelError, match="Makefile"):
        put([], ours, pristine, tree)


def belongs_to_an_option(name: str) -> bool:
    """By the file's name, which begins with the option's."""
    return "options" in name or name.startswith(tuple(OPTIONS))


def test_the_additions_are_small() -> None:
    found = read(REPOSITORY / "ukl" / "insertions")
    lines = [(hunk.name, codelines.count(hunk.text)) for hunk in found if isinstance(hunk, Insertion)]
    assert len(lines) == len(found)
    files = [path for path in (REPOSITORY / "ukl" / "linux").rglob("*") if path.is_file()]
    lines += [(path.name, codelines.lines_of(path)) for path in files]
    assert 0 < sum(count for name, count in lines if not belongs_to_an_option(name)) <= BASE_LINES
    assert sum(count for _, count in lines) <= ALL_LINES
