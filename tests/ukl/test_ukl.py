# SPDX-License-Identifier: GPL-2.0-only
"""Applications in ring 0: what they can do, what they cannot harm, and that Linux without them is unchanged.

The checks are those of level.c, on a guest of two processors, one boot for all of them.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import GRACE_S, LINUX, REPOSITORY, Result, keel, started, together

LIMIT_S = 600
SOURCES = REPOSITORY / "tests" / "ukl"
APPLICATIONS = REPOSITORY / "build" / "ukl" / "applications"
# The lines in which the application differs from the same source as an ordinary process.
DIFFERENT = {
    "level: 3, constructors ran": "level: 0, constructors ran",
}
CHECKS = re.findall(r'^\t\{ "([\w-]+)", \w+, [01] \},$', (SOURCES / "level.c").read_text(), re.MULTILINE)
# A busy host may give the guest too few ticks for Linux's test of them.
GUEST = ["--timeout", str(LIMIT_S)]
# An application whose gate is where it has no memory: its program header of a note that is written to names another address.
WRONG_GATE = """python3 -c "
import struct, sys
data = bytearray(open(sys.argv[1], 'rb').read())
at = next(at for at in range(64, 64 + 56 * data[56], 56) if struct.unpack_from('<II', data, at) == (4, 6))
struct.pack_into('<Q', data, at + 16, 0xffff888000000000)
open(sys.argv[2], 'wb').write(data)" """
UNPRIVILEGED = """python3 -c "
import os
os.setuid(65534)
try:
    os.execv('/run/ukl/level', ['level', 'level'])
except PermissionError:
    print('unprivileged: refused')"
"""
# A program of 32 bits.
NARROW = """
echo '.globl _start; _start: mov $1, %eax; mov $32, %ebx; int $0x80' | as --32 -o /run/narrow.o -
ld -m elf_i386 -o /run/narrow /run/narrow.o
"""
# The source comes on the standard input.
SESSION = f"""{NARROW}
cat > /run/level.c && gcc -O2 -D_GNU_SOURCE -o /run/ordinary /run/level.c -lpthread
/run/ordinary; echo ordinary $?
/run/ukl/level; echo application $?
{WRONG_GATE} /run/ukl/level /run/wrong; chmod +x /run/wrong; /run/wrong; echo wrong $?
{UNPRIVILEGED}
strace -f -o /run/trace /run/ukl/level level; grep -c write /run/trace; echo traced $?
strace -f -o /run/trace /run/ukl/level through-pipe
grep -cE '^[0-9]+ +(write|writev|read)\\(' /run/trace; grep -c ENOSYS /run/trace
(for i in $(seq 40); do /run/ukl/level forks & done; wait) | sort | uniq -c
cat /proc/loadavg > /dev/null && echo alive on $(nproc)
"""


# On the kernel with every option, whose application has another name.
OPTIONS = "bypass,ret,run-to-completion,shortcuts"
# The application that uses the additional options comes on standard input.
WITH_OPTIONS = f"""{NARROW}
cat > /run/asked && chmod +x /run/asked && /run/asked; echo asked $?
/run/ukl/options; echo application $?
/run/ukl/options all bypass; echo bypass $?
strace -f -o /run/trace /run/ukl/options processes bypass; grep -c getppid /run/trace; echo traced $?
(for i in $(seq 40); do /run/ukl/options forks bypass & done; wait) | sort | uniq -c
echo alive on $(nproc)
"""


# The output of objects.cc, in this order.
SAID = (
    b"a global is made",
    b"a local is made",
    b"in ring 0 with words",
    b"too deep, 21 undone, 1.5, 4000 by threads",
    b"a local is gone",
    b"a global is gone",
)


@pytest.fixture(scope="module")
def application() -> str:
    """level.c, built."""
    built = keel("ukl", "build", "--cflags=-D_GNU_SOURCE", str(SOURCES / "level.c"), timeout_s=3600)
    assert built.status == 0, built.error
    return "level"


@pytest.fixture(scope="module")
def session(application: str) -> Result:
    """The output of one boot."""
    options = [*GUEST, "--smp", "2", "--exec", SESSION]
    source = (SOURCES / "level.c").read_bytes()
    result = keel("ukl", "run", application, *options, stdin=source, timeout_s=LIMIT_S + GRACE_S)
    assert result.status == 0, result.error
    return result


