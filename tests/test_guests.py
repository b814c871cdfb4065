# SPDX-License-Identifier: GPL-2.0-only
"""Guests by name: they are listed, and stopped cleanly."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import REPOSITORY, SYSTEMS, Result, keel, run_options
from test_shell import (
    BOOT_LINE,
    INTERRUPTED,
    KEY_INTERRUPT,
    KEY_SUSPEND,
    LINE_TAKEN,
    PANICKED,
    POWERED_OFF,
    PROMPT,
    STOPPABLE,
    Terminal,
    both,
    slow_root,
    terminal,
)

LIMIT_S = 120
# Reports that it runs, and ignores requests to end.
STUBBORN = "trap '' TERM HUP; echo runs; while :; do sleep 1; done"

# An init that knows one signal, and powers off.
OWN_INIT = "#!/bin/bash\ntrap 'echo o > /proc/sysrq-trigger' USR2\necho runs\nwhile :; do read -t 1; done\n"
LEAVE, QUIT = b"\x01d", b"\x01x"
# The time within which an init obeys a request.
OBEYS_S = 10


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A guest name that no parallel test uses."""
    return re.sub("[^a-z]+", "-", request.node.name.removeprefix("test_"))[-32:].strip("-")


def stop(guest: Terminal, name: str, status: int) -> None:
    """Stop the guest; both commands end."""
    assert keel("stop", name, timeout_s=LIMIT_S) == Result(0, "", "")
    assert guest.end() == status


@both
def test_a_guest_is_listed_and_powers_off(system: str, name: str) -> None:
    """No other guest can have its name. What it writes last is on its disks, because it powers off."""
    with terminal(*run_options(system), "--name", name) as shell:
        shell.wait_for(PROMPT)
        listed = [line.split() for line in keel("ps").output.splitlines()]
        assert [row[1:2] + row[4:] for row in listed if row[0] == name] == [[system, "(shell)"]]
        second = keel(*run_options(system), "--name", name, "--exec", "true")
        assert second.status == 125 and "runs already" in second.last_error_line()
        stop(shell, name, 0)
        assert b"reboot: Power down" in shell.heard
    assert name not in keel("ps").output
    assert BOOT_LINE in (REPOSITORY / "build" / "log" / f"{name}-console.log").read_bytes()


@both
def test_a_command_is_stopped(system: str, name: str) -> None:
    """A guest that ignores the request is stopped too."""
    with terminal(*run_options(system), "--name", name, "--exec", STUBBORN) as command:
        command.wait_for(b"runs\r\n")
        stop(command, name, POWERED_OFF)


@pytest.mark.parametrize("words", [[], ["--exec", "echo runs; exec sleep 1000"]], ids=["shell", "command"])
def test_systemd_is_stopped(words: list[str], name: str) -> None:
    """systemd ends its services first."""
    with terminal("run", "--init", "systemd", "--name", name, *words) as guest:
        guest.wait_for(b"runs\r\n" if words else b"login: ")
        stop(guest, name, POWERED_OFF if words else 0)


@both
def test_an_init_of_the_roots_own_is_stopped(system: str, name: str, tmp_path: Path) -> None:
    """Another init gets BusyBox's request at once: a guest that does not obey would be ended only much later."""
    init = slow_root(tmp_path) / "init"
    init.write_text(OWN_INIT)
    init.chmod(0o755)
    with terminal(*run_options(system), "--root", str(tmp_path), "--name", name) as guest:
        guest.wait_for(b"runs\r\n")
        began = time.monotonic()
        stop(guest, name, 0)
        assert time.monotonic() - began < OBEYS_S


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_guest_that_boots_is_ended(system: str, name: str) -> None:
    """Nothing in the guest could receive a request."""
    with terminal(*run_options(system), "--name", name) as guest:
        guest.wait_for(b"booting")
        stop(guest, name, INTERRUPTED)


def test_nobody_is_stopped() -> None:
    """One line says that there is no such guest."""
    result = keel("stop", "tests-guests-absent")
    assert result.status == 125 and "no guest named tests-guests-absent" in result.last_error_line()


@both
def test_a_detached_guest_continues(system: str, name: str) -> None:
    """The command returns when the guest is up; its output is in a log; it is listed and stopped like others."""
    command = "echo begins; read line || echo no input; exec sleep 1000"
    begun = keel(*run_options(system), "--name", name, "--detach", "--exec", command, timeout_s=LIMIT_S)
    assert begun.status == 0 and f"{name} runs" in begun.last_error_line()
    assert name in keel("ps").output
    log = REPOSITORY / "build" / "log" / f"{name}-output.log"
    until = time.monotonic() + LIMIT_S
    while log.read_text() != "begins\nno input\n":
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.01)
    assert keel("stop", name, timeout_s=LIMIT_S) == Result(0, "", "")
    assert name not in keel("ps").output
    assert "powered off" in log.read_text()


