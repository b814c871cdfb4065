# SPDX-License-Identifier: GPL-2.0-only
"""The test suites: their parts, and how these are run and counted."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from . import (
    bochs,
    boot,
    bootconf,
    checkers,
    counts,
    debugged,
    emulators,
    errortable,
    examples,
    figures,
    firmware,
    guest,
    guestinit,
    image,
    latency,
    linux,
    machine,
    machinetests,
    measures,
    packages,
    placement,
    process,
    reproducible,
    rust,
    slot,
    standstill,
    uklbuild,
    ukloptions,
)
from .config import Settings
from .counts import Count
from .errors import KeelError
from .progress import Far, Step, say

CHECKERS = (
    packages.Need("python3-pytest", ("/usr/lib/python3/dist-packages/pytest",), "runs the tests"),
    packages.Need("mypy", ("mypy",), "checks the types of the Python code"),
    packages.Need("rustfmt-web", ("/usr/bin/rustfmt",), "checks the layout of the Rust code"),
    packages.Need("rust-web-clippy", ("/usr/bin/cargo-clippy",), "checks the Rust code"),
)

SIDE_BY_SIDE = (packages.Need("python3-pytest-xdist", ("/usr/lib/python3/dist-packages/xdist",), "runs tests side by side"),)

# Memory for one guest and its test, in bytes.
GUEST_SHARE = 3 << 30

# The argument with which the suite runs only one topic, which sees few errors.
ONE_TOPIC = "only="
# Random operations on the µ-kernel's code against its models, in each run of the unit tests.
LEAST_OPERATIONS = 1_000_000


def _pytest_progress(line: bytes) -> str | Far:
    """How far pytest is, if a line of its output shows it."""
    return measures.percent(line) if re.search(rb"\[ *\d+%\]$", line) else ""


def _run(settings: Settings, name: str, argv: list[str], env: dict[str, str] | None = None) -> Count:
    """Runs a test runner. Returns its own count, or one test if it has none; prints its output if it fails."""
    log = settings.logs / f"test-{name.replace(' ', '-')}.log"
    status = 0
    try:
        with Step(name) as step:
            process.run_logged(argv, what=name, log=log, step=step, measure=_pytest_progress, cwd=settings.repository, env=env)
    except KeelError as error:
        print(error.line(), file=sys.stderr)
        status = error.status
    output = log.read_text(errors="replace") if log.exists() else ""
    print("".join(f"{name}: {line}\n" for line in counts.skips(output)), end="")
    count = counts.run_count(name, output, status=status)
    print(f"{name}: {count.line()}", flush=True)
    return count


def unit(settings: Settings) -> Count:
    """The tests without an emulator: the checkers, and the unit tests of the command, the plugins' model and the crates."""
    packages.require(settings, [*CHECKERS, *packages.COMPILER, *packages.IMAGES, *packages.FILE_SYSTEMS, packages.FAKEROOT])
    python, places = "tools/keel/pyproject.toml", ["tools/keel", "tests", "bench"]
    total = Count()
    total.add(_fetched(settings, python, places))
    # The tests import their conftest by its plain name, as pytest allows.
    types = ["mypy", "--config-file", python, *places]
    total.add(_run(settings, "mypy", types, {"MYPYPATH": "tools:tests:tests/debian:tests/ukl:bench"}))
    pytest = [checkers.DEBIAN_PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "-rsfE", "-c", python]
    total.add(_run(settings, "command", [*pytest, "tools/keel/tests"], {"PYTHONPATH": "tools"}))
    total.add(_rust_checks(settings))
    return total


def _fetched(settings: Settings, configuration: str, places: list[str]) -> Count:
    """The checkers from PyPI: the licences of all files, then the Python code."""
    try:
        reuse, ruff = str(checkers.reuse(settings)), str(checkers.ruff(settings))
    except checkers.CannotFetch as error:
        say(f"reuse and ruff cannot be fetched, their checks are skipped: {error}")
        return Count(skipped=3)
    total = _run(settings, "reuse", [reuse, "lint"])
    total.add(_run(settings, "ruff", [ruff, "check", "--config", configuration, "keel", *places]))
    total.add(_run(settings, "ruff format", [ruff, "format", "--check", "--config", configuration, "keel", *places]))
    return total


