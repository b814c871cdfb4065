# SPDX-License-Identifier: GPL-2.0-only
"""What test runners print: how many tests passed and failed, and the names of those that failed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

# Names that the end of `./keel test` shows.
MOST_NAMES = 40
FAILED = "failed: "
# pytest shows failures in full before this, with whatever the tests printed.
PYTEST_SUMMARY = " short test summary info "
# The end of the output of `./keel test`.
SUM = re.compile(rf"^((?:(?:{FAILED}|\.\.\. and ).*\n)*)total: (.*)$", re.MULTILINE)
# How each runner names a test that failed: pytest's summary, cargo, our own suites.
FAILURES = (
    re.compile(r"^(?:FAILED|ERROR) (\S+\.py\b.*?)(?: - .*)?$"),
    re.compile(r"^test (.+) \.\.\. FAILED$"),
    re.compile(r"^FAIL ([^:]+):"),
)


@dataclass
class Count:
    """Tests that passed, failed, and could not be run here; the names of those that failed, as far as they are known."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, other: "Count") -> None:
        """Add another count to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.names += other.names

    def fail(self, name: str) -> None:
        """Count one more failure."""
        self.failed += 1
        self.names.append(name)

    def line(self) -> str:
        """The line that ends every suite."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"

    def within(self, suite: str) -> "Count":
        """The same tests as cases of a suite."""
        return Count(self.passed, self.failed, self.skipped, [f"{suite}/{name}" for name in self.names])

    def failures(self) -> Iterator[str]:
        """One line for each test that failed, and how many more there are."""
        shown = self.names[:MOST_NAMES]
        yield from (f"{FAILED}{name}" for name in shown)
        if self.failed > len(shown):
            yield f"... and {self.failed - len(shown)} more"


def failed(name: str) -> Count:
    """One test that failed."""
    return Count(failed=1, names=[name])


def judged(name: str, *, passes: bool) -> Count:
    """One test."""
    return Count(passed=1) if passes else failed(name)


def count_of(output: str) -> Count | None:
    """The count in a test runner's output: pytest's, cargo's, or our own suites' last line."""
    total, found = Count(names=list(names_of(output))), False
    for line in output.splitlines():
        numbers = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", line)}
        if numbers and re.search(r"test result:|\bin [\d.]+s|^\d+ passed, \d+ failed", line):
            found = True
            wrong = numbers.get("failed", 0) + numbers.get("error", 0)
            total.add(Count(numbers.get("passed", 0), wrong, numbers.get("skipped", 0)))
    return total if found else None


def names_of(output: str) -> Iterator[str]:
    """The tests that a runner's output names as failed."""
    for line in output.rpartition(PYTEST_SUMMARY)[2].splitlines():
        yield from (match[1] for pattern in FAILURES if (match := pattern.match(line)))


def run_count(name: str, output: str, *, status: int) -> Count:
    """The count of a test runner that has ended: its own, or one test if it has none."""
    count = count_of(output)
    if count is None:
        return judged(name, passes=status == 0)
    if status and not count.failed:
        return failed(name)
    if count.failed and not count.names:
        count.names.append(name)
    return count


def total_of(name: str, output: str, status: int) -> Count:
    """The sum that `./keel test NAME` printed, with one more failure if its exit status contradicts it."""
    lines, total = ([("", ""), *SUM.findall(output)])[-1]
    count = count_of(total) or Count()
    count.names = [line.removeprefix(FAILED) for line in lines.splitlines() if line.startswith(FAILED)]
    if not (count.failed if status else count.passed and not count.failed):
        count.fail(f"{name}/its end, with status {status}")
    return count


def skips(output: str) -> Sequence[str]:
    """The tests that pytest (with -rs) skipped, each with its reason."""
    return [line for line in output.splitlines() if line.startswith("SKIPPED [")]
