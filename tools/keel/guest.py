# SPDX-License-Identifier: GPL-2.0-only
"""Runs one guest to its end: starts the emulator, carries bytes, and says how it ended."""

import array
import fcntl
import os
import selectors
import signal
import socket
import subprocess
import termios
import time
import tty
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import BinaryIO, TypeAlias

from . import attached, bochs, complaints, emulators, machine, plain, process, qemu, share
from .boundedlog import BoundedLog
from .channel import PORT, SERIAL, STATUS_WHOLE, UNANSWERED, WINDOW, BrokenChannel, Capacity, Channel, Frame, Kind
from .config import Settings
from .console import BootLog, End, Watcher
from .debugger import Dialogue
from .errors import Interrupted, KeelError
from .outputs import Outputs
from .progress import say
from .slot import Slot
from .terminal import END_OF_INPUT, Keys, RawTerminal, Signals, window_size

READ_BYTES = 65536
INPUT_FD = 0
# How a shell answers to the end of input within a line, which is no prompt.
BELL = b"\a"
# How long a guest may take to power off after its command's status has come.
POWER_OFF_GRACE_S = 10.0
# The same where an init ends its services first, each of which may take 90 s, or where a disk that is kept is still written.
LONG_GRACE_S = 100.0
# Beside what a guest has given credit for, many times what waits where it keeps to that: only one that fills our memory
# reaches it.
MOST_WAITING = 1 << 16
# How the root task's lines begin.
ROOT_SPEAKS = b"root: "
# What the root task logs when it has restarted Linux. Programs cannot write to that log, unlike
# to Linux's console.
STARTED_AGAIN = b": restarted, "
# How much may wait for our reader before the guest's console and log wait, too. A command's output waits by its credit.
MOST_UNREAD = READ_BYTES
# How long our reader may take for what is left of a guest that was stopped.
STOPPED_READER_S = 2.0
# How long a shell may take to show its prompt after it has sent the prompt frame. After that it is
# taken to show none.
PROMPT_GRACE_S = 2.0
# How long the debugger's answers may take.
DEBUGGER_GRACE_S = 120.0


@dataclass
class Plan:
    """What a run is to do beside starting the emulator."""

    slot: Slot
    command: bytes | None = None
    timeout_s: float | None = None
    power_off_s: float = POWER_OFF_GRACE_S
    # What the guest writes to its disks is kept.
    keeps: bool = False
    # Called with each piece of the µ-kernel's log, or of the console; true ends the guest.
    watch_log: Callable[[bytes], bool] | None = None
    watch_console: Callable[[bytes], bool] | None = None
    # Called with each piece of the command's output (1) or error output (2), which then go nowhere else; true ends the guest.
    take_output: Callable[[int, bytes], bool] | None = None
    # What is typed at a console that is watched when this has come from it: these keys, or the user's where there are none.
    prompt: bytes | None = None
    keys: bytes = b""
    # What is said to the kernel's debugger when the guest would be ended; its end is the guest's.
    debugger: Dialogue | None = None
    # The firmware writes to the serial lines before the guest does.
    firmware_speaks: bool = False
    # The guest is ended where the root task has not begun by then.
    begins_s: float | None = None
    # Called where the guest is ended for want of time, before that.
    on_timeout: Callable[[], None] | None = None
    # Called once, when the guest has its command, or an init in it listens where there is none.
    on_up: Callable[[], None] | None = None
    # Where a terminal can be attached to a guest without a command, which has no use for our own then.
    console: Path | None = None
    # The processor of Bochs, where that is the emulator.
    bochs: str | None = None


@dataclass
class Outcome:
    """How a guest ended."""

    emulator_status: int | None = None
    command_status: int | None = None
    console_end: End | None = None
    timed_out: bool = False
    # Linux was restarted before its command had ended.
    restarted: bool = False
    console_log: Path = Path()
    kernel_log: Path = Path()
    emulator_log: Path = Path()
    # The root task has written a line, or Linux, which it starts.
    begun: bool = False


