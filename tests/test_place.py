# SPDX-License-Identifier: GPL-2.0-only
"""Linux in supervisor mode, in the upper half of every process's space, and programs there too (docs/placements.md)."""

import pytest
from conftest import PLACED, Result, keel, run_in_tests, together

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


def placed(command: str, *options: str, processors: int = 1) -> Result:
    """The result of a command on Keel with Linux in supervisor mode, among the guest's programs."""
    words = [*COLOCATED, *options, "--smp", str(processors)]
    return run_in_tests("keel", command, limit_s=LIMIT_S, options=words, programs=("place",))


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
    options = ["--place", "/tmp/keel-tests/place=kernel"]
    result = placed(command, *options, processors=processors)
    assert (result.status, result.output) == (0, LEVELS.format(SUPERVISOR) + LEVELS.format(USER))


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
    options = ["--place", "/tmp/keel-tests/place=kernel"]
    result = placed("setpriv --bounding-set=-sys_rawio ./place && dmesg | grep -c 'lacks CAP_SYS_RAWIO'", *options)
    assert (result.status, result.output) == (0, "other 3\n1\n")


def test_a_native_task_is_not_placed_so() -> None:
    """The root task refuses it before anything runs."""
    result = keel("run", "--native", *COLOCATED, "--exec", "true")
    assert result.status != 0
    assert "--place is for Keel" in result.last_error_line()
