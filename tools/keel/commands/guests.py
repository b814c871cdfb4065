# SPDX-License-Identifier: GPL-2.0-only
"""`./keel ps` and `./keel stop`: the guests of this clone that run now."""

import os
import select
import signal
import time
from collections.abc import Sequence

from .. import guest, plain, slot
from ..arguments import in_columns
from ..config import Settings
from ..errors import KeelError, Status
from ..progress import say

UNITS = ((86400, "days"), (3600, "h"), (60, "min"))
# The time limit of a run's cleanup.
END_S = 10.0


def ps(settings: Settings) -> None:
    """Print a table of the guests that run."""
    rows = [
        (found.name, run.system, lasted(time.time() - run.began), plain.line(run.command or "(shell)"))
        for found in slot.running(settings)
        if (run := found.run())
    ]
    print(in_columns([("NAME", "SYSTEM", "FOR", "COMMAND"), *rows]))


def lasted(seconds: float) -> str:
    """A duration for a human reader."""
    length, unit = next((row for row in UNITS if seconds >= 2 * row[0]), (1, "s"))
    return f"{max(0, int(seconds // length))} {unit}"


def stop(settings: Settings, names: Sequence[str]) -> None:
    """Power off each of the guests. If one of them does not exist, none is stopped.

    KeelError at the end, with a status of its own, where one was ended in another way that may have damaged what it keeps.
    """
    wanted = [named(settings, name) for name in dict.fromkeys(names)]
    damaged = [found.name for found in wanted if (run := found.run()) and not _stop(settings, found, run)]
    if damaged:
        what = f"{', '.join(damaged)} did not power off in order: disks that are kept may be damaged"
        raise KeelError(what, "", Status.NOT_POWERED_OFF)


def named(settings: Settings, name: str) -> slot.Slot:
    """The guest of this name, which runs."""
    running = {found.name: found for found in slot.running(settings) if found.run()}
    if name not in running:
        raise KeelError(f"no guest named {name} runs", f"there is {', '.join(running)}" if running else "there is none")
    return running[name]


def _stop(settings: Settings, mine: slot.Slot, run: slot.Run) -> bool:
    """Return true if the guest has ended without harm to a disk that it keeps."""
    try:
        process = os.pidfd_open(run.process)
    except ProcessLookupError:
        return True
    try:
        # The process id may have been reused: while the slot has the same note, it has not.
        if not any(found.name == mine.name and found.run() == run for found in slot.running(settings)):
            return True
        signal.pidfd_send_signal(process, signal.SIGUSR1)
        if ends(process, guest.LONG_GRACE_S):
            return not mine.was_cut_off(run)
        signal.pidfd_send_signal(process, signal.SIGTERM)
        say(f"{mine.name} did not power off in {guest.LONG_GRACE_S:g} s and was ended")
        if not ends(process, END_S):
            raise KeelError(f"{mine.name} does not end", f"end process {run.process}")
        return False
    except ProcessLookupError:
        return not mine.was_cut_off(run)
    finally:
        os.close(process)


def ends(process: int, seconds: float) -> bool:
    """Whether the process ends within that time."""
    return bool(select.select([process], [], [], seconds)[0])
