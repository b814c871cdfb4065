# SPDX-License-Identifier: GPL-2.0-only
"""The native examples: lists them, runs one, and checks its output.

Each is a folder in user/examples with its source, its boot configuration, and its
expected output.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import bochs, boot, bootconf, guest, machine, process, slot
from .config import Settings

FOLDER = Path("user") / "examples"
OUTPUT = "output.txt"
# For an example that reads: the prompt in the first line, and the input of a test.
INPUT = "input.txt"
TIMEOUT_S = 60.0
# Bochs is slower.
BOCHS_TIMEOUT_S = 180.0
# The output of these depends on time: they run on the deterministic clock.
TIMED = frozenset({"budget", "console", "timer"})
# How the names of those begin that have small address spaces, for which QEMU's translator needs a word of the µ-kernel's.
SMALL = "small-"
# How the names of their programs of 32 bits end, and what uses the FPU in a disassembly.
PROGRAM = "-32"
FPU = re.compile(r":\t(?:\w+ )?(?:f\w+|emms)\b|%(?:st|mm|[xyz]mm)")
# What the emulator is to have beside the usual devices, for a machine with an IOMMU; and what the root task says of it then.
DEVICES = {"edu": ("-device", "edu")}
TOLD = {"edu": ("root: DMA is confined to tasks with devices", "was refused to read")}
# How the lines of the µ-kernel and the root task begin.
OTHERS = ("keel: ", "root: ")


@dataclass(frozen=True)
class Ran:
    """How an example ended, and all that was printed: on the log, and on the serial line of a console."""

    end: int | None
    timed_out: bool
    log: str
    console: str

    def output(self) -> list[str]:
        """The example's own lines: those on the log, then those on its console."""
        lines = [*self.log.splitlines(), *self.console.splitlines()]
        return [line for line in lines if not line.startswith(OTHERS)]


def names(settings: Settings) -> list[str]:
    """The names of all examples."""
    return sorted(path.parent.name for path in (settings.repository / FOLDER).glob(f"*/{bootconf.NAME}"))


def about(settings: Settings, name: str) -> str:
    """What an example shows: how its source begins, up to the first stop."""
    text = (settings.repository / FOLDER / name / "main.rs").read_text(encoding="utf-8")
    said = " ".join(line.removeprefix("//!").strip() for line in text.splitlines() if line.startswith("//!"))
    return re.split(r"[.:] |\.$", said)[0]


def kernel_line(name: str) -> str:
    """The words of the µ-kernel's command line that an example needs."""
    return machine.UNSAFE if name.startswith(SMALL) else ""


def run(settings: Settings, name: str, show: Callable[[bytes], None], timeout_s: float | None, *, user: bool = False) -> Ran:
    """Boot one example, which is built, and show its lines as they come.

    What it reads is what the user types, or the file of what is typed in a test.
    """
    log, console = bytearray(), bytearray()

    def keeper(kept: bytearray) -> Callable[[bytes], bool]:
        def keep(data: bytes) -> bool:
            kept.extend(data)
            show(data.replace(b"\r", b""))
            return False

        return keep

    dialogue = settings.repository / FOLDER / name / INPUT
    prompt, _, keys = dialogue.read_bytes().partition(b"\n") if dialogue.exists() else (None, b"", b"")
    with slot.taken(settings, f"example-{name}") as mine:
        template = settings.repository / FOLDER / name / bootconf.NAME
        devices = DEVICES.get(name, ())
        choices = boot.Choices(
            boot_template=template,
            icount=name in TIMED,
            emulator_arguments=devices,
            iommu=name in DEVICES,
            kernel_line=kernel_line(name),
        )
        described = boot.tests_guest(settings, choices, mine)
        mine.note_symbols({slot.KERNEL: described.kernel})
        plan = guest.Plan(
            slot=mine,
            timeout_s=timeout_s,
            watch_log=keeper(log),
            watch_console=keeper(console),
            prompt=prompt,
            keys=b"" if user else keys,
        )
        outcome = guest.run(settings, described, plan)
    texts = [bytes(kept).decode(errors="replace") for kept in (log, console)]
    return Ran(machine.exit_value(outcome.emulator_status), outcome.timed_out, *texts)


def run_on_bochs(settings: Settings, name: str) -> Ran:
    """Boot one example, which is built, on Bochs. It checks the segments' limits, so no word says that it need not."""
    log = bytearray()
    template = settings.repository / FOLDER / name / bootconf.NAME
    with slot.taken(settings, f"example-{name}-bochs") as mine:
        described = boot.tests_guest(settings, boot.Choices(boot_template=template), mine)
        plan = bochs.Plan(slot=mine, timeout_s=BOCHS_TIMEOUT_S, watch_log=log.extend)
        end = bochs.run(described, machine.BOCHS_PROCESSOR, plan)
    return Ran(end, end is None, log.decode(errors="replace"), "")


def fpu_instructions(disassembly: str) -> list[str]:
    """The lines of a disassembly, without the bytes, that use the FPU, MMX or SSE."""
    return [line for line in disassembly.splitlines() if FPU.search(line)]


def _fpu_problem(settings: Settings, name: str) -> str:
    """What is wrong with an example's program of 32 bits: a thread with an FPU state has no fast path."""
    program = settings.keel_directory / f"{name.removeprefix(SMALL)}{PROGRAM}"
    found = fpu_instructions(process.output(["objdump", "--disassemble", "--no-show-raw-insn", str(program)]))
    return f"it uses the FPU: {found[0].strip()}" if found else ""


def judge(settings: Settings) -> Iterator[tuple[str, str]]:
    """Run each example; its name with what is wrong, or nothing."""
    for name in names(settings):
        expected = (settings.repository / FOLDER / name / OUTPUT).read_text(encoding="utf-8")
        ran = run(settings, name, lambda _: None, TIMEOUT_S)
        untold = [f"the log lacks {words!r}" for words in TOLD.get(name, ()) if words not in ran.log]
        yield name, problem(ran, expected) or "".join(untold[:1])
        if name.startswith(SMALL):
            yield f"{name}-without-fpu", _fpu_problem(settings, name)
            yield f"{name}-bochs", problem(run_on_bochs(settings, name), expected)


def problem(ran: Ran, expected: str) -> str:
    """How an example's run differs from what is expected; nothing if it does not."""
    for number, (got, wanted) in enumerate(zip(ran.output(), expected.splitlines(), strict=False), 1):
        if got != wanted:
            return f"line {number}: expected {wanted!r}, got {got!r}"
    came, wanted_lines = len(ran.output()), len(expected.splitlines())
    if came != wanted_lines:
        return f"expected {wanted_lines} lines, got {came}; the last: {ran.log.strip().splitlines()[-1:]}"
    if ran.end != machine.EXIT_POWER_OFF:
        return "it did not end in time" if ran.timed_out else f"the machine ended with {ran.end}"
    return ""
