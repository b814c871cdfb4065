# SPDX-License-Identifier: GPL-2.0-only
"""What `./keel ssh` hands to ssh."""

import subprocess
from pathlib import Path

import pytest

from keel.commands import ssh
from keel.config import Settings
from keel.errors import KeelError, Status


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["echo a; echo $0"], "a\nsh\n"),
        (["echo"], "\n"),
        (["echo", "a; echo b"], "a; echo b\n"),
        (["printf", "%s|", "a  b", "", "$0", "'"], "a  b||$0|'|"),
    ],
    ids=["a line", "a word", "words", "words of all kinds"],
)
def test_one_word_is_a_line_and_several_stay_words(words: list[str], output: str) -> None:
    """As sshd does, a shell reads what follows the name, joined by blanks."""
    argv = ssh.arguments(Path("/f"), "web", words, terminal=False)
    assert argv[:5] == ["ssh", "-F", "/f", "web", "--"]
    shell = ["sh", "-c", " ".join(argv[5:])]
    assert subprocess.run(shell, capture_output=True, text=True, check=True).stdout == output


def test_a_session_has_no_command() -> None:
    assert ssh.arguments(Path("/f"), "web", [], terminal=True) == ["ssh", "-F", "/f", "-t", "web"]


@pytest.mark.parametrize("words", [[""], ["", ""]])
def test_an_empty_command_is_no_session(words: list[str], settings: Settings) -> None:
    with pytest.raises(KeelError, match="empty") as refused:
        ssh.session(settings, None, words, terminal=False)
    assert refused.value.status == Status.USAGE
