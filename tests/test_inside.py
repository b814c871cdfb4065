# SPDX-License-Identifier: GPL-2.0-only
"""A program in the task of Linux itself, run by the server threads (docs/placements.md)."""

import signal
import struct
from collections.abc import Sequence

import pytest
from conftest import GUEST_DIRECTORY, LINUX, Result, run_in_tests, together

LIMIT_S = 180
PAGE_SIZE = 4096
TRANSCRIPT_LIMIT_S = 1200
# Where Linux's image is: a program that reads it is in Linux's task.
LINUX_IMAGE = "ffffffffc1000000"
# What `place inside` prints, with 1 for the program in the server.
SEEN = """program {0}
thread {0}
handler {0}
fpu 7.485471
null read 1 write 1 jump 1
breakpoint 1 undefined 1 step 1
child 0
other 0
ended 0
"""


PLACE = f"{GUEST_DIRECTORY}/place"


def inside(command: str, *programs: str, processors: int = 1, sent: Sequence[str] = ("place",), limit_s: int = LIMIT_S) -> Result:
    """The result of a command on Keel, where these programs are in the server. `sent` are programs of the tests."""
    words = [word for program in programs for word in ("--place", f"{program}=server")]
    options = [*words, "--smp", str(processors)]
    return run_in_tests("keel", command, limit_s=limit_s, options=options, programs=sent)


@together("inside")
@pytest.mark.parametrize("processors", [1, 2])
def test_a_program_in_the_server(processors: int) -> None:
    """It, its threads and handlers are in Linux's task; its children, and what they execute, are not."""
    command = f"cp place other && ./place inside ./other {LINUX_IMAGE} && ./other inside ./place {LINUX_IMAGE}"
    result = inside(command, PLACE, processors=processors)
    assert (result.status, result.output) == (0, SEEN.format(1) + SEEN.format(0).replace("other 0", "other 1"))


def test_32_bit_code() -> None:
    """It goes to a 32-bit code segment and gets a signal: by a jump that of the code there, by a signal's frame SIGSEGV."""
    result = inside("./place narrow; echo $?; cp place other; ./other narrow", PLACE)
    trap, fault = int(signal.SIGTRAP), int(signal.SIGSEGV)
    expected = [f"jump {trap} frame {frame} return 0 level 3 ended by {trap}" for frame in (fault, trap)]
    assert result.output.splitlines() == [expected[0], "0", expected[1]], result.error


# The checks that set a base of gs, which is Linux's there: its own `wrgsbase` is the end of Linux.
NOT_THERE = "machine.segment"
# What differs there, by docs/placements.md: breakpoints in hardware, INT 0x80, ports, core dumps, the base of gs, the time stamp
# counter, who has its files in /proc, and the names of the files.
DIFFERENT = {
    "counters.breakpoint",
    "counters.breakpoint_of_a_processor",
    "counters.breakpoint_of_a_running_thread",
    "counters.breakpoint_of_all_threads",
    "faults.privileged_instructions",
    "instructions.tables_through_a_segment",
    "instructions.time_stamp_counter_refused",
    "machine.int80",
    "machine.int80_registers",
    "machine.set_thread_area",
    "namespaces.users",
    "process.dumpable",
    "procfs.command_line_and_environment",
    "sweeps.prctl_options",
    "tracing.core_dump",
}
# It observes what the check before it left.
UNSTEADY = {"sweeps.calls_with_ones_1"}
LEAST_CHECKS = 480


@pytest.mark.parametrize("processors", [1, 2])
def test_it_sees_what_a_process_sees(processors: int) -> None:
    """Each check is executed in the server, and again as an ordinary process."""
    command = f"""
cp transcript runner && cp transcript process && names=$(./runner --list | grep -v {NOT_THERE})
./runner --by ./transcript $names | sort > inside; ./runner --by ./process $names | sort > outside
wc -l < inside; diff outside inside; dmesg | grep -c Oops
"""
    transcript = f"{GUEST_DIRECTORY}/transcript"
    result = inside(command, transcript, processors=processors, sent=("transcript",), limit_s=TRANSCRIPT_LIMIT_S)
    count, *lines = result.output.splitlines()
    different = {line[2:].partition(":")[0] for line in lines if line[0] in "<>"}
    assert int(count) > LEAST_CHECKS, result
    assert different - UNSTEADY == DIFFERENT
    assert lines[-1] == "0"


