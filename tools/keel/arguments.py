# SPDX-License-Identifier: GPL-2.0-only
"""A parser of arguments whose errors are one line with a hint, and the table in its help."""

import argparse
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from .errors import KeelError, Status


class Parser(argparse.ArgumentParser):
    """argparse's, without abbreviations: an option that is added later must not change what a script means."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)
        # What completion offers for an argument that is no option.
        self.places: Collection[str] = ()

    def options(self) -> list[argparse.Action]:
        """The options, as declared."""
        return [action for action in self._actions if action.option_strings]

    def shown(self) -> list[argparse.Action]:
        """The arguments and options that the help has, without the verbs."""
        hidden = argparse.SUPPRESS
        return [one for one in self._actions if one.help is not hidden and not isinstance(one, argparse._SubParsersAction)]

    def explained(self, action: argparse.Action) -> str:
        """The help of an argument with its placeholders filled in."""
        return self._get_formatter()._expand_help(action)

    def words(self) -> Iterator[tuple[str, list[str]]]:
        """Each option with a fixed set of values, with these."""
        for action in self.options():
            if action.choices:
                yield action.option_strings[-1], [str(choice) for choice in action.choices]

    def verbs(self) -> dict[str, "Parser"]:
        """The parsers of its verbs, in their order."""
        actions = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return {name: verb for action in actions for name, verb in action.choices.items()}

    def with_options_alone(self) -> "Parser":
        """A parser of the same options without required arguments."""
        parser = Parser(prog=self.prog, add_help=False)
        for action in self.options():
            parser._add_action(action)
        return parser

    def parse(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """All arguments, those of the program where none are given, or the end if one is unknown."""
        options, others = self.parse_known_args(arguments)
        if others:
            self.refuse(others[0])
        return options

    def refuse(self, word: str) -> NoReturn:
        """End because of an unknown argument; name an option that is spelled similarly."""
        if not word.startswith("-"):
            self.error(f"there is no use for the argument {word!r}")
        name = word.split("=")[0]
        known = [string for action in self.options() for string in action.option_strings]
        self.error(f"there is no option {name}", *difflib.get_close_matches(name, known, 1))

    def error(self, message: str, near: str = "") -> NoReturn:
        """Print an error of one line, with a remedy."""
        message = re.sub(r"^the following arguments are required: (.*)$", r"\1 is missing", message)
        meant = f"did you mean {near}? " if near else ""
        error = KeelError(message, f"{meant}./{self.prog} --help shows what there is", Status.USAGE)
        self.exit(error.status, f"{error.line()}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of the choices; argparse would list twenty verbs with quotes."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        named = action.metavar if isinstance(action.metavar, str) else action.dest
        what = "/".join(action.option_strings) or named
        near = difflib.get_close_matches(str(value), known, 1)
        self.error(f"{value!r} is no {what}: {', '.join(known)}", *near)


def in_columns(rows: Iterable[Sequence[str]]) -> str:
    """Lines with columns below each other, for the end of a help."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
