# SPDX-License-Identifier: GPL-2.0-only
"""Linux in supervisor mode, in the upper half of every process's space, and programs there too (docs/placements.md)."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import GRACE_S, GUEST_DIRECTORY, LINUX, PLACED, REPOSITORY, Result, keel, run_in_tests, together
from stub import ADDRESS, STACK, Monitor, Stub, stands_still, stopped
from stub import LIMIT_S as STUB_LIMIT_S
from test_inside import EVERY_WAY, NO_WAY, WORKER, accesses
from test_programs import build_module

LIMIT_S = 120
COLOCATED = ["--place", "linux=kernel"]
# What `place level` prints where the program runs at a privilege level.
LEVELS = """program {0}
thread {0}
handler {0}
fpu 7.485471
null read 1 write 1 jump 1
breakpoint 1 undefined 1 step 1
child {0}
other 3
ended 0
"""
SUPERVISOR, USER = 0, 3
# Linux's image, its map of memory, its kernel-shared region, the µ-kernel's text by two ways, and its processors' memory.
ADDRESSES = (
    "ffffffffc1000000",
    "ffffd00000100000",
    "fffff80000000000",
    "fffff80000001000",
    "fffff80020000000",
    "ffffffff80101000",
    "ffff800000101000",
    "ffffc00000001000",
)


def placed(command: str, *options: str, processors: int = 1, programs: Sequence[str] = ("place",), stdin: bytes = b"") -> Result:
    """The result of a command on Keel with Linux in supervisor mode, among the guest's programs."""
    words = [*COLOCATED, *options, "--smp", str(processors)]
    return run_in_tests("keel", command, limit_s=LIMIT_S, options=words, programs=programs, stdin=stdin)


def test_linux_says_where_it_runs() -> None:
    """One word at the launch decides; without it Linux is a task in user mode."""
    assert "in supervisor mode" in placed("dmesg | grep 'L4 server'").output
    if not PLACED:
        usual = run_in_tests("keel", "dmesg | grep 'L4 server'", limit_s=LIMIT_S, programs=("place",))
        assert "L4 server" in usual.output
        assert "supervisor" not in usual.output


@together("place")
@pytest.mark.parametrize("processors", [1, 2])
def test_programs_are_in_user_mode(processors: int) -> None:
    """A process reaches nothing of Linux's or the µ-kernel's pages, which its tables have."""
    result = placed(f"./place level ./place && ./place probe {' '.join(ADDRESSES)} && ./place forbidden", processors=processors)
    tries = 5 * len(ADDRESSES)
    expected = f"{LEVELS.format(USER)}{tries} of {tries} tries refused\ncli 1 cr0 1 msr 1\n"
    assert (result.status, result.output) == (0, expected)


@together("place")
@pytest.mark.parametrize("processors", [1, 2])
def test_a_program_in_supervisor_mode(processors: int) -> None:
    """It and its children run there, what they execute does not, and Linux serves them as any process."""
    command = "cp place other && ./place level ./other && ./other level ./other"
    options = ["--place", f"{GUEST_DIRECTORY}/place=kernel"]
    result = placed(command, *options, processors=processors)
    assert (result.status, result.output) == (0, LEVELS.format(SUPERVISOR) + LEVELS.format(USER))


@together("place")
def test_a_command_in_supervisor_mode() -> None:
    """Both words of keel-place, and both of --place, are supervisor mode; what has no right or is 32-bit is refused."""
    command = """
cp place other; ./place; keel-place process ./place; keel-place kernel ./other; keel-place server ./other; ./other
keel-place server ./place32 2>&1; setpriv --bounding-set=-sys_rawio keel-place kernel ./other 2>&1
"""
    result = placed(command, "--place", f"{GUEST_DIRECTORY}/place=server", programs=("place", "place32"))
    lines = [f"other {level}" for level in (SUPERVISOR, USER, SUPERVISOR, SUPERVISOR, USER)]
    refused = ["keel-place: ./place32: it is not a 64-bit program", "keel-place: kernel: you lack CAP_SYS_RAWIO"]
    assert result.output.splitlines() == [*lines, *refused], result.error


@together("place")
def test_debian_programs_in_supervisor_mode() -> None:
    """Unmodified dynamic programs of Debian's: a shell with children and signals, perl, a C compiler."""
    script = r"""
echo 'int main(void) { return 42; }' > answer.c && gcc -o answer answer.c; ./answer; echo "answer $?"
seq 1000 | sort -r | tail -1
perl -e '$SIG{ALRM} = sub { print "alarm\n"; exit }; alarm 1; select(undef, undef, undef, 10)'
(kill -TERM $BASHPID); echo "killed $?"
"""
    programs = ("/bin/bash", "/usr/bin/perl", "/usr/bin/sort", "/usr/bin/gcc")
    options = [word for program in programs for word in ("--place", f"{program}=kernel")]
    result = placed(f"bash -c '{script.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'", *options)
    assert (result.status, result.output) == (0, "answer 42\n1\nalarm\nkilled 143\n")


