# SPDX-License-Identifier: GPL-2.0-only
"""The guest's shell at a real terminal: the output before the prompt, Ctrl-C at any moment, resizing, and how to leave it."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import REPOSITORY, SYSTEMS, keel, run_guest, run_options

POWERED_OFF, REBOOTED, PANICKED, INTERRUPTED = 110, 111, 112, 130
# A shell reports 130 for both. Before there is anything to clean up, the signal itself ends the command.
ENDS_OF_INTERRUPTED = (INTERRUPTED, -signal.SIGINT)
PROMPT = b"root@keel:~# "
# Bash's output before it runs a command line.
LINE_TAKEN = b"\x1b[?2004l"
# Reports that it runs, and that it continues. It starts no program: where the stop comes to a child between vfork() and execve(),
# the parent that waits for it cannot stop.
STOPPABLE = b"bash -c 'trap \"echo again\" CONT; echo runs; while :; do read -t 1; done'"
KEY_INTERRUPT, KEY_SUSPEND, KEY_END, KEY_DELETE = b"\x03", b"\x1a", b"\x04", b"\x7f"
LIMIT_S = 180
STEP_S = 0.05
KEYS_S = 1
# Part of a line of the boot log.
BOOT_LINE = b"console [ttyS0] enabled"
# The profile of a login shell, which takes a while and needs only bash.
SLOW_PROFILE = 'echo begins; i=0; while ((i < 5000)); do ((i += 1)); done; PROFILE=whole; PS1="prompt> "\n'
SLOW_PROMPT = b"prompt> "
# Runs a command in a session with this controlling terminal, so that it gets the signals of resizing and Ctrl-C.
STARTS = b"starts"
AT_TERMINAL = """import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
print("starts", flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""
both = pytest.mark.parametrize("system", SYSTEMS)


class Terminal:
    """`./keel run` at a terminal of its own."""

    def __init__(self, child: "subprocess.Popen[bytes]", fd: int) -> None:
        self.child = child
        self.fd = fd
        self.heard = b""
        self.before = b""

    def read(self, until: float) -> bool:
        """Read the next output; false at the end of the output or after the timeout."""
        if not select.select([self.fd], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.heard += data
        return bool(data)

    def hears(self, text: bytes) -> bool:
        """Read until the text has come; false if the output ends first."""
        until = time.monotonic() + LIMIT_S
        while text not in self.heard:
            if not self.read(until):
                return False
        self.before, _, self.heard = self.heard.partition(text)
        return True

    def wait_for(self, text: bytes) -> bytes:
        """Read until the text has come; return the output before it."""
        assert self.hears(text), f"no {text!r}: {self.heard[-2000:]!r}"
        return self.before

    def listen(self, seconds: float) -> None:
        """Read for that long."""
        until = time.monotonic() + seconds
        while self.read(until):
            pass

    def say(self, text: bytes) -> None:
        """Type as much as possible: a terminal that no process reads any more accepts no keys."""
        until = time.monotonic() + LIMIT_S
        while text and self.child.poll() is None:
            assert time.monotonic() < until, f"no key can be typed: {self.heard[-2000:]!r}"
            if not select.select([], [self.fd], [], STEP_S)[1]:
                continue
            try:
                text = text[os.write(self.fd, text) :]
            except BlockingIOError:
                continue
            except OSError:  # the other end is closed
                return

    def run(self, line: bytes) -> list[bytes]:
        """Type a command line at the prompt; return the lines before the next prompt."""
        self.say(line + b"\r")
        self.wait_for(LINE_TAKEN + b"\r")
        return self.wait_for(PROMPT).replace(b"\r", b"").splitlines()

    def resize(self, rows: int, columns: int) -> None:
        """Resize the terminal as a window does."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def leave(self, prompt: bytes, line: bytes) -> None:
        """
        Type the line at the next prompt, if there is one before the end. After a signal readline may wait for a key before it
        handles the signal, and drops that key. Keys that are typed too early are dropped with those from before the signal.
        """
        until = time.monotonic() + LIMIT_S
        while self.child.poll() is None and time.monotonic() < until:
            self.say(b"\r" + (line + b"\r" if prompt in self.heard else b""))
            self.listen(KEYS_S)

    def end(self) -> int:
        """Read the rest; returns the status."""
        self.listen(LIMIT_S)
        return self.child.wait(timeout=LIMIT_S)


@contextmanager
def terminal(
    *arguments: str, command: Path = REPOSITORY / "keel", environment: Mapping[str, str] = os.environ
) -> Iterator[Terminal]:
    """The command, this clone's or another one, at a terminal of 30 rows and 90 columns; its process is ended after the test."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    os.set_blocking(ours, False)
    child = subprocess.Popen(
        [sys.executable, "-c", AT_TERMINAL, sys.executable, str(command), *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**environment, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    try:
        yield Terminal(child, ours)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()
        os.close(ours)


@both
def test_nothing_is_seen_but_the_shell(system: str) -> None:
    """No boot log comes before the prompt, no line of Linux's log after it, and the mark that reports the prompt to the host is
    hidden.
    """
    with terminal(*run_options(system)) as shell:
        shell.say(b"echo typed ahead\r")
        shown = shell.wait_for(PROMPT)
        # The terminal's own echo is the only one before the prompt.
        assert (shown.splitlines()[-1], shown.count(b"typed ahead")) == (b"\x1b[?2004h", 1)
        before = shell.wait_for(LINE_TAKEN)
        assert before == b"echo typed ahead\r\n"
        shell.wait_for(PROMPT)
        assert shell.run(b"stty size; echo $LANG; echo alert > /dev/kmsg; env | grep -E '^(ENV|PROMPT_COMMAND)='") == [
            b"30 90",
            b"C.UTF-8",
            b"\x1b[?2004h",
        ]
        assert shell.run(b"dmesg | grep -c alert") == [b"1", b"\x1b[?2004h"]
        assert shell.run(b"for i in nano less ping curl; do command -v $i > /dev/null || echo no $i; done") == [b"\x1b[?2004h"]
        shell.say(b"exit\r")
        assert shell.end() == 0


@both
def test_lines_from_a_pipe(system: str) -> None:
    """Lines that were typed ahead are all run, and their exit ends the shell."""
    done = keel(*run_options(system), "--timeout", str(LIMIT_S), stdin=b"tty\nfalse\n")
    assert (done.status, done.output.count("/dev/ttyS0")) == (0, 1), done.output


@both
def test_a_resized_window_is_told(system: str) -> None:
    """The program in the foreground gets the new size, also if the window changed before it started."""
    with terminal(*run_options(system)) as shell:
        shell.wait_for(b"booting")
        shell.resize(31, 91)
        shell.wait_for(PROMPT)
        assert shell.run(b"stty size")[0] == b"31 91"
        shell.say(b"(trap 'stty size; exit' WINCH; echo traps; while :; do sleep 0.1; done)\r")
        shell.wait_for(LINE_TAKEN + b"\rtraps")
        shell.resize(41, 301)
        shell.wait_for(b"41 301")
        shell.say(b"exit\r")
        assert shell.end() == 0


@both
def test_it_behaves_like_a_terminal(system: str) -> None:
    """Job control, letters of more than one byte, 256 colours, and an editor."""
    with terminal(*run_options(system)) as shell:
        shell.wait_for(PROMPT)
        shell.say(STOPPABLE + b"\r")
        shell.wait_for(LINE_TAKEN + b"\rruns")
        shell.say(KEY_SUSPEND)
        shell.wait_for(b"Stopped")
        shell.wait_for(PROMPT)
        shell.say(b"fg\r")
        shell.wait_for(b"\nagain")
        shell.say(KEY_INTERRUPT)
        shell.wait_for(PROMPT)
        assert shell.run(b"echo $?")[0] == b"130"
        # Erased by the shell's own editing of lines, and by the terminal's.
        assert shell.run("printf é".encode() + KEY_DELETE + b"e | od -An -c")[0].split() == [b"e"]
        shell.say(b"head -n 1 | od -An -c\r")
        shell.wait_for(LINE_TAKEN)
        shell.say("é".encode() + KEY_DELETE + b"e\r")
        assert shell.wait_for(PROMPT).splitlines()[-2].split() == [b"e", b"\\n"]
        assert shell.run(b"tput colors")[0] == b"256"
        shell.say(b"nano letter\r")
        shell.wait_for(b"Exit")
        shell.say("grüße".encode() + b"\x0f\r")
        shell.wait_for(b"Wrote 1 line")
        shell.say(b"\x18")
        shell.wait_for(PROMPT)
        assert shell.run(b"cat letter")[0] == "grüße".encode()
        shell.say(KEY_END)
        assert shell.end() == 0


@both
@pytest.mark.parametrize("word", ["poweroff", "reboot", "halt"])
def test_debians_own_words_end_the_guest(word: str, system: str) -> None:
    """The commands do not mention systemd, which is not installed."""
    with terminal(*run_options(system)) as shell:
        shell.wait_for(PROMPT)
        shell.say(f"{word}\r".encode())
        assert shell.end() == 0
        assert b"systemd" not in shell.heard
        assert (b"asked for a reboot" in shell.heard) == (word == "reboot")


@both
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("poweroff", POWERED_OFF),
        ("reboot", REBOOTED),
        ("kill -USR1 1", POWERED_OFF),
        ("kill -USR2 1", POWERED_OFF),
        ("kill -TERM 1", REBOOTED),
        ("kill -CHLD 1; dd if=/dev/zero bs=384 count=1 > /run/initctl", 3),
    ],
)
def test_requests_during_a_command(line: str, status: int, system: str) -> None:
    """Requests of systemctl and BusyBox end the guest before the command does. Other signals and data are ignored."""
    assert run_guest(system, f"{line}; sleep {3 if status < POWERED_OFF else 1000}; exit 3").status == status


def test_verbose_shows_the_boot_log() -> None:
    """The boot log is shown as it comes; nothing else changes."""
    with terminal("run", "--verbose") as shell:
        assert BOOT_LINE in shell.wait_for(PROMPT)
        shell.say(b"exit\r")
        assert shell.end() == 0


def test_a_failure_names_the_boot_log(tmp_path: Path) -> None:
    """The file that the last line names shows why a boot failed."""
    with terminal("run", "--append", "rdinit=/absent", "--timeout", "60") as shell:
        assert shell.end() != 0
        last = shell.heard.strip().splitlines()[-1].decode()
    assert BOOT_LINE in Path(last.partition("its console is in ")[2]).read_bytes(), last


def slow_root(place: Path) -> Path:
    """A root with only bash and a profile that takes a while."""
    bash = shutil.which("bash")
    assert bash
    libraries = subprocess.run(["ldd", bash], capture_output=True, text=True, check=True).stdout.split()
    for file in [word for word in libraries if word.startswith("/")]:
        target = place / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    (place / "bin").mkdir()
    shutil.copy(bash, place / "bin" / "bash")
    (place / "etc").mkdir()
    (place / "etc" / "profile").write_text(SLOW_PROFILE)
    return place


@both
def test_a_profile_keeps_its_own_env(system: str, tmp_path: Path) -> None:
    """The code that reports the first prompt to the host removes only its own ENV."""
    root = slow_root(tmp_path)
    with (root / "etc" / "profile").open("a") as profile:
        profile.write("export ENV=/mine\n")
    with terminal(*run_options(system), "--root", str(root)) as shell:
        for number in range(2):
            shell.wait_for(SLOW_PROMPT)
            shell.say(f"echo {number}=$ENV=\r".encode())
            shell.wait_for(f"{number}=/mine=".encode())
        shell.wait_for(SLOW_PROMPT)
        shell.say(b"exit\r")
        assert shell.end() == 0


def interrupted_after(system: str, root: Path, sign: bytes, delay_s: float) -> int:
    """The status if Ctrl-C is typed this long after the sign. A shell that survives must have read its whole profile."""
    with terminal(*run_options(system), "--root", str(root)) as shell:
        shell.wait_for(sign)
        shell.listen(delay_s)
        before, shell.heard = shell.heard, b""
        shell.say(KEY_INTERRUPT)
        shell.leave(SLOW_PROMPT, b"echo $PROFILE; exit 0")
        status = shell.end()
        assert status in ENDS_OF_INTERRUPTED or (status == 0 and b"whole" in shell.heard), (delay_s, status, shell.heard)
        assert b"tools/keel" not in before + shell.heard, "a traceback"
        return status


def interrupted_at_each_step(system: str, root: Path, sign: bytes = STARTS) -> None:
    """Tries Ctrl-C from the sign, or from the start, until the shell has handled it twice."""
    statuses: list[int] = []
    while statuses.count(0) < 2:
        statuses.append(interrupted_after(system, root, sign, len(statuses) * STEP_S))
    assert statuses[0] in ENDS_OF_INTERRUPTED


@both
def test_interrupts_around_the_first_prompt(system: str, tmp_path: Path) -> None:
    """From the profile's first line, Ctrl-C ends the run until the shell handles it."""
    interrupted_at_each_step(system, slow_root(tmp_path), b"begins")
