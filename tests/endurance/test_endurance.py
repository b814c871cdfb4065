# SPDX-License-Identifier: GPL-2.0-only
"""Long heavy loads of Linux on Keel, after which the µ-kernel's memory is as before. `./keel test linux-endurance` runs them."""

from functools import cache
from pathlib import Path

import pytest
from conftest import Result, run_in_tests, together
from test_full_account import WAYS, WORKS, beside_fillers
from test_linux import ACCOUNTING, ROUND_INSTRUCTIONS

JOBS = {
    "forks": "stress forks 10000",
    "dynamic programs": "stress execs 1000 /bin/true",
    "processes at once": "stress procs 1000",
    "threads of a process": "stress threads 2000",
    "kills of processes": "storm processes 3000",
    "kills of threads": "storm threads 500",
}
PROGRAMS = ("stress", "storm")
# Linux never frees frames: it keeps as many as it ever had threads at once.
WARM_UP = ["stress procs 1000", "stress threads 2000", "stress execs 10 /bin/true", "storm processes 300", "storm threads 50"]
PROCESSORS = (1, 2)
# A guest whose memory and swap are enough for two of the hungry programs, but not for a greedy one.
MEMORY_MB, SWAP_MB = 192, 96
HUNGRY_MB = 80
HUNGRY = f"for i in 1 2; do ./stress memory {HUNGRY_MB} & done; wait"
GREEDY = "./stress memory 400; echo $?"
MEMORY_ROUNDS = 3
KILLED = 137
LOAD_PROCESSORS = (1, 4)
LOAD_INSTRUCTIONS = 200_000_000_000
LOAD_ROUNDS = LOAD_INSTRUCTIONS // ROUND_INSTRUCTIONS
# How long the account is kept full in each way, by the guest's clock.
FULL_S = 120
# A busy host needs an hour for what an idle one does in fifteen minutes.
LIMIT_S = 4 * 3600


def said(job: str) -> str:
    """The line of a job that succeeded."""
    _, name, count, *_ = job.split()
    return f"{name} {count} of {count}"


@cache
def endured(processors: int) -> Result:
    """All jobs in one guest, with the accounting before the first and after each."""
    jobs = [f"{ACCOUNTING}; ./{job}" for job in JOBS.values()]
    warm_up = [f"./{job} > /dev/null" for job in WARM_UP]
    command = "; ".join([*warm_up, *jobs, ACCOUNTING])
    return run_in_tests("keel", command, limit_s=LIMIT_S, options=["--smp", str(processors)], programs=PROGRAMS)


@together("storms")
@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("processors", PROCESSORS)
def test_storm(processors: int, name: str) -> None:
    """The job completes, and the µ-kernel's accounting is the same as before the first job."""
    result = endured(processors)
    parts = result.output.split("@\n")
    assert len(parts) == 2 * len(JOBS) + 3, result.output + result.error
    place = 2 * (list(JOBS).index(name) + 1)
    assert parts[place].strip() == said(JOBS[name])
    assert parts[place + 1] == parts[1]


@pytest.mark.parametrize("processors", PROCESSORS)
def test_memory_pressure(tmp_path: Path, processors: int) -> None:
    """Programs that need swap compute correctly, only greedy ones are killed, and all memory is freed."""
    area = tmp_path / "swap.img"
    with area.open("wb") as file:
        file.truncate(SWAP_MB << 20)
    swap = "mkswap /dev/vdb > /dev/null; swapon /dev/vdb"
    pressure = f"{HUNGRY}; {GREEDY}"
    rounds = "; ".join([pressure] * MEMORY_ROUNDS)
    options = ["--mem", str(MEMORY_MB), "--smp", str(processors), "--drive", f"virtio:{area}"]
    command = f"{swap}; ({pressure}) > /dev/null; {ACCOUNTING}; {rounds}; {ACCOUNTING}"
    result = run_in_tests("keel", command, limit_s=LIMIT_S, options=options, programs=PROGRAMS)
    _, before, printed, after, _ = result.output.split("@\n")
    assert printed.splitlines() == [*[f"memory {HUNGRY_MB} of {HUNGRY_MB}"] * 2, str(KILLED)] * MEMORY_ROUNDS, result.error
    assert after == before


@pytest.mark.parametrize("processors", LOAD_PROCESSORS)
def test_long_mixed_load_ends(processors: int) -> None:
    """A mixed load of 2 * 10^11 instructions completes with correct results."""
    options = ["--smp", str(processors)]
    result = run_in_tests("keel", f"./stress mixed {LOAD_ROUNDS}", limit_s=LIMIT_S, options=options, programs=PROGRAMS)
    assert result.status == 0, result.error
    assert result.output.endswith(f"mixed {LOAD_ROUNDS} of {LOAD_ROUNDS}\n")


def test_ten_minutes_with_a_full_account(tmp_path: Path) -> None:
    """All kinds of work succeed while the account is full in each of the ways in turn, and no process is killed."""
    result = beside_fillers(tmp_path, f"{FULL_S}s", LIMIT_S, ["--smp", "2"])
    done = " ".join(f"{work} right" for work in WORKS)
    assert result.output == "".join(f"{way}: {done}\n" for way in WAYS) + "end\n", result.output + result.error