def _rust_checks(settings: Settings) -> Count:
    # Debian's tools by their path: a rustup in PATH without these components would shadow them.
    bare = rust.debian_toolchain(settings)
    debian = {"CARGO": bare.cargo, "RUSTFMT": "/usr/bin/rustfmt", "PATH": "/usr/bin:/bin"}
    host = {**bare.host().environment(settings), **debian}
    clippy = ["/usr/bin/cargo-clippy", "clippy"]
    tested = ["--workspace", "--lib", "--bin", rust.KERNEL_PROGRAM]
    deny = ["--", "-D", "warnings"]
    total = Count()
    total.add(_run(settings, "rustfmt", ["/usr/bin/cargo-fmt", "fmt", "--all", "--check"], host))
    lint = [*clippy, "--workspace", "--lib", "--bins", *bare.bare_arguments(settings), *deny]
    total.add(_run(settings, "clippy", lint, {**host, **bare.environment(settings)}))
    lint = [*clippy, *rust.SMALL_PROGRAMS, "--package", "keel-l4-32", "--lib", "--bins"]
    lint += [*bare.bare_arguments(settings, rust.SMALL_TARGET), *deny]
    total.add(_run(settings, "clippy of 32 bits", lint, {**host, **bare.environment(settings)}))
    lint = [*clippy, "--workspace", "--tests", "--examples", *deny]
    total.add(_run(settings, "clippy of the tests", lint, host))
    total.add(_run(settings, "crates", [bare.cargo, "test", *tested, "--", "--show-output"], host))
    total.add(_histories((settings.logs / "test-crates.log").read_text(errors="replace")))
    return total


def operations_of(output: str) -> int:
    """The number of operations that the random tests of the crates report."""
    return sum(int(count) for count in re.findall(r"^\w+: (\d+) operations", output, re.MULTILINE))


def _histories(output: str) -> Count:
    """Whether the µ-kernel passed enough random operations against its models."""
    operations = operations_of(output)
    print(f"histories: {operations} operations against models", flush=True)
    return counts.judged("histories", passes=operations >= LEAST_OPERATIONS)


