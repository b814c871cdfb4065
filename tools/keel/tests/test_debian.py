# SPDX-License-Identifier: GPL-2.0-only
"""Where Debian's archive is looked for."""

from pathlib import Path

import pytest

from keel import debian
from keel.config import Settings


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
