# SPDX-License-Identifier: GPL-2.0-only
"""
The words of the sources and documents: tools/words.toml, and how wide lines are.

A private word in place of the field's keeps readers out. So does a line that no window shows.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLE = tomllib.loads((ROOT / "tools/words.toml").read_text())
# Files without sentences of ours.
NO_TEXT = {".svg", ".png", ".lock", ".json", ".config"}
DOCUMENT_COLUMNS = 120
COMMENT_COLUMNS = 100
C_COMMENT = r"\s*(/\*|\*( |/|$)|//)"
# How a comment begins, by the suffix of the file.
COMMENTS = {".rs": r"\s*//", ".s": r"\s*#", ".c": C_COMMENT, ".h": C_COMMENT, ".S": C_COMMENT}
LINK = re.compile(r"\]\(|https?://|SPDX-License-Identifier|^\s*//! \|")


def sources() -> Iterator[tuple[str, list[str]]]:
    """Each text file of the project with its lines."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for path in filter(None, listed):
        file = ROOT / path
        if file.suffix in NO_TEXT or file.is_symlink() or not file.is_file():
            continue
        yield path, file.read_text(errors="replace").splitlines()


def below(path: str, places: dict[str, Any] | list[str]) -> bool:
    """Whether a file is one of the places, or in one."""
    return any(path == place or path.startswith(place + "/") for place in places)


def found(rule: dict[str, Any]) -> Iterator[str]:
    """Where words are that a rule rejects."""
    word = re.compile(rule["word"], re.IGNORECASE if rule["word"].islower() or " " in rule["word"] else 0)
    for path, lines in sources():
        if below(path, TABLE["everywhere"]) or below(path, rule.get("except", {})):
            continue
        if not below(path, rule.get("in", [path])):
            continue
        for number, line in enumerate(lines, 1):
            if hit := word.search(line):
                yield f"{path}:{number}: '{hit[0]}': {rule['instead']}"


@pytest.mark.parametrize("rule", TABLE["rule"], ids=[rule["instead"] for rule in TABLE["rule"]])
def test_words_are_the_field_s(rule: dict[str, Any]) -> None:
    """None of the words in the list."""
    assert not (places := list(found(rule))), "\n".join(places[:20])


def test_a_word_of_ours_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above finds a word that is planted."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "page.md").write_text("It begins anew.\n")
    subprocess.run(["git", "add", "page.md"], cwd=tmp_path, check=True)
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert list(found({"word": r"\banew\b", "instead": "again"})) == ["page.md:1: 'anew': again"]


def test_no_tracked_file_is_what_a_tool_leaves() -> None:
    """What .gitignore names is not in the repository."""
    left = ["git", "ls-files", "--ignored", "--cached", "--exclude-standard"]
    assert subprocess.run(left, cwd=ROOT, check=True, capture_output=True, text=True).stdout == ""


def test_a_rule_can_be_for_some_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word is no fault elsewhere."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for place in ("kernel", "docs"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "page.md").write_text("It begins anew.\n")
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    rule = {"word": r"\banew\b", "instead": "again", "in": ["kernel"]}
    assert list(found(rule)) == ["kernel/page.md:1: 'anew': again"]


@pytest.mark.parametrize(
    "line",
    [
        "    cpu.filter(|_| around == 0).into_iter().for_each(lock::stop_others);",
        "        receiver.utcb().iter().for_each(|utcb| utcb.destination.set(destination.0));",
        "            .into_iter()",
        "    pending.inspect(|source| kernel_object::received(*source, thread)).is_some()",
        "    [Id::NIL, Id::INVALID][(slot == 0) as usize]",
        "        [self.shown.get(), self.id][self.has(Flags::KERNEL_MESSAGE) as usize]",
        "        (!condition).then_some(()).ok_or(self)",
        "    file.starts_with(IDENTIFICATION).then_some(())?;",
    ],
)
def test_clever_code_is_found(line: str) -> None:
    """By one of the rules for code; plain code of the same purpose is not."""
    rules = [re.compile(rule["word"]) for rule in TABLE["rule"] if "in" in rule]
    assert any(rule.search(line) for rule in rules)
    for plain in ("exchanges.iter().for_each(|word| word.set(0));", "words[(at / 8) as usize]", "fits.then_some(page)"):
        assert not any(rule.search(plain) for rule in rules), plain


def test_documents_fit_a_window() -> None:
    """Except in tables, code and links."""
    wide = []
    for path, lines in sources():
        fenced = False
        for number, line in enumerate(lines, 1) if path.endswith(".md") and not path.startswith("LICENSES/") else ():
            fenced ^= line.lstrip().startswith("```")
            skipped = fenced or line.startswith(("|", "    ", "\t")) or LINK.search(line)
            if not skipped and len(line) > DOCUMENT_COLUMNS:
                wide.append(f"{path}:{number}: {len(line)} columns")
    assert not wide, "\n".join(wide[:20])


def test_comments_fit_a_window() -> None:
    """Checked where a whole line is a comment."""
    wide = []
    for path, lines in sources():
        if begins := COMMENTS.get(Path(path).suffix):
            long = ((n, line) for n, line in enumerate(lines, 1) if len(line) > COMMENT_COLUMNS)
            comments = ((n, line) for n, line in long if re.match(begins, line) and not LINK.search(line))
            wide += [f"{path}:{n}: {len(line)} columns" for n, line in comments]
    assert not wide, "\n".join(wide[:20])
