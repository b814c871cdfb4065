# SPDX-License-Identifier: GPL-2.0-only
"""Shows long steps on the error output: their name, how far they are, their time, and how long they may still take."""

import sys
import time
from dataclasses import dataclass
from types import TracebackType

from . import plain

REDRAW_S = 1.0
REPEAT_S = 15.0
# Before that, or before this part of all, the rate says little about the rest.
LEAST_MEASURED_S, LEAST_PART = 2.0, 0.02
# The longest time that is shown in seconds.
MOST_SECONDS = 120


def say(line: str) -> None:
    """One line for the user; standard output belongs to the guest's command."""
    print(f"keel: {plain.line(line)}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Far:
    """How far a step is: what is done, of how much about, 0 where that is not known."""

    done: int
    of: int
    unit: str

    def __str__(self) -> str:
        if not self.of:
            return f"{self.done} {self.unit}"
        return f"{self.done} %" if self.unit == "%" else f"{self.done} of about {self.of} {self.unit}"


def _rest(seconds: float) -> str:
    """The end of a line about a step; nothing where no time is left."""
    if seconds <= 0:
        return ""
    return f", some {seconds:.0f} s left" if seconds <= MOST_SECONDS else f", some {seconds / 60:.0f} min left"


class Step:
    """One long step. On a terminal its line is redrawn, elsewhere repeated now and then.

    A step that is mostly short says nothing until it has taken as long as a redraw. One whose programs count nothing takes the
    usual time, where that is known, of a host with two processors.
    """

    def __init__(self, what: str, mostly_short: bool = False, usually_s: float = 0.0) -> None:
        self.what = what
        self.mostly_short = mostly_short
        self.usually_s = usually_s
        self.started = time.monotonic()
        self.shown = 0.0
        self.terminal = sys.stderr.isatty()
        # Where the part that is measured now began, and when.
        self.first = Far(0, 0, "")
        self.first_at = self.started

    def __enter__(self) -> "Step":
        if not self.mostly_short:
            self._show("")
        return self

    def update(self, how_far: str | Far) -> None:
        """Show how far the step is; cheap enough to be called for every line of output."""
        if isinstance(how_far, Far) and (how_far.of, how_far.unit) != (self.first.of, self.first.unit):
            self.first, self.first_at = how_far, time.monotonic()
        pause = REDRAW_S if self.terminal else REPEAT_S
        if time.monotonic() - (self.shown or self.started) >= pause:
            self._show(f"{how_far}{self._left(how_far)}")

    def _left(self, how_far: str | Far) -> str:
        """How long the rest may take: at the rate so far, or usually."""
        if not isinstance(how_far, Far):
            return _rest(self.usually_s - (time.monotonic() - self.started))
        lasted = time.monotonic() - self.first_at
        if lasted < LEAST_MEASURED_S:
            return ""
        measured = how_far.done - self.first.done
        if measured <= LEAST_PART * how_far.of:
            return ""
        return _rest(lasted * (how_far.of - how_far.done) / measured)

    def _show(self, how_far: str) -> None:
        self.shown = time.monotonic()
        elapsed = int(self.shown - self.started)
        text = plain.line(f"keel: {self.what} ..." + (f" {elapsed} s, {how_far}" if how_far else ""))
        if self.terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end = "done" if kind is None else "stopped"
        start = "\r\033[K" if self.terminal else ""
        elapsed = time.monotonic() - self.started
        if self.mostly_short and elapsed < REDRAW_S:
            return
        print(f"{start}keel: {plain.line(self.what)}: {end}, {elapsed:.0f} s", file=sys.stderr, flush=True)
