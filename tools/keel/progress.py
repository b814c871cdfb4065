# SPDX-License-Identifier: GPL-2.0-only
"""Shows long steps on the error output: their name, progress and time."""

import sys
import time
from types import TracebackType

REDRAW_S = 1.0
REPEAT_S = 15.0


def say(line: str) -> None:
    """One line for the user; standard output belongs to the guest's command."""
    print(f"keel: {line}", file=sys.stderr, flush=True)


class Step:
    """One long step. On a terminal its line is redrawn, elsewhere repeated now and then.

    A step that is mostly short says nothing until it has taken as long as a redraw.
    """

    def __init__(self, what: str, mostly_short: bool = False) -> None:
        self.what = what
        self.mostly_short = mostly_short
        self.started = time.monotonic()
        self.shown = 0.0
        self.terminal = sys.stderr.isatty()

    def __enter__(self) -> "Step":
        if not self.mostly_short:
            self._show("")
        return self

    def update(self, how_far: str) -> None:
        """Show how far the step is; cheap enough to be called for every line of output."""
        pause = REDRAW_S if self.terminal else REPEAT_S
        if time.monotonic() - (self.shown or self.started) >= pause:
            self._show(how_far)

    def _show(self, how_far: str) -> None:
        self.shown = time.monotonic()
        elapsed = int(self.shown - self.started)
        text = f"keel: {self.what} ..." + (f" {how_far}, {elapsed} s" if how_far else "")
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
        print(f"{start}keel: {self.what}: {end}, {elapsed:.0f} s", file=sys.stderr, flush=True)
