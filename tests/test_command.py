# SPDX-License-Identifier: GPL-2.0-only
"""`./keel` as its users see it: statuses and streams of --exec, ends of a guest, bad input, interruptions.

What needs a guest is tested on both systems. What is refused before a guest starts needs none.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from conftest import (
    GUEST_PROGRAMS,
    REPOSITORY,
    SYSTEMS,
    Result,
    keel,
    make_guest_programs,
    run_guest,
    run_options,
    without_program,
)

TIMEOUT = 124
INTERRUPTED = 130
POWERED_OFF = 110
REBOOTED = 111
LINUX_PANIC = 112
BOOT_CONFIGURATION = 114
USAGE = 2
# A refusal must come at once, before anything is built or fetched.
REFUSAL_LIMIT_S = 30
# apt tries several times before it gives up.
ARCHIVE_LIMIT_S = 120
# A process that is killed because its parent has ended is gone after this time.
END_LIMIT_S = 5
SMALL_DISK = "16M"
# What the streams of a command carry on an idle machine at least.
STREAM_MB = 100
LEAST_MB_PER_S = 5
# How long a guest may take to boot and to tell a process's state.
STATE_LIMIT_S = 100

both = pytest.mark.parametrize("system", SYSTEMS)


@both
def test_frames_of_other_programs_are_not_the_init_s(system: str) -> None:
    """The serial line is not the init's where it speaks on the port: a ready frame there is no restart, and junk no end."""
    forge = (
        r"printf '\003\000\000\000\006\000\002\000\011\001' > /dev/ttyS1; echo no frame > /dev/ttyS1; sleep 1; echo own; exit 3"
    )
    result = run_guest(system, forge)
    assert (result.status, result.output) == (3, "own\n"), result.error


def assert_refused(result: Result, *words: str) -> None:
    """A non-zero status, and a last line that says what is wrong."""
    assert result.status != 0
    assert "Traceback" not in result.error
    last = result.last_error_line()
    assert last.startswith("keel"), result.error
    for word in words:
        assert word in last, last


def refuse(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    """Run a command that must be refused."""
    return keel(*arguments, timeout_s=REFUSAL_LIMIT_S, environment=environment)


@both
def test_profile_tells_where_instructions_go(system: str) -> None:
    """The command's output and status, then all regions, and the function that every system call runs."""
    every_call = {"keel": "l4_user_loop", "native": "do_syscall_64"}[system]
    regions = {"keel": {"server", "µ-kernel", "user"}, "native": {"kernel", "user"}}[system]
    options = ["--native"] if system == "native" else []
    done = keel("profile", *options, "--top", "5000", "echo here; exit 3")
    first, *table = done.output.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]
    assert (done.status, first) == (3, "here")
    assert {row[2] for row in rows if not row[3]} == regions
    assert every_call in {row[3] for row in rows}


def loop_at(address: str, rounds: int, place: Path) -> Path:
    """A program whose code is at an address of its own: a loop of two instructions, without a library."""
    source = place.with_suffix(".s")
    end = "mov $60, %eax\nxor %edi, %edi\nsyscall"
    source.write_text(f".globl _start\n_start: mov ${rounds}, %ecx\n1: dec %ecx\njnz 1b\n{end}\n")
    link = ["-nostdlib", "-static", "-no-pie", f"-Wl,-Ttext-segment={address}"]
    subprocess.run(["gcc", *link, "-o", str(place), str(source)], check=True)
    return place


@both
def test_profile_of_one_program(system: str, tmp_path: Path) -> None:
    """What a program executes, and kernels for it, and not what another one does beside it."""
    rounds, other_rounds = 1_000_000, 5_000_000
    measured, other = loop_at("0x10000000", rounds, tmp_path / "a"), loop_at("0x20000000", other_rounds, tmp_path / "b")
    size = measured.stat().st_size
    words = f"head -c {size} > /run/a; cat > /run/b; chmod +x /run/a /run/b; /run/b & /run/a; wait"
    options = ["--native"] if system == "native" else []
    stdin = measured.read_bytes() + other.read_bytes()
    done = keel("profile", *options, "--of", str(measured), words, stdin=stdin)
    lines = [line.split("|") for line in done.output.splitlines()[2:]]
    found = {cells[3].strip(): int(cells[1].replace(",", "")) for cells in lines if not cells[4].strip()}
    assert done.status == 0 and found["user"] == pytest.approx(2 * rounds, rel=0.001)
    # The rest is a fork's end, an exec's end, page faults and an exit.
    assert 1_000 < sum(found.values()) - found["user"] < rounds


