# SPDX-License-Identifier: GPL-2.0-only
"""Completion in shells, and manual pages: both generated from the parser, so that they always agree with it."""

import argparse
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from .arguments import Parser
from .config import version
from .errors import Status
from .progress import say

# The exit statuses that a user may see, in words; docs/getting-started.md has them all.
STATUSES = """0 is success, 1 a test that failed, 2 a wrong argument, 124 the end of --timeout, 125 any other error.
With run --exec it is the command's, and 110 to 116 say how a guest ended before that.
That of console is the run's if the guest has ended."""


def completion(parser: Parser) -> str:
    """A function of bash that completes verbs, options and the words that they can have; all else is a file."""
    verbs = parser.verbs()
    after = [f"{name}:{option}) words={_joined(words)} ;;" for name, verb in verbs.items() for option, words in verb.words()]
    begun = [f"{name}) words={_joined([*_options(verb), *verb.verbs(), *verb.places])} ;;" for name, verb in verbs.items()]
    first = _joined([*verbs, *_options(parser)])
    return "\n".join(
        [
            # REUSE-IgnoreStart (the licence of the output, not of this file)
            "# SPDX-License-Identifier: GPL-2.0-only",
            # REUSE-IgnoreEnd
            "_keel() {",
            "local words= verb=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
            f"if ((COMP_CWORD == 1)); then words={first}; else case $verb:$before in",
            *after,
            "*) case $verb in",
            *begun,
            "esac ;;",
            "esac; fi",
            'COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            f"complete -o default -F _keel {parser.prog} ./{parser.prog}",
            "",
        ]
    )


def _options(parser: Parser) -> list[str]:
    return [string for action in parser.options() for string in action.option_strings if string.startswith("--")]


def _joined(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def write(parser: Parser, directory: Path) -> int:
    """Write a page for the command and one for each verb."""
    folder = directory / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(parser):
        (folder / f"{name}.1").write_text(text, encoding="utf-8")
    say(f"read them by: man -M {directory} keel-run")
    return Status.OK


def pages(parser: Parser) -> Iterator[tuple[str, str]]:
    """The name and the text of each page, in troff with man's macros."""
    name = parser.prog.replace(" ", "-")
    yield name, _page(name, parser)
    for verb in parser.verbs().values():
        yield from pages(verb)


def _page(name: str, parser: Parser) -> str:
    described = (parser.description or "").rstrip(".")
    lines = [
        # REUSE-IgnoreStart (as above)
        '.\\" SPDX-License-Identifier: GPL-2.0-only',
        # REUSE-IgnoreEnd
        f'.TH {_word(name.upper())} 1 "" {_word(f"keel {version()}")} "Keel"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(described)}",
        ".SH SYNOPSIS",
        _text(" ".join(parser.format_usage().removeprefix("usage: ").split())),
        ".SH OPTIONS",
    ]
    for action in parser.shown():
        lines += [".TP", _tag(action), _text(parser.explained(action))]
    for verb, other in parser.verbs().items():
        lines += [".TP", f"\\fB{_text(verb)}\\fR", _text(other.description or "")]
    if parser.epilog:
        lines += [".SH NOTES", ".nf", *map(_text, parser.epilog.splitlines()), ".fi"]
    lines += [".SH EXIT STATUS", *map(_text, STATUSES.splitlines())]
    if parser.verbs():
        others = [f"\\fB{_text(other.prog.replace(' ', '-'))}\\fR(1)" for other in parser.verbs().values()]
        lines += [".SH SEE ALSO", ", ".join(others)]
    return "\n".join(lines) + "\n"


def _tag(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    if action.choices and not action.metavar:
        value = ", ".join(map(str, action.choices))
    options = ", ".join(f"\\fB{_text(string)}\\fR" for string in action.option_strings)
    return f"{options} \\fI{_text(str(value))}\\fR".strip()


def _text(text: str) -> str:
    """Words as they are: troff would make commands of some characters."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


def _word(text: str) -> str:
    return f'"{_text(text)}"'
