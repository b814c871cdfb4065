# SPDX-License-Identifier: GPL-2.0-only
"""`./keel ukl`: builds applications for level 0 and runs them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import boot, uklbuild, ukloptions
from ..config import Settings
from ..errors import KeelError, Status
from ..progress import say
from . import run as run_command

# What the guest's init takes as a name.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,39}")
LAST = "last"


def build(settings: Settings, sources: Sequence[str], flags: Sequence[str], options: str, *, ordinary: bool) -> None:
    """Build an application, and the kernel that it is for; it is the one that `run` takes. Or an ordinary program like it."""
    chosen = ukloptions.parsed(options)
    if not sources:
        raise KeelError("ukl build needs the sources of an application", "./keel ukl build hello.c", Status.USAGE)
    paths = [Path(name) for name in sources]
    if not NAME.fullmatch(paths[0].stem):
        raise KeelError(f"{paths[0].stem!r} cannot be an application's name", "letters, digits and _.+-, 40 at most")
    if chosen and ordinary:
        raise KeelError("an ordinary program has no options", "leave one of --options and --ordinary out", Status.USAGE)
    built = uklbuild.program(settings, paths, flags, chosen, ordinary=ordinary)
    if ordinary:
        say(f"{built.name} is built as an ordinary program: {built}")
        return
    (settings.build / "ukl" / LAST).write_text(built.name)
    say(f"{built.name} is built: ./keel ukl run")


def run(settings: Settings, name: str | None, choices: boot.Choices) -> int:
    """Boot the kernel with an application, the one that was built last where none is named."""
    last = settings.build / "ukl" / LAST
    if name is None:
        if not last.exists():
            raise KeelError("no application has been built", "./keel ukl build hello.c")
        name = last.read_text()
    application = uklbuild.applications(settings) / name
    if not NAME.fullmatch(name) or not application.is_file():
        raise KeelError(f"there is no application {name}", "./keel ukl build makes one")
    options = uklbuild.options_of(settings, name)
    if options is None or application.stat().st_mtime_ns < settings.ukl_symbols(options).stat().st_mtime_ns:
        raise KeelError(f"{name} was built for an earlier kernel", "build it again: ./keel ukl build")
    return run_command.run(settings, replace(choices, native=True, application=application, application_options=options))