def test_a_detached_guest_that_ends_at_once_is_told(name: str) -> None:
    """Where no command can run, the status and the reason are the command's that was to detach."""
    ended = keel("run", "--name", name, "--detach", "--append", "keel.root=/dev/nothing", "--exec", "true", timeout_s=LIMIT_S)
    assert ended.status == POWERED_OFF and "root" in ended.error


@contextmanager
def in_background(system: str, name: str, *options: str) -> Iterator[None]:
    """A guest in the background, which is ended after the test if it has not ended in it."""
    begun = keel(*run_options(system), "--name", name, "--detach", *options, timeout_s=LIMIT_S)
    assert begun.status == 0 and f"./keel console {name}" in begun.last_error_line(), begun.error
    try:
        yield
    finally:
        if name in keel("ps").output:
            keel("stop", name, timeout_s=LIMIT_S)


@both
def test_a_shell_in_the_background_has_a_console(system: str, name: str) -> None:
    """It is a terminal like that of the run; it is left and attached again, one at a time; its shell's end is the guest's."""
    with in_background(system, name):
        with terminal("console", name) as console:
            console.wait_for(PROMPT)
            console.run(b'until [ "$(stty size)" = "30 90" ]; do sleep 0.1; done')
            console.say(b"(trap 'stty size; exit' WINCH; echo traps; while :; do sleep 0.1; done)\r")
            console.wait_for(LINE_TAKEN + b"\rtraps")
            console.resize(41, 301)
            console.wait_for(b"41 301")
            console.wait_for(PROMPT)
            console.say(STOPPABLE + b"\r")
            console.wait_for(LINE_TAKEN + b"\rruns")
            console.say(KEY_SUSPEND)
            console.wait_for(b"Stopped")
            console.wait_for(PROMPT)
            console.say(b"fg\r")
            console.wait_for(b"\nagain")
            console.say(KEY_INTERRUPT)
            console.wait_for(PROMPT)
            assert console.run(b"KEPT=$?; echo $KEPT")[0] == b"130"
            with terminal("console", name) as second:
                assert second.end() == 125 and b"has a terminal already" in second.heard
            console.say(LEAVE)
            assert console.end() == 0 and b"continues" in console.heard
        with terminal("console", name) as console:  # whose process is ended
            console.wait_for(PROMPT)
        with terminal("console", name) as console:
            console.wait_for(PROMPT)
            assert console.run(b"echo $KEPT")[0] == b"130"
            console.say(b"exit\r")
            assert console.end() == 0
            assert b"reboot: Power down" in console.heard and b"has ended" in console.heard
        assert name not in keel("ps").output
        log = (REPOSITORY / "build" / "log" / f"{name}-console.log").read_bytes()
        assert all(text in log for text in (BOOT_LINE, b"Stopped", b"echo $KEPT", b"reboot: Power down"))


def test_the_console_ends_its_guest(name: str) -> None:
    with in_background("keel", name), terminal("console", name) as console:
        console.wait_for(PROMPT)
        console.say(QUIT)
        assert console.end() == INTERRUPTED
        assert b"has ended" in console.heard
        assert name not in keel("ps").output


def test_a_command_in_the_background_is_followed(name: str) -> None:
    """Its console is what it writes; leaving that does not end it."""
    with in_background("keel", name, "--exec", "echo begins; sleep 5; echo on; exec sleep 1000"):
        with terminal("console", name) as console:
            console.wait_for(b"begins\r\n")
            console.wait_for(b"on\r\n")
            console.say(KEY_INTERRUPT)
            assert console.end() == INTERRUPTED
        with terminal("console", name) as console:
            console.wait_for(b"on\r\n")
            stop(console, name, POWERED_OFF)


@both
def test_the_consoles_status_is_the_runs(system: str, name: str) -> None:
    """A command's own status; of a shell, a panic's."""
    with in_background(system, name, "--exec", "sleep 5; exit 7"), terminal("console", name) as console:
        assert console.end() == 7
    with in_background(system, name), terminal("console", name) as console:
        console.wait_for(PROMPT)
        console.say(b"echo c > /proc/sysrq-trigger\r")
        assert console.end() == PANICKED and b"panicked" in console.heard


def test_only_a_guest_in_the_background_has_a_console(name: str) -> None:
    with terminal("run", "--name", name) as shell:
        shell.wait_for(PROMPT)
        result = keel("console", name)
        assert result.status == 125 and "where it was started" in result.last_error_line()
    assert "no guest named" in keel("console", name).last_error_line()
