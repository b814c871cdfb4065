# SPDX-License-Identifier: GPL-2.0-only
"""`./keel profile`: runs a command in Debian, on either system, and shows where its instructions or modelled cycles went."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import boot, figures, plugins, profile, timing
from ..config import Settings
from ..errors import KeelError, Status
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
    machines: Sequence[str] = ()
    tagged: bool = False
    parts: Path | None = None


def run(settings: Settings, wanted: Wanted) -> int:
    """The whole verb. The command's output and exit status are ours; the table goes below it."""
    if wanted.top < 1:
        raise KeelError("--top must be at least 1", "", Status.USAGE)
    if wanted.parts and not wanted.machines:
        raise KeelError("--parts needs --machine", "", Status.USAGE)
    with tempfile.TemporaryDirectory() as place:
        status, lines = _watch(settings, wanted, Path(place))
    if not lines:
        why = "it marks no part of itself (guest/mark.h)" if wanted.part else "it did not come to its end"
        raise KeelError(f"there is no profile of the command: {why}")
    _show(settings, wanted, lines)
    return status


def _watch(settings: Settings, wanted: Wanted, place: Path) -> tuple[int, list[str]]:
    """Run the command with the plugin, whose files are in an empty directory: its status, and the plugin's lines."""
    report = place / "blocks"
    option = f"{plugins.build(settings, 'timing' if wanted.machines else 'profile')},output={report}"
    option += ",part=on" if wanted.part else ""
    if wanted.machines:
        model = place / "model"
        timing.write_model(model, wanted.machines)
        option += f",model={model}"
    choices = boot.Choices(
        native=wanted.native,
        command=wanted.command,
        icount=True,
        timeout_s=wanted.timeout_s,
        emulator_arguments=("-plugin", option),
    )
    status = run_command.run(settings, choices)
    return status, report.read_text().splitlines() if report.exists() else []


def _show(settings: Settings, wanted: Wanted, lines: Sequence[str]) -> None:
    """The table, or what else is wanted of the plugin's lines."""
    report = timing.read_report(lines, wanted.machines) if wanted.machines else None
    if report and wanted.parts:
        timing.write_parts(wanted.parts, report)
        return
    images = profile.images(settings, native=wanted.native)
    if report:
        unit = f"cycles of {wanted.machines[0]}"
        found = report.profile(wanted.machines[0], timing.VARIANTS[wanted.tagged], images)
    else:
        unit, found = profile.INSTRUCTIONS, profile.read_blocks(lines, images)
    print(figures.as_text(profile.rows(found, wanted.top, unit)), end="")
    if wanted.folded:
        wanted.folded.write_text(profile.as_folded(found))
        say(f"{wanted.folded} is for tools that draw flame graphs")