def guests_at_once() -> int:
    """How many guests the host can run in parallel: one per processor that we may use, if its memory suffices."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // GUEST_SHARE))


def kernel(settings: Settings) -> Count:
    """The µ-kernel's own tests: its suite on each of the machines, its figures, the examples, its debugger.

    Guests whose clock counts instructions run in parallel. Then those whose clock is the host's run one after the other.
    """
    packages.require_emulator(settings)
    packages.require(settings, packages.BOCHS)
    rust.build_all(settings)
    rust.build_debugger(settings)
    most = guests_at_once()
    say(f"{len(KERNEL_PARTS)} parts, at most {most} of them in parallel; each is shown when it has ended")
    total = _kernel_parts(settings, [name for name in KERNEL_PARTS if name not in HOST_CLOCK_PARTS], most)
    total.add(_kernel_parts(settings, HOST_CLOCK_PARTS, 1))
    return total


def _kernel_parts(settings: Settings, names: Sequence[str], most: int) -> Count:
    command = [sys.executable, str(settings.repository / "keel"), "test"]
    total, logs = Count(), {settings.logs / f"test-{name}.log": name for name in names}
    for log, status in process.run_beside({log: [*command, name] for log, name in logs.items()}, most):
        text = log.read_text(errors="replace")
        print(text, end="", flush=True)
        total.add(counts.total_of(logs[log], text, status))
    return total


def kernel_figures(settings: Settings) -> Count:
    """Each figure of the µ-kernel against its ceiling."""
    packages.require_emulator(settings)
    rust.build_all(settings)
    return _judged("figures", figures.judge(figures.measure(settings), _leeway(settings)))


def kernel_latency(settings: Settings, loads: Mapping[str, latency.Load] = latency.LOADS) -> Count:
    """The longest sections with interrupts off against the limit, one test for each load."""
    packages.require_emulator(settings)
    rust.build_all(settings)
    return _judged("latency", latency.judge(settings, latency.measure(settings, loads), _leeway(settings)))


def _leeway(settings: Settings) -> float:
    leeway = figures.leeway(rust.version(rust.find_toolchain(settings)))
    if leeway > 1:
        print(f"an older compiler, every ceiling times {leeway}")
    return leeway


def kernel_examples(settings: Settings) -> Count:
    """Each native example against its expected output; those of small address spaces also where segments have limits."""
    packages.require_emulator(settings)
    packages.require(settings, packages.BOCHS)
    rust.build_all(settings)
    return _judged("examples", examples.judge(settings))


def kernel_firmware(settings: Settings) -> Count:
    """The state that firmware leaves, and missing clocks."""
    packages.require_emulator(settings)
    rust.build_all(settings)
    return _judged("firmware", firmware.judge(settings))


def kernel_debugger(settings: Settings) -> Count:
    """The debugger, the invariant check and the event trace of the debug build."""
    packages.require_emulator(settings)
    rust.build_all(settings)
    rust.build_debugger(settings)
    return _judged("debugger", debugged.judge(settings))


def _judged(topic: str, problems: Iterable[tuple[str, str]]) -> Count:
    """One test for each name; it failed if a problem is given."""
    count = Count()
    for name, problem in problems:
        print(f"FAIL {topic}/{name}: {problem}" if problem else f"ok {topic}/{name}", flush=True)
        count.add(counts.judged(f"{topic}/{name}", passes=not problem))
    return count


def kernel_suite(settings: Settings, machines: Sequence[machine.TestMachine], template: Path = bootconf.SUITE_TEMPLATE) -> Count:
    """A suite that runs on the µ-kernel itself, on each of the machines."""
    kinds = {tested.emulator for tested in machines}
    if kinds - {machine.Emulator.BOCHS}:
        packages.require_emulator(settings)
    if machine.Emulator.BOCHS in kinds:
        packages.require(settings, packages.BOCHS)
    rust.build_all(settings)
    if any(tested.checks for tested in machines):
        rust.build_debugger(settings)
    total = Count()
    for tested in machines:
        total.add(_kernel_on(settings, tested, template))
    return total


def _kernel_on(settings: Settings, tested: machine.TestMachine, template: Path) -> Count:
    output = bytearray()

    def watch(data: bytes) -> bool:
        output.extend(data)
        sys.stdout.write(shown(data))
        sys.stdout.flush()
        return False

    settings = replace(settings, qemu=tested.qemu or settings.qemu)
    print(f"machine {tested.name}", flush=True)
    processors = _processors(tested)
    began = time.monotonic()
    with slot.taken(settings, f"tests-{tested.name}") as mine:
        choices = boot.Choices(
            boot_template=template,
            processors=processors,
            kernel_line=tested.kernel_line,
            icount=tested.icount,
            arguments=tested.arguments,
            checks=tested.checks,
        )
        described = boot.tests_guest(settings, choices, mine)
        if tested.emulator is machine.Emulator.BOCHS:
            emulated = bochs.Plan(slot=mine, timeout_s=tested.timeout_s, watch_log=watch)
            end = bochs.run(described, tested.processor, emulated)
        else:
            if tested.emulator is machine.Emulator.QEMU:
                print(f"machine {tested.name}: {emulators.summary(settings, described)}", flush=True)
            look = partial(_tell_standstill, mine.gdb_socket, described.kernel)
            plan = guest.Plan(slot=mine, timeout_s=tested.timeout_s, watch_log=watch, on_timeout=look)
            end = machine.exit_value(machinetests.run(settings, tested, described, plan).emulator_status)
        text = output.decode(errors="replace")
        count = judge_kernel(text, end, mine.log("console"))
        if template == bootconf.SUITE_TEMPLATE and ONE_TOPIC not in template.read_text() + tested.arguments:
            count.add(_judged("errors", _error_problems(settings, text)))
        if template == bootconf.HOSTILE_SERVER_TEMPLATE:
            count.add(_judged("hostile", [("nothing-left", left_behind(text))]))
    print(f"machine {tested.name}: {count.line()}, {time.monotonic() - began:.0f} s", flush=True)
    return count


def _tell_standstill(address: Path | None, kernel: Path) -> None:
    """Print what a machine runs that has not ended in time."""
    for line in standstill.report(address, kernel):
        print(line, flush=True)


def _processors(tested: machine.TestMachine) -> int:
    """The number of processors of the machine; prints what is not tested because of an emulator's fault."""
    version = bochs.installed_version() if tested.emulator is machine.Emulator.BOCHS else ""
    if tested.processors == 1 or not bochs.repeats_breakpoints(version):
        return tested.processors
    print(f"one processor instead of {tested.processors}: with more, Bochs {version} repeats breakpoints forever", flush=True)
    return 1


