# SPDX-License-Identifier: GPL-2.0-only
"""The environment of the checkers, with a stand-in for what makes it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from keel import checkers, packages, process
from keel.config import REPOSITORY, Settings
from keel.errors import KeelError

Fail = Callable[[str], None]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(build=tmp_path / "build", cache=tmp_path / "cache")


@pytest.fixture
def pip_says(monkeypatch: pytest.MonkeyPatch) -> Fail:
    def prepare(text: str) -> None:
        def run(argv: list[str], *, log: Path, **others: object) -> None:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(text)
            if text and "install" in argv:
                raise KeelError("pip failed")

        monkeypatch.setattr(process, "run_logged", run)
        monkeypatch.setattr(packages, "require", lambda *others: None)
        # The real one would have made it.
        monkeypatch.setattr(Path, "touch", lambda path: (path.parent.mkdir(exist_ok=True), path.write_text("")))

    return prepare


def test_what_is_fetched_is_kept(settings: Settings, pip_says: Fail) -> None:
    pip_says("")
    first = checkers.ruff(settings)
    pip_says("ERROR: no network")
    assert checkers.ruff(settings) == first


def test_an_unreachable_registry_is_not_a_failure(settings: Settings, pip_says: Fail) -> None:
    pip_says("WARNING: retrying\nERROR: No matching distribution found for ruff\nERROR: more\n")
    with pytest.raises(checkers.CannotFetch, match="No matching distribution"):
        checkers.ruff(settings)


def test_a_foreign_wheel_is(settings: Settings, pip_says: Fail) -> None:
    pip_says("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n")
    with pytest.raises(KeelError, match="not the one"):
        checkers.ruff(settings)


@pytest.mark.parametrize("pinned", [True, False])
def test_reuse_is_debians_where_none_is_pinned(settings: Settings, pip_says: Fail, pinned: bool) -> None:
    pip_says("")
    program = checkers.ruff(settings).with_name("reuse")
    if pinned:
        program.parent.mkdir()
        program.write_text("")
    assert checkers.reuse(settings) == (program if pinned else Path("/usr/bin/reuse"))


def test_every_requirement_is_pinned_by_hash() -> None:
    lines = (REPOSITORY / checkers.REQUIREMENTS).read_text().splitlines()
    wanted = [line for line in lines if line and line[0] != "#"]
    assert wanted
    assert all("==" in line and "--hash=sha256:" in line for line in wanted)


def test_another_list_has_another_environment(settings: Settings, pip_says: Fail, tmp_path: Path) -> None:
    pip_says("")
    (tmp_path / "tools").mkdir()
    (tmp_path / checkers.REQUIREMENTS).write_text("ruff==1\n")
    other = dataclasses.replace(settings, repository=tmp_path)
    assert checkers.ruff(settings) != checkers.ruff(other)
