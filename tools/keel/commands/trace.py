# SPDX-License-Identifier: GPL-2.0-only
"""`./keel trace`: runs a guest on the debug build and shows the last events of each processor."""

import os
from dataclasses import dataclass
from pathlib import Path

from .. import boot, bootconf, debugged, debugger, examples, machine, packages, rust, slot, tracering
from .. import trace as events
from ..config import Settings
from ..errors import KeelError, Status, system_error
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
    # Where all events of a command go.
    everything: Path | None = None
    memory_mb: int = machine.DEFAULT_MEMORY_MB


def trace(settings: Settings, wanted: Wanted) -> int:
    """Runs the verb."""
    if sum(choice is not None for choice in (wanted.example, wanted.template, wanted.command)) != 1:
        raise KeelError("say what to trace: one of an example, --boot-conf or --exec", "", Status.USAGE)
    if wanted.processors < 1 or wanted.last is not None and wanted.last < 1:
        raise KeelError("--processors and --last must be at least 1", "", Status.USAGE)
    if wanted.command is not None and wanted.processors > 1:
        raise KeelError(
            f"--processors {wanted.processors} is for native guests, and that of --exec has one",
            "leave --processors or --exec out",
            Status.USAGE,
        )
    if wanted.everything:
        if wanted.command is None or wanted.last or wanted.chrome:
            raise KeelError("--all is for --exec", "it goes without --last and --chrome", Status.USAGE)
        return _everything(settings, wanted, wanted.everything)
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
        memory_mb=wanted.memory_mb,
        debugger=True,
        kernel_line=debugged.TRACING,
    )
    answers: list[list[str]] = []
    run_command.run(settings, choices, debugger.Dialogue(debugger.ask([events.COMMAND], answers)))
    return events.parse(answers[0]) if answers else []


def _everything(settings: Settings, wanted: Wanted, output: Path) -> int:
    """All events of a command, on the deterministic clock, on which reading them takes no time."""
    name = f"trace-{os.getpid()}"
    reader = tracering.Reader(settings.run / name / slot.PRIVATE / slot.GDB, output)
    choices = boot.Choices(
        command=wanted.command,
        timeout_s=wanted.timeout_s,
        debugger=True,
        gdb=True,
        icount=True,
        memory_mb=wanted.memory_mb,
        name=name,
        kernel_line=f"nofast trace={tracering.KILOBYTES}",
    )
    boot.check(choices)
    # Whether it can be written is known before anything is built, and an older trace in it is kept until the guest is there.
    with output.open("a"):
        pass
    status = run_command.run(settings, choices, debugger.Dialogue(_after(reader)), reader.start)
    if isinstance(reader.error, OSError):
        raise system_error(_not_whole(output), reader.error, f"see {settings.logs}")
    if reader.error:
        raise KeelError(f"{_not_whole(output)}: {reader.error}", f"see {settings.logs}")
    if reader.is_alive():
        raise KeelError("the guest came to no end at which the rest could be read", f"see {settings.logs}")
    say(f"{reader.count} events are in {output}")
    return status


def _not_whole(output: Path) -> str:
    return f"the trace in {output} is not whole"


def _after(reader: tracering.Reader) -> debugger.Script:
    """The guest has ended: what is left is read, and then the debugger ends the run."""
    reader.finish()
    yield debugger.KEY
