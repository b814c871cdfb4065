# SPDX-License-Identifier: GPL-2.0-only
"""The archives that have the init."""

import io
from pathlib import Path

import pytest

from keel import cpio, guestinit
from keel.config import Settings


def names(archive: bytes) -> list[str]:
    return [entry.name for entry in cpio.read_headers(io.BytesIO(archive))]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    init = tmp_path / "init.cpio"
    init.write_bytes(guestinit.pack_init(b"init"))
    monkeypatch.setattr(guestinit, "build_init", lambda settings: init)
    return init


@pytest.mark.parametrize("name", ["hello", "init"])
def test_an_application_comes_with_the_init(name: str, init: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"elf")
    archive = guestinit.with_application(Settings(build=tmp_path), tmp_path / name)
    assert archive != init
    content, first = archive.read_bytes(), init.read_bytes()
    assert content.startswith(first)
    assert names(content[len(first + cpio.padding(len(first))) :]) == ["keel/applications", f"keel/applications/{name}"]


def test_an_emulator_that_starts_keeps_the_archive_that_it_has(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It maps the file, and reads it later."""
    monkeypatch.setattr("keel.packages.require", lambda *_: None)
    monkeypatch.setattr("keel.process.run_logged", lambda *_, **__: None)
    settings.init.parent.mkdir(parents=True)
    application = tmp_path / "hello"

    def build(content: bytes) -> list[Path]:
        settings.init.write_bytes(content)
        application.write_bytes(content)
        return [guestinit.build_init(settings), guestinit.with_application(settings, application)]

    before = [path.open("rb") for path in build(b"first")]
    after = [path.read_bytes() for path in build(b"second")]
    for file, new in zip(before, after, strict=True):
        with file:
            old = file.read()
        assert b"first" in old and b"second" not in old and b"second" in new
