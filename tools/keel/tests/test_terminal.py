# SPDX-License-Identifier: GPL-2.0-only
"""What key strokes mean before and after the guest's shell has shown its prompt, and how a new size is noted."""

import os
import select
import signal

import pytest

from keel.errors import Interrupted
from keel.terminal import Detached, Keys, Signals


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


def test_a_terminal_is_left_only_where_the_guest_continues() -> None:
    assert Keys().take(b"\x01d") == b"d"
    keys = Keys(detachable=True)
    assert keys.take(b"\x03ls\x01") == b"\x03ls"
    with pytest.raises(Detached) as left:
        keys.take(b"dlost")
    assert left.value.typed == b""
    with pytest.raises(Detached) as left:
        keys.take(b"ls\x01d")
    assert left.value.typed == b"ls"


def test_a_line_typed_at_what_looks_like_a_prompt_makes_ctrl_c_the_shells() -> None:
    keys = Keys()
    keys.take(b"typed too early\r")
    keys.prompt_shown = True
    keys.take(b"half a line")
    with pytest.raises(Interrupted):
        keys.take(b"\x03")
    assert keys.take(b"\r\x03") == b"\r\x03"


def readable(resizes: Signals) -> bool:
    return bool(select.select([resizes], [], [], 0)[0])


def test_a_new_size_is_noted_once_and_by_nobody_afterwards() -> None:
    before = signal.getsignal(signal.SIGWINCH)
    with Signals(signal.SIGWINCH) as resizes:
        assert not readable(resizes)
        resizes.take()
        for _ in range(100_000):  # more than the socket can hold
            os.kill(os.getpid(), signal.SIGWINCH)
        assert readable(resizes)
        resizes.take()
        while readable(resizes):
            resizes.take()
    assert signal.getsignal(signal.SIGWINCH) == before


def test_what_ignores_all_signals_while_it_cleans_up_stays() -> None:
    """As after a SIGTERM: a SIGUSR1 that comes then must not be a second one."""
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with pytest.raises(Interrupted), Signals(signal.SIGUSR1):
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            raise Interrupted
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)