def shown(data: bytes) -> str:
    """What a task prints, safe for a terminal: a hostile one prints anything."""
    return re.sub(r"[^\n -~]", "?", data.decode("latin-1").replace("\r\n", "\n"))


def left_behind(output: str) -> str:
    """The fault of the kernel memory in use while a server restarts, or nothing: it must be the same each time."""
    pages = re.findall(r"restarted, (\d+) pages", output)
    return "" if len(set(pages)) == 1 else f"in use without the server: {' '.join(pages) or 'it was never restarted'}"


def _error_problems(settings: Settings, output: str) -> Iterator[tuple[str, str]]:
    table = errortable.documented((settings.repository / errortable.TABLE).read_text())
    wrong = list(errortable.problems(table, errortable.seen(output)))
    yield "every-error-is-seen", "; ".join(wrong)


def judge_kernel(output: str, end: int | None, console: Path) -> Count:
    """The suite's own count; a shutdown that contradicts it is one more failure."""
    count = counts.count_of(output) or Count()
    expected = machine.EXIT_TESTS_FAILED if count.failed else machine.EXIT_TESTS_PASSED
    if end != expected or count.passed == 0:
        how = "without a word" if end is None else f"with code {end:#x}"
        print(f"FAIL the suite's end: the machine ended {how}; the µ-kernel's console is in {console}")
        count.fail("the suite's end")
    return count


def machine_tests(settings: Settings, tested: machine.TestMachine, tests: Sequence[str]) -> Count:
    """Tests on one machine unlike the usual one, of machine.MACHINE_TESTS."""
    packages.require_emulator(settings)
    if tested.uefi:
        packages.require(settings, (*packages.UEFI, *packages.UEFI_LOADER))
    rust.build_all(settings)
    guestinit.build_init(settings)
    linux.build_server(settings)
    total = kernel_suite(settings, (tested,)) if "suite" in tests else Count()
    total.add(_judged(f"machine-{tested.name}", machinetests.judge(settings, tested, tests)))
    return total


def machines(settings: Settings) -> Count:
    """All tests on each of the machines, one after the other: their clocks are the host's."""
    return _kernel_parts(settings, list(MACHINE_PARTS), 1)


def machines_daily(settings: Settings) -> Count:
    """The tests on machines that find most in little time."""
    return _kernel_parts(settings, list(DAILY_MACHINE_PARTS), 1)


# The number of slowest tests that the end of the log lists.
SLOWEST = 40
# Of the tests that boot Linux, those that take too long for every day.
DEBIAN_TESTS = "tests/debian"
# Of these, those of applications in the task of Linux itself.
APPLICATION_TESTS = f"{DEBIAN_TESTS}/test_applications.py"
ENDURANCE_TESTS = "tests/endurance"
# Of these, the one that is in the suite of Linux in supervisor mode too.
STRESSOR_TESTS = f"{ENDURANCE_TESTS}/test_stressors.py"
# Those of Linux and programs in supervisor mode, of which every day has a few.
COLOCATED_TESTS = "tests/test_place.py"
# Those of applications in ring 0, which have a kernel of their own.
UKL_TESTS = "tests/ukl"
# Of these, the sets of options that are built for them alone.
UKL_SETS = f"{UKL_TESTS}/test_sets.py"
# Those of gdb with source lines, for which Linux is built once more.
GDB_TESTS = "tests/gdb"
# Those on Bochs, which is slow.
BOCHS_TESTS = "tests/bochs"


