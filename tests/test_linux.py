# SPDX-License-Identifier: GPL-2.0-only
"""Linux on Keel compared with native Linux: the same programs must give the same output, line by line.

Also tests of Keel alone: its accounting is the same before and after a storm of processes, and a native task continues beside a
busy Linux and after its panic.
"""

import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import GUEST_SOURCES, LINUX, REPOSITORY, SYSTEMS, Result, run_guest, run_in_tests, run_options, together

Once = Callable[..., Result]

# The checks as 64-bit and as 32-bit programs, with the topics that each lacks. Some 32-bit ones use shared libraries.
WITHOUT_TOPICS = {
    "transcript": {"ia32"},
    "transcript32": {"faults", "frames", "machine", "tracing"},
}
DYNAMIC_PROGRAM = "transcript32-dynamic"
DYNAMIC_TOPICS = {"ia32", "threads", "signals"}

PACKAGES = "./run-each.sh packages 200"
TRANSCRIPT_LIMIT_S = 1200
# The transcripts agree if both systems have the same number of processors; the 32-bit ones need one.
WIDE = "(./transcript --list; ./transcript) | sed s/^/transcript./"
NARROW = (
    "(./transcript32 --list; ./transcript32) | sed s/^/transcript32./; "
    f"./{DYNAMIC_PROGRAM} {' '.join(sorted(DYNAMIC_TOPICS))} | sed s/^/{DYNAMIC_PROGRAM}./"
)
TRANSCRIPTS = {1: f"{WIDE}; {NARROW}", 2: WIDE}
PACKAGES_LIMIT_S = 900
STRESS_LIMIT_S = 900
LEAST_CHECKS = 200
MIXED_ROUNDS = 10
# A round of `stress mixed` takes at least ROUND_INSTRUCTIONS on either system (by `bench command` under --icount).
ROUND_INSTRUCTIONS = 100_000_000

CHECK = re.compile(r"^CHECK\((\w+), (\w+)\)", re.MULTILINE)
# A check that ends in one of these ways has not printed its result.
CUT_SHORT = re.compile(r"killed by signal|timed out|exit status|: cannot ")
SECTION = re.compile(r"^=== begin (\S+)\n(.*?)^=== end \1 (\d+)$", re.MULTILINE | re.DOTALL)
STATUSES = {
    "bash.sh": 3,
    "coreutils.sh": 0,
    "gcc.sh": 0,
    "git.sh": 0,
    "perl.pl": 2,
    "python.py": 4,
    "redis.sh": 0,
    "sqlite.sh": 0,
}
HEARTBEAT = re.compile(rb"heartbeat (\d+)")


def checks() -> dict[str, list[str]]:
    """The names of all checks by topic, from the sources."""
    topics: dict[str, list[str]] = {}
    for source in sorted((GUEST_SOURCES / "transcript").glob("*.c")):
        for topic, title in CHECK.findall(source.read_text()):
            topics.setdefault(topic, []).append(f"{topic}.{title}")
    return topics


def transcript_lines(result: Result) -> dict[str, str]:
    """The observations of each check, by name."""
    return dict(line.split(":", 1) for line in result.output.splitlines() if ":" in line)


def sections(result: Result) -> dict[str, tuple[str, int]]:
    """Output and status of each script."""
    return {name: (text, int(status)) for name, text, status in SECTION.findall(result.output)}


def test_there_are_enough_checks() -> None:
    """The suite has at least 200 checks."""
    assert sum(len(names) for names in checks().values()) >= LEAST_CHECKS


BY_PROCESSORS = [pytest.param(number, marks=together(f"transcripts-{number}")) for number in TRANSCRIPTS]
TOPICS = [
    *((program, topic, 1) for program, without in WITHOUT_TOPICS.items() for topic in sorted(checks().keys() - without)),
    *((DYNAMIC_PROGRAM, topic, 1) for topic in sorted(DYNAMIC_TOPICS)),
    *(("transcript", topic, 2) for topic in sorted(checks().keys() - WITHOUT_TOPICS["transcript"])),
]


