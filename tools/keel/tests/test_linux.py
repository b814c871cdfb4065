# SPDX-License-Identifier: GPL-2.0-only
"""The farm of links follows the overlay."""

from pathlib import Path

from keel.linux import link_overlay


def test_links_come_change_and_go_with_the_overlay(tmp_path: Path) -> None:
    overlay, place = tmp_path / "overlay", tmp_path / "farm" / "l4"
    (overlay / "kernel").mkdir(parents=True)
    (overlay / "Kconfig").write_text("a")
    (overlay / "kernel" / "setup.c").write_text("b")
    link_overlay(overlay, place)
    assert (place / "kernel" / "setup.c").read_text() == "b"
    assert (place / "Kconfig").is_symlink()
    (overlay / "Kconfig").unlink()
    (overlay / "kernel" / "irq.c").write_text("c")
    link_overlay(overlay, place)
    assert not (place / "Kconfig").is_symlink()
    assert {path.name for path in place.rglob("*.c")} == {"setup.c", "irq.c"}