# One end of a serial line that goes both ways.
LineEnd: TypeAlias = socket.socket | FileIO


class _Line:
    """One serial line with bytes that wait to be written: our end of a socket pair, or of a terminal, which Bochs needs."""

    def __init__(self, stack: ExitStack, *, of_bochs: bool) -> None:
        self.ours: LineEnd
        self.theirs: LineEnd
        if of_bochs:
            self.ours, self.theirs = _terminal()
        else:
            self.ours, self.theirs = socket.socketpair()
        for end in (self.ours, self.theirs):
            stack.callback(end.close)
        self.of_bochs = of_bochs
        os.set_blocking(self.ours.fileno(), False)
        self.waiting = bytearray()

    @property
    def backend(self) -> str:
        """The emulator's end, in its syntax."""
        fd = self.theirs.fileno()
        return bochs.TERMINAL.format(os.ttyname(fd)) if self.of_bochs else f"socket,fd={fd}"

    def read(self) -> bytes:
        try:
            return os.read(self.ours.fileno(), READ_BYTES)
        except OSError:  # there is nothing, or nobody at the other end
            return b""

    def has_input(self) -> bool:
        """Whether bytes, and not just the end, can be read at once."""
        return _waits_at(self.ours)

    def write(self) -> None:
        """Write what waits, as far as the emulator takes it."""
        if not self.waiting:
            return
        try:
            sent = os.write(self.ours.fileno(), self.waiting)
        except OSError:
            return
        del self.waiting[:sent]


def _terminal() -> tuple[FileIO, FileIO]:
    """A terminal that changes no byte: our end, and the emulator's."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    return os.fdopen(ours, "r+b", buffering=0), os.fdopen(theirs, "r+b", buffering=0)


def _waits_at(end: LineEnd) -> bool:
    """Whether bytes can be read there."""
    count = array.array("i", [0])
    fcntl.ioctl(end, termios.FIONREAD, count)
    return count[0] > 0


class _Output:
    """A serial line that only says something: our end of a pipe.

    A socket takes 278 unread bytes that are written one by one, and a pipe 65,536. Where the emulator cannot write, the guest
    waits for its line, and on the deterministic clock that is time of the guest's.
    """

    def __init__(self, stack: ExitStack, *, of_bochs: bool) -> None:
        ours, theirs = os.pipe()
        self.ours = stack.enter_context(os.fdopen(ours, "rb", buffering=0))
        self.theirs = stack.enter_context(os.fdopen(theirs, "wb", buffering=0))
        os.set_blocking(ours, False)
        self.of_bochs = of_bochs
        self.waiting = bytearray()

    @property
    def backend(self) -> str:
        """The emulator's end, in its syntax."""
        file = f"/dev/fd/{self.theirs.fileno()}"
        return bochs.FILE.format(file) if self.of_bochs else f"file,path={file}"

    def read(self) -> bytes:
        return self.ours.read(READ_BYTES) or b""

    def has_input(self) -> bool:
        """Whether bytes, and not just the end, can be read at once."""
        return _waits_at(self.ours)

    def write(self) -> None:
        """Nothing waits."""


class _FramedLine(_Line):
    """A line with the framed channel on it."""

    def __init__(self, stack: ExitStack, capacity: Capacity, *, firmware_speaks: bool, of_bochs: bool) -> None:
        super().__init__(stack, of_bochs=of_bochs)
        self.channel = Channel(capacity, firmware_speaks=firmware_speaks)

    def write(self, *, gives_credit: bool = True) -> None:
        """The same for what the channel lets go; an error where the guest lets go more and more, and reads nothing."""
        if not self.waiting:
            self.waiting += self.channel.take_outgoing(gives_credit=gives_credit)
        super().write()
        if len(self.waiting) + self.channel.outgoing > self.channel.capacity.credit + MOST_WAITING:
            raise BrokenChannel("it reads nothing")


