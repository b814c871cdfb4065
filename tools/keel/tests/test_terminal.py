# SPDX-License-Identifier: GPL-2.0-only
"""What key strokes mean before and after the guest's shell has started."""

import pytest

from keel.errors import Interrupted
from keel.terminal import Keys


def test_ctrl_c_ends_a_guest_that_still_boots() -> None:
    with pytest.raises(Interrupted):
        Keys().take(b"a\x03")


def test_ctrl_c_is_the_shells_once_it_runs() -> None:
    keys = Keys()
    keys.guest_ready = True
    assert keys.take(b"a\x03b") == b"a\x03b"


def test_the_escape_key_leaves_at_any_time_even_when_cut() -> None:
    keys = Keys()
    keys.guest_ready = True
    assert keys.take(b"ls\x01") == b"ls"
    with pytest.raises(Interrupted):
        keys.take(b"x")


def test_the_escape_key_twice_sends_it_once() -> None:
    assert Keys().take(b"\x01\x01") == b"\x01"
