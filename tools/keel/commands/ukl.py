# SPDX-License-Identifier: GPL-2.0-only
"""`./keel ukl`: builds applications for level 0 and runs them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import boot, uklapps, uklbuild, ukloptions
from ..config import Settings
from ..errors import KeelError, Status
from ..progress import say
from . import run as run_command

# What the guest's init takes as a name.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,39}")
LAST = "last"


@dataclass(frozen=True)
class Wanted:
    """What is to be built: sources of one's own with words for gcc, or an application of a name; and what for."""

    sources: Sequence[str]
    flags: Sequence[str]
    application: str | None
    options: str
    ordinary: bool


def build(settings: Settings, wanted: Wanted) -> None:
    """Build an application, and the kernel that it is for; it is the one that `run` takes. Or an ordinary program like it."""
    options, ordinary = ukloptions.parsed(wanted.options), wanted.ordinary
    if options and ordinary:
        raise KeelError("an ordinary program has no options", "leave one of --options and --ordinary out", Status.USAGE)
    if wanted.application:
        if wanted.sources or wanted.flags:
            raise KeelError("--app has sources and flags of its own", "leave the others out", Status.USAGE)
        built = uklapps.build(settings, wanted.application, options, ordinary=ordinary)
    else:
        built = uklbuild.program(settings, _paths(wanted.sources), wanted.flags, options, ordinary=ordinary)
    if ordinary:
        say(f"{built.name} is built as an ordinary program: {built}")
        return
    (settings.build / "ukl" / LAST).write_text(built.name)
    say(f"{built.name} is built: ./keel ukl run")


def _paths(sources: Sequence[str]) -> list[Path]:
    """The sources, the first of which gives a name that can be one."""
    if not sources:
        raise KeelError("ukl build needs the sources of an application", "./keel ukl build hello.c", Status.USAGE)
    paths = [Path(name) for name in sources]
    if not NAME.fullmatch(paths[0].stem):
        raise KeelError(f"{paths[0].stem!r} cannot be an application's name", "letters, digits and _.+-, 40 at most")
    return paths


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
