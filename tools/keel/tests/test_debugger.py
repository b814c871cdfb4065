# SPDX-License-Identifier: GPL-2.0-only
"""The dialogue with the µ-kernel's debugger, without a kernel."""

from keel.debugger import KEY, PROMPT, Dialogue, ask


def test_a_script_is_said_line_by_line() -> None:
    answers: list[list[str]] = []
    dialogue = Dialogue(ask(["threads", "check"], answers))
    assert dialogue.hear(b"keel: a boot message\n") == b""
    assert dialogue.begin() == KEY
    assert dialogue.hear(b"keel: debugger: key\n" + PROMPT) == b"threads\r"
    assert dialogue.hear(b"threads\nkeel: 1.0v1\nkeel: 2.0") == b""
    assert dialogue.hear(b"v1\n" + PROMPT) == b"check\r"
    assert not dialogue.over
    assert dialogue.hear(b"check\nkeel: check: ok\n" + PROMPT) == b""
    assert dialogue.over and not dialogue.panicked
    assert answers == [["1.0v1", "2.0v1"], ["check: ok"]]


def test_a_panic_needs_no_key() -> None:
    answers: list[list[str]] = []
    dialogue = Dialogue(ask(["threads"], answers))
    assert dialogue.hear(b"keel: PANIC: no\n" + PROMPT) == b"threads\r"
    assert dialogue.begun and dialogue.panicked
