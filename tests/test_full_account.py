# SPDX-License-Identifier: GPL-2.0-only
"""Linux without further memory of the µ-kernel: mappings are reclaimed in parts, and everything else continues.

`tests/guest/full.c` describes the ways to fill the account. The long form is in tests/endurance.
"""

import re
from pathlib import Path

from conftest import REPOSITORY, Result, run_in_tests
from test_programs import build_module

PROGRAMS = ("full", "transcript32")
WAYS = ("sparse", "processes", "threads", "ended", "files")
WORKS = ("true", "32-bit", "fork", "filter", "module")
MEMORY_MB = "512"
# Linux's quota of kernel memory, in pages: small, so that it is soon used up.
QUOTA = 2048
ROUNDS = 5
LIMIT_S = 600
# Filters of 32 KB are more than a socket may have by default.
OPTMEM = "echo 10000000 > /proc/sys/net/core/optmem_max"
# The module comes on standard input.
BEGIN = f"cat > keel_probe.ko; {OPTMEM}"
# Lines that Linux's log must not have if no process was killed.
TROUBLE = "dmesg | grep -E 'Oops|BUG:|WARNING|keel: '; echo end"


def small_account(directory: Path) -> list[str]:
    """Options of a guest whose Linux has little kernel memory."""
    text = (REPOSITORY / "tools" / "keel" / "boot.conf").read_text()
    assert "quota 80%" in text
    (path := directory / "boot.conf").write_text(text.replace("quota 80%", f"quota {QUOTA}"))
    return ["--boot-conf", str(path)]


def beside_fillers(directory: Path, how_long: str, limit_s: int, options: list[str]) -> Result:
    """Runs the work with each way of filling the account in turn, then prints the errors in the log."""
    command = "; ".join([BEGIN, *(f"./full {way} {how_long}" for way in WAYS), TROUBLE])
    image = build_module("keel", directory, "keel_probe")
    return run_in_tests("keel", command, limit_s=limit_s, options=options, programs=PROGRAMS, stdin=image)


def test_work_goes_on_beside_a_full_account(tmp_path: Path) -> None:
    """With each way on two processors, a fixed number of each kind of work succeeds, and no process is killed."""
    options = [*small_account(tmp_path), "--mem", MEMORY_MB, "--smp", "2"]
    result = beside_fillers(tmp_path, str(ROUNDS), LIMIT_S, options)
    done = " ".join(f"{work} {ROUNDS}" for work in WORKS)
    assert result.output == "".join(f"{way}: {done}\n" for way in WAYS) + "end\n", result.output + result.error


# They have more pages than a reclaim frees.
FILTERS = 1600


def test_kernel_mappings_are_there_when_the_account_is_full(tmp_path: Path) -> None:
    """When Linux maps pages for itself, it reclaims memory of process mappings, and the pages are mapped when they are used."""
    options = [*small_account(tmp_path), "--mem", MEMORY_MB]
    command = f"{OPTMEM}; ./full filters {FILTERS}; {TROUBLE}"
    result = run_in_tests("keel", command, limit_s=LIMIT_S, options=options, programs=PROGRAMS)
    assert result.output == f"filters {FILTERS} of {FILTERS}\nend\n", result.output + result.error


# Times under --icount are instructions, of 16,384 pages.
PAGES = 16384
DENSE = 1000
TOUCHES = f"./full dense {PAGES} 3; ./full apart {QUOTA * 3 // 4} 6; ./full apart {QUOTA * 4} 2"


def test_what_is_touched_again_costs_little(tmp_path: Path) -> None:
    """Unmapped pages are mapped again with their neighbours, and slightly exceeding the account costs little."""
    options = [*small_account(tmp_path), "--icount"]
    result = run_in_tests("keel", TOUCHES, limit_s=LIMIT_S, options=options, programs=("full",))
    dense, little, much = map(int, result.output.split())
    assert dense <= DENSE, result.output
    assert little <= 0.75 * much, result.output


def test_who_is_killed_is_named(tmp_path: Path) -> None:
    """Threads that use up all memory are killed with their process only, and the log says so."""
    options = [*small_account(tmp_path), "--mem", MEMORY_MB]
    command = (
        "ulimit -u unlimited; echo 100000 > /proc/sys/kernel/threads-max; ./full crowd; echo $?; dmesg | grep -E 'Oops|keel: '"
    )
    result = run_in_tests("keel", command, limit_s=LIMIT_S, options=options, programs=PROGRAMS)
    status, *log = result.output.splitlines()
    assert status == "137" and log and all(re.search(r"keel: full\[\d+\]: ", line) for line in log), result.output + result.error
