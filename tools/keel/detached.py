# SPDX-License-Identifier: GPL-2.0-only
"""A guest that continues when the command that started it has returned."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from . import process
from .errors import Interrupted, KeelError, Status
from .progress import say
from .slot import Slot

UP = b"1"
# In the slot's private directory.
STATUS = "status"
STANDARD = (0, 1, 2)


def output_log(slot: Slot) -> Path:
    """What the guest's command writes, and our own lines about its end."""
    return slot.log("output")


class _Background:
    """What this process is where its guest is in the background."""

    # It gets our exit status, and is gone when the guest is: consoles opened it before.
    status: BinaryIO | None = None


def note_status(status: int) -> None:
    """Give the consoles of our guest our exit status, just before we end; in the foreground there is none."""
    if _Background.status:
        with _Background.status as file:
            file.write(bytes([status]))


def open_status(slot: Slot) -> BinaryIO:
    """What `status_of` reads later; raises FileNotFoundError where the guest has ended."""
    return (slot.private / STATUS).open("rb")


def status_of(name: str, file: BinaryIO) -> int:
    """The exit status of a run in the background that has ended."""
    noted = file.read(1)
    if not noted:
        raise KeelError(f"the run of {name} was killed, its status is unknown")
    return noted[0]


def leave(slot: Slot, *, has_console: bool) -> Callable[[], None]:
    """Return in a child with a session of its own, which has all locks and sockets that are open here.

    The child calls the result when the guest is up. The parent never returns: it waits for that, or for the child's end,
    and exits without cleaning up what is the child's now.
    """
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(theirs)
        os._exit(_wait(slot, child, ours, has_console=has_console))
    os.close(ours)
    os.setsid()
    _redirect(output_log(slot))
    _Background.status = (slot.private / STATUS).open("wb")
    return lambda: _tell(theirs)


def _wait(slot: Slot, child: int, pipe: int, *, has_console: bool) -> int:
    """The parent's status: 0 for a guest that is up, else the child's, whose last lines are shown."""
    try:
        if os.read(pipe, len(UP)) == UP:
            console = f"./keel console {slot.name} {'is its terminal' if has_console else 'shows its output'}"
            say(f"{slot.name} runs; {console}, ./keel stop {slot.name} ends it")
            return 0
    except Interrupted:
        os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)
        return Status.INTERRUPTED
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stderr.write(process.tail(output_log(slot)))
    sys.stderr.flush()
    return status


def _redirect(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for standard, opened in zip(STANDARD, (nothing, output, output), strict=True):
        os.dup2(opened, standard)
    os.close(nothing)
    os.close(output)


def _tell(pipe: int) -> None:
    os.write(pipe, UP)
    os.close(pipe)
