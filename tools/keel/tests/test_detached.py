# SPDX-License-Identifier: GPL-2.0-only
"""A run in the background: its console ends with its status."""

import os
import signal
from collections.abc import Callable
from typing import BinaryIO

import pytest

from keel import detached, slot
from keel.commands import console
from keel.config import Settings
from keel.errors import KeelError, Status


def in_background(settings: Settings, status: int | None) -> int:
    """A run that ends when the descriptor is closed: with this status, or killed."""
    ends, ours = os.pipe()
    started = os.fork()
    if started:
        os.close(ends)
        assert os.waitpid(started, 0)[1] == 0
        return ours
    os.close(ours)
    with slot.taken(settings, "box") as mine:
        mine.note_run("keel", "true")
        is_up = detached.leave(mine, has_console=False)
        mine.note_run("keel", "true", detached=True)
        print("it writes", flush=True)
        is_up()
        os.read(ends, 1)
    if status is None:
        os.kill(os.getpid(), signal.SIGKILL)
    detached.note_status(status or 0)
    os._exit(0)


@pytest.fixture
def looked(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], int]:
    """The status of the console of a run that ends when the console has begun."""
    opened = detached.open_status

    def look(status: int | None) -> int:
        run = in_background(settings, status)

        def open_status(found: slot.Slot) -> BinaryIO:
            file = opened(found)
            os.close(run)
            return file

        monkeypatch.setattr(detached, "open_status", open_status)
        return console.console(settings, "box")

    return look


@pytest.mark.parametrize("status", [0, 7, Status.LINUX_PANIC])
def test_a_console_ends_with_the_status_of_the_run(
    status: int, looked: Callable[[int | None], int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert looked(status) == status
    assert capfd.readouterr().out == "it writes\n"


def test_the_status_of_a_run_that_is_killed_is_not_known(looked: Callable[[int | None], int]) -> None:
    with pytest.raises(KeelError, match="was killed"):
        looked(None)
