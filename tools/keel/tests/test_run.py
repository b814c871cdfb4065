# SPDX-License-Identifier: GPL-2.0-only
"""From a guest's end to the exit status of `./keel`."""

from dataclasses import replace
from pathlib import Path

import pytest

from keel import boot, debugger, machine, packages, progress, qemu
from keel.commands.run import after_dialogue, conclude, greet, needs_of
from keel.config import Settings
from keel.console import End
from keel.errors import KeelError, Status
from keel.guest import Outcome

EXEC = boot.Choices(command="true", timeout_s=5.0)
SHELL = boot.Choices()


def outcome(tmp_path: Path, **fields: object) -> Outcome:
    (tmp_path / "log").write_text("boot.conf:3: unknown word 'x'\n")
    ended = Outcome(console_log=tmp_path / "log", kernel_log=tmp_path / "log", emulator_log=tmp_path / "log")
    for name, value in fields.items():
        setattr(ended, name, value)
    return ended


def test_the_commands_status_is_ours(tmp_path: Path) -> None:
    assert conclude(EXEC, outcome(tmp_path, command_status=7, emulator_status=0)) == 7


@pytest.mark.parametrize(
    ("emulator_status", "told"),
    [(None, True), (-9, True), (machine.EXIT_LINUX_PANIC * 2 + 1, True), (machine.EXIT_POWER_OFF * 2 + 1, False)],
)
def test_a_disk_that_is_kept_needs_an_orderly_end(
    emulator_status: int | None, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = outcome(tmp_path, command_status=0, emulator_status=emulator_status)
    assert conclude(replace(EXEC, persist=True), ended) == (Status.NOT_POWERED_OFF if told else 0)
    assert ("did not power off" in capsys.readouterr().err) == told
    assert conclude(EXEC, ended) == 0
    ended.command_status = 7
    assert conclude(replace(EXEC, persist=True), ended) == 7


@pytest.mark.parametrize(
    ("written", "status"),
    [
        (machine.EXIT_POWER_OFF, Status.POWERED_OFF),
        (machine.EXIT_REBOOT, Status.REBOOTED),
        (machine.EXIT_LINUX_PANIC, Status.LINUX_PANIC),
        (machine.EXIT_KERNEL_PANIC, Status.KERNEL_PANIC),
        (machine.EXIT_BOOT_CONFIGURATION, Status.BOOT_CONFIGURATION),
        (0, Status.EMULATOR),
    ],
)
def test_every_end_without_a_status_has_its_own(
    written: int, status: Status, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = outcome(tmp_path, emulator_status=machine.emulator_status(written))
    assert conclude(EXEC, ended) == status
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("end", "in_exec", "in_shell"),
    [
        (End.POWER_OFF, Status.POWERED_OFF, Status.OK),
        (End.REBOOT, Status.REBOOTED, Status.OK),
        (End.PANIC, Status.LINUX_PANIC, Status.LINUX_PANIC),
    ],
)
def test_a_native_guest_tells_its_end_on_the_console(end: End, in_exec: Status, in_shell: Status, tmp_path: Path) -> None:
    ended = outcome(tmp_path, emulator_status=0, console_end=end)
    assert conclude(EXEC, ended) == in_exec
    assert conclude(SHELL, ended) == in_shell


def test_an_emulator_that_fails_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude(EXEC, outcome(tmp_path, emulator_status=-9)) == Status.EMULATOR
    assert "unknown word" in capsys.readouterr().err


def test_why_the_guests_init_gave_up_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console = tmp_path / "console"
    console.write_bytes(b"[ 1.0] Run /keel/init\r\nkeel-init: error: there is no root\r\n[ 1.1] reboot: Power down\r\n")
    for choices in (EXEC, SHELL):
        ended = outcome(tmp_path, emulator_status=machine.emulator_status(machine.EXIT_POWER_OFF), console_log=console)
        assert conclude(choices, ended) == Status.POWERED_OFF
        assert capsys.readouterr().err == f"keel: error: there is no root; its console is in {console}\n"


@pytest.mark.parametrize(("processors", "told"), [(8, True), (2, False)])
def test_more_processors_than_the_host_has_take_turns(
    processors: int, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    greet(Settings(), boot.Choices(processors=processors), "tcg", "none")
    assert ("8 processors take turns on the 2 of this machine" in capsys.readouterr().err) == told


def test_gdb_is_offered_unless_a_reader_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    """With a reader our error output has only the command's."""
    choices = boot.Choices(command="true", gdb=True)
    greet(Settings(), choices, "tcg", "none", has_reader=True)
    assert capsys.readouterr().err == ""
    greet(Settings(), choices, "tcg", "none")
    assert "in another terminal: ./keel gdb" in capsys.readouterr().err


def test_a_guest_that_the_debugger_ended_was_at_its_limit(tmp_path: Path) -> None:
    """Not where the command's status had come, or the kernel has panicked."""
    asked, panicked = debugger.Dialogue(debugger.ask([], [])), debugger.Dialogue(debugger.ask([], []))
    asked.begin()
    for dialogue in (asked, panicked):
        dialogue.hear(debugger.PROMPT)
        assert dialogue.over
    assert conclude(EXEC, after_dialogue(asked, outcome(tmp_path))) == Status.TIMEOUT
    assert conclude(EXEC, after_dialogue(asked, outcome(tmp_path, command_status=7))) == 7
    for other in (panicked, None):
        assert conclude(EXEC, after_dialogue(other, outcome(tmp_path))) == Status.EMULATOR


def test_a_timeout_has_the_usual_status(tmp_path: Path) -> None:
    assert conclude(EXEC, outcome(tmp_path, timed_out=True)) == Status.TIMEOUT


@pytest.mark.parametrize(
    "choices",
    [
        boot.Choices(memory_mb=1),
        boot.Choices(processors=0),
        boot.Choices(processors=-1),
        boot.Choices(processors=machine.MOST_PROCESSORS + 1),
        boot.Choices(processors=2, icount=True, native=True),
        boot.Choices(timeout_s=0),
        boot.Choices(command="  "),
        boot.Choices(icount=True, accelerator="kvm"),
        boot.Choices(bochs=True, native=True),
        boot.Choices(bochs=True, icount=True),
        boot.Choices(bochs=True, card="e1000"),
        boot.Choices(bochs=True, drives=("disk.img",)),
        boot.Choices(bochs=True, emulator_arguments=("-S",)),
        boot.Choices(timeout_s=float("nan")),
        boot.Choices(append="a\nb"),
        boot.Choices(append="x" * 2048),
        boot.Choices(drives=("a.img",) * machine.MOST_DISKS),
        boot.Choices(persist=True, icount=True),
        boot.Choices(packages=("--allow-unauthenticated",)),
        boot.Choices(packages=("gdb",), root="root.img"),
        boot.Choices(native=True, boot_template=Path("my.conf")),
        boot.Choices(kernel=boot.DEBIAN_KERNEL),
        boot.Choices(native=True, kernel="/no/such/bzImage"),
        boot.Choices(native=True, kernel=boot.DEBIAN_KERNEL, persist=True),
        boot.Choices(native=True, application=Path("a"), application_arguments=("two words",)),
        boot.Choices(native=True, application=Path("a"), application_arguments=("",)),
        boot.Choices(boot_template=Path("/no/such/boot.conf")),
    ],
)
def test_impossible_choices_are_refused(choices: boot.Choices) -> None:
    with pytest.raises(KeelError):
        boot.check(choices)


def test_a_bad_boot_configuration_is_refused(tmp_path: Path) -> None:
    template = tmp_path / "my.conf"
    template.write_text("task linux { args ${nothing} }")
    with pytest.raises(KeelError, match="nothing"):
        boot.check(boot.Choices(boot_template=template))


def test_both_systems_get_the_same_parameters_but_for_the_machines_own() -> None:
    keel = boot.linux_parameters(boot.Choices(command="x"), "").split()
    native = boot.linux_parameters(boot.Choices(command="x", native=True), "").split()
    assert [word for word in native if word not in boot.NATIVE_PARAMETERS] == keel


def test_the_deterministic_clock_meets_nothing_that_answers_in_the_hosts_time() -> None:
    counted = boot.Choices(command="x", icount=True)
    assert boot.Choices(command="x", bochs=True).network_card is None
    assert (counted.on_disk, counted.network_card) == (False, None)
    assert "ip=" not in boot.linux_parameters(counted, "")
    assert boot.Choices(icount=True, card="e1000").network_card == "e1000"


def test_a_network_may_lead_nowhere() -> None:
    choices = {name: boot.Choices(card=name) for name in machine.NETWORKS}
    assert {name for name, choice in choices.items() if choice.is_restricted} == {"virtio,restrict=on", "e1000,restrict=on"}
    assert [choice.network_card for choice in choices.values()] == [*machine.CARDS, *machine.CARDS, None]
    assert not boot.Choices().is_restricted and machine.NETWORK_PARAMETERS[0] in boot.linux_parameters(
        choices["e1000,restrict=on"], ""
    )


@pytest.mark.parametrize(
    ("choices", "has_port"),
    [
        (boot.Choices(command="x"), True),
        (boot.Choices(command="x", native=True), True),
        (boot.Choices(), False),
        (boot.Choices(command="x", icount=True), False),
        (boot.Choices(command="x", bochs=True), False),
        (boot.Choices(command="x", native=True, kernel=boot.DEBIAN_KERNEL), False),
        (boot.Choices(command="x", native=True, application=Path("/b/hello")), False),
    ],
    ids=["keel", "native", "shell", "icount", "bochs", "kernel", "application"],
)
def test_a_command_has_a_port_where_the_driver_is_sure_and_is_told_so(choices: boot.Choices, has_port: bool) -> None:
    word = f"keel.port={machine.PORT_NAME}"
    assert choices.has_port == has_port == (word in boot.linux_parameters(choices, "").split())


def test_another_kernel_needs_no_driver_for_a_disk() -> None:
    choices = boot.Choices(native=True, kernel=boot.DEBIAN_KERNEL)
    boot.check(choices)
    assert not choices.on_disk


@pytest.mark.parametrize(
    ("choices", "option"),
    [
        (boot.Choices(shares=(qemu.Share(Path("/a"), "/a"),)), "--share"),
        (boot.Choices(shares=(qemu.Share(Path("/a"), "/a"),), root="/r"), "--share"),
        (boot.Choices(drives=("a.img",)), "--drive"),
        (boot.Choices(forwards=("8080:80",)), "--forward"),
        (boot.Choices(ssh=True), "--ssh"),
    ],
)
def test_debians_kernel_has_no_driver_before_the_command(choices: boot.Choices, option: str) -> None:
    """Refused before anything is built; a root with modules of its own may load those of disks and networks."""
    boot.check(replace(choices, native=True))
    with pytest.raises(KeelError, match=f"{option} needs a driver"):
        boot.check(replace(choices, native=True, kernel=boot.DEBIAN_KERNEL))
    if option != "--share":
        boot.check(replace(choices, native=True, root="/r", kernel=boot.DEBIAN_KERNEL))


def test_the_guest_is_told_of_its_disk_and_its_network() -> None:
    words = boot.linux_parameters(boot.Choices(), "", root_on_disk=True).split()
    assert {f"keel.root={machine.ROOT_DISK}", *machine.NETWORK_PARAMETERS} <= set(words)
    words = boot.linux_parameters(boot.Choices(card="none"), "").split()
    assert not {f"keel.root={machine.ROOT_DISK}", *machine.NETWORK_PARAMETERS} & set(words)


def test_the_guest_is_told_of_another_init() -> None:
    assert "keel.init=systemd" in boot.linux_parameters(boot.Choices(init="systemd"), "").split()
    assert "keel.init" not in boot.linux_parameters(boot.Choices(), "")


def test_an_application_gets_its_name_and_its_words_behind_all_others() -> None:
    choices = boot.Choices(native=True, application=Path("/b/hello"), application_arguments=("-v", "x"), append="quiet")
    words = boot.linux_parameters(choices, "keel.term=vt100").split()
    assert words[-4:] == ["quiet", "--", "-v", "x"]
    assert "keel.app=hello" in words and "clearcpuid=smep,smap" in words
    assert "keel.app" not in boot.linux_parameters(boot.Choices(native=True), "")


@pytest.mark.parametrize(
    ("choices", "more"),
    [
        (boot.Choices(), ()),
        (boot.Choices(iommu=True, gdb=True), ()),
        (boot.Choices(uefi=True), (*packages.UEFI, *packages.UEFI_LOADER)),
        (boot.Choices(graphic=True), packages.UEFI_LOADER),
        (boot.Choices(ssh=True), packages.SSH),
    ],
)
def test_a_set_needs_nothing_that_builds(
    choices: boot.Choices, more: tuple[packages.Need, ...], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the emulator, and what an option takes besides; a window takes more than a socket for a viewer."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    from_set = replace(settings, release=Path("/set"))
    assert needs_of(from_set, choices) == [*packages.EMULATOR, *more]
    monkeypatch.setenv("DISPLAY", ":0")
    window = packages.WINDOW if choices.graphic else ()
    assert {*needs_of(from_set, choices)} == {*packages.EMULATOR, *more, *window}


@pytest.mark.parametrize(
    ("log", "fields"),
    [
        ("kernel_log", {"emulator_status": 2 * machine.EXIT_BOOT_CONFIGURATION + 1}),
        ("emulator_log", {"emulator_status": 1}),
        ("console_log", {"emulator_status": 2 * machine.EXIT_POWER_OFF + 1}),
    ],
)
def test_a_guests_escape_sequences_are_shown_as_text(
    log: str, fields: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a line of ours quotes of a guest does not act on the user's terminal."""
    ended = outcome(tmp_path, **fields)
    path = tmp_path / log
    path.write_text("keel-init: error: \x1b]0;title\x07\x1b[2J\x9b1m \u202eµ\n")
    setattr(ended, log, path)
    assert conclude(EXEC, ended)
    said = capsys.readouterr().err
    assert "\\x1b]0;title\\x07\\x1b[2J\\x9b1m \\u202eµ" in said
    assert all(sign.isprintable() for sign in said.rstrip("\n"))


def test_errors_and_steps_are_one_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of files have such characters, too."""
    assert KeelError("a\x1b[1m\nb", "c\r").line() == "keel: error: a\\x1b[1m\\nb (c\\r)"
    with progress.Step("packing a\x1b\n") as step:
        step.shown = 0.0
        step.started -= 60
        step.update("at \x07")
    assert capsys.readouterr().err.count("\n") == 3 and "\x1b" not in capsys.readouterr().err
