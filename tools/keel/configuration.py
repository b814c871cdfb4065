# SPDX-License-Identifier: GPL-2.0-only
"""The user's defaults for options: `~/.config/keel/config.toml`, with a table for each verb.

  [run]
  mem = 4096
  packages = "vim"

They are put before the arguments of the command, so that the arguments take precedence. Tests and measurements must not depend
on the user's defaults: `test` and `bench` ignore the file, and so do the commands that they start.
"""

import argparse
import contextlib
import difflib
import io
import os
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .arguments import Parser
from .config import base_directory
from .errors import KeelError

# Names another file; if it is empty there is none.
VARIABLE = "KEEL_CONFIG"
IGNORING = ("test", "bench")
# Options that make sense only for a single run have no default.
NO_DEFAULTS = ("--help", "--exec", "--name")


def place() -> Path | None:
    """The path of the file, if there is one."""
    if (chosen := os.environ.get(VARIABLE)) is not None:
        return Path(chosen) if chosen else None
    return usual_place()


def usual_place() -> Path:
    """The path of the file where no other one is named."""
    return base_directory("XDG_CONFIG_HOME", ".config") / "keel" / "config.toml"


def ignore() -> None:
    """From now on use no file, in this command and in those that it starts."""
    os.environ[VARIABLE] = ""


def with_defaults(arguments: list[str], make_parser: Callable[[], Parser]) -> list[str]:
    """The arguments with the defaults of their verb."""
    verb = arguments[0] if arguments else ""
    file = place()
    if verb.startswith("-") or verb in ("", "help", *IGNORING) or file is None:
        return arguments
    tables = _read(file)
    if not tables:
        return arguments
    verbs = make_parser().verbs()
    defaults = [(name, _words(file, verbs, name, table)) for name, table in tables.items()]
    words = [word for name, words in defaults if name == verb for word in words]
    return [verb, *words, *arguments[1:]]


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise KeelError(f"{file} cannot be read: {error.strerror}", f"set {VARIABLE}= in the environment to use none") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise KeelError(f"{file}: {error}", f"correct it, or set {VARIABLE}= in the environment to use none") from error


def _words(file: Path, verbs: dict[str, Parser], name: str, table: Any) -> list[str]:
    """One table as arguments of its verb, which have been checked."""
    known = {verb: parser for verb, parser in verbs.items() if verb not in IGNORING and _keys(parser)}
    if name not in known or not isinstance(table, dict):
        raise KeelError(f"{file}: {name!r} is no table of defaults", f"there can be {_listed(known)}")
    keys = _keys(known[name])
    words: list[str] = []
    for key, value in table.items():
        if key not in keys:
            near = [f"did you mean {word}?" for word in difflib.get_close_matches(key, keys, 1)]
            raise KeelError(f"{file}: [{name}] has no key {key!r}", " ".join([*near, f"there can be {_listed(keys)}"]))
        words += _option(f"{file}: [{name}] {key}", keys[key], value)
    _check(file, known[name], words)
    return words


def _keys(verb: Parser) -> dict[str, argparse.Action]:
    """What a table may have: the verb's options without their dashes."""
    return {
        string.removeprefix("--"): action
        for action in verb.options()
        for string in action.option_strings
        if string.startswith("--") and string not in NO_DEFAULTS
    }


def _option(where: str, action: argparse.Action, value: Any) -> list[str]:
    option = action.option_strings[-1]
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise KeelError(f"{where} must be true or false")
        return [option] if value else []
    several = isinstance(value, list) and isinstance(action.default, list)
    values = value if several else [value]
    if not all(type(one) in (str, int, float) for one in values):
        raise KeelError(f"{where} must be a number or words in quotes{', or a list of them' if several else ''}")
    return [f"{option}={one}" for one in values]


def _check(file: Path, verb: Parser, words: list[str]) -> None:
    """Refuse what the verb would refuse, and name the file: the user has not typed it now."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            verb.with_options_alone().parse(words)
    except SystemExit as error:
        line = said.getvalue().removeprefix("keel: error: ").strip()
        raise KeelError(f"{file}: {line}") from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
