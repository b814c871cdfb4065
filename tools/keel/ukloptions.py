# SPDX-License-Identifier: GPL-2.0-only
"""The options of the kernel for applications in ring 0, and the possible sets of them.

A set is a tuple in the order of OPTIONS; every set has a kernel of its own, and the empty one is the base model.
"""

from collections.abc import Collection

from .errors import KeelError, Status

# A short description of each; ukl/options/NAME.config has its settings of Linux's configuration.
OPTIONS = {
    "bypass": "calls without the work of entry and exit, for threads that ask for it",
    "ret": "the return from exceptions and interrupts without IRET",
    "run-to-completion": "threads that are not preempted, where they ask for it",
    "shortcuts": "read and write that go straight to TCP, among the calls that bypass",
}
# What an option is of no use without.
NEEDS = {"shortcuts": "bypass"}
# What one may have heard of and cannot have, with the reason.
REFUSED = {
    "pf-ss": "page faults have a stack of their own in every set, as all exceptions have",
    "pf-df": "page faults have a stack of their own in every set, so none becomes a double fault",
    "nss": "a kernel on an application's stack is lost where another process wakes it there, or a page of it is missing",
    "nss-ps": "an application's stack in the kernel's memory could not be written to by signals, nor copied by fork",
}

Options = tuple[str, ...]


def of_words(words: Collection[str]) -> Options:
    """The set that has these."""
    return tuple(name for name in OPTIONS if name in words)


def parsed(text: str) -> Options:
    """The set that a command line names, by its words with commas between them."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    for word in words:
        if word in REFUSED:
            raise KeelError(f"the option {word} cannot be had: {REFUSED[word]}", _known(), Status.USAGE)
        if word not in OPTIONS:
            raise KeelError(f"there is no option {word!r}", _known(), Status.USAGE)
    for word, needed in NEEDS.items():
        if word in words and needed not in words:
            raise KeelError(f"the option {word} cannot be had without {needed}: it is a part of it", _known(), Status.USAGE)
    return of_words(words)


def shown(options: Options) -> str:
    """The same set as a command line names it."""
    return ",".join(options)


def _known() -> str:
    return f"the options are {' '.join(OPTIONS)}"
