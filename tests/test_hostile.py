# SPDX-License-Identifier: GPL-2.0-only
"""A hostile root in Linux: the µ-kernel, a native task and Linux itself survive.

KEEL_HOSTILE_CALLS says how many calls of the µ-kernel it tries (20,000).
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import GUEST_PROGRAMS, make_guest_programs, run_guest
from test_restart import BOUND_US, CONTAINED, RESTARTED, WORST, command, configuration

CALLS = int(os.environ.get("KEEL_HOSTILE_CALLS", "20000"))
# A call, with the other attacks in between, takes about ten thousand instructions.
LIMIT_S = 300 + CALLS // 100
# Each of the twelve other attacks was tried.
DONE = re.compile(r"hostile: (\d+) calls, 0 with an effect \(0\), \d+ children(, [1-9]\d* [a-z ]+){12}")
OOPS = re.compile(r"Oops|BUG:|Kernel panic")


@pytest.mark.parametrize("options", [["--icount"], ["--smp", "2"]], ids=["1", "2"])
def test_root_harms_nothing_below(tmp_path: Path, options: list[str]) -> None:
    """No call of the µ-kernel has an effect, each other attack was tried, Linux did not fail, and the heartbeat is in time."""
    make_guest_programs()
    (root := tmp_path / "root").mkdir()
    shutil.copy(GUEST_PROGRAMS / "hostile", root)
    conf = configuration(tmp_path, **{"hardware rest": CONTAINED, "interval=1000ms": "interval=1ms"})
    argv = command("--verbose", *options, "--mem", "512", "--boot-conf", str(conf), "--root", str(root))
    argv += ["--timeout", str(LIMIT_S), "--exec", f"/hostile {CALLS}"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    logs = done.stderr
    said = DONE.fullmatch(done.stdout.strip())
    assert done.returncode == 0 and said, done.stdout + logs[-2000:]
    assert int(said[1]) >= CALLS
    assert not OOPS.search(logs) and not RESTARTED.search(logs), logs[-2000:]
    worst = int(WORST.findall(logs)[-1])
    print(f"{done.stdout.strip()}; the heartbeat was at most {worst} µs late")
    # Two processors take turns in the emulator, and the host decides how long each turn is.
    assert worst <= BOUND_US or "--icount" not in options


# Reads and writes the µ-kernel's memory and addresses beyond all memory, maps these and PCI devices, and maps its own page.
REACH = """
import ctypes, glob, mmap, os
FUTEX, LOCK_PI_PRIVATE = 202, 6 | 128
def attempt(access):
    try:
        access()
        return "done"
    except OSError as error:
        return error.strerror
def use(file, place):
    word = ctypes.c_uint.from_buffer(mmap.mmap(file, 4096, offset=place))
    ctypes.CDLL(None).syscall(FUTEX, ctypes.byref(word), LOCK_PI_PRIVATE, 0, None)
memory = os.open("/dev/mem", os.O_RDWR)
for place in 0, 0x100000, 0xFEE00000, 1 << 40:
    print(attempt(lambda: os.pread(memory, 64, place)), attempt(lambda: os.pwrite(memory, bytes(64), place)))
    print(attempt(lambda: use(memory, place)))
devices = [name for name in glob.glob("/sys/bus/pci/devices/*/resource?") if os.path.getsize(name) >= 4096]
print({attempt(lambda: use(os.open(name, os.O_RDWR), 0)) for name in devices})
page = mmap.mmap(-1, 4096)
page[:4] = b"page"
with open("/proc/self/pagemap", "rb", buffering=0) as entries:
    entries.seek(ctypes.addressof(ctypes.c_char.from_buffer(page)) // 4096 * 8)
    frame = int.from_bytes(entries.read(8), "little") & (1 << 55) - 1
print(mmap.mmap(memory, 4096, offset=frame * 4096)[:4])
os.system("dmesg | grep -c Oops")
"""
REFUSED = "Bad address Bad address\nResource temporarily unavailable\n"


def test_root_reaches_no_memory_but_that_of_linux() -> None:
    """/dev/mem refuses memory that is not Linux's, and no device is mapped: a futex in it would block a thread that no signal can
    end.
    """
    result = run_guest("keel", "python3 -u -", stdin=REACH.encode())
    assert result.output == REFUSED * 4 + "{'Permission denied'}\nb'page'\n0\n", result.output + result.error
