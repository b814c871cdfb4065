# SPDX-License-Identifier: GPL-2.0-only
"""Where Debian's archive is looked for."""

import os
from pathlib import Path

import pytest

from keel import boot, debian, layers
from keel.commands import run
from keel.config import Settings
from keel.errors import KeelError


def test_both_formats_of_sources_are_read() -> None:
    one_line = "# deb http://old/ bookworm main\ndeb [signed-by=/k arch=amd64] http://m/d bookworm main\n"
    assert debian.uris_of(one_line) == {"bookworm": "http://m/d"}
    deb822 = "Types: deb\nURIs: http://m/d\nSuites: bookworm bookworm-updates\nComponents: main\n"
    assert debian.uris_of(deb822) == {"bookworm": "http://m/d", "bookworm-updates": "http://m/d"}


def test_the_hosts_mirror_is_used_where_it_has_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEEL_MIRROR", raising=False)
    monkeypatch.delenv("KEEL_SECURITY_MIRROR", raising=False)
    monkeypatch.setattr(debian, "HOST_SOURCES", tmp_path)
    assert debian.find_mirror() == debian.Mirror(debian.DEFAULT_MIRROR, debian.DEFAULT_SECURITY)
    (tmp_path / "sources.list").write_text("deb http://near/debian bookworm main contrib\n")
    assert debian.find_mirror() == debian.Mirror("http://near/debian", debian.DEFAULT_SECURITY)
    monkeypatch.setenv("KEEL_MIRROR", "http://mine/debian")
    assert debian.find_mirror().archive == "http://mine/debian"


def test_every_source_is_verified() -> None:
    lines = debian.Mirror("http://a", "http://s").sources()
    assert len(lines) == 3
    assert all(f"signed-by={debian.KEYRING}" in line for line in lines)


def test_sources_are_asked_for_apart() -> None:
    settings = Settings(cache=Path("/c"))
    assert all(line.startswith("deb-src ") for line in debian.Mirror("http://a", "http://s").sources(debian.SOURCE))
    assert debian.Archive(settings).directory != debian.Archive(settings, debian.SOURCE).directory


def test_backports_are_asked_for_apart(tmp_path: Path) -> None:
    """Only their users see them, and those prefer them; they are verified too."""
    usual, newer = (debian.Archive(Settings(cache=tmp_path), kind) for kind in (debian.BINARY, debian.BACKPORTS))
    assert usual.directory != newer.directory and usual.packages != newer.packages
    for archive, has in ((usual, False), (newer, True)):
        archive.prepare()
        sources = (archive.directory / "sources.list").read_text()
        assert (f" {debian.BACKPORTS} main" in sources) is has
        assert all(line.startswith(f"deb [signed-by={debian.KEYRING}] ") for line in sources.splitlines())
        assert (f'Default-Release "{debian.BACKPORTS}"' in (archive.directory / "apt.conf").read_text()) is has


def test_what_is_in_the_cache_is_taken_by_its_version(tmp_path: Path) -> None:
    archive = debian.Archive(Settings(cache=tmp_path))
    archive.packages.mkdir()
    for version in ("6.1.9-1", "6.1.192-2", "6.1.192-2~deb11u1", "6.1.176-1"):
        (archive.packages / f"linux_{version}_all.deb").touch()
    assert archive.fetch("linux").name == "linux_6.1.192-2_all.deb"
    assert archive.fetch("linux", "6.1.176-1").name == "linux_6.1.176-1_all.deb"


def test_versions_are_no_paths_and_no_patterns() -> None:
    assert all(debian.VERSION.fullmatch(text) for text in ("6.1.176-1", "6.1.9+b~1"))
    assert not any(debian.VERSION.fullmatch(text) for text in ("", "../6", "6*", "6/1", "6 1", "latest"))


def test_a_version_of_linux_is_built_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEEL_LINUX", raising=False)
    usual = Settings()
    monkeypatch.setenv("KEEL_LINUX", "6.1.176-1")
    places = (Settings().pristine, Settings().linux_server, Settings().native_kernel)
    assert all(place.is_relative_to(usual.build / "linux-6.1.176-1") for place in places)
    assert usual.pristine == usual.build / "linux" / "pristine"


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ('Acquire::http::Proxy "http://p:3128";', True),
        ('Acquire::https::deb.debian.org::Proxy "DIRECT";', True),
        ('Acquire::Check-Valid-Until "false";', True),
        ('APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";', False),
        ('Dir::Cache "/var/cache/apt";', False),
    ],
)
def test_only_the_way_to_the_archive_is_taken_from_the_host(line: str, taken: bool) -> None:
    assert bool(debian.TAKEN_OVER.match(line)) is taken


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for apt's programs; the file has the names in the lists, and `new` in the same folder those after an update."""
    names, programs = tmp_path / "names", tmp_path / "bin"
    programs.mkdir()
    update = f"echo >> {tmp_path}/updates; [ -e {tmp_path}/new ] || exit 100; cp {tmp_path}/new {names}; touch $LISTS/x_Packages"
    scripts = {"apt-cache": f"cat {names} 2> /dev/null; true", "apt-config": "true", "apt-get": update}
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\nLISTS=${{APT_CONFIG%/*}}/state/lists\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    return names


def updates(apt: Path) -> int:
    file = apt.with_name("updates")
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_what_the_archive_lacks_is_known_by_new_lists(apt: Path, settings: Settings) -> None:
    """What old lists have is there; for what they lack new ones are fetched, which then count for a day."""
    archive = debian.Archive(settings)
    apt.write_text("vim awk\n")
    assert archive.lacks(["vim", "awk"]) == [] and updates(apt) == 0
    apt.with_name("new").write_text("vim\nawk\nlater\n")
    assert archive.lacks(["vim", "later", "vimm"]) == ["vimm"] and updates(apt) == 1
    assert archive.lacks(["vimm", "nosuch"]) == ["nosuch", "vimm"] and updates(apt) == 1
    os.utime(archive.directory / debian.UPDATED, (0, 0))
    assert archive.lacks(["vimm"]) == ["vimm"] and updates(apt) == 2


def test_without_lists_and_network_nothing_is_said_to_be_lacking(apt: Path, settings: Settings) -> None:
    assert debian.Archive(settings).lacks(["nosuch"]) == [] and updates(apt) == 1


def test_an_unknown_package_is_refused_before_anything_begins(
    apt: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless its layer is there. Another architecture's are in no lists."""
    monkeypatch.setattr(run, "_run", lambda *arguments: 0)
    apt.with_name("new").write_text("vim\n")
    for names in (("nosuch",), ("nosuch", "vim", "some:i386")):
        with pytest.raises(KeelError, match=r"has no package nosuch$"):
            run.run(settings, boot.Choices(packages=names))
    assert run.run(settings, boot.Choices(packages=("vim", "nosuch:i386"))) == 0
    found = layers.Layer("nosuch", ("nosuch",), settings.cache)
    monkeypatch.setattr(layers, "of_base", lambda base: [found])
    assert run.run(settings, boot.Choices(packages=("nosuch",))) == 0