@together("place")
def test_only_who_may_use_ports_is_in_supervisor_mode() -> None:
    """Without CAP_SYS_RAWIO the program is an ordinary process, and Linux says why."""
    options = ["--place", f"{GUEST_DIRECTORY}/place=kernel"]
    result = placed("setpriv --bounding-set=-sys_rawio ./place && dmesg | grep -c 'lacks CAP_SYS_RAWIO'", *options)
    assert (result.status, result.output) == (0, "other 3\n1\n")


@together("place")
def test_a_32_bit_program_is_not_in_supervisor_mode() -> None:
    """There is no 32-bit code in supervisor mode: the program is an ordinary process, and Linux says why."""
    options = ["--place", f"{GUEST_DIRECTORY}/place32=kernel"]
    result = placed(
        "./place32 && dmesg | grep -c 'is an ordinary process: it is a 32-bit program'", *options, programs=("place32",)
    )
    assert (result.status, result.output) == (0, "32 bits, level 3\n1\n"), result.error


# How `place narrow` ends: by the breakpoint in 32-bit code, or because a program in supervisor mode cannot run that.
NARROW = "jump {0} frame {0} return {1} level {2} ended by {0}\n"


@together("place")
@pytest.mark.parametrize("processors", [1, 2])
def test_a_program_in_supervisor_mode_cannot_go_to_32_bit_code(processors: int) -> None:
    """Each way there raises a signal, which ends the program unless it is handled. Others go there, and all goes on."""
    said = "dmesg | grep -c 'a program in supervisor mode cannot run 32-bit code'"
    command = f"cp place other && ./place narrow && ./other narrow && {said} && ./place"
    result = placed(command, "--place", f"{GUEST_DIRECTORY}/place=kernel", processors=processors)
    expected = NARROW.format(int(signal.SIGSEGV), int(signal.SIGSEGV), SUPERVISOR)
    expected += NARROW.format(int(signal.SIGTRAP), 0, USER)
    assert (result.status, result.output) == (0, f"{expected}3\nother {SUPERVISOR}\n"), result.error


@together("place")
@pytest.mark.parametrize("processors", [1, 2])
def test_faults_of_the_server_open_no_ports(tmp_path: Path, processors: int) -> None:
    """A general protection fault of Linux's own, which has the ports, leaves none of them open to the process that it serves."""
    image = build_module("keel", tmp_path, "keel_gp")
    command = "cat > keel_gp.ko && insmod keel_gp.ko && cat /proc/keel_gp && ./place ports /proc/keel_gp"
    result = placed(command, processors=processors, stdin=image)
    assert (result.status, result.output) == (0, "raised 1\n0 ports open\n"), result.error


def test_native_linux_is_not_placed() -> None:
    """There is no µ-kernel to place it beside."""
    result = keel("run", "--native", *COLOCATED, "--exec", "true")
    assert result.status != 0
    assert "--place is for Keel" in result.last_error_line()


BOOT_CONF = (REPOSITORY / "tools" / "keel" / "boot.conf").read_text()


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (BOOT_CONF, [*COLOCATED, "--qemu-arg=-cpu", "--qemu-arg=max,-smap"], "lacks SMEP or SMAP"),
        (BOOT_CONF.replace("${linux_place}", "kernel"), [], "lacks the word 'supervisor'"),
        (BOOT_CONF.replace("image heartbeat", "image heartbeat place kernel"), [], "'place kernel' is for servers"),
        (BOOT_CONF.replace("place ${linux_place}", ""), COLOCATED, "does not say 'place ${linux_place}'"),
    ],
    ids=["no SMAP", "no word", "native task", "another template"],
)
def test_what_cannot_be_placed_is_refused(tmp_path: Path, text: str, options: list[str], reason: str) -> None:
    """One line says why, and no task has begun."""
    (tmp_path / "boot.conf").write_text(text)
    result = keel("run", "--timeout", "60", "--boot-conf", str(tmp_path / "boot.conf"), *options, "--exec", "true")
    assert result.status != 0
    assert reason in result.last_error_line()


# A program whose system calls the stub stops at, and the first of them in Linux.
CALLS = "perl -e 'getppid for 1 .. 1000; print \"done\\n\"'"
SERVED = "__x64_sys_getppid"
SERVER = LINUX / "l4" / "vmlinux"
KERNEL = REPOSITORY / "build" / "keel" / "kernel.elf"
# More instructions than a direct call, its service and its answer have.
CALL_STEPS = 600
STI_BYTES = 1
# The local APIC's register for LINT1 in the µ-kernel's map, and MOV DWORD PTR [RAX], NMI: LINT1 is an NMI.
LINT1 = 0xFFFF_8000_FEE0_0360
STORE_NMI = bytes.fromhex("c70000040000")
# A loop of DEC RCX and JNZ that lasts longer than a tick of Linux's clock.
LOOP = bytes.fromhex("48ffc975fb")
TURNS = 100_000_000
RAX, RCX = 0, 2
IRETQ_BYTES = 2


