# SPDX-License-Identifier: GPL-2.0-only
"""32-bit programs in windows of Linux's tables (docs/small-spaces.md).

The emulator knows no limits of segments, so these tests see what programs see, and not what protects them: that is tested on
Bochs, by the µ-kernel's suite and by tests/bochs.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import GUEST_DIRECTORY, PLACED, Result, run_guest, run_in_tests, together, write_small_root
from test_linux import DYNAMIC_PROGRAM, NARROW, TRANSCRIPT_LIMIT_S, transcript_lines

LIMIT_S = 120
SMALL = ["--place", "i386=small-unsafe"]
RESIDENT = ["--place", "i386=resident"]
ON_BOCHS = ["--emulator", "bochs"]
WINDOW = 256 << 20
# Where a dynamic program has its libraries and, natively, the stack above them.
LOADED = re.compile(r"=> \S+ \((0x[0-9a-f]+)\)")
# Windows in which the stacks of a check's 40 threads have room. A program that needs more leaves its window only where segments
# have limits; here it finds a neighbour's pages.
ROOM = "echo 512 > /proc/sys/keel/small_window_mb"
# The check of descriptors, and in its line that of 64-bit code.
DESCRIPTORS, WIDE_SEGMENT = "instructions.descriptors", re.compile(r" 0x33=\S+")
# The checks that print where something lies, or how far segments reach.
TELLS_ADDRESSES = {"ia32.place_in_memory", DESCRIPTORS, "memory.map_32bit"}
# What QEMU's translator does at an access beyond a limit, and at a store to a read-only segment, and what a processor does
# (ia32.thread_areas).
WITHOUT_LIMITS = re.compile("(?<=beyond_limit=)none|(?<=write=)signo:11,code:2,address:other")
REFUSED = "signo:11,code:128,address:expected"
# More programs at once than there are windows, which are twelve, and checks that are quick, so that none comes near its limit.
PROGRAMS = 14
QUICK = "anonymous_is_zero", "brk", "dont_need", "fixed_replaces", "protect_after_fork", "remap_grow_and_move", "stack_grows"
# Programs that wait, and the shell's file descriptors for what they say and what they are told.
ASKED = {"first": (4, 3), "second": (6, 5), "third": (8, 7)}

pytestmark = pytest.mark.skipif(bool(PLACED), reason="Linux in supervisor mode has no windows")


def small(command: str, *options: str) -> Result:
    """The result of a command on Keel, among the guest's 32-bit programs."""
    programs = ("transcript32", "transcript32-dynamic", "laid_out32", "libc.so.6", "ld-linux.so.2")
    return run_in_tests("keel", command, limit_s=LIMIT_S, options=options, programs=programs)


def with_limits(observations: str) -> str:
    """What a check that ran on QEMU would have printed where segments have limits."""
    return WITHOUT_LIMITS.sub(REFUSED, observations)


@together("transcripts-small")
def test_dynamic_programs_are_the_same_where_segments_have_limits(once: Callable[..., Result], tmp_path: Path) -> None:
    """Thread-local segments are turned there; `./keel test linux-bochs` has all checks."""
    native = transcript_lines(once("native", NARROW, TRANSCRIPT_LIMIT_S, 1))
    root = tmp_path / "root.cpio"
    write_small_root(root, (DYNAMIC_PROGRAM, "libc.so.6", "ld-linux.so.2"))
    options = [*ON_BOCHS, "--place", "i386=small", "--root", str(root)]
    command = f"cd {GUEST_DIRECTORY} && ./{DYNAMIC_PROGRAM} ia32 threads"
    result = run_guest("keel", command, limit_s=TRANSCRIPT_LIMIT_S, options=options)
    got = transcript_lines(result)
    assert result.status == 0, result.error
    mark = f"{DYNAMIC_PROGRAM}."
    topics = tuple(f"{mark}{topic}." for topic in ("ia32", "threads"))
    expected = {name.removeprefix(mark): with_limits(text) for name, text in native.items() if name.startswith(topics)}
    assert expected and got.keys() == expected.keys(), result.error
    different = {name: f"{name}\n  native:{expected[name]}\n  small: {got[name]}" for name in got if got[name] != expected[name]}
    assert different.keys() <= TELLS_ADDRESSES, "\n".join(different.values())


@together("transcripts-small")
def test_transcripts_are_the_same(once: Callable[..., Result]) -> None:
    """Each check of 32-bit programs in windows prints what it prints on native Linux, except where it tells addresses."""
    native = transcript_lines(once("native", NARROW, TRANSCRIPT_LIMIT_S, 1))
    result = run_in_tests("keel", f"{ROOM}; {NARROW}", limit_s=TRANSCRIPT_LIMIT_S, options=SMALL)
    assert result.status == 0, result.error
    got = transcript_lines(result)
    assert got.keys() == native.keys()
    different = {
        name.partition(".")[2]: f"{name}\n  native:{native[name]}\n  small: {got[name]}"
        for name in got
        if got[name] != native[name]
    }
    assert different.keys() == TELLS_ADDRESSES, "\n".join(different.values())


@together("transcripts-resident")
def test_transcripts_are_the_same_where_linux_is_resident(once: Callable[..., Result]) -> None:
    """Each check of 32-bit programs whose spaces show Linux prints what it prints on native Linux, except 64-bit segments."""
    native = transcript_lines(once("native", NARROW, TRANSCRIPT_LIMIT_S, 1))
    native = {name: WIDE_SEGMENT.sub("", text) if name.endswith(DESCRIPTORS) else text for name, text in native.items()}
    result = run_in_tests("keel", NARROW, limit_s=TRANSCRIPT_LIMIT_S, options=RESIDENT)
    assert result.status == 0, result.error
    assert transcript_lines(result) == native