def system(settings: Settings) -> Count:
    """The tests that boot Linux, natively and on Keel."""
    packages.require(settings, packages.BOCHS)
    others = (DEBIAN_TESTS, ENDURANCE_TESTS, UKL_TESTS, GDB_TESTS, BOCHS_TESTS)
    return _booting(settings, "linux", BOTH_SYSTEMS, ("tests", *(f"--ignore={tests}" for tests in others)))


# Of the tests that boot Linux, those of what co-location changes: the others are of the command, or of the host's side.
PLACED_TESTS = ("linux", "programs", "hostile", "hybrid", "interfaces", "devices", "full_account", "power", "restart", "systemd")


def colocated(settings: Settings) -> Count:
    """The tests that boot Linux, with Linux in supervisor mode on Keel."""
    os.environ["KEEL_PLACE"] = placement.KERNEL
    try:
        selection = (*(f"tests/test_{name}.py" for name in PLACED_TESTS), COLOCATED_TESTS, STRESSOR_TESTS)
        return _booting(settings, "linux-colocated", BOTH_SYSTEMS, selection)
    finally:
        del os.environ["KEEL_PLACE"]


def debian_suites(settings: Settings) -> Count:
    """Debian's own suites, natively and on Keel."""
    return _booting(settings, "linux-debian", BOTH_SYSTEMS, (DEBIAN_TESTS, f"--ignore={APPLICATION_TESTS}"))


def applications(settings: Settings) -> Count:
    """Whole applications of Debian's in the task of Linux itself."""
    return _booting(settings, "linux-applications", BOTH_SYSTEMS, (APPLICATION_TESTS,))


def endurance(settings: Settings) -> Count:
    """Very many processes, threads and kills, too little memory, stress-ng, and hours of mixed load."""
    return _booting(settings, "linux-endurance", BOTH_SYSTEMS, (ENDURANCE_TESTS,))


def gdb(settings: Settings) -> Count:
    """gdb on Linux, natively and on Keel, with source lines and Linux's own scripts."""
    packages.require(settings, packages.DEBUGGER)
    more: list[Build] = [partial(linux.build_for_gdb, target=target) for target in (linux.NATIVE, linux.SERVER)]
    return _booting(settings, "linux-gdb", (*BOTH_SYSTEMS, *more), (GDB_TESTS,))


def on_bochs(settings: Settings) -> Count:
    """Linux's 32-bit programs where segments have limits."""
    packages.require(settings, packages.BOCHS)
    return _booting(settings, "linux-bochs", BOTH_SYSTEMS, (BOCHS_TESTS,))


def ukl(settings: Settings) -> Count:
    """Applications in ring 0; without their option Linux is compared with the native one."""
    selection = (UKL_TESTS, f"--ignore={UKL_SETS}")
    return _booting(settings, "ukl", (*ROOT, linux.build_native, *UKL_KERNELS, uklbuild.libc), selection)


def ukl_options(settings: Settings) -> Count:
    """Applications in ring 0 on the kernel of each set of options; each is built just before it runs."""
    return _booting(settings, "ukl-options", (*ROOT, uklbuild.libc), (UKL_SETS,))


def reproducible_builds(settings: Settings) -> Count:
    """Two builds of the same sources in two directories."""
    return _judged("reproducible", reproducible.judge(settings))


Build = Callable[[Settings], object]
ROOT: tuple[Build, ...] = (guestinit.build_init, image.default_root)
# The base model, and the kernel with every option.
UKL_KERNELS: tuple[Build, ...] = (linux.build_ukl, partial(linux.build_ukl, options=tuple(ukloptions.OPTIONS)))
BOTH_SYSTEMS: tuple[Build, ...] = (*ROOT, linux.build_native, rust.build_all, linux.build_server)


