# SPDX-License-Identifier: GPL-2.0-only
"""The host's end of the µ-kernel's debugger: a script that talks to it. Pure: bytes in, bytes out.

docs/debugger.md describes the commands. The debug build has it on its console.
"""

from collections.abc import Generator

PROMPT = b"debugger> "
KEY = b"\x1b"
PREFIX = "keel: "

# Yields the bytes to send, first the key that enters the debugger; receives the output up to the next prompt.
Script = Generator[bytes, str, None]


def line(command: str) -> bytes:
    """A command as it is typed."""
    return command.encode() + b"\r"


def ask(commands: list[str], answers: list[list[str]]) -> Script:
    """A script that enters the debugger and gives these commands; the answers' lines are concatenated."""
    yield KEY
    for command in commands:
        answers.append(lines((yield line(command))))


def lines(text: str) -> list[str]:
    """The lines of an answer, without the echo of the command before them."""
    return [word.removeprefix(PREFIX) for word in text.splitlines()[1:]]


class Dialogue:
    """A script's progress over a serial line."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._heard = bytearray()
        self.begun = False
        self.over = False
        # The kernel stands in the debugger by itself.
        self.panicked = False

    def begin(self) -> bytes:
        """The guest has done what it should: what to send first."""
        self.begun = True
        return next(self._script)

    def hear(self, data: bytes) -> bytes:
        """What to send after this came; nothing while there is no new prompt."""
        self._heard += data
        if not self._heard.endswith(PROMPT):
            return b""
        if not self.begun:
            self.panicked = True
            self.begin()  # It needs no key: the kernel has panicked.
        text = self._heard.removesuffix(PROMPT).decode(errors="replace")
        self._heard.clear()
        try:
            return self._script.send(text)
        except StopIteration:
            self.over = True
            return b""
