# SPDX-License-Identifier: GPL-2.0-only
"""What can be said of the Debian package without building it."""

import re
import subprocess
from pathlib import Path

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