@pytest.fixture(scope="module")
def with_options(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The output of a boot of the kernel with every option."""
    source = tmp_path_factory.mktemp("ukl") / "options.c"
    source.write_bytes((SOURCES / "level.c").read_bytes())
    for program in (SOURCES / "asked.c", source):
        built = keel("ukl", "build", "--options", OPTIONS, "--cflags=-D_GNU_SOURCE", str(program), timeout_s=3600)
        assert built.status == 0, built.error
    asked = (APPLICATIONS / "asked").read_bytes()
    run = [*GUEST, "--smp", "2", "--exec", WITH_OPTIONS]
    result = keel("ukl", "run", "options", *run, stdin=asked, timeout_s=LIMIT_S + GRACE_S)
    assert result.status == 0, result.error
    return result


def lines(output: str, check: str) -> list[str]:
    """The lines that the check has printed, one for each run."""
    return [line for line in output.splitlines() if line.startswith(f"{check}:")]


@together("session")
@pytest.mark.parametrize("check", CHECKS)
def test_check(session: Result, check: str) -> None:
    """The application does the same as the ordinary process, which runs first, or dies in the same way."""
    ordinary, application = lines(session.output, check)[:2]
    assert application == DIFFERENT.get(ordinary, ordinary)


@together("session")
@pytest.mark.parametrize("check", CHECKS)
def test_check_with_options(session: Result, with_options: Result, check: str) -> None:
    """The same on the kernel with every option, both if no program uses them and if the checks do."""
    ordinary, unasked, bypassing = [*lines(session.output, check)[:1], *lines(with_options.output, check)[:2]]
    assert unasked == bypassing == DIFFERENT.get(ordinary, ordinary)


@together("session")
def test_the_system_with_options_lives_on(with_options: Result) -> None:
    """A tracer sees the calls of programs with the bypass. Many run at once, and nothing is lost."""
    assert "application 0\n" in with_options.output and "bypass 0\n" in with_options.output
    assert "no bypass" not in with_options.output
    assert re.search(r"name space of its own\n[1-9]\d*\ntraced 0$", with_options.output, re.MULTILINE)
    assert re.search(r"^ *40 forks: 50 of 50 with memory of their own$", with_options.output, re.MULTILINE)
    assert "alive on 2\n" in with_options.output


@together("session")
def test_what_options_give_who_asks(with_options: Result) -> None:
    """Run to completion, the shortcuts to TCP compared with the ordinary calls, and memory that is always mapped."""
    assert "run-to-completion: alone 0, then not, 2 is refused\n" in with_options.output
    sockets = (
        "100000 bytes right, interrupted 1, pipe 1 and 1, pieces 1 and 1, Bad address, Invalid argument, Bad file descriptor, "
        "Resource temporarily unavailable, Bad address, none 0, end 0, Broken pipe\n"
    )
    assert f"sockets: {sockets}" in with_options.output and f"shortcuts: {sockets}" in with_options.output
    assert "memory: 0 faults, given back\nasked 0\n" in with_options.output


@together("session")
def test_the_system_lives_on(session: Result) -> None:
    """Linux is alive after all deaths."""
    assert len(CHECKS) >= 20
    assert "ordinary 0\n" in session.output and "application 0\n" in session.output
    assert "alive on 2\n" in session.output


@together("session")
def test_many_at_once(session: Result) -> None:
    """Forty applications that fork run at the same time."""
    assert re.search(r"^ *40 forks: 50 of 50 with memory of their own$", session.output, re.MULTILINE), session.output


@together("session")
def test_a_tracer_sees_the_calls(session: Result) -> None:
    """Stopped at its calls, an application continues as before."""
    assert re.search(r"^level: 0, constructors ran\n[1-9]\d*\ntraced 0$", session.output, re.MULTILINE), session.output


@together("session")
def test_no_call_is_tried_in_vain(session: Result) -> None:
    """Without the shortcuts a program that uses them makes the ordinary calls directly: three, and one to print."""
    assert re.search(r"^through-pipe: abc\n4\n0$", session.output, re.MULTILINE), session.output


@together("session")
def test_a_gate_without_memory_is_the_end(session: Result) -> None:
    """Linux cannot fill it in, and writes nowhere else."""
    assert "wrong 139\n" in session.output


@together("session")
def test_who_may_not_is_refused(session: Result) -> None:
    """Ring 0 controls the whole machine, so only root may use it."""
    assert "unprivileged: refused\n" in session.output


def test_processors_protection_is_not_forgotten(application: str) -> None:
    """Without the options that disable SMEP and SMAP an application is refused; the machine does not crash."""
    command = "/run/ukl/level level; echo refused $?; dmesg | grep ' ukl: '"
    options = ["--timeout", str(LIMIT_S), "--append", "clearcpuid=", "--exec", command]
    result = keel("ukl", "run", application, *options, timeout_s=LIMIT_S + GRACE_S)
    assert "refused 126\n" in result.output, result.output + result.error
    assert "ukl: applications need clearcpuid=smep,smap" in result.output


def test_an_application_then_a_shell() -> None:
    """Without --exec it runs on the console, with the arguments after --, and a shell follows. This one is in C++."""
    built = keel("ukl", "build", str(SOURCES / "objects.cc"), timeout_s=3600)
    assert built.status == 0, built.error
    argv = [str(REPOSITORY / "keel"), "ukl", "run", *GUEST, "objects", "--", "words"]
    with started(argv) as guest:
        # One by one and without line ends, because lines of the kernel may come between.
        for line in SAID:
            guest.wait_for(b"objects: " + line)
        guest.wait_for(b"# ")
        guest.say(b"echo $((6 * 7))\n")
        guest.wait_for(b"42\r\n")
        guest.say(b"exit\n")
        assert guest.child.wait(GRACE_S) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "/no/such.c"], "/no/such.c is not there"),
        (["build", "/etc/passwd"], "is no source"),
        (["build", "/tmp/two words.c"], "cannot be an application's name"),
        (["build", "--cflags=-O1 -pipe", str(REPOSITORY / "bench" / "ukl" / "calls.c")], "cannot have -pipe"),
        (["build", "--options", "no-such", "hello.c"], "there is no option 'no-such'"),
        (["build", "--options", "bypass,pf-df", "hello.c"], "pf-df cannot be had"),
        (["build", "--options", "shortcuts", "hello.c"], "shortcuts cannot be had without bypass"),
        (["build", "--options", "bypass", "--ordinary", str(SOURCES / "level.c")], "has no kernel of its own"),
        (["build", "--linked", "--ordinary", str(SOURCES / "level.c")], "has no kernel of its own"),
        (["build", "--app", "no-such"], "there is no application 'no-such' to build"),
        (["build", "--app", "redis", "hello.c"], "has sources and flags of its own"),
        (["run", "no-such"], "there is no application no-such"),
        (["run", "../../../bin/ls"], "there is no application"),
    ],
)
def test_wrong_words_are_refused(arguments: list[str], words: str) -> None:
    result = keel("ukl", *arguments)
    assert result.status != 0
    assert words in result.last_error_line()


def test_a_large_one(tmp_path: Path, application: str) -> None:
    """It reaches the kernel from anywhere."""
    code = (SOURCES / "level.c").read_text()
    (tmp_path / "large.c").write_text(f'asm(".text; .skip 20 << 20");\n{code}')
    built = keel("ukl", "build", "--cflags=-D_GNU_SOURCE", str(tmp_path / "large.c"))
    assert built.status == 0, built.error
    result = keel("ukl", "run", "large", *GUEST, "--exec", "/run/ukl/large level", timeout_s=LIMIT_S + GRACE_S)
    assert result.output == "level: 0, constructors ran\n", result.error


# What the clients of Debian's servers say, before their status.
SERVED = {
    "memcached": ["stubs 0", "stored 500", "right 5000", "counted 500", "left value499", "ended with 0"],
    "redis": [
        "stubs 0",
        "keys :100000",
        "eval value42!",
        "bgsave +Background saving started",
        "ended with 0",
        "restarted :100000 $10 value99999",
    ],
}


# Their tests are together: a build says for which options it is.
def served(name: str) -> Result:
    """The output of the client of an application of Debian's, on the kernel with every option."""
    built = keel("ukl", "build", "--app", name, "--options", OPTIONS, timeout_s=3600)
    assert built.status == 0, built.error
    client = (SOURCES / f"{name}_client.py").read_bytes()
    command = f"python3 - /run/ukl/{name}; echo $?; uname -n"
    return keel("ukl", "run", name, *GUEST, "--smp", "2", "--exec", command, stdin=client, timeout_s=LIMIT_S + GRACE_S)


@together("servers")
def test_memcached() -> None:
    """Debian's, with its threads and libevent, and five hundred connections at once."""
    result = served("memcached")
    assert result.output.splitlines() == [*SERVED["memcached"], "0", "keel"], result.error


@together("servers")
def test_redis() -> None:
    """Debian's, with libc's threads, its forked child that saves, Lua, and many keys."""
    result = served("redis")
    assert result.output.splitlines() == [*SERVED["redis"], "0", "keel"], result.error


# The files with insertions, and those that include such files.
OBJECTS = (
    "arch/x86/entry/entry_64.o",
    "arch/x86/entry/common.o",
    "arch/x86/kernel/idt.o",
    "arch/x86/kernel/process_64.o",
    "arch/x86/kernel/cpu/common.o",
    "arch/x86/mm/fault.o",
    "kernel/entry/common.o",
    "fs/binfmt_elf.o",
)


def test_without_the_option_linux_is_as_it_was(application: str) -> None:
    """The same objects, byte by byte, from the tree with the insertions and from the pristine one."""
    native, out = LINUX / "native", LINUX / "ukl-off"
    out.mkdir(exist_ok=True)
    (out / ".config").write_bytes((native / ".config").read_bytes())
    make = ["make", "-C", str(LINUX / "ukl-src"), f"O={out}", "ARCH=x86", f"-j{len(os.sched_getaffinity(0))}"]
    for goals in (["olddefconfig"], [*OBJECTS]):
        subprocess.run([*make, *goals], check=True, stdout=subprocess.DEVNULL)
    assert "CONFIG_UKL=y" not in (out / ".config").read_text()
    different = [name for name in OBJECTS if (out / name).read_bytes() != (native / name).read_bytes()]
    assert not different
