# SPDX-License-Identifier: GPL-2.0-only
"""`./keel console`: the terminal of a guest in the background, or what its command writes."""

import fcntl
import os
import selectors
import shutil
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .. import attached, detached, process, slot
from ..attached import Message
from ..channel import WINDOW
from ..config import Settings
from ..errors import KeelError, Status
from ..progress import say
from ..terminal import Detached, Keys, Quit, RawTerminal, Signals, window_size
from .guests import END_S, ends, named

INPUT_FD, OUTPUT_FD = 0, 1
KEYS_BYTES = 4096
# How often a command's output is looked at.
FOLLOW_S = 0.2


def console(settings: Settings, name: str) -> int:
    """Attach this terminal to the guest's shell, or follow what its command writes, until the guest ends.

    Returns the exit status of its run, or 0 where the guest continues.
    """
    guest = named(settings, name)
    run = guest.run()
    if run is None or not run.detached:
        raise KeelError(f"{name} has the terminal where it was started", "./keel console is for guests of run --detach")
    try:
        owner = os.pidfd_open(run.process)
    except ProcessLookupError:
        raise _ended(name) from None
    try:
        with _status(guest) as status:
            if run.command is not None:
                _follow(detached.output_log(guest), owner)
            elif not _attach(guest) or not _report(guest, owner):
                return Status.OK
            return detached.status_of(name, status)
    finally:
        os.close(owner)


def _status(guest: slot.Slot) -> BinaryIO:
    try:
        return detached.open_status(guest)
    except FileNotFoundError:
        raise _ended(guest.name) from None


def _ended(name: str) -> KeelError:
    return KeelError(f"{name} has ended", "./keel ps lists the guests that run")


def _follow(log: Path, owner: int) -> None:
    with log.open("rb") as file:
        over = False
        while not over:
            over = ends(owner, FOLLOW_S)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def _attach(guest: slot.Slot) -> bool:
    """Be the guest's terminal until the user leaves it; true where the guest left us."""
    if not (os.isatty(INPUT_FD) and os.isatty(OUTPUT_FD)):
        raise KeelError("a console needs a terminal", "./keel ssh, in a guest with --ssh, does without one")
    with _sole(guest), _connected(guest) as line:
        say(f"{guest.name}'s console; Ctrl-A d leaves it, Ctrl-A x ends the guest; the log is {guest.log('console')}")
        with RawTerminal(), Signals(signal.SIGWINCH) as resizes:
            ended = _Terminal(line, resizes).carry()
    if not ended:
        print()
        say(f"{guest.name} continues; ./keel console {guest.name} attaches again")
    return ended


@contextmanager
def _sole(guest: slot.Slot) -> Iterator[None]:
    """Keeps other terminals out."""
    try:
        file = (guest.private / "console.lock").open("w")
    except FileNotFoundError:
        raise _ended(guest.name) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise KeelError(f"{guest.name} has a terminal already", "Ctrl-A d leaves it there") from None
        yield


def _connected(guest: slot.Slot) -> socket.socket:
    try:
        return attached.connect(guest.console)
    except (FileNotFoundError, ConnectionRefusedError):
        raise _ended(guest.name) from None


class _Terminal:
    """Our terminal, attached to the guest's console by this line."""

    def __init__(self, line: socket.socket, resizes: Signals) -> None:
        line.setblocking(False)
        self.line = line
        self.resizes = resizes
        self.keys = Keys(detachable=True)
        # Messages for the guest. While there are any, no key is read.
        self.waiting: deque[bytes] = deque()
        self.left = False

    def carry(self) -> bool:
        """Carry bytes both ways, and each new size, until the guest closes the line, which is true, or the user leaves."""
        self._say_size()
        with selectors.DefaultSelector() as selector:
            selector.register(self.resizes, selectors.EVENT_READ)
            selector.register(self.line, selectors.EVENT_READ)
            while not self.left:
                self._choose_events(selector)
                ready = [key.fileobj for key, events in selector.select() if events & selectors.EVENT_READ]
                if self.resizes in ready:
                    self.resizes.take()
                    self._say_size()
                if INPUT_FD in ready:
                    self._take_keys()
                if self.line in ready and not self._show():
                    return True
                self._send()
        return False

    def _choose_events(self, selector: selectors.BaseSelector) -> None:
        selector.modify(self.line, selectors.EVENT_READ | (selectors.EVENT_WRITE if self.waiting else 0))
        reads = INPUT_FD in selector.get_map()
        if self.waiting and reads:
            selector.unregister(INPUT_FD)
        elif not self.waiting and not reads:
            selector.register(INPUT_FD, selectors.EVENT_READ)

    def _take_keys(self) -> None:
        try:
            typed = os.read(INPUT_FD, KEYS_BYTES)
        except OSError:
            typed = b""
        self.left = not typed  # the terminal has gone
        try:
            self._say(Message.KEYS, self.keys.take(typed))
        except Detached as detached:
            self.left = True
            self._say(Message.KEYS, detached.typed)
        except Quit:
            self._say(Message.END)

    def _say_size(self) -> None:
        if size := window_size():
            self._say(Message.SIZE, WINDOW.pack(*size))

    def _say(self, kind: Message, data: bytes = b"") -> None:
        self.waiting.append(attached.encode(kind, data))

    def _send(self) -> None:
        """Send what the guest's end takes; that the line has broken is read from it."""
        try:
            while self.waiting:
                self.line.send(self.waiting[0])
                self.waiting.popleft()
        except BlockingIOError:
            return
        except ConnectionError:
            self.waiting.clear()

    def _show(self) -> bool:
        """Show what the console shows; false at its end."""
        try:
            shown = self.line.recv(attached.READ_BYTES)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        rest = shown
        while rest:
            rest = rest[os.write(OUTPUT_FD, rest) :]
        return bool(shown)


def _report(guest: slot.Slot, owner: int) -> bool:
    """Say why the line was closed: the guest ended, which is true, or we read nothing for too long."""
    if not ends(owner, END_S):
        say(f"{guest.name} continues: this terminal had read nothing for {attached.STALLED_S:g} s; attach it again")
        return False
    sys.stderr.write(process.tail(detached.output_log(guest)))
    sys.stderr.flush()
    say(f"{guest.name} has ended")
    return True
