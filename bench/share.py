#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""How long `git status` takes in a shared directory of 10,000 files, on Keel and on native Linux.

The host serves the files in its own time, so that this is measured by the clock: the two systems by turns, and the shortest time
of each counts, in which the host was least busy with other things.

  bench/share.py     prints the table; `./keel bench share` does that
"""

import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import run

sys.path.insert(0, str(run.REPOSITORY / "tools"))

from keel.arguments import Parser

DIRECTORIES, FILES = 100, 100
# Nothing that the user has configured counts.
PLAIN_GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
IDENTITY = ["-c", "user.name=Keel", "-c", "user.email=keel@example.org"]
SYSTEMS = (run.NATIVE, run.KEEL)
PLACE = "/mnt/repository"
# Runs git several times and prints how many seconds each took; the first one also fills the guest's caches.
TIMED = """
import subprocess, time
for _ in range({0} + 1):
    begin = time.perf_counter()
    said = subprocess.run(["git", "-C", "{1}", "status", "--porcelain"], check=True, stdout=subprocess.PIPE).stdout
    print(time.perf_counter() - begin)
    assert not said, said
"""


def make_repository(directory: Path) -> None:
    """A repository whose files are all committed and unchanged."""
    for number in range(DIRECTORIES * FILES):
        file = directory / f"directory{number // FILES}" / f"file{number}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"the content of file {number}\n")
    for words in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-q", "-m", "files"]):
        subprocess.run(["git", "-C", str(directory), *words], env=PLAIN_GIT, check=True)


def measure(system: str, repository: Path, times: int) -> list[float]:
    """Seconds of each `git status` after the first in a fresh guest."""
    print(f"bench: measuring {system} ...", file=sys.stderr, flush=True)
    options = [*run.SYSTEMS[system], "--timeout", str(run.LIMIT_S), "--share", f"{repository}:{PLACE}"]
    command = f"python3 -c {shlex.quote(TIMED.format(times, PLACE))}"
    return [float(line) for line in run.run_keel(["run", *options, "--exec", command], system, b"").split()][1:]


def table(found: dict[str, list[float]]) -> list[list[str]]:
    """The shortest times and medians in seconds, and Keel's shortest against the native one."""
    rows = [[name, f"{min(times):.2f}", f"{statistics.median(times):.2f}"] for name, times in found.items()]
    ratio = min(found[run.KEEL]) / min(found[run.NATIVE])
    return [["system", "shortest, s", "median, s"], *rows, ["Keel / native", f"{ratio:.2f}", ""]]


def main() -> int:
    """Build what is missing, and measure."""
    parser = Parser(prog="keel bench share", description="git status in a shared directory of 10,000 files.")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="guests of each system (%(default)s)")
    parser.add_argument("--times", type=int, default=5, metavar="N", help="times in each guest (%(default)s)")
    options = parser.parse()
    run.build_systems()
    found: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    with TemporaryDirectory() as directory:
        make_repository(Path(directory))
        for _ in range(options.rounds):
            for system in SYSTEMS:
                found[system] += measure(system, Path(directory), options.times)
    print(run.as_markdown(table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
