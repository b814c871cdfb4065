# SPDX-License-Identifier: GPL-2.0-only
"""Linux is restarted by the root task, after a panic and on request, beside a native task that continues.

KEEL_RESTARTS is the number of panics (5).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PLACED, REPOSITORY, complains, run_guest, started

LIMIT_S = 300
RESTARTS = int(os.environ.get("KEEL_RESTARTS", "5"))
# How late a heartbeat may be on the deterministic clock: the time to delete Linux and its processes (docs/caveats.md).
BOUND_US = 10_000
CONTAINED = "irq 3 4\n\tports 0x70-0x71 0x2f8-0x2ff 0x3f8-0x3ff"
PROMPT = b"root@keel:~#"
RESTARTED = re.compile(r"root: task linux: restarted, (\d+) pages of kernel memory were in use without it")
WORST = re.compile(r"heartbeat \d+ worst (\d+) us")

# An init with processes around it that makes Linux panic.
CRASH = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { PROCESSES = 50, BYTES = 1 << 20 };
int main(void)
{
    for (int count = 0; count < PROCESSES; count++) {
        if (fork() == 0) {
            memset(malloc(BYTES), 1, BYTES);
            for (;;)
                pause();
        }
    }
    sleep(1);
    write(open("/proc/sysrq-trigger", O_WRONLY), "c", 1);
}
"""


def configuration(place: Path, **changes: str) -> Path:
    """The default boot configuration in which Linux is restarted, and other changes."""
    text = (REPOSITORY / "tools" / "keel" / "boot.conf").read_text()
    for old, new in {"on-panic stop": "on-panic restart\non-reboot restart", **changes}.items():
        assert old in text
        text = text.replace(old, new)
    path = place / "boot.conf"
    path.write_text(text)
    return path


def command(*options: str) -> list[str]:
    """`./keel run` with the options."""
    return [sys.executable, str(REPOSITORY / "keel"), "run", *PLACED, "--nic", "none", *options]


def beside_a_heartbeat(place: Path, init: str, *options: str) -> list[str]:
    """`./keel run` on the deterministic clock with this init, in C, beside a native task with a beat of a millisecond."""
    (root := place / "root").mkdir()
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", str(root / "init")], input=init.encode(), check=True)
    conf = configuration(place, **{"hardware rest": CONTAINED, "interval=1000ms": "interval=1ms"})
    return command("--verbose", "--icount", "--mem", "512", "--boot-conf", str(conf), "--root", str(root), *options)


def test_panics_leave_nothing_behind(tmp_path: Path) -> None:
    """Each time the kernel gets all its memory back, and a native task's heartbeat is never later than its bound."""
    argv = beside_a_heartbeat(tmp_path, CRASH)
    text, beats = "", 0
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr
        while len(RESTARTED.findall(text)) < RESTARTS:
            line = child.stderr.readline()
            assert line, f"the guest ended after {text[-2000:]}"
            text += line if "heartbeat" not in line or "worst" in line else ""
            beats += "heartbeat" in line
        child.terminate()
    assert len(set(RESTARTED.findall(text))) == 1, RESTARTED.findall(text)
    worst = int(WORST.findall(text)[-1])
    print(f"{RESTARTS} restarts, {beats} heartbeats, the worst {worst} µs late")
    assert worst <= BOUND_US


PANIC = "echo c > /proc/sysrq-trigger"
REBOOT = "python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x1234567)'"


@pytest.mark.parametrize("how", [PANIC, REBOOT])
def test_linux_with_devices_comes_back(tmp_path: Path, how: str) -> None:
    """Disks work again, and hold what was synchronised before."""
    with started(command("--boot-conf", str(configuration(tmp_path)))) as guest:
        guest.wait_for(PROMPT)
        guest.say(f"test ! -e /root/file && echo kept > /root/file && sync && {how}\n".encode())
        guest.wait_for(b"Run /keel/init")
        guest.wait_for(PROMPT)
        guest.say(b"echo it is $(cat /root/file)\n")
        guest.wait_for(b"it is kept")
        guest.say(b"exit\n")
        assert guest.child.wait(60) == 0


