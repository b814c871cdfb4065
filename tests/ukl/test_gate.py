# SPDX-License-Identifier: GPL-2.0-only
"""One file of ukl/'s libc in each place on Keel: a process, in the server with and without bypass, in supervisor mode."""

from pathlib import Path

import pytest
from conftest import GRACE_S, LINUX, Result, keel, together
from stub import LIMIT_S as STUB_LIMIT_S
from stub import STACK, Stub, stands_still, stopped
from test_place import IRETQ_BYTES, KERNEL, LINT1, RAX, RCX, STORE_NMI, execute, nmi_before_interrupt, symbols
from test_ukl import APPLICATIONS, CHECKS, GUEST, LIMIT_S, OPTIONS, SERVED, SOURCES, WRONG_GATE

PLACED, ORDINARY, WRONG = "/run/placed", "/run/ordinary", "/run/wrong"
INSIDE = ["--place", f"{PLACED}=server"]
SUPERVISOR = ["--place", "linux=kernel", "--place", f"{PLACED}=kernel"]
# The same place: what a program in the server asks for is there, too.
COLOCATED = ["--place", "linux=kernel", "--place", f"{PLACED}=server"]
UNPACKED = f"cat > {PLACED} && chmod +x {PLACED} && cp {PLACED} {ORDINARY}"
# What differs from a process: in the server INT 0x80 is not for programs (docs/placements.md).
IN_SERVER = {"legacy: int $0x80 gives the process and -38", "legacy 0", "legacy 139", "Segmentation fault"}
IN_SUPERVISOR_MODE = {"level: 3, constructors ran", "level: 0, constructors ran"}
PLACES = [
    (INSIDE, "itself", IN_SERVER),
    (INSIDE, "itself bypass", IN_SERVER),
    (SUPERVISOR, "itself", IN_SUPERVISOR_MODE),
    (COLOCATED, "itself bypass", IN_SUPERVISOR_MODE),
]


def built(source: Path, *options: str) -> str:
    """The name of an application."""
    result = keel("ukl", "build", *options, "--cflags=-D_GNU_SOURCE", str(source), timeout_s=3600)
    assert result.status == 0, result.error
    return source.stem


def placed(program: str, options: list[str], command: str) -> Result:
    """The result of a command where an application is at PLACED and ORDINARY."""
    words = ["run", *options, *GUEST, "--exec", f"{UNPACKED} && {{ {command}; }}"]
    return keel(*words, stdin=(APPLICATIONS / program).read_bytes(), timeout_s=LIMIT_S + GRACE_S)


@pytest.mark.parametrize("processors", ["1", "2"])
@pytest.mark.parametrize(("options", "words", "different"), PLACES, ids=["server", "bypass", "supervisor", "supervisor bypass"])
def test_one_file(options: list[str], words: str, different: set[str], processors: str) -> None:
    """Each check in the program itself ends as in an ordinary process of the same file."""
    command = f"""
says() {{ for check in {" ".join(CHECKS)}; do $1 $check $2; echo $check $?; done > $1.says 2>&1; }}
says {PLACED} '{words}'; says {ORDINARY} itself; diff {PLACED}.says {ORDINARY}.says
grep -c ' ' {PLACED}.says; dmesg | grep -c Oops"""
    result = placed(built(SOURCES / "level.c"), [*options, "--smp", processors], command)
    *lines, count, oopses = result.output.splitlines()
    assert int(count) > len(CHECKS), result
    assert {line[2:] for line in lines if line[0] in "<>"} - different == set(), result
    assert oopses == "0"


@pytest.mark.parametrize("options", [INSIDE, SUPERVISOR], ids=["server", "supervisor"])
def test_a_gate_without_memory_is_the_end(options: list[str]) -> None:
    """Linux writes nowhere else, and lives on."""
    command = f"{WRONG_GATE} {PLACED} {WRONG}; cat {WRONG} > {PLACED}; {PLACED} level; echo $?; {ORDINARY} level"
    result = placed(built(SOURCES / "level.c"), options, command)
    assert result.output == "139\nlevel: 3, constructors ran\n", result.error


def test_shortcuts_in_the_server() -> None:
    """They do what the ordinary calls do."""
    result = placed(built(SOURCES / "asked.c", "--options", OPTIONS), INSIDE, f"{PLACED} sockets")
    first, second, memory = result.output.splitlines()
    assert first.startswith("sockets: 100000 bytes right") and second == first.replace("sockets", "shortcuts")
    assert memory == "memory: 0 faults, given back"


@together("servers")
@pytest.mark.parametrize("processors", ["1", "2"])
@pytest.mark.parametrize("name", SERVED)
def test_a_server_in_the_server(name: str, processors: str) -> None:
    """Debian's Redis and memcached, with the bypass and the shortcuts: all that they do in ring 0."""
    result = keel("ukl", "build", "--app", name, timeout_s=3600)
    assert result.status == 0, result.error
    command = f"cp /mnt/{name} {PLACED} && python3 - {PLACED}; echo $?; dmesg | grep -c Oops"
    words = ["run", *INSIDE, "--smp", processors, "--share", f"{APPLICATIONS}:/mnt", *GUEST, "--exec", command]
    client = (SOURCES / f"{name}_client.py").read_bytes()
    assert keel(*words, stdin=client, timeout_s=LIMIT_S + GRACE_S).output.splitlines() == [*SERVED[name], "0", "0"]


