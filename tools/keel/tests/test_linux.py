# SPDX-License-Identifier: GPL-2.0-only
"""The farm of links follows the overlay; one kernel begins with another's objects."""

import os
from pathlib import Path

from keel.linux import BUILD_STAMP, copy_objects, link_overlay


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


def test_objects_are_copied_with_their_times_and_commands_of_the_new_place(tmp_path: Path) -> None:
    built, out = tmp_path / "native", tmp_path / "other"
    (built / "mm").mkdir(parents=True)
    (built / BUILD_STAMP).write_text("whole")
    (built / "mm" / "slab.o").write_bytes(b"\0code")
    (built / "mm" / ".slab.o.cmd").write_text("gcc -I/tree/include -o /tree/../x ; cd " + str(built))
    for path in built.rglob("*"):
        os.utime(path, (1000, 1000))
    (tmp_path / "other.new").mkdir()  # left by one that was interrupted
    copy_objects(built, out, (Path("/tree"), Path("/other/tree")), tmp_path / "log")
    assert (out / "mm" / "slab.o").read_bytes() == b"\0code"
    assert (out / "mm" / ".slab.o.cmd").read_text() == f"gcc -I/other/tree/include -o /other/tree/../x ; cd {out}"
    assert {path.stat().st_mtime for path in out.rglob("*.*") if path.is_file()} == {1000}
    assert not (out / BUILD_STAMP).exists() and not (tmp_path / "other.new").exists()