def symbols(file: Path) -> dict[str, int]:
    """The addresses of a file's symbols."""
    listed = subprocess.run(["nm", str(file)], stdout=subprocess.PIPE, check=True, text=True).stdout
    return {name: int(address, 16) for address, _, name in (line.split() for line in listed.splitlines())}


def execute(stub: Stub, room: int, code: bytes, number: int, value: int) -> None:
    """Code that the guest executes at an address with room for it, with a value in one register; then all is as before."""
    registers = stub.registers()
    stub.write(room, code)
    stub.set_register(number, value)
    stub.set_register(ADDRESS, room)
    stub.run_to(room + len(code))
    stub.set_registers(registers)


def nmi_before_interrupt(stub: Stub, monitor: Monitor, nmi: int, place: int, turns: int) -> None:
    """An NMI at this place, where the processor is. It ends when an interrupt is pending."""
    monitor.ask("inject-nmi")
    stub.run_to(nmi)
    assert stub.word(stub.register(STACK)) == place
    execute(stub, nmi + IRETQ_BYTES, LOOP, RCX, turns)


@stands_still
@pytest.mark.parametrize("program", ["", "--place=/usr/bin/perl=kernel"], ids=["user", "supervisor"])
def test_interrupts_at_the_entries_and_exits(tmp_path: Path, program: str) -> None:
    """An NMI at each instruction of a call, and between STI and the jump an NMI and an interrupt after it."""
    known = symbols(KERNEL)
    jump, nmi = known["supervisor_exit"] + STI_BYTES, known["nmi_entry"]
    stubs = range(known["vector_stubs"], known["vector_stubs"] + 256 * 16)
    words = ["run", *COLOCATED, *filter(None, [program]), "--exec", CALLS]
    with stopped(tmp_path, words) as (child, stub, monitor):
        # Interrupts come while single steps are made.
        assert stub.ask("Qqemu.sstep=1") == "OK"
        stub.run_to(symbols(SERVER)[SERVED])
        # The µ-kernel masks NMIs. Here interrupts are off.
        stub.run_to(known["supervisor_up_syscall_entry"])
        execute(stub, nmi + IRETQ_BYTES, STORE_NMI, RAX, LINT1)
        for _ in range(3):
            stub.run_to(jump)
            # The interrupt is one of the clock.
            nmi_before_interrupt(stub, monitor, nmi, jump, TURNS)
            assert stub.step() == jump
            assert stub.step() in stubs
            assert stub.word(stub.register(STACK)) == jump
        taken = 0
        stub.run_to(symbols(SERVER)[SERVED])
        for _ in range(CALL_STEPS):
            before = stub.register(ADDRESS)
            if before in range(known["_text"], known["_constants"]):
                monitor.ask("inject-nmi")
                taken += 1
                if stub.step() != nmi:
                    # The step was made before the NMI was seen.
                    assert stub.step() == nmi
                stub.step()
            stub.step()
        assert taken > 100
        assert stub.ask("D") == "OK"
        output, _ = child.communicate(timeout=STUB_LIMIT_S + GRACE_S)
    assert (child.returncode, output) == (0, b"done\n")


@together("place")
def test_who_may_trace_a_program_in_supervisor_mode() -> None:
    """Nobody without CAP_SYS_PTRACE, also not a forked worker that gave up root, as those of servers do."""
    tries = """
try keel-place process ./access worker -
try keel-place kernel ./access worker -
try keel-place kernel ./access master
echo 1 > /proc/sys/fs/suid_dumpable
try keel-place kernel ./access master
"""
    dumpable = ["Operation not permitted, dumpable 1", NO_WAY]
    assert accesses(tries, *COLOCATED) == ["allowed, dumpable 1", EVERY_WAY, *WORKER, *WORKER, *dumpable]


# What differs in supervisor mode: there INT, its selectors and its instructions do what they do.
OF_SUPERVISOR = {
    "faults.bad_segment",
    "faults.each_software_interrupt",
    "faults.other_traps",
    "faults.privileged_instructions",
    "faults.software_interrupts",
}
LEAST_FAULTS = 28


@together("place")
def test_faults_beside_linux_in_supervisor_mode() -> None:
    """Each way to an address that no program has raises in both placements the signal that it raises in a process."""
    same = f"grep -v -e {' -e '.join(sorted(OF_SUPERVISOR))}"
    command = f"""
cp transcript placed; ./transcript --list | grep '^faults' | {same} > names
./transcript --by ./transcript $(cat names) | sort > outside; ./transcript --by ./placed $(cat names) | sort > inside
wc -l < outside; diff outside inside; dmesg | grep -c -e Oops -e WARNING
"""
    result = placed(command, "--place", f"{GUEST_DIRECTORY}/placed=kernel", programs=("transcript",))
    count, *different = result.output.splitlines()
    assert int(count) >= LEAST_FAULTS and different == ["0"], result.output + result.error
