# SPDX-License-Identifier: GPL-2.0-only
"""A run with a stand-in for the emulator, which plays the guest's part on the serial lines."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from keel import attached, bochs, boot, boundedlog, guest, loader, machine, qemu, slot
from keel.channel import CREDIT, HEADER, PORT, SERIAL, STATUS_WHOLE, WINDOW, Kind, encode
from keel.commands import run as run_command
from keel.commands.run import conclude
from keel.config import REPOSITORY, Settings
from keel.console import SHELL_BEGINS
from keel.errors import Interrupted, KeelError, Status
from keel.guest import Outcome, Plan

EXEC = boot.Choices(command="true")
PERSIST = replace(EXEC, persist=True)
# Finds its lines as the emulator does.
STAND_IN = """#!{python}
import re, socket, sys, time
fds = dict(reversed(re.search("fd=(.*),id=(.*)", word).groups()) for word in sys.argv if word.startswith("socket,fd="))
lines = {{name: socket.socket(fileno=int(fd)) for name, fd in fds.items()}}
class Output:
    def __init__(self, path): self.file = open(path, "wb", buffering=0)
    def sendall(self, data): self.file.write(data)
outputs = (re.search("path=(.*),id=(.*)", word).groups() for word in sys.argv if word.startswith("file,path="))
lines.update((name, Output(path)) for path, name in outputs)
"""
Run = Callable[..., Outcome]
Emulator = Callable[[str], None]


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """Makes this script the emulator."""
    program = tmp_path / "bin" / machine.EMULATOR
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def use(script: str) -> None:
        program.write_text(STAND_IN.format(python=sys.executable) + script)
        program.chmod(0o755)

    return use


@pytest.fixture
def run(settings: Settings, emulator: Emulator) -> Run:
    """Runs a command in a guest that is this script."""

    def run(script: str, command: str = "true", port: str | None = None, **changes: float) -> Outcome:
        emulator(script)
        with slot.taken(settings, "keel") as mine:
            described = qemu.Guest(kernel=Path("k"), port=port)
            return guest.run(settings, described, replace(Plan(mine, command.encode()), **changes))

    return run


# The same of Bochs, in whose directory its configuration is; it never ends by itself.
BOCHS = """#!{python}
import re, sys, time
ports = dict(re.findall("com([123]): .* dev=(.*)", open("bochsrc").read()))
console, channel, log = (open(ports[number], "r+b" if number < "3" else "wb", buffering=0) for number in "123")
channel.write({ready!r})
assert channel.read(len({command!r})) == {command!r}
console.write(b"a line\\n"); channel.write({output!r} + {status!r})
log.write(b"root: the machine is powered off (co"); time.sleep(0.3); log.write(b"de 0x10)\\r\\n")
time.sleep(600)
"""


READY = f"lines['exec'].sendall({encode(Kind.READY, b'')!r})\n"
STATUS_0 = f"lines['exec'].sendall({encode(Kind.STATUS, bytes([0, STATUS_WHOLE]))!r})\n"


def test_a_guest_that_powers_off_gives_its_commands_status(run: Run) -> None:
    ended = run(READY + STATUS_0 + f"sys.exit({machine.emulator_status(machine.EXIT_POWER_OFF)})")
    assert conclude(PERSIST, ended) == 0


@pytest.mark.parametrize("end", ["time.sleep(600)", "import os; os.abort()"])
def test_an_emulator_that_goes_before_the_guest_has_written_is_no_success(end: str, run: Run) -> None:
    """The command has ended with 0, and the emulator is ended, or ends, while the guest still writes a disk that is kept."""
    begun = time.monotonic()
    ended = run(READY + STATUS_0 + end, power_off_s=0.5)
    assert time.monotonic() - begun < 60
    assert conclude(PERSIST, ended) == Status.NOT_POWERED_OFF
    assert conclude(EXEC, ended) == 0


@pytest.mark.parametrize("chosen", ["exec", "port"])
def test_the_command_goes_where_an_init_speaks(chosen: str, run: Run) -> None:
    """On a machine with a port; where Linux has no devices, it speaks on the serial line. The other one stays silent."""
    frames = encode(Kind.COMMAND, b"true") + encode(Kind.COMMAND, b"")
    other = {"exec": "port", "port": "exec"}[chosen]
    script = f"lines[{chosen!r}].sendall({encode(Kind.READY, b'')!r}); heard = lines[{chosen!r}].recv(99)\n"
    script += f"lines[{other!r}].settimeout(0.3)\ntry: lines[{other!r}].recv(9); sys.exit(8)\nexcept TimeoutError: pass\n"
    script += f"sys.exit(7 if heard.startswith({frames!r}) else 9)"
    assert run(script, port=qemu.NOWHERE).emulator_status == 7


FORGED = encode(Kind.READY, b"") + encode(Kind.STDOUT, b"forged") + encode(Kind.STATUS, bytes([9, STATUS_WHOLE]))


@pytest.mark.parametrize("forged", [FORGED, encode(Kind.LISTENS, b""), b"no frame at all"], ids=["frames", "listens", "junk"])
def test_what_is_written_to_the_other_line_is_dropped(forged: bytes, run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    """Programs of the guest may write to the serial line when its init speaks on the port."""
    script = f"lines['port'].sendall({encode(Kind.READY, b'')!r}); heard = lines['port'].recv(99)\n"
    script += f"lines['exec'].sendall({forged!r}); time.sleep(0.3)\n"
    script += f"lines['port'].sendall({encode(Kind.STDOUT, b'own') + encode(Kind.STATUS, bytes([3, STATUS_WHOLE]))!r})\n"
    ended = run(script + f"sys.exit({machine.emulator_status(machine.EXIT_POWER_OFF)})", port=qemu.NOWHERE)
    assert (conclude(EXEC, ended), ended.restarted, capfd.readouterr().out) == (3, False, "own")


def test_a_status_that_comes_before_an_init_is_none(run: Run) -> None:
    script = STATUS_0 + f"time.sleep(0.3)\nsys.exit({machine.emulator_status(machine.EXIT_POWER_OFF)})"
    assert conclude(EXEC, run(script)) == Status.POWERED_OFF


def test_the_port_is_believed_before_the_serial_line(run: Run) -> None:
    """Where somebody was faster than the init, the run ends: the command has gone to them."""
    script = f"lines['exec'].sendall({encode(Kind.READY, b'')!r}); time.sleep(0.3)\n"
    script += f"lines['port'].sendall({encode(Kind.READY, b'')!r}); time.sleep(600)"
    assert run(script, port=qemu.NOWHERE, timeout_s=60.0).restarted


def test_after_a_restart_of_linux_its_init_may_speak_on_the_other_line(run: Run) -> None:
    """One that finds no port there says so on the serial line: the command has not ended."""
    script = f"lines['port'].sendall({encode(Kind.READY, b'')!r}); lines['port'].recv(99)\n" + AGAIN
    script += f"lines['exec'].sendall({encode(Kind.READY, b'')!r}); time.sleep(600)"
    assert run(script, port=qemu.NOWHERE, timeout_s=60.0).restarted


WRITES = "for _ in range(5 << 4):\n    lines[{0!r}].sendall((b'x' * 1023 + b'\\n') * 64)\nlines[{0!r}].sendall(b'the end')\n"


@pytest.mark.parametrize("line", ["console", "log"])
def test_the_middle_of_a_long_log_is_left_out(line: str, run: Run) -> None:
    begin = f"lines[{line!r}].sendall(b'the beginning')\n"
    ended = run(begin + WRITES.format(line) + READY + STATUS_0 + "time.sleep(0.3)\nsys.exit(7)")
    kept = (ended.console_log if line == "console" else ended.kernel_log).read_bytes()
    assert kept.startswith(b"the beginning") and kept.endswith(b"the end") and len(kept) < boundedlog.MOST
    left_out = sum(int(count) for count in re.findall(rb"\n\[(\d+) bytes are left out here\]\n", kept))
    note = len(f"\n[{left_out} bytes are left out here]\n")
    assert left_out > 0 and left_out + len(kept) - note == len(b"the beginning" + b"the end") + (5 << 20)


def test_what_a_guest_says_gives_the_users_terminal_no_order(
    settings: Settings, emulator: Emulator, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its console is shown as text, and so is the last line of a log in our own; the log has it as it was."""
    said = "\x1b]0;title\x07 ä \x9b31m\x7f\r\n".encode() + b"\xff"
    emulator(f"lines['console'].sendall({said!r}); lines['log'].sendall({said!r} + b'end')\ntime.sleep(0.3)\nsys.exit(3)")
    with slot.taken(settings, "keel") as mine:
        ended = guest.run(replace(settings, verbose=True), qemu.Guest(kernel=Path("k")), Plan(mine, b"true"))
    shown = capfd.readouterr().err
    assert shown.count("\\x1b]0;title\\x07 ä \\x9b31m\\x7f\r\n\\xff") == 2 and "\x1b" not in shown and "\x07" not in shown
    assert ended.console_log.read_bytes() == said
    configuration = replace(ended, emulator_status=machine.emulator_status(machine.EXIT_BOOT_CONFIGURATION))
    ended.kernel_log.write_bytes(said[:-1] + b"at: \x1b[2Jlast")
    conclude(EXEC, configuration)
    assert "error: at: \\x1b[2Jlast\n" in capfd.readouterr().err