def test_profile_of_a_program_without_a_place_is_refused(tmp_path: Path) -> None:
    assert_refused(refuse("profile", "--of", "/bin/true", "true"), "/bin/true is not linked at fixed addresses")
    assert_refused(refuse("profile", "--of", str(tmp_path / "none"), "true"), "none")
    assert_refused(refuse("profile", "--of", "/bin/true", "--machine", "skylake", "true"), "--of counts instructions by function")


def test_profile_tells_modelled_cycles(tmp_path: Path) -> None:
    """For all machines that are asked for: a TLB that is flushed costs more than one with tags. An unknown machine is refused."""
    report = tmp_path / "parts.json"
    assert keel("profile", "--machine", "skylake,pentium-133", "--parts", str(report), "true").status == 0
    (part,) = json.loads(report.read_text())
    assert list(part["cycles"]) == ["skylake", "pentium-133"]
    assert part["cycles"]["pentium-133"]["untagged"] > part["cycles"]["pentium-133"]["tagged"] > part["instructions"]
    assert_refused(refuse("profile", "--machine", "vax", "true"), "there is no machine vax")


@both
def test_streams_and_status(system: str) -> None:
    """Output and error output unmixed and unchanged, status and standard input passed."""
    command = 'echo out; echo err >&2; cat; printf "\\000\\377\\015\\012"; exit 7'
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--timeout", "120", "--exec", command],
        input=b"in\0\xff\r\n",
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == b"out\nin\0\xff\r\n\0\xff\r\n"
    assert b"err\n" in done.stderr and b"out" not in done.stderr
    assert done.returncode == 7


def test_a_closed_input_is_empty() -> None:
    """It is not the image of the root, which would be the first file that is opened."""
    argv = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, str(REPOSITORY / "keel"), "run", "--exec", "wc -c"]
    done = subprocess.run(argv, capture_output=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, b"0\n"), done.stderr


def test_words_of_a_command() -> None:
    """After -- each word reaches the guest unchanged, also from another directory and with standard input closed."""
    words = ["printf", "%s|", "two words", "$HOME", "it's", "--", ""]
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "keel"), "run", "--timeout", "120", "--", *words],
        stdout=subprocess.PIPE,
        cwd="/",
        preexec_fn=lambda: os.close(0),
        check=True,
    )
    assert done.stdout == b"two words|$HOME|it's|--||"


@both
def test_killed_command(system: str) -> None:
    """A command that a signal ends has the status a shell would give it."""
    assert run_guest(system, "kill -KILL $$").status == 128 + signal.SIGKILL


