# SPDX-License-Identifier: GPL-2.0-only
"""stress-ng's stressors of system calls, memory and processes, for a number of operations and not for a time, on Linux on Keel.

`./keel test linux-endurance` runs them with Linux in its usual place, `./keel test linux-colocated` in supervisor mode.
"""

import re

import pytest
from conftest import SCRIPT, run_guest

# Each stressor and the operations of its workers. Left out are those whose operations do not end within minutes in an emulator
# (sem, yield, link, memfd, mmap, mremap, schedpolicy), and opcode: QEMU 7.2 reads the stack of a far return in user mode as a
# kernel would, which SMAP refuses, so that native Linux oopses.
STRESSORS = {
    "affinity": 2000,
    "aio": 2000,
    "bad-altstack": 500,
    "brk": 50_000,
    "clone": 200,
    "context": 2000,
    "copy-file": 100,
    "cpu": 20,
    "dentry": 2048,
    "dir": 1024,
    "enosys": 1,
    "epoll": 2000,
    "eventfd": 20_000,
    "fault": 4000,
    "fcntl": 4000,
    "flock": 10_000,
    "fork": 1000,
    "futex": 4000,
    "get": 100,
    "hdd": 100,
    "inotify": 20,
    "io-uring": 200,
    "kill": 5000,
    "madvise": 20,
    "membarrier": 200,
    "mincore": 200,
    "mlock": 100,
    "mprotect": 2000,
    "mq": 20_000,
    "msg": 20_000,
    "msync": 200,
    "munmap": 20,
    "nanosleep": 500,
    "pagemove": 20,
    "pipe": 50_000,
    "poll": 10_000,
    "prctl": 200,
    "pthread": 1000,
    "ptrace": 10_000,
    "rename": 5000,
    "rmap": 20,
    "seccomp": 100,
    "sem-sysv": 50_000,
    "shm": 20,
    "shm-sysv": 20,
    "sigfpe": 5000,
    "sigq": 10_000,
    "sigsegv": 5000,
    "sigsuspend": 2000,
    "sigtrap": 5000,
    "sock": 200,
    "sockpair": 1000,
    "splice": 5000,
    "stack": 5,
    "switch": 50_000,
    "sysbadaddr": 1000,
    "tee": 2000,
    "timer": 2000,
    "timerfd": 2000,
    "tlb-shootdown": 500,
    "userfaultfd": 1000,
    "vdso": 50_000,
    "vfork": 1000,
    "vm": 50,
    "vm-splice": 2000,
}
WORKERS = 2
PROCESSORS = (1, 2)
LIMIT_S = 3600
# What Linux's log has of a fault of the kernel's, and of a process that it killed because the µ-kernel refused a call.
FAULT = re.compile(r"Oops|BUG:|WARNING:|Kernel panic|keel: .*\[\d+\]:")
# A stressor and the operations that it did. One that is skipped has no such line, and stress-ng succeeds all the same.
DONE = re.compile(r"metrc: \[\d+\] ([\w-]+) +(\d+)(?: +[\d.]+){3}")
# The log is read and emptied after each, because it has room for few of them.
STRESS = "stress-ng --verify --metrics-brief --vm-bytes 64M {} 2>&1; echo status $?; dmesg --read-clear"


def words(name: str, workers: int) -> str:
    """The options of stress-ng for a stressor."""
    return f"--{name} {workers} --{name}-ops {STRESSORS[name]}"


@pytest.mark.parametrize("processors", PROCESSORS)
def test_stressors_end(processors: int) -> None:
    """Each stressor alone, and then all of them at once: they do their operations and find nothing wrong, nor has Linux's log."""
    runs = [words(name, WORKERS) for name in STRESSORS]
    runs.append(" ".join(words(name, 1) for name in STRESSORS))
    script = "\n".join(["cd /root; dmesg --clear", *(STRESS.format(run) for run in runs)]).encode()
    options = ["--packages", "stress-ng", "--smp", str(processors)]
    result = run_guest("keel", SCRIPT, stdin=script, limit_s=LIMIT_S, options=options)
    parts = re.split(r"^status (\d+)$", result.output, flags=re.MULTILINE)
    assert parts[1::2] == ["0"] * len(runs), result.output[-4000:] + result.error
    done = [(name, int(count)) for name, count in DONE.findall(result.output)]
    assert sorted(name for name, _ in done) == sorted(2 * list(STRESSORS)), result.output[-4000:]
    assert not [(name, count) for name, count in done if count < STRESSORS[name]]
    assert not FAULT.search(result.output), "\n".join(line for line in result.output.splitlines() if FAULT.search(line))
