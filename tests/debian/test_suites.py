# SPDX-License-Identifier: GPL-2.0-only
"""Debian's own test suites, natively and on Keel, compared test by test. They take long; `./keel test linux-debian` runs them."""

import re
from functools import cache

import pytest
from conftest import DEBIAN_PACKAGES, REPOSITORY, SCRIPT, SYSTEMS, Result, run_guest

PYTHON = (
    "test_os",
    "test_signal",
    "test_threading",
    "test_subprocess",
    "test_socket",
    "test_mmap",
    "test_io",
    "test_select",
    "test_fcntl",
)
CLASSES = ("vm", "scheduler", "pipe", "interrupt", "filesystem")
LIMIT_S = 3600
STRESS_S = 1
# A line of python's verbose output: the name, the class, and the test's result, possibly after a warning.
PYTHON_LINE = re.compile(r"^(\w+ \([\w.]+\))(?:\n.*)?.*\.\.\. (?:.*\b)?(ok|FAIL|ERROR|skipped .*)$", re.MULTILINE)
LEAST_TESTS = 5
# The last line of the script for programs.
PROGRAMS_END = "mmap 0\n"
# A line of stress-ng about a stressor that could not run or had wrong results.
STRESS_LINE = re.compile(r"stress-ng: (?:fail|error):\s+\[\d+\] ([\w-]+)")


def outcomes_of(result: Result) -> dict[str, str]:
    """The result of each test of a suite of python's, by name."""
    outcomes = dict(PYTHON_LINE.findall(result.output))
    assert len(outcomes) >= LEAST_TESTS, result.output[-2000:]
    return {**outcomes, "status": str(result.status)}


@cache
def python_suite(system: str, suite: str) -> dict[str, str]:
    """The same on this system."""
    command = f"cd /tmp && python3 -m test -v {suite} 2>&1"
    return outcomes_of(run_guest(system, command, limit_s=LIMIT_S, options=DEBIAN_PACKAGES))


@pytest.mark.parametrize("suite", PYTHON)
def test_python(suite: str) -> None:
    """Each test of the suite has the same result as on native Linux."""
    native, keel = python_suite("native", suite), python_suite("keel", suite)
    both = native | keel
    different = [f"{name}: {native.get(name)}, on Keel {keel.get(name)}" for name in both if native.get(name) != keel.get(name)]
    assert not different, "\n".join(different)


@cache
def failed_stressors(system: str, stressors: str) -> set[str]:
    """The stressors of a class that report an error."""
    command = f"cd /root && stress-ng --class {stressors} --seq 1 --timeout {STRESS_S} --vm-bytes 64M 2>&1"
    result = run_guest(system, command, limit_s=LIMIT_S, options=DEBIAN_PACKAGES)
    assert "run completed" in result.output, result.output[-2000:]
    return set(STRESS_LINE.findall(result.output))


@pytest.mark.parametrize("stressors", CLASSES)
def test_stress_ng(stressors: str) -> None:
    """No stressor fails on Keel that does not fail on native Linux."""
    assert failed_stressors("keel", stressors) <= failed_stressors("native", stressors)


def test_programs() -> None:
    """gdb, core files, strace, postgresql with pgbench, nginx with wrk, iperf3 and fio print the same on both systems."""
    script = (REPOSITORY / "tests" / "debian" / "programs.sh").read_bytes()
    results = [run_guest(system, SCRIPT, stdin=script, limit_s=LIMIT_S, options=DEBIAN_PACKAGES) for system in SYSTEMS]
    native, keel = (result.output for result in results)
    assert PROGRAMS_END in native, native
    assert keel == native
