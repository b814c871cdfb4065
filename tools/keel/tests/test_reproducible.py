# SPDX-License-Identifier: GPL-2.0-only
"""The comparison of two builds, and the copy that the second one is made of."""

import subprocess
from pathlib import Path

import pytest

from keel import reproducible


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit and changes after it."""
    place = tmp_path / "repository"
    place.mkdir()
    git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (place / ".gitignore").write_text("build\n")
    for name in ("kept", "changed", "removed"):
        (place / name).write_text(name)
    (place / "kept").chmod(0o755)
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    (place / "changed").write_text("by now")
    (place / "removed").unlink()
    (place / "new").write_text("new")
    (place / "build").write_text("built")
    return place


def state(place: Path) -> str:
    git = ["git", "-C", str(place)]
    commands = ([*git, "rev-parse", "HEAD"], [*git, "status", "--porcelain"])
    return "".join(subprocess.run(words, check=True, capture_output=True, text=True).stdout for words in commands)


def test_the_copy_has_the_commit_and_the_changes(repository: Path, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    reproducible.copy(repository, place)
    assert state(place) == state(repository) and "removed" in state(place)
    assert {path.name: path.read_text() for path in place.iterdir() if path.is_file()} == {
        ".gitignore": "build\n",
        "kept": "kept",
        "changed": "by now",
        "new": "new",
    }
    assert (place / "kept").stat().st_mode == (repository / "kept").stat().st_mode


def test_every_file_is_compared(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for place in (first, second):
        place.mkdir()
        (place / "same").write_bytes(b"abc")
    (first / "longer").write_bytes(b"abc")
    (second / "longer").write_bytes(b"abcd")
    (first / "changed").write_bytes(b"abc")
    (second / "changed").write_bytes(b"axc")
    (second / "more").touch()
    found = dict(reproducible.different(first, second))
    assert list(found) == ["changed", "longer", "more", "same"]
    assert found["same"] == ""
    assert "byte 1 of 3 and 3" in found["changed"] and "byte 3 of 3 and 4" in found["longer"]
    assert found["more"] == f"there is no {first / 'more'}"