# Threads, a child with a pipe, a signal, a database, and many children.
PYTHON = """
import os, signal, sqlite3, subprocess, sys, threading
sums = []
def work(): sums.append(sum(n ** 0.5 for n in range(20000)))
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(len(set(sums)), subprocess.run(["rev"], input=b"abc", capture_output=True).stdout.decode().strip())
signal.signal(signal.SIGALRM, lambda *_: print("alarm")); signal.alarm(1); signal.pause()
table = sqlite3.connect("/tmp/table"); table.execute("create table t (n)")
table.executemany("insert into t values (?)", [(n,) for n in range(1000)]); table.commit()
print(table.execute("select sum(n) from t").fetchone()[0])
for n in range(200):
    if not (child := os.fork()): os._exit(n % 7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == n % 7
print("forked", os.path.exists("/proc/self/maps"))
sys.stdout.flush()
os.execv("/bin/echo", ["echo", "executed"])
"""


@together("inside")
@pytest.mark.parametrize("processors", [1, 2])
def test_debian_programs_in_the_server(processors: int) -> None:
    """Unmodified: an interpreter that is linked at 4 MB, and a shell."""
    shell = "bash -c 'for n in 1 2 3; do (exit $n); echo $?; done | sort -r'"
    command = f"cat > script.py <<'END'\n{PYTHON}\nEND\npython3 script.py; {shell}"
    result = inside(command, "/usr/bin/python3.11", "/bin/bash", processors=processors)
    assert (result.status, result.output) == (0, "1 cba\nalarm\n499500\nforked True\nexecuted\n3\n2\n1\n"), result.error


@together("inside")
@pytest.mark.parametrize("processors", [1, 2])
def test_signals_beside_other_work(processors: int) -> None:
    """Numbers stay right while signals come and other processes, which compute too, take turns."""
    command = """
cp place other; ./other signals 1000 > first & (while :; do :; done) & loop=$!
./place signals 1000; kill $loop; wait; cat first
"""
    result = inside(command, PLACE, processors=processors)
    assert (result.status, result.output) == (0, "wrong 0 0\nwrong 0 0\n"), result.error


@together("inside")
def test_what_one_does_to_itself() -> None:
    """A crash, an endless loop, a stack without an end, and many children: Linux and other processes go on."""
    command = """
python3 -c 'import ctypes; ctypes.string_at(8)'; echo crash $?
timeout 1 python3 -c 'while True: pass'; echo loop $?
python3 -c 'import sys; sys.setrecursionlimit(10 ** 9)
class C:
    def __getattr__(self, name): return getattr(self, name + "x")
C().a'; echo stack $?
python3 -c 'import os
for _ in range(1000):
    if not os.fork(): os._exit(0)
    os.wait()
print("forked")'
python3 -c 'print("again")'
"""
    result = inside(command, "/usr/bin/python3.11")
    assert (result.status, result.output) == (0, "crash 139\nloop 124\nstack 139\nforked\nagain\n"), result.error


@together("inside")
def test_one_at_a_time_and_only_who_may() -> None:
    """The second one, and one without CAP_SYS_RAWIO, are ordinary processes, and Linux says why."""
    command = f"""
cp place other
./place inside ./place {LINUX_IMAGE} | grep other; dmesg | grep -o 'ordinary process: another one is in the server'
setpriv --bounding-set=-sys_rawio ./place inside ./other {LINUX_IMAGE} | sed -n 1p
dmesg | grep -o 'ordinary process: it lacks CAP_SYS_RAWIO'
"""
    result = inside(command, PLACE)
    expected = "other 0\nordinary process: another one is in the server\nprogram 0\nordinary process: it lacks CAP_SYS_RAWIO\n"
    assert (result.status, result.output) == (0, expected), result.error


def test_a_command_in_the_server() -> None:
    """keel-place executes one that was not named, and one that was as a process; its children are ordinary processes."""
    command = f"""
cp place other && keel-place server ./other inside ./place {LINUX_IMAGE} && keel-place process ./place only {LINUX_IMAGE}
keel-place server sh -c './other only {LINUX_IMAGE}; ./place only {LINUX_IMAGE}'
printf '#!/bin/bash\\ngrep -c keel /proc/$$/maps' > stands && chmod +x stands
mkdir passed && : > passed/stands && PATH=passed:/usr/bin: keel-place server stands
"""
    result = inside(command.replace("keel-place", COMMAND), PLACE)
    assert (result.status, result.output) == (0, SEEN.format(1) + "other 0\nother 0\nother 0\n1\n"), result.error


