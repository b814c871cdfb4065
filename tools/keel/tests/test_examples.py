# SPDX-License-Identifier: GPL-2.0-only
"""The native examples: their names, and how a run is judged."""

from dataclasses import replace

import pytest

from keel import bootconf, examples, machine
from keel.commands.example import conclude
from keel.config import Settings
from keel.errors import Status

WELL = examples.Ran(
    end=machine.EXIT_POWER_OFF,
    timed_out=False,
    log="root: task hello: number 3\r\nhello\r\nroot: task hello: power off\r\n",
    console="keel: 64 MB\r\nfrom the console\r\n",
)
EXPECTED = "hello\nfrom the console\n"


def test_a_run_that_prints_what_it_should_passes() -> None:
    assert examples.problem(WELL, EXPECTED) == ""


@pytest.mark.parametrize(
    ("ran", "word"),
    [
        (replace(WELL, log="root: x\nhullo\n"), "hullo"),
        (replace(WELL, console=""), "expected 2 lines, got 1"),
        (replace(WELL, console=WELL.console + "more\n"), "expected 2 lines, got 3"),
        (replace(WELL, end=machine.EXIT_LINUX_PANIC), "ended with"),
        (replace(WELL, end=None, timed_out=True), "in time"),
    ],
)
def test_every_difference_is_told(ran: examples.Ran, word: str) -> None:
    assert word in examples.problem(ran, EXPECTED)


@pytest.mark.parametrize(
    ("ran", "status"),
    [
        (WELL, Status.OK),
        (replace(WELL, end=machine.EXIT_LINUX_PANIC), Status.TESTS_FAILED),
        (replace(WELL, end=machine.EXIT_KERNEL_PANIC), Status.KERNEL_PANIC),
        (replace(WELL, end=None), Status.EMULATOR),
        (replace(WELL, end=None, timed_out=True), Status.TIMEOUT),
    ],
)
def test_the_end_decides_the_status(ran: examples.Ran, status: Status) -> None:
    got, why = conclude(ran)
    assert got == status
    assert bool(why) == (status is not Status.OK)


def test_what_an_example_reads_is_preceded_by_its_prompt() -> None:
    settings = Settings()
    for dialogue in (settings.repository / examples.FOLDER).glob(f"*/{examples.INPUT}"):
        prompt, _, keys = dialogue.read_bytes().partition(b"\n")
        assert keys
        assert prompt.decode() in (dialogue.parent / examples.OUTPUT).read_text(encoding="utf-8")


def test_examples_of_32_bits_have_their_program_and_the_word_for_windows() -> None:
    settings = Settings()
    small = [name for name in examples.names(settings) if name.startswith(examples.SMALL)]
    assert small
    for name in small:
        program = name.removeprefix(examples.SMALL) + examples.PROGRAM
        assert f"initrd {program} " in (settings.repository / examples.FOLDER / name / bootconf.NAME).read_text(encoding="utf-8")
        assert examples.kernel_line(name) == machine.UNSAFE
    assert examples.kernel_line("hello") == ""


def test_instructions_of_the_fpu_are_found() -> None:
    others = "   10000:\tmov    %ss,%eax\n   10003:\trep movsb %ds:(%esi),%es:(%edi)\n   10005:\tmov    %fs:0x0,%eax\n"
    used = ["   10000:\tfldz", "   10003:\tmovups %xmm0,(%eax)", "   10005:\tdata16 fnop", "   10006:\tmovq   %mm0,(%eax)"]
    assert examples.fpu_instructions(others + "\n".join(used)) == used


def test_every_example_is_complete() -> None:
    settings = Settings()
    names = examples.names(settings)
    assert "hello" in names
    assert set(names) > examples.TIMED
    for name in names:
        folder = settings.repository / examples.FOLDER / name
        assert (folder / "main.rs").is_file()
        assert f"image {name}\n" in (folder / bootconf.NAME).read_text(encoding="utf-8")
        assert (folder / examples.OUTPUT).read_text(encoding="utf-8").endswith("\n")
