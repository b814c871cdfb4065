# SPDX-License-Identifier: GPL-2.0-only
"""`./keel profile`: runs a command in Debian, on either system, and shows where its instructions went."""

from dataclasses import dataclass
from pathlib import Path

from .. import boot, figures, plugins, profile
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


def run(settings: Settings, wanted: Wanted) -> int:
    """The whole verb. The command's output and exit status are ours; the table goes below it."""
    if wanted.top < 1:
        raise KeelError("--top must be at least 1", "", Status.USAGE)
    plugin = plugins.build(settings, "profile")
    report = plugin.with_name("native-blocks.txt" if wanted.native else "keel-blocks.txt")
    report.unlink(missing_ok=True)
    option = f"{plugin},output={report}" + (",part=on" if wanted.part else "")
    choices = boot.Choices(
        native=wanted.native,
        command=wanted.command,
        icount=True,
        timeout_s=wanted.timeout_s,
        emulator_arguments=("-plugin", option),
    )
    status = run_command.run(settings, choices)
    if not report.exists():
        why = "it marks no part of itself (guest/mark.h)" if wanted.part else "it did not come to its end"
        raise KeelError(f"there is no profile of the command: {why}")
    found = profile.read_blocks(report.read_text().splitlines(), profile.images(settings, native=wanted.native))
    print(figures.as_text(profile.rows(found, wanted.top)), end="")
    if wanted.folded:
        wanted.folded.write_text(profile.as_folded(found))
        say(f"{wanted.folded} is for tools that draw flame graphs")
    return status