@both
def test_large_streams(system: str) -> None:
    """A hundred megabytes in, then out, at LEAST_MB_PER_S or more, and nothing lost. The boot does not count."""
    data = hashlib.shake_128(b"keel").digest(STREAM_MB << 20)
    command = "echo begin; cat > /dev/shm/data; echo whole; cat /dev/shm/data"
    arguments = [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--timeout", "300", "--exec", command]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin and child.stdout
        assert child.stdout.readline() == b"begin\n"
        begun = time.monotonic()
        child.stdin.write(data)
        child.stdin.close()
        assert child.stdout.readline() == b"whole\n"
        whole = time.monotonic()
        assert child.stdout.read(len(data)) == data
        rates = [STREAM_MB / (whole - begun), STREAM_MB / (time.monotonic() - whole)]
        assert child.stdout.read() == b""
    assert child.returncode == 0
    print(f"{system}: in {rates[0]:.0f} MB/s, out {rates[1]:.0f} MB/s")
    assert min(rates) >= LEAST_MB_PER_S


@both
def test_a_host_that_does_not_read_stops_the_guest(system: str, tmp_path: Path) -> None:
    """What it has not read is in the guest and in pipes, not in our memory; then it comes, and in order."""
    command = "seq 10000000 & sleep 3; ps -o stat= $! > /mnt/new; mv /mnt/new /mnt/state; wait"
    options = [*run_options(system), "--timeout", "200", "--share", f"{tmp_path}:/mnt:rw"]
    arguments = [sys.executable, str(REPOSITORY / "keel"), *options, "--exec", command]
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout
        until = time.monotonic() + STATE_LIMIT_S
        # Our own end waits as well: only the emulator still serves the directory.
        while not (tmp_path / "state").exists():
            assert child.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        numbers = child.stdout.read().split()
    assert (tmp_path / "state").read_text().strip() == "S"
    assert (child.returncode, len(numbers), numbers[-1]) == (0, 10_000_000, b"10000000")


# Which ports the guest has, after what was sent to it.
PORTS = "cat; cat /sys/class/virtio-ports/*/name"


@both
def test_the_port_is_there_except_on_the_deterministic_clock(system: str) -> None:
    assert run_guest(system, PORTS, stdin=b"in\n").output == "in\nkeel.exec\n"
    assert run_guest(system, PORTS, stdin=b"in\n", limit_s=300, options=["--icount"]).output == "in\n"


@both
@pytest.mark.parametrize(
    ("command", "status", "word"),
    [
        ("poweroff -f || echo o > /proc/sysrq-trigger; sleep 60", POWERED_OFF, "powered off"),
        ("reboot -f || echo b > /proc/sysrq-trigger; sleep 60", REBOOTED, "reboot"),
        ("echo c > /proc/sysrq-trigger; sleep 60", LINUX_PANIC, "panick"),
    ],
)
def test_ends_of_a_guest(system: str, command: str, status: int, word: str) -> None:
    """Power-off, reboot and panic are distinguished."""
    result = run_guest(system, command)
    assert result.status == status, result.error
    assert word in result.last_error_line()
    assert ".log" in result.last_error_line()


@both
def test_time_limit(system: str) -> None:
    """--timeout ends the guest with the status of timeout(1)."""
    result = run_guest(system, "sleep 1000", limit_s=25)
    assert result.status == TIMEOUT
    assert_refused(result, "25 s")


@both
def test_root_without_a_shell(system: str, tmp_path: Path) -> None:
    """A directory that holds one static program: the command is split into words."""
    make_guest_programs()
    (tmp_path / "transcript").write_bytes((GUEST_PROGRAMS / "transcript").read_bytes())
    (tmp_path / "transcript").chmod(0o755)
    result = run_guest(system, "/transcript process.fork_copies_memory", options=["--root", str(tmp_path)])
    assert result.output == "process.fork_copies_memory: child=exit:21 parent=3\n"
    assert result.status == 0


def marked() -> tuple[str, dict[str, str]]:
    """A unique mark for a command and all its descendants, and the environment that carries it."""
    mark = f"KEEL_TEST_MARK={uuid.uuid4()}"
    name, value = mark.split("=")
    return mark, {**os.environ, name: value}


def running(mark: str) -> list[str]:
    """The command lines of the processes that carry the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended, or is another user's
    return found


def left_behind(mark: str) -> list[str]:
    """The processes with the mark that stay. One that is killed because its parent has ended still exists for a moment."""
    deadline = time.monotonic() + END_LIMIT_S
    while (found := running(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@both
def test_interrupt(system: str) -> None:
    """Ctrl-C ends the guest and the command at once, and no emulator remains."""
    mark, environment = marked()
    with subprocess.Popen(
        [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--exec", "echo started; sleep 1000"],
        stdin=subprocess.DEVNULL,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert any("qemu-system" in line for line in running(mark))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=15)
        assert process.returncode == INTERRUPTED
    assert not left_behind(mark)


@both
@pytest.mark.parametrize("after_s", [0.1, 0.5, 1.5])
def test_interrupt_early(system: str, after_s: float) -> None:
    """Ctrl-C at any moment before the command runs ends it cleanly too."""
    mark, environment = marked()
    with subprocess.Popen(
        [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--exec", "sleep 1000"],
        stdin=subprocess.DEVNULL,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=15)
        # Before the command's handler is set up, the signal ends Python itself.
        assert process.returncode in (INTERRUPTED, -signal.SIGINT), error
    assert not left_behind(mark)


@both
def test_two_at_once(system: str) -> None:
    """Two runs in one clone do not disturb each other."""
    arguments = [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--timeout", "200", "--exec"]
    first = subprocess.Popen([*arguments, "echo first; exit 1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    second = subprocess.Popen([*arguments, "echo second; exit 2"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert (first.communicate(timeout=300)[0], first.returncode) == (b"first\n", 1)
    assert (second.communicate(timeout=300)[0], second.returncode) == (b"second\n", 2)


@both
def test_instruction_clock(system: str) -> None:
    """Under --icount a guest runs as usual."""
    result = run_guest(system, "echo counted", limit_s=300, options=["--icount"])
    assert (result.status, result.output) == (0, "counted\n")


def fresh_clone(directory: Path) -> Path:
    """A copy of the command and its sources without any builds; returns the command."""
    for part in ("tools", "linux", "guest"):
        shutil.copytree(REPOSITORY / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.copy(REPOSITORY / "keel", directory))


@pytest.mark.parametrize("arguments", [["build", "native"], ["run", "--native", "--exec", "true"]], ids=["source", "root"])
def test_absent_archive(tmp_path: Path, arguments: list[str]) -> None:
    """If Debian's archive does not answer and the cache is empty, the error names the setting that helps."""
    nobody = "http://127.0.0.1:9/debian"
    environment = {**os.environ, "KEEL_MIRROR": nobody, "KEEL_SECURITY_MIRROR": nobody, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = fresh_clone(tmp_path)
    result = keel(*arguments, environment=environment, timeout_s=ARCHIVE_LIMIT_S, command=command)
    assert_refused(result, "failed", "KEEL_MIRROR")
    assert not list((tmp_path / "cache").rglob("*.deb")) and not list((tmp_path / "cache").rglob("*.cpio"))


def small_disk(place: Path) -> list[str]:
    """A command prefix that makes `place` a disk of SMALL_DISK for that command alone."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f'mount -t tmpfs -o size={SMALL_DISK} keel-tests "$0" && exec "$@"'
    words = ["unshare", *user, "--mount", "sh", "-c", script, str(place)]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a small disk here")
    return words


def on_full_disk(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with `./keel` as $keel, whose clone is on a small disk, and $build as its build directory."""
    (tmp_path / "source").mkdir()
    fresh_clone(tmp_path / "source")
    disk = tmp_path / "disk"
    disk.mkdir()
    prepare = f"cp -r {tmp_path}/source/. {disk}; keel={disk}/keel; build={disk}/build; mkdir $build; "
    return subprocess.run(
        [*small_disk(disk), "sh", "-c", prepare + script], capture_output=True, text=True, timeout=REFUSAL_LIMIT_S, check=False
    )


def test_disk_full_while_unpacking(tmp_path: Path) -> None:
    """Linux's source does not fit: one line says so, and an incomplete tree is not taken for a complete one."""
    done = on_full_disk(tmp_path, "$keel build native; status=$?; ls $build/linux >&2; echo $status")
    error, left = done.stderr.strip().rsplit("\n", 1)
    assert left == "pristine.new"
    assert_refused(Result(int(done.stdout), "", error), "free some space")


def test_disk_full_and_freed(tmp_path: Path) -> None:
    """A build that was stopped by a full disk continues when there is room again."""
    done = on_full_disk(
        tmp_path,
        "cat /dev/zero > $build/filler 2> /dev/null; $keel build init; echo $?; rm $build/filler; $keel build init; echo $?",
    )
    first, second = map(int, done.stdout.split())
    assert second == 0, done.stderr
    assert_refused(Result(first, "", done.stderr), "free some space")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--nonsense"], ["nonsense"]),
        (["runn"], ["runn"]),
        (["run", "--mem", "lots"], ["lots"]),
        (["run", "--accel", "quantum"], ["quantum"]),
        (["run", "--timeout", "soon"], ["soon"]),
        (["run", "surplus"], ["surplus"]),
    ],
)
def test_wrong_usage(arguments: list[str], words: list[str]) -> None:
    """A wrong option is named, with the status for wrong usage."""
    result = refuse(*arguments)
    assert result.status == USAGE
    assert result.error.count("\n") == 1
    assert_refused(result, *words)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mem", "1"],
        ["--mem", "-5"],
        ["--mem", "0"],
        ["--timeout", "0"],
        ["--timeout", "-1"],
        ["--exec", ""],
        ["--exec", "  "],
        ["--icount", "--accel", "kvm", "--exec", "true"],
        ["--append", "two\nlines", "--exec", "true"],
    ],
)
def test_impossible_choices(arguments: list[str]) -> None:
    """Options that cannot work are refused before anything starts."""
    assert_refused(refuse("run", "--native", *arguments), "keel: error")


