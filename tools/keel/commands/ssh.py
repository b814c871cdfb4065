# SPDX-License-Identifier: GPL-2.0-only
"""`./keel ssh`: a session in a guest that runs with --ssh."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .. import packages, process, slot, ssh
from ..config import Settings
from ..errors import KeelError, Status
from .guests import named


def session(settings: Settings, name: str | None, words: Sequence[str], *, terminal: bool) -> NoReturn:
    """Become ssh, with a shell or with one command."""
    if words and not any(words):
        raise KeelError("the command is empty", "without -- it is a shell", Status.USAGE)
    guest, file = reached(settings, name)
    process.become(arguments(file, guest.name, words, terminal=terminal))


def reached(settings: Settings, name: str | None) -> tuple[slot.Slot, Path]:
    """Return the guest, the only one with a server without a name, and ssh's configuration for it, when its server answers."""
    packages.require(settings, packages.SSH)
    guest = named(settings, name) if name else _only(settings)
    file = ssh.configuration(guest)
    if not file.exists():
        raise KeelError(f"{guest.name} runs without an SSH server", "start it with --ssh")
    if not ssh.wait_for_server(_port(file), lambda: guest.run() is not None and guest in slot.running(settings)):
        raise KeelError(f"the SSH server of {guest.name} does not answer", f"its console is in {guest.log('console')}")
    return guest, file


def _only(settings: Settings) -> slot.Slot:
    """The one guest with a server."""
    found = [guest for guest in slot.running(settings) if ssh.configuration(guest).exists()]
    if not found:
        raise KeelError("no guest with an SSH server runs", "start one: ./keel run --ssh")
    if len(found) > 1:
        raise KeelError("several guests run", f"say which: {', '.join(guest.name for guest in found)}")
    return found[0]


def _port(file: Path) -> int:
    found = re.search(r"^ *Port (\d+)$", file.read_text(), re.MULTILINE)
    if not found:
        raise KeelError(f"{file} has no port", "start the guest again")
    return int(found[1])


def arguments(file: Path, name: str, words: Sequence[str], *, terminal: bool) -> list[str]:
    """Return ssh's arguments. The guest's shell gets one line: a single word is that line, and several stay words in it."""
    line = [words[0] if len(words) == 1 else shlex.join(words)] if words else []
    return ["ssh", "-F", str(file), *(["-t"] if terminal else []), name, *(["--", *line] if line else [])]
