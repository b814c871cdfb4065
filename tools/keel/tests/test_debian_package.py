# SPDX-License-Identifier: GPL-2.0-only
"""What can be said of the Debian package without building it."""

import os
import pwd
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from keel import config, packages
from keel.commands import doctor
from keel.config import REPOSITORY, version

DEBIAN = REPOSITORY / "debian"


def words(name: str) -> list[list[str]]:
    """The lines of a list of debhelper's."""
    lines = (DEBIAN / name).read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def names(field: str) -> set[str]:
    """The packages in a field of the binary package."""
    text = re.sub(r"(?m)^#.*\n", "", (DEBIAN / "control").read_text())
    found = re.search(rf"(?m)^{field}:((?:.*\n)(?:[ \t].*\n)*)", text.split("\n\n")[1])
    assert found
    return {word.split()[0] for word in found[1].replace("\n", " ").split(",") if word.strip()}


def packages_of(*needs: tuple[packages.Need, ...]) -> set[str]:
    return {need.package for group in needs for need in group}


def test_the_version_is_the_commands() -> None:
    first = (DEBIAN / "changelog").read_text().splitlines()[0]
    assert first.startswith(f"keel ({version()}) ")


def test_every_file_that_is_listed_exists() -> None:
    installed = words("keel.install")
    assert all((REPOSITORY / source).exists() for source, _ in installed)
    assert {Path("/") / place for _, place in installed} == {config.INSTALLED}


def test_what_the_command_reads_is_in_the_package() -> None:
    """All that is tracked, except what is for development alone."""
    tracked = subprocess.run(["git", "-C", str(REPOSITORY), "ls-files"], capture_output=True, text=True, check=True).stdout
    parts = {Path(name).parts[0] for name in tracked.splitlines()}
    development = {
        ".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSES", "README.md", "REUSE.toml",
        "SECURITY.md", "clippy.toml", "debian", "rustfmt.toml", "tests",
    }  # fmt: skip
    assert parts - development <= {source for source, _ in words("keel.install")}


def test_the_command_is_linked_to() -> None:
    assert ["usr/share/keel/keel", "usr/bin/keel"] in words("keel.links")


def test_what_a_run_needs_is_depended_on_and_what_building_needs_recommended() -> None:
    assert names("Depends") >= packages_of(packages.EMULATOR)
    building = doctor.needs_of_verbs()["run"] + doctor.needs_of_verbs()["image"]
    assert {need.package for need in building} - names("Depends") <= names("Recommends")
    assert packages_of(packages.UEFI, packages.WINDOW, packages.ZSTD, packages.DEBUGGER) <= names("Suggests")


def test_an_installed_tree_is_not_written_to() -> None:
    assert config._build_directory(config.INSTALLED) == config._cache_directory() / "build"
    assert config._build_directory(Path("/home/u/keel")) == Path("/home/u/keel/build")


@pytest.mark.parametrize(
    ("variable", "usual", "directory"),
    [("XDG_CACHE_HOME", ".cache", config._cache_directory), ("XDG_DATA_HOME", ".local/share", config._data_directory)],
)
def test_where_a_users_files_are(
    variable: str, usual: str, directory: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative place counts as none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("relative", "", "./x"):
        monkeypatch.setenv(variable, value)
        assert directory() == tmp_path / usual / "keel"
    monkeypatch.setenv(variable, "/elsewhere")
    assert directory() == Path("/elsewhere/keel")


def test_root_keeps_no_data_in_another_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo may leave HOME as it is; what root makes there its owner could not write to. A home that is not there is as it is."""
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    owner = tmp_path.stat().st_uid
    monkeypatch.setenv("HOME", str(tmp_path))
    for user, whose in ((0, 1000), (1000, 1000), (0, 0)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        monkeypatch.setattr(config, "_owner", lambda path, whose=whose: whose if path == tmp_path else owner)
        expected = Path(pwd.getpwuid(0).pw_dir) if (user, whose) == (0, 1000) else tmp_path
        assert config._data_directory() == expected / ".local/share/keel"
    monkeypatch.setenv("HOME", "/nonexistent")
    assert config._data_directory() == Path("/nonexistent/.local/share/keel")