def _booting(settings: Settings, name: str, builds: Sequence[Build], selection: Sequence[str]) -> Count:
    """Tests that boot guests; everything is built before they start. The log gets each result as soon as it ends."""
    packages.require(settings, (*CHECKERS, *SIDE_BY_SIDE, *packages.NARROW_COMPILER, *packages.IMAGES, *packages.FILE_SYSTEMS))
    packages.require(settings, (*packages.UEFI_LOADER, *packages.UEFI))
    packages.require_emulator(settings)
    for build in builds:
        build(settings)
    pytest = [checkers.DEBIAN_PYTHON, "-u", "-m", "pytest", "-p", "no:cacheprovider", "-v", "-rsfE", f"--durations={SLOWEST}"]
    side_by_side = ["-n", str(guests_at_once()), "--dist", "loadgroup"]
    return _run(settings, name, [*pytest, *side_by_side, *selection])


@dataclass(frozen=True)
class Suite:
    """A suite or a part of one: what runs it, and what `./keel test --help` says of it."""

    run: Callable[[Settings], Count]
    what: str
    # Its time on an idle host with two processors, with everything built.
    lasts: str
    # The minutes that it may take there, for those of every day, which have MOST_MINUTES in all.
    budget: int | None = None


# What waits longer than a change is not run.
MOST_MINUTES = 45


SUITES: dict[str, Suite] = {
    "unit": Suite(unit, "checkers, and the tests that need no emulator", "1 min", 2),
    "kernel": Suite(kernel, "the µ-kernel: all its parts below", "10 min", 9),
    "linux": Suite(system, "Linux natively and on Keel, compared, and the command", "half an hour", 25),
    "ukl": Suite(ukl, "applications inside the kernel", "5 min", 6),
    "machines-daily": Suite(machines_daily, "some of the tests on machines unlike the usual one", "2 min", 3),
}
SHORT = "seconds"
MINUTE = "1 min"
LONG = "an hour or more"
# What each of these boot configurations tests.
TOPICS = {
    bootconf.SUITE_TEMPLATE: "the suite",
    bootconf.HOSTILE_TEMPLATE: "hostile programs",
    bootconf.HOSTILE_SERVER_TEMPLATE: "a server that fails and attacks",
    bootconf.UNMAPS_TEMPLATE: "unmaps that take long",
    bootconf.PAIRS_TEMPLATE: "direct calls",
    bootconf.RESIDENTS_TEMPLATE: "a server in its 32-bit clients' spaces",
}


def _on(tested: machine.TestMachine) -> str:
    """A short description of a machine."""
    count = f"{tested.processors} CPU{'s' if tested.processors > 1 else ''}"
    more = [tested.kernel_line, "instruction clock" if tested.icount else "", "invariants checked" if tested.checks else ""]
    return ", ".join([f"{tested.emulator.value} {tested.qemu}".rstrip(), count, *filter(None, more)])


def _kernel_part(tested: machine.TestMachine, template: Path, lasts: str) -> Suite:
    run = partial(kernel_suite, machines=(tested,), template=template)
    return Suite(run, f"{TOPICS[template]}: {_on(tested)}", lasts)


def _machine_part(tested: machine.TestMachine, tests: Sequence[str], lasts: str) -> Suite:
    return Suite(partial(machine_tests, tested=tested, tests=tests), f"{', '.join(tests)}: {_on(tested)}", lasts)