@pytest.mark.parametrize("processors", BY_PROCESSORS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_transcript_is_complete(once: Once, system: str, processors: int) -> None:
    """Every check reports, and none is cut short."""
    result = once(system, TRANSCRIPTS[processors], TRANSCRIPT_LIMIT_S, processors)
    assert result.status == 0, result.error
    lines = transcript_lines(result)
    listed = [line for line in result.output.splitlines() if ":" not in line]
    assert len(listed) >= (len(WITHOUT_TOPICS) if processors == 1 else 1) * LEAST_CHECKS
    assert sorted(name for name in lines if not name.startswith(f"{DYNAMIC_PROGRAM}.")) == sorted(listed)
    assert not [f"{name}:{text}" for name, text in lines.items() if CUT_SHORT.search(text)]


@pytest.mark.parametrize(
    ("program", "topic", "processors"), [pytest.param(*topic, marks=together(f"transcripts-{topic[-1]}")) for topic in TOPICS]
)
def test_transcript_is_the_same(once: Once, program: str, topic: str, processors: int) -> None:
    """Keel's lines of a topic equal those of native Linux."""
    command = TRANSCRIPTS[processors]
    native = transcript_lines(once("native", command, TRANSCRIPT_LIMIT_S, processors))
    keel = transcript_lines(once("keel", command, TRANSCRIPT_LIMIT_S, processors))
    names = sorted(name for name in native.keys() | keel.keys() if name.startswith(f"{program}.{topic}."))
    assert names, f"no check of {topic}"
    different = [
        f"{name}\n  native:{native.get(name, ' nothing')}\n  keel:  {keel.get(name, ' nothing')}"
        for name in names
        if native.get(name) != keel.get(name)
    ]
    assert not different, "\n".join(different)


@together("packages")
@pytest.mark.parametrize("script", sorted(STATUSES))
@pytest.mark.parametrize("system", SYSTEMS)
def test_packages_work(once: Once, system: str, script: str) -> None:
    """Unmodified Debian programs end as their script expects, and nothing that they need is missing."""
    done = sections(once(system, PACKAGES, PACKAGES_LIMIT_S))
    assert script in done, f"{script} did not end"
    text, status = done[script]
    assert status == STATUSES[script], text
    assert "not found" not in text and "Traceback" not in text, text


@together("packages")
@pytest.mark.parametrize("script", sorted(STATUSES))
def test_packages_print_the_same(once: Once, script: str) -> None:
    """On Keel they print the same as on native Linux."""
    native = sections(once("native", PACKAGES, PACKAGES_LIMIT_S)).get(script)
    assert native is not None
    assert sections(once("keel", PACKAGES, PACKAGES_LIMIT_S)).get(script) == native


def test_every_script_is_listed() -> None:
    """A script that is missing from the table would not be tested."""
    assert sorted(STATUSES) == sorted(path.name for path in (GUEST_SOURCES / "packages").iterdir())


STORM = ["forks 2000", "execs 300 /bin/true", "killspin 60", "killblocked 60", "procs 100", "threads 100", "memory 64"]
# Linux keeps the frames of the most threads that it ever had, so it first has more than any job does.
MANY = "for i in $(seq 400); do sleep 1 & done; wait"
WARM_UP = ["forks 50", "execs 10 /bin/true", "killspin 8", "killblocked 8", "procs 100", "threads 100", "memory 8"]


# Shows the accounting once everything deferred is done.
ACCOUNTING = "sleep 2; echo @; cat /proc/keel/accounting; echo @"


def stress_script(jobs: list[str], program: str = "stress") -> str:
    """A shell command that runs the jobs and then shows the accounting."""
    return "; ".join([f"./{program} {job} || exit 1" for job in jobs] + [ACCOUNTING])


# A page table keeps memory for mapping nodes, at most two pages, until it is freed. So these two numbers depend on the pages that
# surviving programs had in the meantime.
PAGES = ("used", "pool_free")
PAGES_OF_PLACES = 8


def assert_given_back(before: str, after: str) -> None:
    """The accounting has the same number of objects of every kind and of pages, except those for mapping nodes."""
    counts = [dict(line.split() for line in text.splitlines()) for text in (before, after)]
    pages = [{word: int(count.pop(word)) for word in PAGES} for count in counts]
    assert counts[0] == counts[1]
    assert all(abs(pages[0][word] - pages[1][word]) <= PAGES_OF_PLACES for word in PAGES), pages


def test_accounting_returns_after_a_storm() -> None:
    """2,000 forks, 300 dynamic programs, kills, a hundred processes at once, pages of 2 MB: the µ-kernel gets all its memory
    back.
    """
    result = run_in_tests("keel", f"{MANY}; {stress_script(WARM_UP)}; {stress_script(STORM)}", limit_s=STRESS_LIMIT_S)
    assert result.status == 0, result.output + result.error
    parts = result.output.split("@\n")
    assert [f"{job.split()[0]} {job.split()[1]} of {job.split()[1]}" for job in STORM] == parts[2].split("\n")[:-1]
    before, after = parts[1], parts[3]
    assert len(before.splitlines()) >= 3, before
    assert_given_back(before, after)


def test_mixed_load_is_right(once: Once) -> None:
    """The mixed load verifies its own results, and gives the same checksum on both systems."""
    command = f"./stress mixed {MIXED_ROUNDS}"
    native = once("native", command, STRESS_LIMIT_S)
    keel = once("keel", command, STRESS_LIMIT_S)
    assert native.status == 0, native.error
    assert (keel.status, keel.output) == (0, native.output), keel.error


# The rounds, and the options of the emulator: on QEMU 10 the processors run in parallel, where each round takes longer.
PARALLEL: dict[str, tuple[int, list[str]]] = {"host-QEMU": (100, []), "QEMU-10-in-parallel": (10, ["--qemu", "10"])}
PARALLEL_JOBS = ["protect", "copy", "give-back", "remap", "wake", "signals", "moves", "kills", "storm"]
PARALLEL_WARM_UP = f"{MANY}; ./parallel all 2 > /dev/null"


@pytest.mark.parametrize("emulator", PARALLEL)
def test_two_processors_agree(emulator: str) -> None:
    """What a thread does on one processor is visible on the other at once. Afterwards the µ-kernel has all its memory back."""
    rounds, options = PARALLEL[emulator]
    jobs = stress_script([f"all {rounds}"], "parallel")
    command = f"{PARALLEL_WARM_UP}; {ACCOUNTING}; {jobs}"
    result = run_in_tests("keel", command, limit_s=STRESS_LIMIT_S, options=["--smp", "2", *options])
    assert result.status == 0, result.output + result.error
    _, before, printed, after, _ = result.output.split("@\n")
    assert printed.splitlines() == [f"{job} {rounds} of {rounds}" for job in PARALLEL_JOBS]
    assert_given_back(before, after)


def test_each_processor_is_named() -> None:
    """Linux has as many processors as the guest, and reports them to programs."""
    command = "nproc; grep ^processor /proc/cpuinfo; cat /sys/devices/system/cpu/online; dmesg | grep -c Oops"
    result = run_in_tests("keel", command, limit_s=STRESS_LIMIT_S, options=["--smp", "3"])
    assert result.output.splitlines() == ["3", *(f"processor\t: {number}" for number in range(3)), "0-2", "0"]


def test_features_without_their_state_are_not_named() -> None:
    """Linux hides protection keys and bounds of the emulated processor, because the µ-kernel does not save their state."""
    processor = ["--qemu-arg=-cpu", "--qemu-arg=max"]
    result = run_guest("keel", "grep -ow -e pku -e mpx -e sse2 /proc/cpuinfo", options=processor)
    assert result.output == "sse2\n", result.output + result.error


class Guest:
    """A guest on Keel that keeps running while its logs are read."""

    def __init__(self, command: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(REPOSITORY / "keel"), *run_options("keel"), *options, "--exec", command],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def log(self, line: str) -> bytes:
        """The output of one of the guest's serial lines so far. Guests that run at the same time have separate logs."""
        for link in Path(f"/proc/{self.process.pid}/fd").glob("*"):
            path = link.readlink() if link.is_symlink() else link
            if path.name.endswith(f"-{line}.log"):
                return path.read_bytes()
        return b""

    def beats(self) -> int:
        """The number of the last heartbeat."""
        numbers = HEARTBEAT.findall(self.log("kernel"))
        return int(numbers[-1]) if numbers else 0

    def await_console(self, text: bytes, limit_s: float) -> None:
        """Wait until Linux's console has the text."""
        end = time.monotonic() + limit_s
        while text not in self.log("console"):
            assert self.process.poll() is None, f"the guest ended before its console had {text!r}"
            assert time.monotonic() < end, f"the console does not have {text!r}"
            time.sleep(0.1)

    def await_beats(self, more: int, limit_s: float) -> None:
        """Wait for this many more heartbeats."""
        start, end = self.beats(), time.monotonic() + limit_s
        while (now := self.beats()) < start + more:
            assert self.process.poll() is None and time.monotonic() < end, f"{now - start} of {more} heartbeats came"
            time.sleep(0.1)


def configuration_that_outlives_linux(directory: Path) -> Path:
    """The default boot configuration with a faster heartbeat, in which the machine continues after a panic of Linux."""
    text = (REPOSITORY / "tools" / "keel" / "boot.conf").read_text()
    for old, new in (("on-panic stop", "on-panic continue"), ("interval=1000ms", "interval=200ms")):
        assert old in text
        text = text.replace(old, new)
    path = directory / "boot.conf"
    path.write_text(text)
    return path


@pytest.mark.parametrize("processors", TRANSCRIPTS)
def test_heartbeat_goes_on_beside_a_busy_and_a_dead_linux(tmp_path: Path, processors: int) -> None:
    """A native task ticks while Linux spins, on all processors, and after Linux has panicked."""
    configuration = configuration_that_outlives_linux(tmp_path)
    spin = "(while :; do :; done) & " * processors
    load = f"echo busy > /dev/console; {spin} sleep 4; echo c > /proc/sysrq-trigger; sleep 60"
    guest = Guest(load, "--timeout", "300", "--boot-conf", str(configuration), "--smp", str(processors))
    try:
        guest.await_console(b"busy", 250)
        guest.await_beats(10, 60)
        guest.await_console(b"Kernel panic", 60)
        guest.await_beats(10, 60)
    finally:
        guest.process.terminate()
        guest.process.wait(30)


@pytest.fixture(scope="module")
def source() -> tuple[Path, Path]:
    """The package with Linux's source, and the unpacked tree."""
    tree = LINUX / "pristine"
    version = (tree / ".keel-version").read_text().strip()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keel" / "packages"
    packages = list(cache.glob(f"linux-source-*_{version}_all.deb"))
    assert len(packages) == 1, f"no package of {version} in {cache}"
    return packages[0], tree


def test_source_tree_is_as_debian_ships_it(source: tuple[Path, Path]) -> None:
    """The tree has every file of the package with its content, and no others."""
    package, tree = source
    unpack = 'dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "./usr/src/linux-source-*.tar.xz" | xz -dc'
    changed, names = [], set()
    with subprocess.Popen(["bash", "-o", "pipefail", "-c", unpack, "unpack", str(package)], stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                path = tree / Path(*Path(member.name).parts[1:])
                names.add(path)
                content = archive.extractfile(member) if member.isfile() else None
                same = path.read_bytes() == content.read() if content and path.is_file() else not content
                if not same or (member.issym() and os.readlink(path) != member.linkname):
                    changed.append(member.name)
    assert process.returncode == 0
    present = {path for path in tree.rglob("*") if path.name != ".keel-version"}
    assert not changed
    assert not sorted(present - names)[:20]


def test_server_is_built_from_links_to_the_source(source: tuple[Path, Path]) -> None:
    """Outside arch/l4 the server's tree consists of links to all files of the unchanged tree."""
    links, tree = LINUX / "l4-src", source[1]
    overlay = links / "arch" / "l4"
    found = set()
    ours = {Path(".keel-version"), Path(".keel-insertions")}
    for path in links.rglob("*"):
        name = path.relative_to(links)
        if path.is_dir() and not path.is_symlink() or path.is_relative_to(overlay) or name in ours:
            continue
        found.add(name)
        assert path.is_symlink() and Path(os.path.normpath(path.parent / os.readlink(path))) == tree / name, name
    expected = {path.relative_to(tree) for path in tree.rglob("*") if path.is_symlink() or path.is_file()}
    assert found == expected - {Path(".keel-version")}


@pytest.mark.parametrize("vdso", ["vdso64.so.dbg", "vdso32.so.dbg"])
def test_clocks_of_programs_wait_for_earlier_loads(vdso: str) -> None:
    """The time stamp counter is read only after a fence. Otherwise a thread could read an older time than one reported to it."""
    disassembly = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", LINUX / "l4" / "arch" / "l4" / "vdso" / vdso],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    places = [index for index, line in enumerate(disassembly) if line.endswith("rdtsc")]
    assert places, "the counter is not read at all"
    assert all(disassembly[index - 1].split()[-1] == "lfence" for index in places)


@pytest.mark.parametrize("system", SYSTEMS)
def test_frames_show_no_other_process(system: str) -> None:
    """The FPU states in signal frames are a process's own, also of one that has none, beside others with known ones."""
    command = "{ ./transcript frames.beside_others > others & }; ./without_fpu; echo $?; wait; cat others"
    result = run_in_tests(system, command, limit_s=STRESS_LIMIT_S, programs=("transcript", "without_fpu"))
    assert result.output.splitlines() == ["0", "frames.beside_others: child=exit:0 child=exit:0 child=exit:0"], result.error