class _Run:
    """The state of a running guest; one method for each source of events."""

    def __init__(self, settings: Settings, plan: Plan, stack: ExitStack, *, has_port: bool) -> None:
        self.plan = plan
        self.interactive = plan.command is None and plan.watch_log is None
        self.outcome = Outcome(
            console_log=plan.slot.log("console"),
            kernel_log=plan.slot.log("kernel"),
            emulator_log=plan.slot.log("emulator"),
        )
        of_bochs, firmware_speaks = plan.bochs is not None, plan.firmware_speaks
        self.console, self.log = _Line(stack, of_bochs=of_bochs), _Output(stack, of_bochs=of_bochs)
        self.debugger = _Line(stack, of_bochs=of_bochs) if plan.debugger else None
        self.exec = _FramedLine(stack, SERIAL, firmware_speaks=firmware_speaks, of_bochs=of_bochs)
        self.port = _FramedLine(stack, PORT, firmware_speaks=firmware_speaks, of_bochs=of_bochs) if has_port else None
        # How the machine ends is told in words where the emulator does not end by itself.
        self.console_words, self.log_words = bochs.LastWords(by_root=False), bochs.LastWords(by_root=True)
        # That on which the init has said that it is there: where Linux has no devices, there is no port in it.
        self.channel = self.exec.channel
        self.speaker: _FramedLine | None = None
        self.console_file = stack.enter_context(BoundedLog(self.outcome.console_log))
        self.kernel_file = stack.enter_context(BoundedLog(self.outcome.kernel_log))
        self.debugger_file = _log_file(plan.slot.log("debugger"), stack)
        self.emulator_file = _log_file(self.outcome.emulator_log, stack)
        self.verbose = settings.verbose
        self.outputs = Outputs(stack)
        self.plain_console, self.plain_log = plain.Stream(), plain.Stream()
        self.watcher = Watcher()
        self.boot_log = BootLog()
        # The init of the Linux that runs now reads frames. Before that they would be lost, echoed,
        # or cut in the middle.
        self.listens = False
        self.stopping = False
        self.log_tail = b""
        self.attached = stack.enter_context(attached.Server(plan.console)) if plan.console else None
        at_terminal = self.interactive and not self.attached and os.isatty(INPUT_FD)
        self.resizes = stack.enter_context(Signals(signal.SIGWINCH)) if at_terminal else None
        self.stops = stack.enter_context(Signals(signal.SIGUSR1))
        self.keys = Keys()
        # What was typed before the shell's prompt: before that its terminal is in another mode, where the end of a file is lost.
        self.typed_ahead = bytearray()
        self.ready = self.up = False
        self.prompt_due = float("inf")
        self.shown = bytearray()
        # The µ-kernel's log before the root task's first line.
        self.heard = bytearray()
        self.keyed = (self.interactive and not self.attached) or (plan.prompt is not None and not plan.keys)
        self.input_ended = self.attached is not None or (plan.watch_log is not None and not self.keyed)
        self.over = False
        self.handlers = self._handlers()

    def on_console(self) -> None:
        """Linux's console: to the log, and to the user where the user is at it."""
        data = self.console.read()
        self.outcome.begun |= bool(data) and not self.plan.firmware_speaks
        self.console_file.write(data)
        self.watcher.feed(data)
        self.console_words.feed(data)
        if self.interactive:
            self._show(data)
            # Where the end of our input came while a command ran, it was the command's: the shell hears of it at its next prompt.
            if self.begun and self.keyed and self.input_ended and not data.endswith((b"\n", BELL)):
                self.console.waiting += END_OF_INPUT
        elif self.verbose:
            self.outputs.write(2, self.plain_console.feed(data))
        if self.plan.prompt and not self.ready:
            self.shown += data
            self.ready = self.plan.prompt in self.shown
            del self.shown[: -len(self.plan.prompt)]
            self.console.waiting += self.plan.keys if self.ready else b""
        if self.plan.watch_console and self.plan.watch_console(data):
            self.finish()

    def _show(self, data: bytes) -> None:
        """To the user at the console: all after the boot log."""
        after = self.boot_log.feed(data)
        shown = data if self.verbose else after
        if self.attached:
            self.attached.show(shown)
        else:
            self.outputs.write(1, shown)
        self.keys.prompt_shown = self.boot_log.has_prompt
        if self.begun:
            self._pass_typed_ahead()

    def on_log(self) -> None:
        """The µ-kernel's log."""
        data = self.log.read()
        self.heard += b"" if self.outcome.begun else data
        self.outcome.begun |= ROOT_SPEAKS in self.heard
        log = self.log_tail + data
        self.log_tail = log[1 - len(STARTED_AGAIN) :]
        if STARTED_AGAIN in log:
            self.listens, self.speaker = False, None
        self.kernel_file.write(data)
        self.log_words.feed(data)
        if self.verbose:
            shown = self.plain_log.feed(data)
            self.outputs.write(2, shown.replace(b"\n", b"\r\n") if self.interactive else shown)
        if self.plan.watch_log and self.plan.watch_log(data):
            self.finish()

    def finish(self) -> None:
        """The guest's end, or the beginning of what the debugger is asked."""
        if self.debugger and self.plan.debugger and not self.plan.debugger.begun:
            self.debugger.waiting += self.plan.debugger.begin()
        elif self.debugger is None:
            self.over = True

    def on_debugger(self) -> None:
        """The kernel's console, where the debugger answers."""
        if self.debugger and self.plan.debugger:
            data = self.debugger.read()
            self.debugger_file.write(data)
            self.debugger.waiting += self.plan.debugger.hear(data)
            self.over = self.plan.debugger.over

    def on_frames(self, line: _FramedLine) -> None:
        """Take frames from the guest's init. What others write to the serial line, when it is not the init's, is dropped."""
        data = line.read()
        if not self._is_heard(line) and self.log.has_input():
            self.on_log()  # a restart, after which it may be another one
        for frame in line.channel.receive(data) if self._is_heard(line) else []:
            self._on_frame(line, frame)

    def _is_heard(self, line: _FramedLine) -> bool:
        """Tell whether the init may speak on a line: only root can write to the port, and users of a group to the other one."""
        return self.speaker in (None, line) or line is self.port

    def _on_frame(self, line: _FramedLine, frame: Frame) -> None:
        if frame.kind in (Kind.READY, Kind.LISTENS):
            self.speaker, self.channel = line, line.channel
        elif self.speaker is None and frame.kind not in UNANSWERED:
            return
        if frame.kind is Kind.READY or (frame.kind in UNANSWERED and self.interactive):
            self._on_up()
        if frame.kind is Kind.READY:
            self._on_ready()
        elif frame.kind is Kind.PROMPT:
            self.keys.guest_ready = True
            if self.interactive:
                self.prompt_due = min(self.prompt_due, time.monotonic() + PROMPT_GRACE_S)
        elif frame.kind is Kind.LISTENS:
            self._on_listens()
        elif frame.kind is Kind.STDOUT:
            self.take_output(1, frame.data)
        elif frame.kind is Kind.STDERR:
            self.take_output(2, frame.data)
        elif frame.kind is Kind.STATUS and frame.data[1:] == bytes([STATUS_WHOLE]):
            self.outcome.command_status = frame.data[0]
            if self.debugger:
                self.finish()

    def take_output(self, fd: int, data: bytes) -> None:
        """What the command has written: to whoever wants it, else where our own output goes."""
        if self.plan.take_output is None:
            self.outputs.write(fd, data)
        elif self.plan.take_output(fd, data):
            self.finish()

    def _handlers(self) -> list[tuple[_Line | _Output, Callable[[], None]]]:
        """The lines and what to do when something has come over them."""
        return [
            (self.console, self.on_console),
            (self.exec, partial(self.on_frames, self.exec)),
            (self.log, self.on_log),
            *([(self.debugger, self.on_debugger)] if self.debugger else []),
            *([(self.port, partial(self.on_frames, self.port))] if self.port else []),
        ]

    def status_of(self, child: subprocess.Popen[bytes]) -> int | None:
        """QEMU's status at its end, or what it would be in place of Bochs; None as long as the guest runs."""
        if self.plan.bochs and (code := bochs.code_of(self.console_words, self.log_words)) is not None:
            return machine.emulator_status(code)
        return child.poll()

    def read_rest(self) -> None:
        """Take what the emulator wrote just before its end."""
        for line, handler in self.handlers:
            while line.has_input():
                handler()

    def _on_ready(self) -> None:
        """The init listens: what is sent before that is lost in the guest's serial port.

        Where it is not the first one, nobody can tell what the command has done, and input that it has read is lost.
        """
        if self.ready and self.plan.command is not None:
            self.outcome.restarted = self.over = True
            return
        self.ready = self.keys.guest_ready = self.outcome.begun = True
        self._pass_typed_ahead()
        if self.plan.command is not None:
            self.channel.send(Kind.COMMAND, self.plan.command)
            self.channel.send(Kind.COMMAND, b"")

    def _on_up(self) -> None:
        if self.plan.on_up and not self.up:
            self.plan.on_up()
        self.up = True

    def _on_listens(self) -> None:
        """An init listens and knows the terminal's size at boot; after a restart it is another init."""
        if self.log.has_input():
            self.on_log()  # the restart itself, which came first
        self.listens = True
        self.on_resize()
        if self.stopping:
            self.channel.send_at_once(Kind.STOP)

    def _pass_typed_ahead(self) -> None:
        self.console.waiting += self.typed_ahead
        self.typed_ahead.clear()

    def on_resize(self) -> None:
        """The terminal's size may be another than the guest knows of."""
        if self.resizes:
            self.resizes.take()
        size = self.attached.size if self.attached else window_size() if self.resizes else None
        if self.listens and size:
            self.channel.send_latest(Kind.WINDOW, WINDOW.pack(*size))

    def on_stop(self) -> None:
        """`./keel stop`: the guest is to power off, or is ended where nothing in it listens."""
        self.stops.take()
        if not self.listens and (self.plan.command is None or not self.ready):
            self._note_cut_off()
            raise Interrupted
        self.stopping = True
        self.channel.send_at_once(Kind.STOP)

    def _note_cut_off(self) -> None:
        """Say, to the user and to who stops the guest, that it ends while it may write to a disk that it keeps."""
        if self.plan.keeps:
            self.plan.slot.note_cut_off()
            say(f"nothing in {self.plan.slot.name} listens, and it is ended: disks that it keeps may be damaged")

    def on_input(self) -> None:
        """The user's keys or the command's standard input."""
        try:
            data = os.read(INPUT_FD, READ_BYTES)
        except OSError:
            data = b""  # closed, or a terminal that has gone
        self.input_ended = not data
        if self.keyed:
            passed = self.keys.take(data) if os.isatty(INPUT_FD) else data
            passed = passed or (END_OF_INPUT if not data else b"")
            if self.interactive:
                self._type(passed)
            # What is typed before the prompt would be lost in the serial port at times.
            elif self.ready or not self.plan.prompt:
                self.console.waiting += passed
        else:
            self.channel.send(Kind.STDIN, data)

    def _type(self, keys: bytes) -> None:
        """Keys for the guest's shell. It may show no prompt, but once it has said that it does, it reads what is typed."""
        self.typed_ahead += keys
        if self.begun or self.keys.guest_ready:
            self._pass_typed_ahead()

    def on_attached(self) -> None:
        """A terminal is attached to the console, or says something."""
        if not self.attached:
            return
        size = self.attached.size
        self._type(self.attached.take())
        if self.attached.size != size:
            self.on_resize()

    @property
    def begun(self) -> bool:
        """Whether what is typed is read in the guest."""
        return self.ready or self.keys.prompt_shown or time.monotonic() >= self.prompt_due

    @property
    def looks_again(self) -> float:
        """When the guest has to be looked at even if no event comes."""
        stalled = self.attached.looks_again if self.attached else float("inf")
        return stalled if self.begun else min(stalled, self.prompt_due)

    def wants_input(self) -> bool:
        """Whether more of the standard input can be taken now."""
        if self.input_ended:
            return False
        if self.keyed:
            at_keyboard = os.isatty(INPUT_FD) and not self.plan.prompt
            return not self.console.waiting and (self.begun or at_keyboard)
        return self.ready and self.channel.wants_input

    def takes(self, line: _Line | _Output) -> bool:
        """Whether what the guest writes on a line can be taken now, or waits for a reader of ours that is slow.

        A command's output comes as far as its credit goes, so that its init can still write, and hears that it is to stop.
        """
        if line is self.console and self.attached and self.attached.behind:
            return False
        most = line.channel.capacity.credit + MOST_WAITING if isinstance(line, _FramedLine) else MOST_UNREAD
        return self.outputs.size < most

    def write_lines(self) -> None:
        """Hand the emulator, our reader, and a terminal that is attached, what waits for each."""
        if self.interactive and self.begun:
            self._pass_typed_ahead()
        self.outputs.flush()
        for line, _ in self.handlers:
            if isinstance(line, _FramedLine):
                line.write(gives_credit=not self.outputs.size)
            else:
                line.write()
        if self.attached:
            self.attached.write()