def archive_of(*entries: tuple[str, int, bytes]) -> bytes:
    """A newc archive of the entries (name, mode, content)."""
    out = io.BytesIO()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0")
        out.write(b"\0" * (-out.tell() % 4) + content)
        out.write(b"\0" * (-out.tell() % 4))
    return out.getvalue()


GOOD_ARCHIVE = archive_of(("bin", 0o40755, b""), ("bin/x", 0o100755, b"x" * 1000))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("absent.cpio", None),
        ("empty.cpio", b""),
        ("noise.cpio", bytes(range(256)) * 64),
        ("cut.cpio", GOOD_ARCHIVE[:600]),
        ("headless.cpio", GOOD_ARCHIVE[3:]),
        ("no-trailer.cpio", GOOD_ARCHIVE.split(b"070701")[0] + b"070701" + GOOD_ARCHIVE.split(b"070701")[1]),
        ("noise.cpio.gz", b"\x1f\x8b" + b"not gzip" * 10),
        ("cut.cpio.gz", gzip.compress(GOOD_ARCHIVE)[:-20]),
        ("noise-inside.cpio.gz", gzip.compress(b"this is no archive" * 100)),
        ("text.txt", b"a text\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_root(tmp_path: Path, name: str, content: bytes | None) -> None:
    """A root that is missing or broken is refused with its name."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert_refused(refuse("run", "--native", "--no-install", "--exec", "true", "--root", str(path)), name)


def test_root_that_is_no_file(tmp_path: Path) -> None:
    """Neither a device nor an empty directory without a command to run is a root."""
    assert_refused(refuse("run", "--native", "--exec", "true", "--root", "/dev/null"), "/dev/null")
    assert_refused(refuse("run", "--native", "--root", str(tmp_path)), str(tmp_path))


def test_host_without_emulator(tmp_path: Path) -> None:
    """With --no-install a missing emulator is named instead of installed."""
    environment = without_program(tmp_path, "qemu-system-x86_64")
    assert_refused(refuse("run", "--native", "--no-install", "--exec", "true", environment=environment), "qemu")


def test_host_with_old_emulator(tmp_path: Path) -> None:
    """A too old emulator is refused with its version and the one that is needed."""
    environment = without_program(tmp_path, "qemu-system-x86_64")
    old = tmp_path / "qemu-system-x86_64"
    old.write_text("#!/bin/sh\necho 'QEMU emulator version 5.2.0 (Debian 1:5.2)'\n")
    old.chmod(0o755)
    assert_refused(refuse("run", "--native", "--no-install", "--exec", "true", environment=environment), "5.2", "7.2")


def test_bad_emulator_argument() -> None:
    """The emulator's error messages reach the user."""
    assert_refused(refuse("run", "--native", "--exec", "true", "--qemu-arg=--nonsense"), "nonsense")


LINUX_TASK = "task linux {{ image vmlinux\n kind server\n {memory}\n initrd ${{ramdisk}}\n args ${{linux_args}}\n }}\n"
HEARTBEAT_TASK = "task beat {{ image {image}\n {extra}\n }}\n"


def boot_configuration(directory: Path, text: str) -> list[str]:
    """The options that boot a guest with this configuration."""
    path = directory / "my-boot.conf"
    path.write_text(text)
    return ["--boot-conf", str(path)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (LINUX_TASK.format(memory="memory rest") + "tusk\n", "tusk"),
        (LINUX_TASK.format(memory="memory rest") + HEARTBEAT_TASK.format(image="nosuch", extra=""), "nosuch"),
        (LINUX_TASK.format(memory="memory 64G"), "memory"),
        (LINUX_TASK.format(memory="memory 64M at 0x10000000") + LINUX_TASK.format(memory="memory 64M at 0x12000000"), ":"),
        (
            LINUX_TASK.format(memory="memory 256M at 0x20000000")
            + HEARTBEAT_TASK.format(image="heartbeat", extra="memory 64M at 0x28000000"),
            "memory",
        ),
        (LINUX_TASK.format(memory="memory rest\n irq 4") + HEARTBEAT_TASK.format(image="heartbeat", extra="irq 4"), "GSI"),
        (LINUX_TASK.format(memory="memory rest").removesuffix("}\n"), "closing"),
        ("", "task"),
    ],
    ids=["word", "module", "too-little", "two-servers", "same-memory", "same-irq", "open-brace", "empty"],
)
def test_bad_boot_configuration(tmp_path: Path, text: str, word: str) -> None:
    """An error in the boot configuration shuts the machine down with a message that names the line."""
    result = run_guest("keel", "true", options=boot_configuration(tmp_path, text))
    assert result.status == BOOT_CONFIGURATION, result.error
    assert_refused(result, "boot.conf", word)


def test_boot_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    """Errors that the command can find itself are refused before a guest starts."""
    assert_refused(refuse("run", "--exec", "true", "--boot-conf", str(tmp_path / "absent.conf")), "absent.conf")
    assert_refused(refuse("run", "--exec", "true", *boot_configuration(tmp_path, "args ${nope}\n")), "nope")