# By its path, because the test changes PATH.
COMMAND = "/usr/local/bin/keel-place"
USAGE = "usage: keel-place process|kernel|server COMMAND [ARGUMENT]..."
# What is refused, the exit status, and the line that says why.
REFUSED = [
    ("keel-place", 125, USAGE),
    ("keel-place server", 125, USAGE),
    ("keel-place nowhere true", 125, USAGE),
    ("setpriv --bounding-set=-sys_rawio keel-place server true", 125, "keel-place: server: you lack CAP_SYS_RAWIO"),
    ("keel-place kernel true", 125, "keel-place: kernel: Linux itself is not in supervisor mode"),
    ("keel-place server keel-place server true", 125, "keel-place: server: another program is in the server"),
    ("keel-place server ./place32", 126, "keel-place: ./place32: it is not a 64-bit program"),
    ("keel-place server /etc/passwd", 126, "keel-place: /etc/passwd: Permission denied"),
    ("keel-place server nothing", 127, "keel-place: nothing: No such file or directory"),
]
# It asks for the server, gives up the right, and executes a program.
GIVES_UP = """python3 -c "
import ctypes, os
libc = ctypes.CDLL(None)
print(libc.syscall(158, 0x4b454c05, 4), libc.syscall(158, 0x4b454c05, 3), libc.prctl(24, 17, 0, 0, 0), flush=True)
os.execv('/bin/true', ['true'])"
"""


def test_what_is_refused_the_server() -> None:
    """One line says why, the status says so, and the next one is in the server. What changes before exec ends the program."""
    tries = "\n".join(f"{command} 2>&1; echo $?" for command, _, _ in REFUSED)
    command = f"""{tries}
{GIVES_UP} echo $?; dmesg | grep -o 'true.* is killed.*' | sed 's/[0-9]*//g'
keel-place server ./place only {LINUX_IMAGE}; ./place only {LINUX_IMAGE}
"""
    result = inside(command, sent=("place", "place32"))
    expected = [text for _, status, line in REFUSED for text in (line, str(status))]
    ends = ["-1 0 0", str(128 + signal.SIGKILL), "true[] is killed: it lacks CAP_SYS_RAWIO", "other 1", "other 0"]
    assert result.output.splitlines() == [*expected, *ends], result.error


# It has more memory than there is, or the addresses of Linux's stubs.
LARGE = "static char room[1L << 42]; int main(int count, char **words) { return room[count]; }"
AT_THE_STUBS = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char room[4 << 20];
int main(void)
{
	for (int i = 0; i < 1000; i++)
		room[i << 12] = getppid() > 0;
	printf("%d %d\\n", room < (char *)0x0b0f0000 && room + sizeof(room) > (char *)0x0b100000, WEXITSTATUS(system("exit 3")));
	return *(volatile char *)0xLINUX_IMAGE == 0;
}
"""
LOADING = """
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
int main(void)
{
	void *library = dlopen("libm.so.6", RTLD_NOW);
	double (*root)(double) = library ? (double (*)(double))dlsym(library, "sqrt") : NULL;
	printf("%.1f\\n", root ? root(6.25) : 0);
	return 0;
}
"""


def test_unusual_programs_in_the_server() -> None:
    """Too large, at the addresses of the stubs, static with dlopen, with privileged instructions: each ends as a process does."""
    sources = {"large": LARGE, "stubs": AT_THE_STUBS.replace("LINUX_IMAGE", LINUX_IMAGE), "loading": LOADING}
    files = "\n".join(f"cat > {name}.c <<'END'\n{text}\nEND" for name, text in sources.items())
    command = f"""{files}
gcc -w -mcmodel=medium -o large large.c && gcc -static -Wl,-Ttext-segment=0xb000000 -o stubs stubs.c
gcc -static -o loading loading.c -ldl 2> /dev/null
{COMMAND} server ./large; echo $?; ./large; echo $?
{COMMAND} server ./stubs; echo $?; {COMMAND} server ./loading; {COMMAND} server ./place forbidden
{COMMAND} server ./place only {LINUX_IMAGE}
"""
    result = inside(command)
    large, ordinary, *rest = result.output.splitlines()
    assert large == ordinary == str(128 + signal.SIGSEGV), result
    assert rest == ["1 3", "0", "2.5", "cli 1 cr0 1 msr 1", "other 1"], result


# UD2
UNDEFINED = bytes.fromhex("0f0b")
SEGMENTS_AT = 32
# Type and flags, then place in the file, address, and two more words.
SEGMENT = "<IIQQQQ"


def undefined_in_linux() -> int:
    """An address of Linux's text with an instruction that raises an exception."""
    file = (LINUX / "l4" / "vmlinux").read_bytes()
    (table,) = struct.unpack_from("<Q", file, SEGMENTS_AT)
    _, _, at, address, _, _ = struct.unpack_from(SEGMENT, file, table)
    return int(address) + file.index(UNDEFINED, at + PAGE_SIZE) - int(at)