@together("small")
@pytest.mark.parametrize("processors", ["1", "2"])
def test_programs_are_laid_out_in_their_windows(processors: str) -> None:
    """Libraries are below 256 MB, or what /proc/sys/keel says; without windows they are not."""
    command = (
        "LD_TRACE_LOADED_OBJECTS=1 ./transcript32-dynamic; echo 1024 > /proc/sys/keel/small_window_mb; "
        "LD_TRACE_LOADED_OBJECTS=1 ./transcript32-dynamic; echo 2048 > /proc/sys/keel/small_window_mb || echo refused"
    )
    result = small(command, *SMALL, "--smp", processors)
    first, second = (int(address, 16) for address in LOADED.findall(result.output))
    assert first < WINDOW < second < 4 * WINDOW, result.output
    assert result.output.endswith("refused\n")
    large = small("LD_TRACE_LOADED_OBJECTS=1 ./transcript32-dynamic; ls /proc/sys/keel", "--smp", processors)
    assert int(LOADED.findall(large.output)[0], 16) > 4 * WINDOW, large.output


@together("small")
def test_position_independent_programs_are_in_their_windows() -> None:
    """As Debian's are; with their heaps, also where their loader is called as the program."""
    addresses = small("./laid_out32; ./ld-linux.so.2 ./laid_out32", *SMALL).output.split()
    assert len(addresses) == 4 and all(int(address, 16) < WINDOW for address in addresses), addresses
    large = small("./laid_out32").output.split()
    assert all(int(address, 16) > WINDOW for address in large), large


@together("small")
@pytest.mark.parametrize("processors", ["1", "2"])
def test_more_programs_than_windows(processors: str) -> None:
    """Some go on in spaces of their own, which is said once; all do the same, and windows come back."""
    one = "./transcript32 " + " ".join(f"memory.{name}" for name in QUICK)
    many = f"for i in $(seq {PROGRAMS}); do {one} > $i & done; wait; cat $(seq {PROGRAMS}) | sort | uniq -c"
    result = small(f"{many}; {many}; dmesg | grep -c 'no window is free'", *SMALL, "--smp", processors)
    *counts, said = result.output.splitlines()
    assert said == "1", result.output
    assert len(counts) == 2 * len(QUICK), result.error
    assert {line.split()[0] for line in counts} == {str(PROGRAMS)}, result.output


@together("small")
@pytest.mark.parametrize("processors", ["1", "2"])
def test_who_has_not_run_for_longest_gives_its_window(processors: str) -> None:
    """Of three programs with windows of 1 GB the second one, because the first has run since; and all go on."""
    lines = ["echo 1024 > /proc/sys/keel/small_window_mb"]
    for name, (receive, send) in ASKED.items():
        lines += [f"cp laid_out32 {name}; mkfifo {name}-in {name}-out", f"exec {send}<>{name}-in {receive}<>{name}-out"]
        lines += [f"./{name} - <&{send} >&{receive} &", f"head -n 2 <&{receive}"]
    lines += [asked("first"), "./laid_out32", "dmesg | grep -o 'no window is free: [a-z]*'", *map(asked, ASKED)]
    result = small("\n".join(lines), *SMALL, "--smp", processors)
    *addresses, said, first, second, third = result.output.splitlines()
    assert said == "no window is free: second", result.output
    assert [first, second, third] == list(ASKED), result.output
    addresses.remove("first")
    assert len(addresses) == 8 and all(int(address, 16) < 4 * WINDOW for address in addresses), result.output


def asked(name: str) -> str:
    """The shell's words that let one of those programs run, and print its name when it has answered."""
    receive, send = ASKED[name]
    return f"printf x >&{send}; head -c 1 <&{receive} > /dev/null; echo {name}"


# How `wide32` ends where 64-bit code runs as such, and where a program has none.
WIDE = "jump 77\nframe 77\ntracer 77\nfork 77 78\n"
NARROW_ONLY = "jump 139\nframe 139\ntracer 139\nfork 139\n"
PLACES: dict[str, tuple[str, list[str], str]] = {
    "native": ("native", [], WIDE),
    "process": ("keel", [], WIDE),
    "window": ("keel", SMALL, WIDE),
    "resident": ("keel", RESIDENT, NARROW_ONLY),
}


@together("small")
@pytest.mark.parametrize("place", PLACES)
def test_64_bit_code_of_32_bit_programs(place: str) -> None:
    """It runs as 64-bit code, in a space of its own, or not at all; no selector makes the same bytes 32-bit code."""
    system, options, expected = PLACES[place]
    result = run_in_tests(system, "./wide32", limit_s=LIMIT_S, options=options, programs=("wide32",))
    assert result.output == expected, result.error


@together("small")
def test_what_has_no_windows_says_so() -> None:
    """Without limits of segments programs are large, and Linux says why; no program is in the server beside windows."""
    result = small("./transcript32 --list | wc -l; dmesg | grep 'spaces of their own'", "--place", "i386=small")
    listed, said = result.output.splitlines()
    assert int(listed) > 0
    assert "segments have no limits here" in said
    refused = small("keel-place server true; echo $?", *SMALL)
    assert refused.output.endswith("125\n"), refused.output
