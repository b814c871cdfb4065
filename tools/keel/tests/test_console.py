# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's last words on the console."""

import pytest

from keel.console import End, Watcher


def watched(*pieces: bytes) -> End | None:
    watcher = Watcher()
    for piece in pieces:
        watcher.feed(piece)
    return watcher.end


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b"[    1.0] reboot: Power down\r\n", End.POWER_OFF),
        (b"[    1.0] reboot: Restarting system\r\n", End.REBOOT),
        (b"[    1.0] Kernel panic - not syncing: Attempted", End.PANIC),
        (b"all is well", None),
    ],
)
def test_each_end_is_known_however_it_is_cut(text: bytes, end: End | None) -> None:
    assert watched(text) is end
    assert watched(*(text[i : i + 1] for i in range(len(text)))) is end
    assert watched(text[:20], text[20:]) is end


def test_the_last_words_count() -> None:
    assert watched(b"echo reboot: Power down\n", b"Kernel panic - not syncing: x\n") is End.PANIC
    assert watched(b"Kernel panic - not syncing ", b"reboot: Power down") is End.POWER_OFF
