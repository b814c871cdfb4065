# SPDX-License-Identifier: GPL-2.0-only
"""What several tests of the command need."""

from pathlib import Path

import pytest

from keel.config import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings whose folders are the test's own."""
    return Settings(build=tmp_path / "build", cache=tmp_path / "cache", install=False)
