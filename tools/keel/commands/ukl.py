# SPDX-License-Identifier: GPL-2.0-only
"""`./keel ukl`: builds applications for ring 0 and runs them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import boot, uklapps, uklbuild, ukloptions
from ..config import Settings
from ..errors import KeelError, Status
from ..progress import say
from . import run as run_command

# Names that the guest's init accepts.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,39}")
LAST = "last"


@dataclass(frozen=True)
class Wanted:
    """What is to be built: the user's sources with options for gcc, or a named application; and the kernel for it."""

    sources: Sequence[str]
    flags: Sequence[str]
    application: str | None
    options: str
    ordinary: bool
    linked: bool


def build(settings: Settings, wanted: Wanted) -> None:
    """Build an application, and the kernel that it is for; it is the one that `run` takes. Or an ordinary program like it."""
    options, ordinary = ukloptions.parsed(wanted.options), wanted.ordinary
    if ordinary and (options or wanted.linked):
        other = "--options" if options else "--linked"
        raise KeelError("an ordinary program has no kernel of its own", f"leave one of {other} and --ordinary out", Status.USAGE)
    if wanted.application:
        if wanted.sources or wanted.flags:
            raise KeelError("--app has sources and flags of its own", "leave the others out", Status.USAGE)
        built = uklapps.build(settings, wanted.application, options, ordinary=ordinary)
    else:
        built = uklbuild.program(settings, _paths(wanted.sources), wanted.flags, options, ordinary=ordinary)
    if ordinary:
        say(f"{built.name} is built as an ordinary program: {built}")
        return
    uklbuild.forget_linked(settings, built.name)
    (settings.build / "ukl" / LAST).write_text(built.name)
    if wanted.linked:
        image = uklbuild.link_into_kernel(settings, built.name, options)
        shown = image.relative_to(settings.repository) if image.is_relative_to(settings.repository) else image
        say(f"{built.name} is in its kernel, {shown}: ./keel ukl run, or with --alone nothing else")
    else:
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
    """Boot the kernel with an application, by default the one that was built last."""
    last = settings.build / "ukl" / LAST
    if name is None:
        if not last.exists():
            raise KeelError("no application has been built", "./keel ukl build hello.c")
        name = last.read_text()
    application = uklbuild.applications(settings) / name
    if not NAME.fullmatch(name) or not application.is_file():
        raise KeelError(f"there is no application {name}", "./keel ukl build makes one")
    options = uklbuild.options_of(settings, name)
    if options is None:
        raise KeelError(f"nothing says for which options {name} was built", "build it again: ./keel ukl build")
    linked = settings.ukl_linked(name).exists()
    if choices.alone and not linked:
        raise KeelError(f"{name} is not linked into a kernel, and needs a RAM disk", "./keel ukl build --linked", Status.USAGE)
    if choices.alone and (choices.command is not None or choices.packages or choices.layer):
        raise KeelError("with --alone there is nothing but the application", "leave --exec and --packages out", Status.USAGE)
    if choices.alone and choices.shares:
        raise KeelError("with --alone there is no init to mount what is shared", "leave --share and --cwd out", Status.USAGE)
    wanted = replace(choices, native=True, application=application, application_options=options, linked=linked)
    return run_command.run(settings, wanted)
