# SPDX-License-Identifier: GPL-2.0-only
"""`./keel trace`: runs a guest on the debug build and shows the last events of each processor."""

from dataclasses import dataclass
from pathlib import Path

from .. import boot, bootconf, debugged, debugger, examples, packages, rust
from .. import trace as events
from ..config import Settings
from ..errors import KeelError, Status
from ..progress import say
from . import run as run_command


@dataclass(frozen=True)
class Wanted:
    """What the user wants to see: an example, another native configuration, or a command in Linux."""

    example: str | None
    template: Path | None
    command: str | None
    processors: int
    timeout_s: float | None
    last: int | None
    chrome: Path | None


def trace(settings: Settings, wanted: Wanted) -> int:
    """Runs the verb."""
    if sum(choice is not None for choice in (wanted.example, wanted.template, wanted.command)) != 1:
        raise KeelError("say what to trace: one of an example, --boot-conf or --exec", "", Status.USAGE)
    if wanted.processors < 1 or wanted.last is not None and wanted.last < 1:
        raise KeelError("--processors and --last must be at least 1", "", Status.USAGE)
    found = _linux(settings, wanted) if wanted.command is not None else _native(settings, wanted)
    if not found:
        raise KeelError("the guest came to no end at which it could be asked", f"see {settings.logs}")
    shown = found if wanted.last is None else found[-wanted.last :]
    if wanted.chrome is None:
        print(events.as_text(shown), end="")
    else:
        wanted.chrome.write_text(events.as_chrome(shown))
        say(f"{len(shown)} events are in {wanted.chrome}, for https://ui.perfetto.dev or chrome://tracing")
    return Status.OK


def _native(settings: Settings, wanted: Wanted) -> list[events.Event]:
    template = wanted.template
    if template is None:
        known = examples.names(settings)
        if wanted.example not in known:
            raise KeelError(f"there is no example {wanted.example}", f"there are {' '.join(known)}", Status.USAGE)
        template = settings.repository / examples.FOLDER / wanted.example / bootconf.NAME
    packages.require_emulator(settings)
    rust.build_all(settings)
    rust.build_debugger(settings)
    return debugged.traced(settings, template, wanted.processors, wanted.timeout_s)


def _linux(settings: Settings, wanted: Wanted) -> list[events.Event]:
    choices = boot.Choices(
        command=wanted.command,
        timeout_s=wanted.timeout_s,
        debugger=True,
        kernel_line=debugged.TRACING,
    )
    answers: list[list[str]] = []
    run_command.run(settings, choices, debugger.Dialogue(debugger.ask([events.COMMAND], answers)))
    return events.parse(answers[0]) if answers else []