# The last instructions of a call that bypasses, after which Linux does not look for work: their labels, and where work is done.
LEAVING = [("ukl_leaf_leaving", "ukl_leaf_end", "ukl_leaf_work"), ("ukl_bypass_leaving", "ukl_bypass_end", "ukl_bypass_work")]
# The program's address in the saved registers, which the stack pointer names until the last instruction, and a jump's size.
SAVED_ADDRESS, JUMP_BYTES = 16 * 8, 2
# The loop lasts longer than the time between two of the program's signals.
LOOP_TURNS = 10_000_000


def instructions(stub: Stub, first: int, end: int) -> list[int]:
    """The addresses from one to another, as the processor goes through them."""
    stub.run_to(first)
    found = [first]
    while found[-1] + JUMP_BYTES != end:
        found.append(stub.step())
    return found


@stands_still
@pytest.mark.parametrize(("first", "end", "work"), LEAVING, ids=["leaf", "other"])
def test_an_interrupt_where_a_bypass_leaves(first: str, end: str, work: str, tmp_path: Path) -> None:
    """At each of these instructions: the thread does the work, and has its registers afterwards."""
    program = APPLICATIONS / built(SOURCES / "level.c")
    server, kernel = symbols(LINUX / "l4" / "vmlinux"), symbols(KERNEL)
    nmi = kernel["nmi_entry"]
    command = f"cp /mnt/{program.name} {PLACED} && {PLACED} registers itself bypass"
    words = ["run", *INSIDE, "--share", f"{program.parent}:/mnt", "--exec", command]
    with stopped(tmp_path, words) as (child, stub, monitor):
        places = instructions(stub, server[first], server[end])
        # The µ-kernel masks NMIs. Here it runs, and interrupts are off.
        stub.run_to(kernel["leave_to_user"])
        execute(stub, nmi + IRETQ_BYTES, STORE_NMI, RAX, LINT1)
        # Interrupts come while single steps are made.
        assert stub.ask("Qqemu.sstep=1") == "OK"
        for place in places:
            stub.run_to(place)
            last = place == places[-1] or first == "ukl_leaf_leaving"
            back = stub.register(RCX) if last else stub.word(stub.register(STACK) + SAVED_ADDRESS)
            # The interrupt brings a signal.
            nmi_before_interrupt(stub, monitor, nmi, place, LOOP_TURNS)
            stub.stop_at(back)
            stub.run_to(server[work])
            stub.forget(back)
        assert stub.ask("D") == "OK"
        output, _ = child.communicate(timeout=STUB_LIMIT_S + GRACE_S)
    assert (child.returncode, output) == (0, b"registers: changed by 0 calls, no call's number gives -1 and -1\n")


@stands_still
def test_interrupts_in_a_leaf_in_supervisor_mode(tmp_path: Path) -> None:
    """An NMI at each instruction, and an interrupt that is pending then: it comes when all registers are the program's."""
    program = APPLICATIONS / built(SOURCES / "level.c")
    server, kernel = symbols(LINUX / "l4" / "vmlinux"), symbols(KERNEL)
    nmi, stubs = kernel["nmi_entry"], range(kernel["vector_stubs"], kernel["vector_stubs"] + 256 * 16)
    command = f"cp /mnt/{program.name} {PLACED} && {PLACED} registers itself bypass"
    words = ["run", *COLOCATED, "--share", f"{program.parent}:/mnt", "--exec", command]
    with stopped(tmp_path, words) as (child, stub, monitor):
        places = instructions(stub, server["l4_leaf_begin"], server["l4_leaf_jump"] + JUMP_BYTES)
        # The µ-kernel masks NMIs. Here it runs, and interrupts are off.
        stub.run_to(kernel["supervisor_up_syscall_entry"])
        execute(stub, nmi + IRETQ_BYTES, STORE_NMI, RAX, LINT1)
        # Interrupts come while single steps are made.
        assert stub.ask("Qqemu.sstep=1") == "OK"
        for number, place in enumerate(places):
            stub.run_to(place)
            # The interrupt brings a signal.
            nmi_before_interrupt(stub, monitor, nmi, place, LOOP_TURNS)
            assert stub.step() == place
            rest = places[number + 1 :]
            assert [stub.step() for _ in rest] == rest
            if not rest:
                assert stub.step() in stubs
                assert stub.word(stub.register(STACK)) == place
        assert stub.ask("D") == "OK"
        output, _ = child.communicate(timeout=STUB_LIMIT_S + GRACE_S)
    assert (child.returncode, output) == (0, b"registers: changed by 0 calls, no call's number gives -1 and -1\n")