def _log_file(path: Path, stack: ExitStack) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(path.open("wb", buffering=0))


def run(settings: Settings, guest: qemu.Guest, plan: Plan) -> Outcome:
    """Start the guest and stay with it until it has ended."""
    with closing(ExitStack()) as stack:
        state = _Run(settings, plan, stack, has_port=guest.port is not None)
        lines = [line for line, _ in state.handlers]
        described = replace(
            guest,
            console=state.console.backend,
            exec=state.exec.backend,
            log=state.log.backend,
            debugger=state.debugger.backend if state.debugger else None,
            port=state.port.backend if state.port else None,
        )
        argv = (
            bochs.command(described, plan.bochs, plan.slot, tells_faults=True)
            if plan.bochs
            else share.confined(emulators.command(settings, described), described.shares)
        )
        if state.keyed:
            stack.enter_context(RawTerminal())
        child = process.start(
            argv,
            pass_fds=[line.theirs.fileno() for line in lines],
            stdout=state.emulator_file.fileno(),
            stderr=subprocess.STDOUT,
            cwd=plan.slot.private if plan.bochs else None,
        )
        try:
            for line in lines:
                line.theirs.close()
            _attend(state, child)
        except BrokenChannel as error:
            raise KeelError(f"the guest broke the exec channel: {error}", f"see {state.outcome.console_log}") from error
        finally:
            process.end(child)
            complaints.note(state.outcome.console_log)
    state.outcome.console_end = state.watcher.end
    return state.outcome