@together("inside")
@pytest.mark.parametrize("processors", [1, 2])
def test_wild_jumps_end_the_program_alone(processors: int) -> None:
    """To addresses that it does not have, and into Linux's text with its own stack; Linux logs no oops and goes on."""
    places = [0x8000_0000_0000, 0xFFFF_7000_0000_0000, 0xFFFF_8880_0000_0000, 0xFFFF_FFFF_FF60_0000, undefined_in_linux()]
    jumps = "\n".join(
        f"{COMMAND} {where} python3 -c 'import ctypes; ctypes.CFUNCTYPE(None)({place:#x})()'; echo $?"
        for place in places
        for where in ("process", "server")
    )
    result = inside(f"{jumps}\n{COMMAND} server ./place only {LINUX_IMAGE}", processors=processors)
    fault, undefined = 128 + signal.SIGSEGV, 128 + signal.SIGILL
    assert result.output.split() == [*map(str, [fault] * (2 * len(places) - 1)), str(undefined), "other", "1"], result.error


# What `access try` says of a process that may be traced, and of one that may not.
WAYS = ["attach", "seize", "read", "write", "mem", "maps", "pagemap", "files", "program", "descriptor", "counters"]
WAYS += ["comparison", "futexes"]
EVERY_WAY = f"of {len(WAYS)}: {' '.join(WAYS)}"
NO_WAY = f"of {len(WAYS)}:"
# Starts a program that gives up root, prints what it says, and what another process of its user reaches of it.
TRY = """
try() {
	"$@" > said & until grep -q worker said; do sleep 0.1; done; sleep 0.5
	worker=$(sed -n 's/^worker \\([0-9]*\\):.*/\\1/p' said); sed -n 's/^worker [0-9]*: //p; s/^namespace/&/p' said
	./access try $worker; kill -9 $! $worker 2> /dev/null; wait $!; rm said
}
"""
WORKER = ("Operation not permitted, dumpable 0", NO_WAY)


def accesses(tries: str, *options: str) -> list[str]:
    """What the tries print on Keel."""
    result = run_in_tests("keel", f"{TRY}{tries}", limit_s=LIMIT_S, options=options, programs=("access",))
    assert result.status == 0, result.output + result.error
    return result.output.splitlines()


def test_who_may_trace_a_program_in_the_server() -> None:
    """Nobody without CAP_SYS_PTRACE, whatever it says of itself: it gave up root, made a namespace, and dumps were allowed."""
    tries = f"""
try {COMMAND} process ./access worker -
try {COMMAND} server ./access worker -
try {COMMAND} server ./access worker namespace
{COMMAND} server ./access traceme
echo 1 > /proc/sys/fs/suid_dumpable
try {COMMAND} server ./access worker -
echo 0 > /proc/sys/fs/suid_dumpable
try {COMMAND} server ./access master
{COMMAND} server ./access traceme
./access traceme
"""
    ordinary = ["allowed, dumpable 1", EVERY_WAY]
    dumpable = ["Operation not permitted, dumpable 1", NO_WAY]
    expected = [*ordinary, *WORKER, WORKER[0], "namespace 0", NO_WAY, "traceme Operation not permitted", *dumpable]
    expected += [*ordinary, "traceme Operation not permitted", "traceme Success"]
    assert accesses(tries) == expected


def test_who_traces_executes_no_program_in_the_server() -> None:
    """Without CAP_SYS_PTRACE a tracer's child that executes a named program is an ordinary process, and Linux says why."""
    command = f"""
./access exec ./place only {LINUX_IMAGE}
setpriv --bounding-set=-sys_ptrace ./access exec ./place only {LINUX_IMAGE}
dmesg | grep -o 'ordinary process: its tracer.*'
"""
    result = inside(command, PLACE, sent=("place", "access"))
    expected = ["other 1", "other 0", "ordinary process: its tracer lacks CAP_SYS_PTRACE"]
    assert result.output.splitlines() == expected, result.error
