# SPDX-License-Identifier: GPL-2.0-only
"""What the system tests share: running `./keel` on one of the two systems, and the programs for the guest.

It holds no test. Whatever needs a boot is run once for each system and kept for the session.
"""

import io
import os
import select
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

# The user's defaults are not for tests, however these are started.
os.environ["KEEL_CONFIG"] = ""
REPOSITORY = Path(__file__).resolve().parents[1]
GUEST_SOURCES = REPOSITORY / "tests" / "guest"
GUEST_PROGRAMS = REPOSITORY / "build" / "tests"
# Where the version of Linux that is tested is built.
LINUX = REPOSITORY / "build" / "-".join(["linux", *filter(None, [os.environ.get("KEEL_LINUX")])])
# Those of the tests that run every day.
DAILY_PROGRAMS = ("transcript", "transcript32", "transcript32-dynamic", "ld-linux.so.2", "libc.so.6", "stress", "parallel")
GUEST_DIRECTORY = "/tmp/keel-tests"
# The disks of a guest whose root is the first.
DISKS_BEHIND_ROOT = ("/dev/vdb", "/dev/vdc", "/dev/vdd")
# The host's limit for a guest that does not even obey --timeout.
GRACE_S = 120
# How long a guest that is talked to may need for an answer, its start included.
INTERACTIVE_LIMIT_S = 400
SYSTEMS = ("native", "keel")
# Runs the script that comes on the standard input, which is then at its end for what the script runs.
SCRIPT = 'bash -c "$(cat)"'
# One root for all of Debian's suites.
DEBIAN_PACKAGES = ["--packages", "curl dpkg-dev fio gdb iperf3 libpython3.11-testsuite nginx-light postgresql stress-ng wrk"]


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    output: str
    error: str

    def last_error_line(self) -> str:
        """The line that has to say what went wrong."""
        lines = self.error.strip().splitlines()
        return lines[-1] if lines else ""


def keel(
    *arguments: str,
    stdin: bytes = b"",
    timeout_s: float = 600,
    environment: dict[str, str] | None = None,
    command: Path = REPOSITORY / "keel",
) -> Result:
    """Run `./keel`, of this clone where no other is given, with the arguments."""
    done = subprocess.run(
        [sys.executable, str(command), *arguments],
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        env=environment,
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def run_options(system: str) -> list[str]:
    """The beginning of a command line that runs a guest."""
    return ["run", "--native"] if system == "native" else ["run"]


def run_guest(system: str, command: str, *, stdin: bytes = b"", limit_s: int = 120, options: Sequence[str] = ()) -> Result:
    """Run one command in a fresh guest of the system."""
    arguments = [*run_options(system), "--timeout", str(limit_s), *options, "--exec", command]
    return keel(*arguments, stdin=stdin, timeout_s=limit_s + GRACE_S)


def together(boot: str) -> pytest.MarkDecorator:
    """The mark of tests that share a boot: where tests run side by side, these run one after the other."""
    return pytest.mark.xdist_group(boot)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a boot come first: they take longest, and all that is short fits beside them."""
    items.sort(key=lambda item: item.get_closest_marker(together("").name) is None)


def make_guest_programs() -> None:
    """Build the programs for the guest, one test at a time."""
    variables = [f"OUT={GUEST_PROGRAMS}", f"ABI={LINUX / 'l4'}", f"GUEST={GUEST_DIRECTORY}"]
    subprocess.run(["flock", str(GUEST_SOURCES / "Makefile"), "make", "-s", "-C", str(GUEST_SOURCES), *variables], check=True)


@cache
def guest_archive(programs: Sequence[str]) -> bytes:
    """Built programs and the scripts, as an archive that a guest unpacks from its standard input."""
    make_guest_programs()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for program in programs:
            archive.add(GUEST_PROGRAMS / program, program)
        for script in ("run-each.sh", "packages"):
            archive.add(GUEST_SOURCES / script, script)
    return buffer.getvalue()


def run_in_tests(
    system: str,
    command: str,
    *,
    limit_s: int,
    options: Sequence[str] = (),
    programs: Sequence[str] = DAILY_PROGRAMS,
    stdin: bytes = b"",
) -> Result:
    """Run a command in the directory of the guest programs, which are on a disk after the others: a serial line is slow.

    With `--icount` they come on the standard input, which the command then does not have.
    """
    enter = f"mkdir -p {GUEST_DIRECTORY} && cd {GUEST_DIRECTORY} && tar -x"
    if "--icount" in options:  # Disks answer in the host's time.
        return run_guest(system, f"{enter} && {command}", stdin=guest_archive(programs), limit_s=limit_s, options=options)
    with tempfile.NamedTemporaryFile(suffix=".img") as disk:
        disk.write(guest_archive(programs))
        disk.flush()
        device = DISKS_BEHIND_ROOT[options.count("--drive")]
        options = [*options, "--drive", f"virtio:{disk.name}"]
        return run_guest(system, f"{enter} -f {device} && {command}", stdin=stdin, limit_s=limit_s, options=options)


@pytest.fixture(scope="session")
def once() -> Callable[..., Result]:
    """Like run_in_tests, but the same command on the same system runs only once in a session."""
    results: dict[tuple[str, str, int], Result] = {}

    def run(system: str, command: str, limit_s: int, processors: int = 1) -> Result:
        key = (system, command, processors)
        if key not in results:
            results[key] = run_in_tests(system, command, limit_s=limit_s, options=["--smp", str(processors)])
        return results[key]

    return run


def without_program(directory: Path, *missing: str) -> dict[str, str]:
    """An environment whose PATH, a directory of links, lacks the named programs."""
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in sorted(Path(folder).glob("*")) if Path(folder).is_dir() else []:
            link = directory / program.name
            if program.name not in missing and not link.exists() and not link.is_symlink():
                link.symlink_to(program)
    return {**os.environ, "PATH": str(directory)}


class Guest:
    """A guest whose serial line and monitor are ours."""

    def __init__(self, child: "subprocess.Popen[bytes]", monitor: Path | None = None) -> None:
        self.child = child
        self.monitor = monitor
        self.heard = b""

    def wait_for(self, text: bytes, limit_s: float = INTERACTIVE_LIMIT_S) -> None:
        """Read until the text has come after what was waited for before."""
        assert self.child.stdout
        end = time.monotonic() + limit_s
        while text not in self.heard:
            left_s = max(0, end - time.monotonic())
            assert select.select([self.child.stdout], [], [], left_s)[0], f"no {text!r} in time: {self.heard[-2000:]!r}"
            data = os.read(self.child.stdout.fileno(), 65536)
            assert data, f"the guest ended without {text!r}: {self.heard[-2000:]!r}"
            self.heard += data
        self.heard = self.heard.partition(text)[2]

    def say(self, text: bytes) -> None:
        """Type on the serial line."""
        assert self.child.stdin
        self.child.stdin.write(text)
        self.child.stdin.flush()

    def ask(self, *commands: str) -> None:
        """Give commands to QEMU's monitor, and wait until the last is done."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.monitor))
            for count, command in enumerate(("info status", *commands), 1):
                line.sendall(f"{command}\n".encode())
                answers = b""
                while answers.count(b"(qemu) ") < (2 if count == 1 else 1):
                    answers += line.recv(65536)


@contextmanager
def started(argv: list[str], monitor: Path | None = None) -> Iterator[Guest]:
    """A guest that is ended at last."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            yield Guest(child, monitor)
        finally:
            child.terminate()
