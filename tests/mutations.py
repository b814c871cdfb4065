#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Faults that the tests must find: each is put into a copy of the µ-kernel, and some test has to fail.

Not part of `./keel test`: each takes minutes. `tests/mutations.py` tries all of `tests/mutations.toml`, `tests/mutations.py
NAME...` some. The host tests run first. If they pass, the suite, the direct calls and the resident server run on emulated
processors. A fault that no test finds shows a missing case.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tools"))

from keel import rust  # noqa: E402
from keel.config import Settings  # noqa: E402

# A host test or a run of the suite that takes longer hangs: the fault was found.
PATIENCE_S = 900
# What runs on the µ-kernel after the host tests: its suite, direct calls, and a server in its clients' spaces.
SUITES = ("kernel-qemu-2", "kernel-pairs-checked", "kernel-residents")


@dataclass(frozen=True)
class Fault:
    """A text of the µ-kernel's source, and its replacement."""

    name: str
    file: str
    old: str
    new: str


FAULTS = tuple(Fault(**fault) for fault in tomllib.loads((REPOSITORY / "tests" / "mutations.toml").read_text())["fault"])


# The tests must pass without a fault.
NO_FAULT = Fault("no fault", "main.rs", "mod ipc;", "mod ipc;")
SURVIVES = "SURVIVES"


def run(argv: list[str], where: Path, environment: dict[str, str], log: Path) -> bool:
    """Whether a command succeeds in time."""
    with log.open("w") as output:
        try:
            ended = subprocess.run(
                argv, cwd=where, env=environment, stdout=output, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return False
    return ended.returncode == 0


def verdict(fault: Fault, copy: Path, logs: Path) -> str:
    """The tests that find a fault in a copy of the sources; the copy is restored."""
    source = copy / "kernel" / "src" / fault.file
    text = source.read_text()
    if text.count(fault.old) != 1:
        return "STALE: its text is not there just once"
    settings = Settings(repository=copy, build=copy / "build")
    host = rust.debian_toolchain(settings).host()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), **host.environment(settings)}
    source.write_text(text.replace(fault.old, fault.new))
    try:
        tests = [host.cargo, "test", "--bin", rust.KERNEL_PROGRAM]
        log = logs / f"{fault.name.replace(' ', '-')}.log"
        if not run([*tests, "--no-run"], copy, environment, log):
            return f"STALE: it does not compile, see {log}"
        if not run(tests, copy, environment, log):
            return "found by the host tests"
        for suite in SUITES:
            if not run(["./keel", "test", suite], copy, environment, log):
                return f"found by {suite}"
        return SURVIVES
    finally:
        source.write_text(text)


def chosen(names: list[str]) -> Iterator[Fault]:
    """The faults of these names, or all."""
    return (fault for fault in FAULTS if not names or fault.name in names)


def main(names: list[str]) -> int:
    """Try them in a worktree of the last commit; returns the number of faults that no test finds."""
    copy = REPOSITORY / "build" / "mutations"
    if not copy.exists():
        subprocess.run(["git", "worktree", "add", "--detach", str(copy), "HEAD"], cwd=REPOSITORY, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--force", "--detach", revision()], cwd=copy, check=True)
    logs = copy / "build" / "log"
    logs.mkdir(parents=True, exist_ok=True)
    if (found := verdict(NO_FAULT, copy, logs)) != SURVIVES:
        print(f"without a fault: {found}")
        return 1
    wrong = 0
    for fault in chosen(names):
        found = verdict(fault, copy, logs)
        print(f"{fault.name}: {found}", flush=True)
        wrong += not found.startswith("found")
    return wrong


def revision() -> str:
    """The commit that is checked out."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return asked.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
