# SPDX-License-Identifier: GPL-2.0-only
"""`./keel profile`: runs a command in Debian, on either system, and shows where its instructions or modelled cycles went."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import boot, figures, machine, profile, timing, watched
from ..config import Settings
from ..errors import KeelError, Status
from ..placement import TASKS, Placement
from ..progress import say
from . import run as run_command


@dataclass(frozen=True)
class Wanted:
    """What the user wants to see."""

    command: str
    native: bool
    part: bool
    top: int
    folded: Path | None
    timeout_s: float | None
    packages: tuple[str, ...] = ()
    layer: str | None = None
    machines: Sequence[str] = ()
    tagged: bool = False
    parts: Path | None = None
    placement: Placement = TASKS
    # Only this program, and kernels for it.
    program: Path | None = None
    processors: int = 1
    memory_mb: int = machine.DEFAULT_MEMORY_MB


def run(settings: Settings, wanted: Wanted) -> int:
    """Runs the verb. The command's output and exit status are ours; the table goes below it."""
    if wanted.top < 1:
        raise KeelError("--top must be at least 1", "", Status.USAGE)
    if wanted.program and (wanted.machines or wanted.parts):
        raise KeelError("--of counts instructions by function", "it goes without --machine and --parts", Status.USAGE)
    with tempfile.TemporaryDirectory() as place:
        watch = watched.prepare(
            settings,
            Path(place),
            wanted.machines,
            part=wanted.part,
            sums=bool(wanted.parts),
            native=wanted.native,
            program=wanted.program,
        )
        choices = boot.Choices(
            native=wanted.native,
            placement=wanted.placement,
            command=wanted.command,
            icount=True,
            processors=wanted.processors,
            memory_mb=wanted.memory_mb,
            packages=wanted.packages,
            layer=wanted.layer,
            timeout_s=wanted.timeout_s,
            emulator_arguments=watch.arguments,
        )
        status = run_command.run(settings, choices)
        if not watch.lines():
            why = "it marks no part of itself (guest/mark.h)" if wanted.part else "it did not come to its end"
            raise KeelError(f"there is no profile of the command: {why}")
        _show(settings, wanted, watch)
    return status


def _show(settings: Settings, wanted: Wanted, watch: watched.Watch) -> None:
    """Print the table, or write the other requested output."""
    if wanted.parts:
        timing.write_parts(wanted.parts, watch.modelled())
        return
    images = profile.images(settings, native=wanted.native)
    if wanted.machines:
        unit = f"cycles of {wanted.machines[0]}"
        found = watch.modelled().profile(wanted.machines[0], timing.VARIANTS[wanted.tagged], images)
    else:
        unit, found = profile.INSTRUCTIONS, profile.read_blocks(watch.lines(), images)
    print(figures.as_text(profile.rows(found, wanted.top, unit)), end="")
    if wanted.folded:
        wanted.folded.write_text(profile.as_folded(found))
        say(f"{wanted.folded} is for tools that draw flame graphs")