def test_a_port_takes_larger_frames_than_a_serial_line(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    frame = encode(Kind.STDOUT, b"x" * PORT.data)
    script = "lines[{0!r}].sendall({1!r}); lines[{0!r}].recv(99); lines[{0!r}].sendall({2!r}); lines[{0!r}].recv(99); sys.exit(7)"
    assert run(script.format("port", encode(Kind.READY, b""), frame), port=qemu.NOWHERE).emulator_status == 7
    assert capfd.readouterr().out == "x" * PORT.data
    with pytest.raises(KeelError, match="no frame"):
        run(script.format("exec", encode(Kind.READY, b""), frame), port=qemu.NOWHERE)


# What an init sends when it begins, with what ends a frame that the one before it did not.
BEGIN = f"lines['exec'].sendall({bytes(HEADER.size + SERIAL.data) + encode(Kind.READY, b'')!r})\n"
HALF_A_FRAME = f"lines['exec'].sendall({encode(Kind.STDOUT, bytes([1]) * SERIAL.data)[:300]!r})\n"


HALF_A_STATUS = f"lines['exec'].sendall({encode(Kind.STATUS, bytes([0, STATUS_WHOLE]))[:-2]!r})\n"


@pytest.mark.parametrize(
    "between", ["", HALF_A_FRAME, HALF_A_STATUS], ids=["between frames", "within a frame", "within a status"]
)
@pytest.mark.parametrize(
    ("console", "status"), [(b"Kernel panic - not syncing: x\n", Status.LINUX_PANIC), (b"rebooting", Status.REBOOTED)]
)
def test_linux_started_anew_ends_its_command(between: str, console: bytes, status: Status, run: Run) -> None:
    say = f"lines['console'].sendall({console!r}); time.sleep(0.3)\n"
    ended = run(BEGIN + between + say + BEGIN + "time.sleep(600)", timeout_s=60.0)
    assert conclude(EXEC, ended) == status


@pytest.mark.parametrize(
    "frames",
    [encode(Kind.READY, b""), encode(Kind.CREDIT, CREDIT.pack(1 << 30)) + encode(Kind.STDERR, b"")],
    ids=["ready", "credit"],
)
@pytest.mark.parametrize("line", ["exec", "port"])
def test_a_guest_that_reads_nothing_does_not_fill_our_memory(line: str, frames: bytes, run: Run) -> None:
    """It is ended, by a status or an error, before a megabyte waits for it."""
    script = f"lines[{line!r}].sendall({encode(Kind.READY, b'')!r})\n"
    script += f"for _ in range(1 << 20):\n    lines[{line!r}].sendall({frames!r} * 1000)\n"
    try:
        assert run(script, command="x" * 1_000_000, port=qemu.NOWHERE, timeout_s=60.0).restarted
    except KeelError as error:
        assert "reads nothing" in error.what


KVM = qemu.Guest(Path("kernel"), accelerator="kvm")
ROOT_SPEAKS = "lines['log'].sendall(b'keel: boot\\nro'); lines['log'].sendall(b'ot: task linux\\n')\n"
Start = Callable[[boot.Choices, float], tuple[int | None, list[str]]]


@pytest.fixture
def start(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a guest under KVM as the command does: the emulator's status, and what is said."""

    def start(choices: boot.Choices, begins_s: float) -> tuple[int | None, list[str]]:
        said: list[str] = []
        monkeypatch.setattr(run_command, "say", said.append)
        monkeypatch.setattr(run_command, "KVM_BEGINS_S", begins_s)
        with slot.taken(settings, "keel") as mine:
            return run_command._run_guest(settings, choices, KVM, Plan(mine, b"true", timeout_s=60.0)).emulator_status, said

    return start


@pytest.mark.parametrize(
    ("under_kvm", "begins_s", "told"),
    [
        ("print('kvm: no'); sys.exit(1)", 60.0, "ended with status 1 before the root task's first line: kvm: no"),
        ("lines['log'].sendall(b'keel: panic\\n'); sys.exit(1)", 60.0, "ended with status 1"),
        ("time.sleep(600)", 0.5, "stood for 0.5 s"),
    ],
    ids=["ends", "panics", "stands"],
)
def test_a_guest_that_kvm_does_not_begin_is_emulated(
    under_kvm: str, begins_s: float, told: str, emulator: Emulator, start: Start
) -> None:
    emulator(f"if 'kvm' in sys.argv:\n    {under_kvm}\n{ROOT_SPEAKS}sys.exit(7)")
    status, said = start(boot.Choices(), begins_s)
    assert status == 7 and len(said) == 2 and told in said[0], said


def test_a_native_guest_that_kvm_does_not_begin_is_emulated_too(emulator: Emulator, start: Start) -> None:
    emulator("if 'kvm' in sys.argv:\n    time.sleep(600)\nlines['console'].sendall(b'Linux')\nsys.exit(7)")
    status, said = start(boot.Choices(native=True), 0.5)
    assert status == 7 and "before Linux's first line" in said[0], said


@pytest.mark.parametrize("first", [ROOT_SPEAKS, "lines['console'].sendall(b'Linux')\n", READY], ids=["root", "linux", "init"])
def test_a_guest_that_has_begun_is_not_run_again(first: str, emulator: Emulator, start: Start) -> None:
    emulator(f"{first}sys.exit(3)")
    assert start(boot.Choices(), 60.0) == (3, [])


@pytest.mark.parametrize("choices", [boot.Choices(accelerator="kvm"), boot.Choices(gdb=True)])
def test_only_our_own_choice_of_kvm_is_changed(choices: boot.Choices, emulator: Emulator, start: Start) -> None:
    emulator("sys.exit(1)")
    assert start(choices, 60.0) == (1, [])


def test_bochs_runs_a_guest_to_its_last_words(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Its lines are terminals that change no byte, and how the guest ended is told as QEMU's status would."""
    output = bytes(range(256))
    said = {"ready": encode(Kind.READY, b""), "output": encode(Kind.STDOUT, output), "status": encode(Kind.STATUS, b"\3\1")}
    program = tmp_path / bochs.EMULATOR
    program.write_text(BOCHS.format(python=sys.executable, command=encode(Kind.COMMAND, b"a\nb"), **said))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(loader, "make_disc", lambda *_: None)
    with slot.taken(settings, "keel") as mine:
        plan = Plan(mine, b"a\nb", timeout_s=60.0, bochs="any")
        ended = guest.run(settings, qemu.Guest(kernel=Path("k")), plan)
    assert ended.emulator_status == machine.emulator_status(machine.EXIT_POWER_OFF), ended.emulator_log.read_text()
    assert conclude(EXEC, ended) == 3
    assert capfdbinary.readouterr().out == output
    assert ended.console_log.read_bytes() == b"a line\n"


Shell = Callable[..., Outcome]


@pytest.fixture
def shell(settings: Settings, emulator: Emulator) -> Shell:
    """Runs a guest that is this script, whose console is ours."""

    def run(script: str, watch_console: Callable[[bytes], bool] | None = None) -> Outcome:
        emulator(f"say = lambda text: lines['console'].sendall(text)\n{script}")
        with slot.taken(settings, "keel") as mine:
            return guest.run(settings, qemu.Guest(kernel=Path("k")), Plan(mine, timeout_s=60.0, watch_console=watch_console))

    return run


BOOTS = f"say(b'[    0.1] Linux version' + {SHELL_BEGINS!r})\n"
# Says what has been typed when the shell's profile has been read, and then what has come in all.
PROFILE = "time.sleep(0.3); lines['console'].setblocking(False)\ntry: say(b'early ' + lines['console'].recv(99))\n"
PROFILE += "except BlockingIOError: say(b'profile\\r\\n')\n"
ECHO = "lines['console'].setblocking(True); say(b'got ' + lines['console'].recv(99)); time.sleep(0.3)\n"


SAYS_PROMPT = f"lines['exec'].sendall({encode(Kind.PROMPT, b'')!r})\n"
SHOWS_PROMPT = "say(b'$ ')\n"
PROMPTS = {"an init": READY, "a silent shell": SHOWS_PROMPT, "a shell": SAYS_PROMPT + PROFILE + SHOWS_PROMPT}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_a_shell_gets_what_was_typed_at_its_prompt(
    prompt: str, typed: Callable[[bytes], int], shell: Shell, capfd: pytest.CaptureFixture[str]
) -> None:
    typed(b"ls\n")
    shell(BOOTS + PROFILE + prompt + ECHO)
    shown = capfd.readouterr().out
    assert shown.startswith("profile\r\n") and "early" not in shown and shown.endswith("got ls\n"), shown


def test_a_shell_without_a_prompt_gets_what_is_typed(
    typed: Callable[[bytes], int], shell: Shell, capfd: pytest.CaptureFixture[str]
) -> None:
    threading.Timer(0.5, typed, [b"pwd\n\x03"]).start()
    shell(BOOTS + SAYS_PROMPT + ECHO)
    assert capfd.readouterr().out == "got pwd\n\x03"


@pytest.mark.parametrize("prompt", [b"", b"here:\r\n"], ids=["none", "a line"])
def test_a_shell_without_a_prompt_gets_what_is_in_a_pipe(
    prompt: bytes, shell: Shell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """But not at once: a prompt that comes would be shown in its place."""
    ours, theirs = os.pipe()
    os.write(theirs, b"pwd\n")
    monkeypatch.setattr(guest, "INPUT_FD", ours)
    shell(BOOTS + SAYS_PROMPT + PROFILE + f"say({prompt!r})\n" + ECHO)
    os.close(theirs)
    os.close(ours)
    assert capfd.readouterr().out == "profile\r\n" + prompt.decode() + "got pwd\n"


def test_what_was_typed_before_a_shell_without_a_prompt_reaches_it(
    typed: Callable[[bytes], int], shell: Shell, capfd: pytest.CaptureFixture[str]
) -> None:
    typed(b"ls\n")
    shell(BOOTS + SAYS_PROMPT + PROFILE + ECHO)
    assert capfd.readouterr().out == "profile\r\ngot ls\n"


def test_an_interrupt_after_a_line_typed_too_early_ends_the_guest(typed: Callable[[bytes], int], shell: Shell) -> None:
    typed(b"ls\n\x03")
    with pytest.raises(Interrupted):
        shell(BOOTS + "time.sleep(600)")


def test_the_terminals_size_is_told_to_a_guest_that_listens(typed: Callable[[bytes], int], shell: Shell) -> None:
    frame = encode(Kind.WINDOW, WINDOW.pack(30, 90))
    listens = f"lines['exec'].sendall({encode(Kind.LISTENS, b'')!r})\n"
    ended = shell(f"{listens}sys.exit(7 if lines['exec'].recv(99) == {frame!r} else 8)")
    assert ended.emulator_status == 7


# By the guest's stand-in, our child: our terminal gets another size, and we the signal for it.
RESIZE = """
import fcntl, os, signal, struct, termios
terminal = os.open(f"/proc/{os.getppid()}/fd/0", os.O_RDONLY | os.O_NOCTTY)
def resize(rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 90, 0, 0))
    os.kill(os.getppid(), signal.SIGWINCH)
    time.sleep(0.3)
"""
HEAR = "lines['exec'].settimeout(10); heard = lines['exec'].recv(99)\n"
RESTARTED = f"lines['log'].sendall({b'root: task linux' + guest.STARTED_AGAIN[:9]!r})\n"
RESTARTED += f"lines['log'].sendall({guest.STARTED_AGAIN[9:] + bytes(9)!r})\n"
AGAIN = RESTARTED + "time.sleep(0.3)\n"


def test_the_root_task_says_so_when_it_has_restarted_linux() -> None:
    sources = (REPOSITORY / "user" / "root" / "src").glob("*.rs")
    assert any(guest.STARTED_AGAIN in source.read_bytes() for source in sources)


def window(rows: int) -> bytes:
    return encode(Kind.WINDOW, WINDOW.pack(rows, 90))


@pytest.mark.parametrize("again", ["", AGAIN], ids=["unnoticed", "restarted"])
def test_the_size_is_told_to_each_init(again: str, typed: Callable[[bytes], int], shell: Shell) -> None:
    """A restarted Linux knows the size at boot."""
    ended = shell(f"{LISTENS}{HEAR}{again}{LISTENS}{HEAR}sys.exit(7 if heard == {window(30)!r} else 8)")
    assert ended.emulator_status == 7


def test_between_two_inits_no_size_is_told(typed: Callable[[bytes], int], shell: Shell) -> None:
    """It would be cut in the serial port of the Linux that boots; the next init is told the latest one."""
    between = f"{AGAIN}resize(31)\nresize(32)\n"
    ended = shell(f"{RESIZE}{LISTENS}{HEAR}{between}{LISTENS}{HEAR}sys.exit(7 if heard == {window(32)!r} else 8)")
    assert ended.emulator_status == 7


def test_a_restart_that_is_read_late_comes_before_the_init_that_listens(typed: Callable[[bytes], int], shell: Shell) -> None:
    """Our process does not run while Linux restarts."""

    def sleep(data: bytes) -> bool:
        time.sleep(1.0 if data else 0.0)
        return False

    late = f"say(b'x')\ntime.sleep(0.3)\n{RESTARTED}{LISTENS}{HEAR}"
    script = f"{RESIZE}{LISTENS}{HEAR}{late}resize(33)\n{HEAR}sys.exit(7 if heard == {window(33)!r} else 8)"
    ended = shell(script, watch_console=sleep)
    assert ended.emulator_status == 7


def test_a_command_is_told_no_size(typed: Callable[[bytes], int], run: Run) -> None:
    listens = f"lines['exec'].sendall({encode(Kind.LISTENS, b'')!r}); lines['exec'].settimeout(0.5)\n"
    ended = run(f"{listens}try: lines['exec'].recv(9); sys.exit(8)\nexcept TimeoutError: sys.exit(7)")
    assert ended.emulator_status == 7


STOPPED = f"sys.exit(7 if lines['exec'].recv(9999).endswith({encode(Kind.STOP, b'')!r}) else 8)\n"
LISTENS = f"lines['exec'].sendall({encode(Kind.LISTENS, b'')!r})\n"
# Sent by the guest's stand-in to us, its parent, so that it comes when the guest is as far.
STOP_US = "import os, signal; time.sleep(0.3); os.kill(os.getppid(), signal.SIGUSR1); time.sleep(0.3)\n"


def test_a_shell_that_listens_is_asked_to_power_off(shell: Shell) -> None:
    assert shell(LISTENS + STOP_US + STOPPED).emulator_status == 7


def test_a_stop_is_said_to_the_next_init_too(shell: Shell) -> None:
    """The one before may have ended before it read it."""
    assert shell(LISTENS + STOP_US + "lines['exec'].recv(9)\n" + AGAIN + LISTENS + STOPPED).emulator_status == 7


def test_a_linux_that_restarts_is_ended(shell: Shell) -> None:
    """As one that boots: nothing in it listens."""
    with pytest.raises(Interrupted):
        shell(LISTENS + "time.sleep(0.3)\n" + AGAIN + STOP_US + "time.sleep(600)")


def test_a_command_is_asked_to_power_off(run: Run) -> None:
    """Also where input for it waits for credit."""
    assert run(READY + STOP_US + STOPPED, command="x" * 10_000).emulator_status == 7


def test_a_guest_where_nothing_listens_is_ended(shell: Shell, run: Run) -> None:
    with pytest.raises(Interrupted):
        shell(STOP_US + "time.sleep(600)")
    with pytest.raises(Interrupted):
        run(STOP_US + "time.sleep(600)")


def test_a_guest_that_is_ended_while_it_keeps_a_disk_is_noted(
    run: Run, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    """For who stops it, to whom its status says nothing; also when another run has the slot."""
    for keeps in (False, True):
        with pytest.raises(Interrupted):
            run(STOP_US + "time.sleep(600)", keeps=keeps)
        assert ("disks that it keeps may be damaged" in capfd.readouterr().err) == keeps
        with slot.taken(settings, "keel") as mine:
            mine.note_run("keel", None)
            noted = mine.run()
            assert noted and mine.was_cut_off(noted) == keeps
            assert not mine.was_cut_off(replace(noted, process=noted.process + 1))


def test_the_end_of_input_is_said_at_each_prompt(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs when it comes may take it for its own; a bell is no prompt, and would be rung forever."""
    script = "said = [lines['console'].recv(99)]\nlines['console'].settimeout(0.5)\n"
    for text in (b"out\r\n", b"\a", b"$ "):
        script += f"say({text!r})\ntry: said.append(lines['console'].recv(99))\nexcept TimeoutError: said.append(b'')\n"
    with Path(os.devnull).open("rb") as nothing:
        monkeypatch.setattr(guest, "INPUT_FD", nothing.fileno())
        ended = shell(BOOTS + SHOWS_PROMPT + script + "sys.exit(7 if said == [b'\\4', b'', b'', b'\\4'] else 8)\n")
    assert ended.emulator_status == 7


def test_a_shell_in_the_background_has_the_terminal_that_is_attached(settings: Settings, emulator: Emulator) -> None:
    """It sees no end of our input, is up when its init listens, and is told the terminal's size and keys."""
    shown: list[bytes] = []

    def be_terminal(path: Path) -> None:
        with attached.connect(path) as line:
            line.send(attached.encode(attached.Message.SIZE, WINDOW.pack(30, 90)))
            while not shown or shown[-1]:
                shown.append(line.recv(attached.READ_BYTES))
                if shown[-1].endswith(b"$ "):
                    line.send(attached.encode(attached.Message.KEYS, b"ls\n"))

    size = f"say(b'size' if lines['exec'].recv(99) == {window(30)!r} else b'other')\n"
    emulator(f"say = lambda text: lines['console'].sendall(text)\n{BOOTS}{LISTENS}{size}{SHOWS_PROMPT}{ECHO}sys.exit(7)")
    with slot.taken(settings, "keel") as mine:
        terminal = threading.Thread(target=be_terminal, args=[mine.console])
        plan = Plan(mine, timeout_s=60.0, console=mine.console, on_up=terminal.start)
        assert guest.run(settings, qemu.Guest(kernel=Path("k")), plan).emulator_status == 7
        terminal.join()
        assert not mine.console.exists()
    assert b"".join(shown) == b"size$ got ls\n"
    assert mine.log("console").read_bytes().endswith(b"".join(shown))


# More output than a pipe holds, and less than the guest has credit for.
MANY = f"for n in range(5):\n    lines['port'].sendall({encode(Kind.STDOUT, b'x' * PORT.data)!r})\n"
PORT_READY = f"lines['port'].sendall({encode(Kind.READY, b'')!r}); lines['port'].recv(99)\n"
PORT_STATUS = STATUS_0.replace("exec", "port")
POWER_OFF = f"sys.exit({machine.emulator_status(machine.EXIT_POWER_OFF)})\n"
PORT_STOPPED = f"lines['port'].settimeout(10)\nif lines['port'].recv(99).endswith({encode(Kind.STOP, b'')!r}): {POWER_OFF}"
# As an init does, which ends when it has the credit for all that it wrote; the first second's is not that yet. Then it is our
# reader's turn, which waits for that at a FIFO.
SETTLES = f"""import struct
def given(seconds, credit=0):
    lines['port'].settimeout(seconds)
    while credit < {5 * (HEADER.size + PORT.data) + HEADER.size + 2}:
        try: credit += struct.unpack("<4xI", lines['port'].recv(8))[0]
        except TimeoutError: return credit
    return 0
credit = given(1)
open(TURN, "w").close()
if not credit or given(30, credit): sys.exit(9)
"""
ENDS_S = 30.0


@contextmanager
def unread() -> Iterator[int]:
    """For the length of a block our standard output is a pipe that nobody reads; its end for a reader."""
    ours, theirs = os.pipe()
    before = os.dup(1)
    os.dup2(theirs, 1)
    os.close(theirs)
    try:
        yield ours
    finally:
        os.dup2(before, 1)
        for fd in (before, ours):
            os.close(fd)


@pytest.mark.parametrize("end", ["time.sleep(600)", PORT_STATUS + "time.sleep(600)", PORT_STATUS + POWER_OFF])
def test_the_time_is_up_while_our_reader_does_not_read(end: str, run: Run) -> None:
    """A status is no success where the output was not taken."""
    begun = time.monotonic()
    with unread():
        ended = run(PORT_READY + MANY + end, port=qemu.NOWHERE, timeout_s=2.0)
    assert time.monotonic() - begun < ENDS_S
    assert conclude(replace(EXEC, timeout_s=2.0), ended) == Status.TIMEOUT


def test_a_guest_is_stopped_while_our_reader_does_not_read(run: Run) -> None:
    """It hears of it, and powers off."""
    begun = time.monotonic()
    with unread():
        ended = run(PORT_READY + MANY + STOP_US + PORT_STOPPED, port=qemu.NOWHERE)
    assert time.monotonic() - begun < ENDS_S
    assert conclude(EXEC, ended) == Status.POWERED_OFF


def test_a_run_whose_guest_has_gone_is_stopped_while_our_reader_does_not_read(run: Run) -> None:
    stop = "import subprocess; subprocess.Popen(['sh', '-c', f'sleep 1; kill -USR1 {__import__(\"os\").getppid()}'])\n"
    with unread(), pytest.raises(Interrupted):
        run(PORT_READY + MANY + stop + PORT_STATUS + POWER_OFF, port=qemu.NOWHERE)


def test_a_slow_reader_gets_all_and_the_status(run: Run, tmp_path: Path) -> None:
    """The guest gets the credit, and the time for its end begins, when all has been read."""
    heard = bytearray()

    def read(fd: int) -> None:
        turn.open().close()
        while len(heard) < 5 * PORT.data:
            heard.extend(os.read(fd, 4096))

    turn = tmp_path / "turn"
    os.mkfifo(turn)
    script = PORT_READY + MANY + PORT_STATUS + f"TURN = {str(turn)!r}\n" + SETTLES + POWER_OFF
    with unread() as fd:
        reader = threading.Thread(target=read, args=[fd])
        reader.start()
        ended = run(script, port=qemu.NOWHERE, power_off_s=0.5, timeout_s=60.0)
        reader.join()
    assert heard == b"x" * (5 * PORT.data)
    assert machine.exit_value(ended.emulator_status) == machine.EXIT_POWER_OFF
    assert conclude(PERSIST, ended) == 0


def test_a_console_waits_for_our_reader_and_a_stop_does_not(shell: Shell) -> None:
    flood = "import threading; threading.Thread(target=lambda: [say(b'y' * 4096) for _ in range(1000)], daemon=True).start()\n"
    with unread():
        ended = shell(BOOTS + LISTENS + flood + STOP_US + STOPPED.replace("sys.exit", "os._exit"))
    assert ended.emulator_status == 7
