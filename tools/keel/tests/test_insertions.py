# SPDX-License-Identifier: GPL-2.0-only
"""What ukl/ adds to Linux: anchors, the farm, and how much it may be."""

from dataclasses import replace
from pathlib import Path

import pytest

from keel.config import REPOSITORY
from keel.errors import KeelError
from keel.insertions import Insertion, inserted, place, read
from keel.ukloptions import OPTIONS

# The base model, and with every option.
BASE_LINES, ALL_LINES = 450, 1_250
TEXT = "first\nlast one\nfirst\nthird\nlast two\n"


def insertion(**words: str) -> Insertion:
    return Insertion(name="here", file="Makefile", text="new\n", **words)


def test_a_text_goes_behind_or_before_its_anchor() -> None:
    assert inserted(TEXT, [insertion(after="third")]) == "first\nlast one\nfirst\nthird\nnew\nlast two\n"
    assert inserted(TEXT, [insertion(before="third")]) == "first\nlast one\nfirst\nnew\nthird\nlast two\n"


def test_a_line_that_is_not_the_only_one_is_found_within_another() -> None:
    assert inserted(TEXT, [insertion(within="third", before="last")]) == "first\nlast one\nfirst\nthird\nnew\nlast two\n"


def test_the_compiler_counts_the_lines_as_before() -> None:
    added = [replace(insertion(after=words), file="a.c") for words in ("third", "last two")]
    assert inserted(TEXT, added) == "first\nlast one\nfirst\nthird\nnew\n#line 5\nlast two\nnew\n#line 6\n"


@pytest.mark.parametrize(
    "words",
    [{"after": "fourth"}, {"after": "first"}, {"within": "fourth", "after": "last"}, {"within": "third", "after": "last one"}],
)
def test_an_anchor_that_does_not_fit_is_refused_by_its_name(words: dict[str, str]) -> None:
    with pytest.raises(KeelError, match=r"here.*Makefile"):
        inserted(TEXT, [insertion(**words)])


@pytest.mark.parametrize("line", ['after = "x"\nbefore = "y"', 'afer = "x"', ""])
def test_an_entry_that_is_wrong_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.toml").write_text(f'[[insertion]]\nname = "here"\nfile = "a.c"\ntext = "new"\n{line}\n')
    with pytest.raises(KeelError, match="here"):
        read(tmp_path)


def farm_of(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Additions, a pristine tree of two files, and links to it."""
    additions, pristine, farm = (tmp_path / name for name in ("additions", "pristine", "farm"))
    for directory in (additions, pristine, farm):
        directory.mkdir()
    for name in ("Makefile", "b.c"):
        (pristine / name).write_text(TEXT)
        (farm / name).symlink_to(pristine / name)
    return additions, pristine, farm


def test_a_farm_gets_copies_and_new_files_and_the_pristine_tree_stays(tmp_path: Path) -> None:
    additions, pristine, farm = farm_of(tmp_path)
    (additions / "arch").mkdir()
    (additions / "arch" / "new.c").write_text("ours")
    place([insertion(after="third"), insertion(after="two"), insertion(after="third")], additions, pristine, farm)
    assert (farm / "Makefile").read_text() == "first\nlast one\nfirst\nthird\nnew\nnew\nlast two\nnew\n"
    assert (farm / "b.c").is_symlink()
    assert (farm / "arch" / "new.c").read_text() == "ours"
    assert (pristine / "Makefile").read_text() == TEXT


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    additions, pristine, farm = farm_of(tmp_path)
    place([insertion(after="third")], additions, pristine, farm)
    before = (farm / "Makefile").stat().st_mtime_ns
    place([insertion(after="third")], additions, pristine, farm)
    assert (farm / "Makefile").stat().st_mtime_ns == before


def test_what_nobody_wants_any_more_is_taken_back(tmp_path: Path) -> None:
    additions, pristine, farm = farm_of(tmp_path)
    (additions / "new.c").write_text("ours")
    place([insertion(after="third")], additions, pristine, farm)
    built = (farm / "Makefile").stat().st_mtime_ns
    (additions / "new.c").unlink()
    place([], additions, pristine, farm)
    assert (farm / "Makefile").read_text() == TEXT
    assert (farm / "Makefile").stat().st_mtime_ns > built
    assert not (farm / "new.c").exists()


def test_a_new_file_does_not_hide_one_of_linux(tmp_path: Path) -> None:
    additions, pristine, farm = farm_of(tmp_path)
    (additions / "Makefile").write_text("ours")
    with pytest.raises(KeelError, match="Makefile"):
        place([], additions, pristine, farm)


def belongs_to_an_option(name: str) -> bool:
    """By the file's name, which begins with the option's."""
    return "options" in name or name.startswith(tuple(OPTIONS))


def test_the_additions_are_small() -> None:
    found = read(REPOSITORY / "ukl" / "insertions")
    lines = [(insertion.name, insertion.text.count("\n")) for insertion in found]
    files = [path for path in (REPOSITORY / "ukl" / "linux").rglob("*") if path.is_file()]
    lines += [(path.name, path.read_bytes().count(b"\n")) for path in files]
    assert 0 < sum(count for name, count in lines if not belongs_to_an_option(name)) <= BASE_LINES
    assert sum(count for _, count in lines) <= ALL_LINES