# The hostile programs on one machine each, which take longest and start first, the suite on the µ-kernel on one machine each,
# the figures, the examples, the debugger.
KERNEL_PARTS: dict[str, Suite] = {
    **{
        f"kernel-{tested.name}": _kernel_part(tested, template, lasts)
        for machines, template, lasts in (
            (machine.HOSTILE_MACHINES, bootconf.HOSTILE_TEMPLATE, MINUTE),
            (machine.SERVER_MACHINES, bootconf.HOSTILE_SERVER_TEMPLATE, SHORT),
            (machine.UNMAPS_MACHINES, bootconf.UNMAPS_TEMPLATE, SHORT),
            (machine.PAIRS_MACHINES, bootconf.PAIRS_TEMPLATE, SHORT),
            (machine.RESIDENTS_MACHINES, bootconf.RESIDENTS_TEMPLATE, SHORT),
            (machine.TEST_MACHINES, bootconf.SUITE_TEMPLATE, MINUTE),
        )
        for tested in machines
    },
    "kernel-figures": Suite(kernel_figures, "its figures under their ceilings", SHORT),
    "kernel-latency": Suite(kernel_latency, "its longest sections with interrupts off", MINUTE),
    "kernel-examples": Suite(kernel_examples, "the native examples", SHORT),
    "kernel-debugger": Suite(kernel_debugger, "the debug build", SHORT),
    "kernel-firmware": Suite(kernel_firmware, "the state that firmware leaves, and missing clocks", SHORT),
}
HOST_CLOCK_PARTS = [
    *(
        f"kernel-{tested.name}"
        for tested in (
            *machine.TEST_MACHINES,
            *machine.HOSTILE_MACHINES,
            *machine.UNMAPS_MACHINES,
            *machine.PAIRS_MACHINES,
            *machine.RESIDENTS_MACHINES,
        )
        if tested.has_host_clock()
    ),
    "kernel-examples",
    "kernel-firmware",
]
# The machines unlike the usual one, each with all its tests, and with those of every day.
MACHINE_PARTS: dict[str, Suite] = {
    f"machines-{tested.name}": _machine_part(tested, machine.MACHINE_TESTS, "minutes") for tested in machine.MACHINES
}
DAILY_MACHINE_PARTS: dict[str, Suite] = {
    f"machines-{tested.name}-daily": _machine_part(tested, tested.daily, SHORT) for tested in machine.MACHINES if tested.daily
}
# What takes too long for every day: `./keel test all` runs it after the others.
REST: dict[str, Suite] = {
    f"kernel-{machine.HOSTILE_LONG.name}": _kernel_part(machine.HOSTILE_LONG, bootconf.HOSTILE_TEMPLATE, "minutes"),
    **{
        f"kernel-{tested.name}": _kernel_part(tested, bootconf.HOSTILE_SERVER_TEMPLATE, "minutes")
        for tested in machine.SERVER_LONG
    },
    "kernel-latency-long": Suite(
        partial(kernel_latency, loads=latency.LONG_LOADS), "its longest sections with interrupts off, under more loads", "minutes"
    ),
    f"kernel-{machine.SMALL_LONG.name}": _kernel_part(machine.SMALL_LONG, bootconf.SUITE_TEMPLATE, "minutes"),
    "machines": Suite(machines, "machines unlike the usual one, with all tests", "half an hour"),
    "linux-colocated": Suite(colocated, "Linux in supervisor mode, in the space of every process", "half an hour"),
    "linux-applications": Suite(applications, "whole applications of Debian's in Linux's own task", "a quarter of an hour"),
    "linux-bochs": Suite(on_bochs, "32-bit programs where segments have limits", "5 min"),
    "linux-debian": Suite(debian_suites, "Debian's own suites, natively and on Keel", LONG),
    "linux-endurance": Suite(endurance, "very many processes, threads and kills, little memory, stress-ng", LONG),
    "linux-gdb": Suite(gdb, "source lines and Linux's scripts in gdb", "half an hour"),
    "reproducible": Suite(reproducible_builds, "two builds in two directories give the same bytes", "half an hour"),
    "ukl-options": Suite(ukl_options, "the kernel of each set of options for ring 0", "10 min"),
}
PARTS: dict[str, Suite] = {**KERNEL_PARTS, **REST, **MACHINE_PARTS, **DAILY_MACHINE_PARTS}
ALL = "all"


def chosen(names: Sequence[str]) -> list[str]:
    """The suites and parts that these names mean: all of every day if there is none, and all that there is for `all`."""
    return [suite for name in names or SUITES for suite in ([*SUITES, *REST] if name == ALL else [name])]
