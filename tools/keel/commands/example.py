# SPDX-License-Identifier: GPL-2.0-only
"""`./keel example`: runs one of the native examples and turns its end into an exit status."""

import sys

from .. import examples, machine, packages, rust
from ..arguments import in_columns
from ..config import Settings
from ..errors import KeelError, Status
from ..progress import say

# The limit for each alone; console waits for its user.
HOW_LONG = "seconds"
ENDS: dict[int | None, tuple[Status, str]] = {
    machine.EXIT_POWER_OFF: (Status.OK, ""),
    machine.EXIT_LINUX_PANIC: (Status.TESTS_FAILED, "the example failed; its last lines tell why"),
    machine.EXIT_KERNEL_PANIC: (Status.KERNEL_PANIC, "the µ-kernel panicked"),
    machine.EXIT_BOOT_CONFIGURATION: (Status.BOOT_CONFIGURATION, "its boot configuration has an error"),
}


def example(settings: Settings, name: str | None, timeout_s: float | None) -> int:
    """Run the example, or name those that there are."""
    known = examples.names(settings)
    if name is None:
        print(in_columns((name, examples.about(settings, name), HOW_LONG) for name in known))
        return Status.OK
    if name not in known:
        raise KeelError(f"there is no example {name}", f"there are {' '.join(known)}", Status.USAGE)
    packages.require_emulator(settings)
    rust.build_all(settings)
    ran = examples.run(settings, name, _show, timeout_s, user=True)
    status, why = conclude(ran)
    if why:
        say(f"error: {why}")
    return status


def conclude(ran: examples.Ran) -> tuple[Status, str]:
    """The exit status for how an example ended, with one line if it failed."""
    if ran.timed_out:
        return Status.TIMEOUT, "the example was ended, because its time was over (--timeout gives it more)"
    return ENDS.get(ran.end, (Status.EMULATOR, f"the emulator ended with {ran.end}"))


def _show(text: bytes) -> None:
    # The terminal of an example that reads is raw: a line feed alone would not return to the first column.
    sys.stdout.buffer.write(text.replace(b"\n", b"\r\n") if sys.stdout.isatty() else text)
    sys.stdout.buffer.flush()