def _attend(state: _Run, child: subprocess.Popen[bytes]) -> None:
    """Serve the lines until the emulator ends, the time is up, or the run is over."""
    limit = state.plan.timeout_s
    deadline = time.monotonic() + limit if limit else float("inf")
    powers_off = float("inf")
    begins = time.monotonic() + state.plan.begins_s if state.plan.begins_s else float("inf")
    ended = os.pidfd_open(child.pid)
    try:
        # poll, because epoll refuses standard input that is a plain file
        with selectors.PollSelector() as selector:
            while not state.over and state.outcome.emulator_status is None:
                if time.monotonic() >= deadline and state.plan.debugger and not state.plan.debugger.begun:
                    state.finish()
                    deadline = time.monotonic() + DEBUGGER_GRACE_S
                if time.monotonic() >= min(deadline, powers_off):
                    state.outcome.timed_out = state.outcome.command_status is None
                    if state.outcome.timed_out and state.plan.on_timeout:
                        state.plan.on_timeout()
                    break
                if not state.outcome.begun and time.monotonic() >= begins:
                    return
                _choose_events(selector, state, ended)
                soon = min(deadline, powers_off, state.looks_again, float("inf") if state.outcome.begun else begins)
                _serve(selector, state, soon)
                state.outcome.emulator_status = state.status_of(child)
                # It powers off when it has the credit for all of its output, which is when our reader has that.
                if state.outcome.command_status is not None and not state.debugger and not state.outputs.size:
                    powers_off = min(powers_off, time.monotonic() + state.plan.power_off_s)
        if state.outcome.emulator_status is not None:  # else a guest that runs on could keep us here
            state.read_rest()
        _hand_over(state, deadline)
    finally:
        os.close(ended)


