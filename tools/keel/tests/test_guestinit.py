# SPDX-License-Identifier: GPL-2.0-only
"""The archives that the init comes in."""

import io
from pathlib import Path

import pytest

from keel import cpio, guestinit
from keel.config import Settings


def names(archive: bytes) -> list[str]:
    return [entry.name for entry in cpio.read_headers(io.BytesIO(archive))]


def test_an_application_comes_with_the_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init = tmp_path / "init.cpio"
    init.write_bytes(guestinit.pack_init(b"init"))
    monkeypatch.setattr(guestinit, "build_init", lambda settings: init)
    (tmp_path / "hello").write_bytes(b"elf")
    archive = guestinit.with_application(Settings(build=tmp_path), tmp_path / "hello")
    assert archive != init
    content, first = archive.read_bytes(), init.read_bytes()
    assert content.startswith(first)
    assert names(content[len(first + cpio.padding(len(first))) :]) == ["keel/applications", "keel/applications/hello"]
