# SPDX-License-Identifier: GPL-2.0-only
"""The boot configuration that the root task reads: a template, filled in for one run.

docs/boot.md describes its language. A template may use ${ramdisk}, the name of
the RAM disk's module, ${linux_args}, Linux's command line, and ${linux_place}, where
the user wants Linux.
"""

import string
from pathlib import Path

from .errors import KeelError

DEFAULT_TEMPLATE = Path(__file__).parent / "boot.conf"
SUITE_TEMPLATE = Path(__file__).parent / "suite.conf"
HOSTILE_TEMPLATE = Path(__file__).parent / "hostile.conf"
HOSTILE_SERVER_TEMPLATE = Path(__file__).parent / "hostile-server.conf"
UNMAPS_TEMPLATE = Path(__file__).parent / "unmaps.conf"
PAIRS_TEMPLATE = Path(__file__).parent / "pairs.conf"
RESIDENTS_TEMPLATE = Path(__file__).parent / "residents.conf"
FIGURES_TEMPLATE = Path(__file__).parent / "figures.conf"
LOAD_TEMPLATE = Path(__file__).parent / "load.conf"
GROWTH_TEMPLATE = Path(__file__).parent / "growth.conf"
SMALL_TEMPLATE = Path(__file__).parent / "small.conf"
PAPER_TEMPLATE = Path(__file__).parent / "paper.conf"
NAME = "boot.conf"


def fill(template: str, *, ramdisk: str, linux_args: str, linux_place: str = "task") -> str:
    """The configuration's text; KeelError where the template asks for what is not there."""
    values = {
        "ramdisk": ramdisk,
        "linux_args": linux_args,
        "linux_place": linux_place,
    }
    try:
        return string.Template(template).substitute(values)
    except (KeyError, ValueError) as error:
        known = ", ".join(f"${{{name}}}" for name in values)
        raise KeelError(f"the boot configuration has a bad placeholder: {error}", f"known are {known}") from error


def fill_tests(template: str, arguments: str) -> str:
    """The text of a configuration of the tests, with the arguments of the program that tests."""
    return string.Template(template).substitute(arguments=arguments)


def read(path: Path) -> str:
    """A template's text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise KeelError(f"the boot configuration {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KeelError(f"the boot configuration {path} is not text") from error