def _hand_over(state: _Run, deadline: float) -> None:
    """Wait for our reader to take the rest of the output, until the time is up, or a little where the guest was stopped.

    A command whose output is not taken whole has no status. `./keel stop` ends the wait.
    """
    if state.stopping:
        deadline = min(deadline, time.monotonic() + STOPPED_READER_S)
    while state.outputs.size:
        with selectors.PollSelector() as selector:
            selector.register(state.stops, selectors.EVENT_READ)
            selector.register(state.outputs, selectors.EVENT_WRITE)
            wait = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
            ready = [key.fileobj for key, _ in selector.select(wait)]
        if state.stops in ready:
            raise Interrupted
        if not ready:
            state.outputs.clear()
            state.outcome.command_status = None
            state.outcome.timed_out = not state.stopping
        state.outputs.flush()


def _choose_events(selector: selectors.BaseSelector, state: _Run, ended: int) -> None:
    """Say what to wait for now: the emulator's end, every line's input, and outputs where bytes wait."""
    wanted: dict[int, tuple[int, Callable[[], None]]] = {ended: (selectors.EVENT_READ, lambda: None)}
    wanted[state.stops.fileno()] = selectors.EVENT_READ, state.on_stop
    for line, handler in state.handlers:
        wanted[line.ours.fileno()] = _events(state.takes(line), bool(line.waiting)), handler
    wanted[INPUT_FD] = _events(state.wants_input(), False), state.on_input
    if state.outputs.size:
        wanted[state.outputs.fileno()] = selectors.EVENT_WRITE, lambda: None
    if state.attached:
        wanted[state.attached.fileno()] = _events(not state.console.waiting, state.attached.behind), state.on_attached
    if state.resizes:
        wanted[state.resizes.fileno()] = selectors.EVENT_READ, state.on_resize
    for fd in set(selector.get_map()) - set(wanted):
        selector.unregister(fd)  # of a terminal that has gone, or of the door while there is one
    for fd, (events, handler) in wanted.items():
        _set_events(selector, fd, events, handler)


def _events(reads: bool, writes: bool) -> int:
    return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)


def _set_events(selector: selectors.BaseSelector, fd: int, events: int, handler: Callable[[], None]) -> None:
    key = selector.get_map().get(fd)
    if key and events and key.events != events:
        selector.modify(fd, events, handler)
    elif key and not events:
        selector.unregister(fd)
    elif not key and events:
        selector.register(fd, events, handler)


def _serve(selector: selectors.BaseSelector, state: _Run, deadline: float) -> None:
    wait = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
    for key, events in selector.select(wait):
        if events & selectors.EVENT_READ:
            key.data()
    state.write_lines()
