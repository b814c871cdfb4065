# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's last words on the console."""

import pytest

from keel.console import SHELL_BEGINS, BootLog, End, Watcher


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


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_a_boot_log_is_kept_up_to_its_end(step: int) -> None:
    stream = b"[    0.1] Linux version 6.1 \x1b_keel:sh\r\n" + SHELL_BEGINS + b"hello\r\n" + SHELL_BEGINS + b"$ "
    log = BootLog()
    shown = b"".join(log.feed(stream[at : at + step]) for at in range(0, len(stream), step))
    assert log.over
    assert shown == b"hello\r\n" + SHELL_BEGINS + b"$ "


def test_what_ends_within_a_line_may_be_a_prompt() -> None:
    log = BootLog()
    seen = []
    for piece in (b"[    0.1] booting", SHELL_BEGINS, b"welcome\r\n", b"$ ", b"\r\n"):
        log.feed(piece)
        seen.append(log.has_prompt)
    assert seen == [False, False, False, True, True]
