# SPDX-License-Identifier: GPL-2.0-only
"""Guests at the same time get names of their own."""

from pathlib import Path

from keel import slot
from keel.config import Settings


def test_each_guest_has_its_own_slot_and_frees_it(tmp_path: Path) -> None:
    settings = Settings(build=tmp_path)
    with slot.taken(settings, "keel") as first, slot.taken(settings, "keel") as second:
        assert (first.name, second.name) == ("keel", "keel-2")
        assert {found.name for found in slot.running(settings)} == {"keel", "keel-2"}
        assert first.log("console") != second.log("console")
    assert slot.running(settings) == []
    with slot.taken(settings, "keel") as again:
        assert again.name == "keel"


def test_a_path_too_long_for_a_socket_gives_none(tmp_path: Path) -> None:
    deep = slot.Slot("keel", tmp_path / ("d" * slot.SOCKET_PATH_MAX), tmp_path)
    assert deep.gdb_socket is None
