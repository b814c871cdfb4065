# SPDX-License-Identifier: GPL-2.0-only
"""Shared by the system tests: running `./keel` on one of the two systems, and the programs for the guest.

This file has no tests. What needs a boot runs once for each system, and its result is kept for the session.
"""

import atexit
import io
import os
import re
import select
import shutil
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from keel import complaints, cpio, image
from keel.config import Settings

# Tests ignore the user's defaults, even if pytest is started directly.
os.environ["KEEL_CONFIG"] = ""
REPOSITORY = Path(__file__).resolve().parents[1]
GUEST_SOURCES = REPOSITORY / "tests" / "guest"
GUEST_PROGRAMS = REPOSITORY / "build" / "tests"
# Where the tested Linux is on Keel, without a word its usual place: the suite linux-colocated says it.
PLACED = [f"--place=linux={place}" for place in filter(None, [os.environ.get("KEEL_PLACE")])]
# The builds of the tested version of Linux.
LINUX = REPOSITORY / "build" / "-".join(["linux", *filter(None, [os.environ.get("KEEL_LINUX")])])
# Those of the tests that run every day.
DAILY_PROGRAMS = ("transcript", "transcript32", "transcript32-dynamic", "ld-linux.so.2", "libc.so.6", "stress", "parallel")
GUEST_DIRECTORY = "/tmp/keel-tests"
# What of the default root a shell takes: Bochs takes minutes to read the whole one from its disc.
LIBRARIES = r"/x86_64-linux-gnu(/(libc\.so\.6|ld-linux-x86-64\.so\.2))?"
SHELL = re.compile(rf"bin|dev|lib(64)?|proc|sys|tmp|usr(/bin(/(da)?sh)?|/lib({LIBRARIES})?|/lib64(/.*)?)?")
# The disks of a guest whose root is the first.
DISKS_BEHIND_ROOT = ("/dev/vdb", "/dev/vdc", "/dev/vdd")
# The host's limit for a guest that exceeds even --timeout.
GRACE_S = 120
# The time limit for an answer of an interactive guest, including its start.
INTERACTIVE_LIMIT_S = 400
SYSTEMS = ("native", "keel")
# Runs the script from standard input, and reads all of it first: commands of the script get the end of the input.
SCRIPT = 'bash -c "$(cat)"'
# What the guests of this process complain of; each test looks at it at its end.
COMPLAINTS = Path(tempfile.mkdtemp(prefix="keel-tests-")) / "complaints"
os.environ[complaints.VARIABLE] = str(COMPLAINTS)
atexit.register(shutil.rmtree, COMPLAINTS.parent, ignore_errors=True)
# One root for all of Debian's suites.
DEBIAN_PACKAGES = ["--packages", "curl dpkg-dev fio gdb iperf3 libpython3.11-testsuite nginx-light postgresql stress-ng wrk"]


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    status: int
    output: str
    error: str

    def last_error_line(self) -> str:
        """The last line of the error output, which must say what went wrong."""
        lines = self.error.strip().splitlines()
        return lines[-1] if lines else ""


def keel(
    *arguments: str,
    stdin: bytes = b"",
    timeout_s: float = 600,
    environment: dict[str, str] | None = None,
    command: Path = REPOSITORY / "keel",
) -> Result:
    """Run `./keel` of this clone, or another one, with the arguments."""
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
    return ["run", "--native"] if system == "native" else ["run", *PLACED]


def run_guest(system: str, command: str, *, stdin: bytes = b"", limit_s: int = 120, options: Sequence[str] = ()) -> Result:
    """Run one command in a fresh guest of the system."""
    arguments = [*run_options(system), "--timeout", str(limit_s), *options, "--exec", command]
    return keel(*arguments, stdin=stdin, timeout_s=limit_s + GRACE_S)


def together(boot: str) -> pytest.MarkDecorator:
    """The mark of tests that share a boot: they run one after the other, even if tests run in parallel."""
    return pytest.mark.xdist_group(boot)


def complains(pattern: str) -> pytest.MarkDecorator:
    """The mark of a test in whose guests Linux's log has warnings or an oops that the pattern finds, on purpose."""
    return pytest.mark.complains(pattern)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", "complains(pattern): Linux complains in the guests of this test, and that is meant")


@pytest.fixture(autouse=True)
def nothing_to_complain_of(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test fails if Linux in one of its guests warned, stalled or failed without being meant to."""
    yield
    said = COMPLAINTS.read_text().splitlines() if COMPLAINTS.exists() else []
    COMPLAINTS.unlink(missing_ok=True)
    meant = [mark.args[0] for mark in request.node.iter_markers("complains")]
    left = [line for line in said if not any(re.search(pattern, line) for pattern in meant)]
    assert not left, "Linux's log in a guest:\n" + "\n".join(left)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that share a boot first: they take longest, and short tests can run beside them."""
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
    """Run a command in the directory of the guest programs. They are on a disk after the others, because a serial line is slow.

    With `--icount` they come on standard input, so the command cannot use it.
    """
    enter = f"mkdir -p {GUEST_DIRECTORY} && cd {GUEST_DIRECTORY} && tar -x"
    if "--icount" in options:  # Disks complete in host time, which is not deterministic.
        return run_guest(system, f"{enter} && {command}", stdin=guest_archive(programs), limit_s=limit_s, options=options)
    with tempfile.NamedTemporaryFile(suffix=".img") as disk:
        disk.write(guest_archive(programs))
        disk.flush()
        device = DISKS_BEHIND_ROOT[options.count("--drive")]
        options = [*options, "--drive", f"virtio:{disk.name}"]
        return run_guest(system, f"{enter} -f {device} && {command}", stdin=stdin, limit_s=limit_s, options=options)


def write_small_root(archive: Path, programs: Sequence[str]) -> None:
    """Make the archive of a root with a shell, and with guest programs in their directory."""
    make_guest_programs()
    writer, folder = cpio.Writer(), GUEST_DIRECTORY.removeprefix("/")
    with image.default_root(Settings()).path.open("rb") as file, archive.open("wb") as out:
        for entry in cpio.chosen(file, lambda name: name if SHELL.fullmatch(name) else ""):
            out.write(writer.entry(entry))
        out.write(writer.entry(cpio.Entry(folder, cpio.DIRECTORY | 0o755)))
        for name in programs:
            program = (GUEST_PROGRAMS / name).read_bytes()
            out.write(writer.entry(cpio.Entry(f"{folder}/{name}", cpio.REGULAR | 0o755, data=program)))
        out.write(writer.end())


@pytest.fixture(scope="session")
def once() -> Callable[..., Result]:
    """Like run_in_tests, but the same command on the same system runs only once per session."""
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
    """A guest whose serial line and monitor the test controls."""

    def __init__(self, child: "subprocess.Popen[bytes]", monitor: Path | None = None) -> None:
        self.child = child
        self.monitor = monitor
        self.heard = b""

    def wait_for(self, text: bytes, limit_s: float = INTERACTIVE_LIMIT_S) -> None:
        """Read until the text has come, after the text of the last wait."""
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
    """A guest that is stopped at the end of the test."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            yield Guest(child, monitor)
        finally:
            child.terminate()
