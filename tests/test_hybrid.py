# SPDX-License-Identifier: GPL-2.0-only
"""Hybrid processes: native lthreads in the space of a Linux process, messages and pages between such processes, and pagers of
Linux's threads. `tests/guest/hybrid.c` prints the lines.
"""

import re
from pathlib import Path

import pytest
from conftest import REPOSITORY, run_in_tests

LIMIT_S = 600
PROGRAMS = ("hybrid", "native-hello")
# The µ-kernel's ERROR_DENIED, of the call and of its send phase, and the latter's ERROR_NO_MEMORY.
DENIED, SEND_DENIED, OUT_OF_MEMORY = -10, -266, -261
SEEN = f"""\
without an area: -1 EINVAL
nobody to answer: -1 ESRCH
no record: -1 EFAULT
no area: status 0
with two threads: -1 EBUSY
threads before it: status 0
without privilege: -1 EPERM
a user: status 0
no longer privileged: -1 EPERM, -1 EPERM
no longer root: status 0
a start at no address: signal 11
floating point stays: 1.5, the area again: 1
it begins: label 77, word 0
it answers: label 6, words 1 to 51
pages of which half were there: sum 32, 0 wrong
pages that Linux took away: sum 0, last 63
pages that a child had as well: sum 2016
a page that a signal's handler opened: 42, signals 1
the end of one: signal 4
no page: signal 11
a signal while it ran: handled 1, label 1
two breakpoints: handled 2, word 12
one after the other: 199
one after the other: status 0
at once: 64, then EAGAIN
as many as there can be: status 0
exec: status 7
the server received 1000 calls
calls from process to process: 0 wrong
pages of a pager: sum 2144
Linux knows nothing of them: -1
outside of them: signal 11
a pager that is gone: 1
its window: signal 11
a new program: status 5
faults before exec: 1, after it: 0
it waited, and was killed: signal 9
granted: 55, and taken away: signal 11
grants: status 0
exceptions for Linux's own pager: signal 14
refused:{f" {DENIED}" * 9} {SEND_DENIED}
Linux continues: 1
beside one that spins: 20
a spinning one: signal 9
on another processor than its service thread: 0
on the move: status 0
an lthread's own: 0, its slice: 0, it runs
one that an lthread made: signal 9
laid over it: 0, then {OUT_OF_MEMORY}, and after munmap there are 0 pages
no memory below: status 0
"""


@pytest.mark.parametrize("processors", [1, 2])
def test_native_lthreads(processors: int) -> None:
    """What native lthreads of Linux's processes can do, how they end, and what they are refused."""
    options = ["--smp", str(processors)]
    result = run_in_tests(
        "keel",
        "./hybrid; dmesg | grep -c Oops",
        limit_s=LIMIT_S,
        options=options,
        programs=PROGRAMS,
    )
    assert result.output == SEEN + "0\n", result.error


# Fewer task numbers than the script below uses, one after the other.
TASKS = 64
RETIRE = f"./hybrid retire; for i in $(seq {2 * TASKS}); do /bin/true || echo failed; done; dmesg | grep -c 'no L4 task'"


def test_a_number_that_is_used_up(tmp_path: Path) -> None:
    """The number of a task whose versions are used up is never used again, and no process dies of it."""
    default = (REPOSITORY / "tools" / "keel" / "boot.conf").read_text()
    assert "tasks 32768" in default
    (configuration := tmp_path / "boot.conf").write_text(default.replace("tasks 32768", f"tasks {TASKS}"))
    options = ["--boot-conf", str(configuration)]
    result = run_in_tests("keel", RETIRE, limit_s=LIMIT_S, options=options, programs=PROGRAMS)
    assert re.fullmatch(r"versions of a number: 10\d{5}\n0\n", result.output), result.output + result.error


# Unbinds the driver of the source of random numbers, and binds it again without kernel memory, where it must map its registers.
# Other activity in the guest may reclaim memory before that, so this is repeated.
TIMES = 3
BIND = f"""\
device=$(readlink -f /sys/bus/virtio/drivers/virtio_rng/virtio*)
device=$(basename $(dirname $device))
for i in $(seq {TIMES}); do
  echo $device > /sys/bus/pci/drivers/virtio-pci/unbind
  ./hybrid write /sys/bus/pci/drivers/virtio-pci/bind $device || echo failed
done
echo $(ls /sys/bus/virtio/drivers/virtio_rng | grep -c virtio) $(dmesg | grep -c Oops)
"""


def test_a_driver_without_memory() -> None:
    """Without kernel memory, device memory is mapped after a reclaim."""
    result = run_in_tests("keel", BIND, limit_s=LIMIT_S, programs=PROGRAMS)
    assert result.output == "1 0\n", result.output + result.error


def test_elsewhere_there_are_none() -> None:
    """Other kernels refuse them."""
    result = run_in_tests("native", "./hybrid", limit_s=LIMIT_S, programs=PROGRAMS)
    assert "keel_area: Invalid argument" in result.error, result.error


def test_the_example() -> None:
    """The example in docs/native.md."""
    result = run_in_tests("keel", "./native-hello", limit_s=LIMIT_S, programs=PROGRAMS)
    assert result.output == "2 3 5 7 11 13 17 19 23 29 are primes\n", result.error