@pytest.mark.parametrize(("how", "status"), [(PANIC, 112), (REBOOT, 111)])
def test_a_command_ends_with_its_linux(tmp_path: Path, how: str, status: int) -> None:
    """Also if the command was in the middle of its output. Whether it had its effect is unknown."""
    conf = configuration(tmp_path)
    result = run_guest("keel", f"yes | head -c 1M; {how}", limit_s=LIMIT_S, options=["--nic", "none", "--boot-conf", str(conf)])
    assert result.status == status, result.error
    assert set(result.output.replace("\0", "").split()) == {"y"}


# An init in the server that overwrites Linux at random places, until Linux ends.
WILD = """
#include <stdint.h>
#include <unistd.h>
#include <x86intrin.h>
enum { IMAGE_BYTES = 8 << 20 };
#define IMAGE 0xffffffffc1000000
int main(void)
{
    uint64_t state = __rdtsc() | 1;
    write(STDOUT_FILENO, "overwriting Linux\\n", 18);
    for (;;) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *(volatile uint64_t *)(IMAGE + (state % IMAGE_BYTES & ~7)) = state;
    }
}
"""
# One that makes random calls of the µ-kernel in Linux's name, as often as it can, by an instruction that it puts into Linux.
CALLS = """
#include <stdint.h>
#include <unistd.h>
#include <x86intrin.h>
enum { REGISTERS = 10, KNOWN_CALLS = 8, FLAGS = 1 << 14, NO_WAIT = 1 << 8 | 1 << 10, TASKS = 64, LTHREADS = 8, VERSIONS = 4 };
#define PLACE 0xffffffffc1200000
static uint64_t state, registers[REGISTERS];
static uint64_t word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 3;
}
/* An id of a thread that may exist, an address of Linux's, or anything. */
static uint64_t value(void)
{
    switch (word() % 4) {
    case 0:
        return word() % VERSIONS | word() % TASKS << 32 | word() % LTHREADS << 16;
    case 1:
        return PLACE & ~0xfffULL | word() % 4096;
    case 2:
        return word() % 64;
    }
    return word() << 3;
}
int main(void)
{
    state = __rdtsc() | 1;
    write(STDOUT_FILENO, "overwriting Linux\\n", 18);
    *(volatile uint32_t *)PLACE = 0xc3050f; /* syscall; ret */
    for (uint64_t count = 1;; count++) {
        if (count % 65536 == 0)
            write(STDOUT_FILENO, "65536 calls\\n", 12);
        for (int number = 0; number < REGISTERS; number++)
            registers[number] = value();
        registers[0] = word() % KNOWN_CALLS;
        if (registers[0] == 0)
            registers[0] = word() % FLAGS & ~0xf0fULL | NO_WAIT;
        asm volatile("push %%rbp; mov 0(%0), %%rax; mov 8(%0), %%rdi; mov 16(%0), %%rsi; mov 24(%0), %%rdx;"
                     "mov 32(%0), %%r8; mov 40(%0), %%r9; mov 48(%0), %%r10; mov 56(%0), %%r12; mov 64(%0), %%r13;"
                     "mov 72(%0), %%r14; call *%1; pop %%rbp"
                     :: "b"(registers), "r"((uint64_t)PLACE) : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
                        "r12", "r13", "r14", "memory");
    }
}
"""
# The calls are some 1,500,000 in that time.
BEATS = 2000


@pytest.mark.skipif(bool(PLACED), reason="there is no program in the server beside Linux in supervisor mode")
@complains("")
@pytest.mark.parametrize("init", [pytest.param(WILD, id="stores"), pytest.param(CALLS, id="calls")])
def test_wild_writes_end_linux_alone(tmp_path: Path, init: str) -> None:
    """A program in the server overwrites Linux, or calls in its name, and Linux ends. A native task's heartbeat is in time."""
    argv = beside_a_heartbeat(tmp_path, init, "--place", "/init=server", "--timeout", str(LIMIT_S))
    worst, beats, output = 0, 0, tmp_path / "output"
    with (
        output.open("wb") as console,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=console, stderr=subprocess.PIPE, text=True) as child,
    ):
        assert child.stderr
        while beats < BEATS:
            line = child.stderr.readline()
            assert line, output.read_text(errors="replace")[-2000:]
            worst = max(worst, *map(int, WORST.findall(line)), 0)
            beats += "heartbeat" in line and "overwriting Linux" in output.read_text(errors="replace")
        child.terminate()
    assert worst <= BOUND_US
