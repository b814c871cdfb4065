# SPDX-License-Identifier: GPL-2.0-only
"""The only module that starts other programs.

A child never outlives us: the kernel kills it when its parent dies, and we end
it with its own children when we stop early.
"""

import contextlib
import ctypes
import errno
import os
import re
import select
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from .errors import FREE_SPACE, KeelError, system_error
from .measures import Measure
from .progress import Far, Step

PR_SET_PDEATHSIG = 1
TAIL_LINES = 15
END_GRACE_S = 3.0
# A line that a program draws again ends with the second one.
LINE_END = re.compile(rb"[\n\r]")

# Where the output of builds goes besides their logs: nowhere, or to our error output.
_shown: list[int] = []
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def show_logged() -> None:
    """From now on, show what would only be logged."""
    _shown[:] = [sys.stderr.fileno()]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The child's environment: ours, with messages in one language."""
    return {**os.environ, "LC_ALL": "C.UTF-8", **(extra or {})}


def start(
    argv: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    stdout: int | None = None,
    stderr: int | None = None,
    stdin: int | None = subprocess.DEVNULL,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    own_session: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, so that Ctrl-C reaches only us; in ours it can ask at the terminal."""
    try:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            cwd=cwd,
            env=environment(env),
            start_new_session=own_session,
            preexec_fn=_die_with_parent,
        )
    except FileNotFoundError as error:
        raise KeelError(f"{argv[0]} is not there", "./keel doctor says what is missing") from error
    except PermissionError as error:
        raise KeelError(f"{argv[0]} cannot be started: {error.strerror}") from error


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child and all its descendants."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        try:
            child.wait(END_GRACE_S)
            if number == signal.SIGTERM:
                continue  # its own children may still be there
            return
        except subprocess.TimeoutExpired:
            continue


def tail(path: Path) -> str:
    """The last lines of a log, for the user to see before the one-line error."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-TAIL_LINES:])


def _failure(what: str, log: Path, remedy: str, explain: Callable[[str], KeelError | None]) -> KeelError:
    text = log.read_text(errors="replace") if log.exists() else ""
    if reason := explain(text):
        return reason
    if os.strerror(errno.ENOSPC) in text:
        return KeelError(f"{what} failed: the disk is full", FREE_SPACE)
    print(tail(log), file=sys.stderr)
    return KeelError(f"{what} failed", remedy or f"the whole output is in {log}")


def run_logged(
    argv: Sequence[str],
    *,
    what: str,
    log: Path,
    step: Step | None = None,
    measure: Measure | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    remedy: str = "",
    explain: Callable[[str], KeelError | None] = lambda log: None,
    asks: bool = False,
) -> None:
    """Run a program to its end with its output in a log; fail with the log's tail shown.

    `measure` turns a line of output into "how far" for the step, `explain` the log into an error where it knows a better one.
    A program that `asks`, as sudo for a password, has the terminal for itself until it writes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb", buffering=0) as file:  # unbuffered: others may read it meanwhile
        child = start(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, env=env, own_session=not asks)
        try:
            _copy_lines(child, file.write, step, measure, shows=not asks)
            status = child.wait()
        except OSError as error:
            raise system_error(f"{what} failed", error, f"see {log}") from error
        finally:
            if child.poll() is None:
                end(child)
    if status != 0:
        raise _failure(what, log, remedy, explain)


def _copy_lines(
    child: subprocess.Popen[bytes],
    write: Callable[[bytes], object],
    step: Step | None,
    measure: Measure | None,
    *,
    shows: bool,
) -> None:
    """Write what the program writes, and show how far it is, once it has written something if not before."""
    assert child.stdout is not None
    how_far: str | Far = "running"
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        rest = b""
        while True:
            if selector.select(1.0):
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    return
                write(data)
                shows = True
                for fd in _shown:
                    os.write(fd, data)
                *lines, rest = LINE_END.split(rest + data)
                for line in lines:
                    how_far = measure(line) or how_far if measure else how_far
            if step and shows:
                step.update(how_far)


def run_beside(programs: Mapping[Path, Sequence[str]], most: int) -> Iterator[tuple[Path, int]]:
    """Run programs in parallel, at most this many, each with all its output in its own log.

    Gives the log and the exit status of each as it ends; those that still run are ended if the caller stops iterating.
    """
    waiting = list(programs.items())
    running: dict[int, tuple[Path, subprocess.Popen[bytes]]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < most:
                log, argv = waiting.pop(0)
                log.parent.mkdir(parents=True, exist_ok=True)
                with log.open("wb") as file:
                    child = start(argv, stdout=file.fileno(), stderr=subprocess.STDOUT)
                running[os.pidfd_open(child.pid)] = log, child
            for ended in select.select(list(running), [], [])[0]:
                log, child = running.pop(ended)
                os.close(ended)
                yield log, child.wait()
    finally:
        for descriptor, (_, child) in running.items():
            os.close(descriptor)
            end(child)


def output(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> str:
    """The standard output of a short program; KeelError if it fails."""
    child = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    try:
        said, complaint = child.communicate()
    finally:
        if child.poll() is None:
            end(child)
    if child.returncode != 0:
        reason = complaint.decode(errors="replace").strip().splitlines()
        raise KeelError(f"{argv[0]} failed: {reason[-1] if reason else f'status {child.returncode}'}")
    return said.decode(errors="replace")


def status_of(argv: Sequence[str], timeout_s: float) -> int | None:
    """The exit status of a silent program, or None if it did not end in time."""
    child = start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.poll() is None:
            end(child)


def run_shown(argv: Sequence[str], *, cwd: Path | None = None) -> int:
    """Run a program on the user's terminal and return its exit status."""
    try:
        return subprocess.run(argv, cwd=cwd, check=False).returncode
    except FileNotFoundError as error:
        raise KeelError(f"{argv[0]} is not there", "./keel doctor says what is missing") from error


def become(argv: list[str]) -> NoReturn:
    """Replace this process by a program that belongs to the user from now on, Ctrl-C included."""
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise system_error(f"{argv[0]} cannot be started", error) from error
