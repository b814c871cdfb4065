# SPDX-License-Identifier: GPL-2.0-only
"""Filling in the boot configuration."""

from pathlib import Path

import pytest

from keel import bootconf
from keel.errors import KeelError


def test_the_default_template_is_filled_in() -> None:
    text = bootconf.fill(
        bootconf.read(bootconf.DEFAULT_TEMPLATE),
        ramdisk="root.cpio",
        linux_args="console=ttyS0 keel.mode=exec",
    )
    assert "initrd root.cpio\n" in text
    assert "args console=ttyS0 keel.mode=exec\n" in text
    assert "$" not in text


@pytest.mark.parametrize("template", ["${nothing}", "$", "${ramdisk"])
def test_a_bad_placeholder_is_an_error(template: str) -> None:
    with pytest.raises(KeelError, match="placeholder"):
        bootconf.fill(template, ramdisk="r", linux_args="")


def test_an_unreadable_template_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeelError, match="cannot be read"):
        bootconf.read(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(KeelError, match="not text"):
        bootconf.read(tmp_path / "binary")
