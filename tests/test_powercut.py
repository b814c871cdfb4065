# SPDX-License-Identifier: GPL-2.0-only
"""Power cuts: the emulator is killed in the middle of writes, and the disk has all data whose sync was confirmed to the guest.

KEEL_POWER_CUTS is the number of cuts on each system (2).
"""

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY, SYSTEMS
from test_devices import DEBUGFS, E2FSCK, MKE2FS, disk, overlay

CUTS = int(os.environ.get("KEEL_POWER_CUTS", "2"))
IMAGE_BYTES = 512 << 20
FILE_BYTES = 20_000
NUMBERS = 100_000
LIMIT_S = 300
# A cut comes after at least one and at most this many files.
MOST_FILES = 60
KEPT = re.compile(rb"kept \d+\n")
# e2fsck's statuses: nothing to do, and errors corrected (the journal was replayed).
REPAIRED = (0, 1)

# Writes files that it syncs and reports, and others between them that it does not sync.
WRITER = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>
enum { BYTES = %(bytes)d, LOOSE = 8, LOOSE_BYTES = 300000 };
static char data[LOOSE_BYTES];
static void must(int done, const char *what)
{
    if (!done) {
        perror(what);
        exit(1);
    }
}
static int fill(const char *path, int bytes, int seed)
{
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (int at = 0; at < bytes; at++)
        data[at] = at * 31 + seed;
    must(write(file, data, bytes) == bytes, path);
    return file;
}
int main(int count, char **words)
{
    int cut = count > 1 ? atoi(words[1]) : 0, folder;
    char path[64], other[64];
    must(mount("/dev/vdb", "/mnt", "ext4", 0, NULL) == 0, "mount");
    must((folder = open("/mnt", O_RDONLY)) >= 0, "folder");
    for (int number = 0;; number++) {
        snprintf(path, sizeof path, "/mnt/%%d-%%d", cut, number);
        int file = fill(path, BYTES, cut + number);
        must(fsync(file) == 0 && fsync(folder) == 0, "fsync");
        close(file);
        printf("kept %%d\\n", number);
        fflush(stdout);
        snprintf(path, sizeof path, "/mnt/loose-%%d", number %% LOOSE);
        snprintf(other, sizeof other, "/mnt/moved-%%d", number %% LOOSE);
        close(fill(path, LOOSE_BYTES, number));
        must(number %% 3 || rename(path, other) == 0, "rename");
    }
}
"""

# Starts the next emulator in PATH with a port of its own for the exec channel, and kills it at the command's status.
CUTTER = """#!{python}
import os, re, shutil, socket, struct, subprocess, sys
os.environ["PATH"] = os.environ["PATH"].partition(":")[2]
words = [shutil.which(os.path.basename(sys.argv[0])), *sys.argv[1:]]
fds = {{int(fd) for word in words for fd in re.findall("(?:socket,fd=|file,path=/dev/fd/)([0-9]+)", word)}}
channel = [at for at, word in enumerate(words) if re.match("socket,fd=[0-9]+,id=port$", word)]
if not channel:
    os.execv(words[0], words)
host = socket.socket(fileno=int(re.search("[0-9]+", words[channel[0]])[0]))
ours, theirs = socket.socketpair()
words[channel[0]] = f"socket,fd={{theirs.fileno()}},id=port"
emulator = subprocess.Popen(words, pass_fds=[*(fds - {{host.fileno()}}), theirs.fileno()])
theirs.close()
if os.fork() == 0:
    while data := host.recv(4096):
        ours.sendall(data)
    os._exit(0)
stream = ours.makefile("rb")
while first := stream.read(1):
    if first == b"\\0":  # between frames, and as many as the guest likes
        continue
    header = first + stream.read(3)
    kind, length = header[0], struct.unpack("<H", header[2:])[0]
    data = stream.read(length)
    if kind == {status}:
        emulator.kill()
        emulator.wait()
    host.sendall(header + data)
"""
STATUS_FRAME = 6
NOT_POWERED_OFF = 116


def emulator_of(child: subprocess.Popen[bytes]) -> int:
    """QEMU's process, a descendant of `./keel run`."""
    for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split():
        if "qemu-system" in Path(f"/proc/{pid}/cmdline").read_text():
            return int(pid)
    raise AssertionError("no emulator runs")


def cut_power(argv: list[str], program: bytes, after: int) -> int:
    """Kills the emulator when that many files are synchronised; returns the number of reported files."""
    kept = 0
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin and child.stdout
        child.stdin.write(program)
        child.stdin.close()
        while kept < after:
            line = child.stdout.readline()
            assert line, "the guest ended"
            kept += KEPT.fullmatch(line) is not None
        os.kill(emulator_of(child), signal.SIGKILL)
        # Files reported before the cut count as well.
        return kept + len(KEPT.findall(child.stdout.read()))


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_was_synchronised_is_there_after_a_power_cut(system: str, tmp_path: Path) -> None:
    """After the replay of its journal the file system is clean, and the synchronised files of all cuts are complete."""
    program = tmp_path / "writer"
    build = ["gcc", "-static", "-x", "c", "-", "-o", str(program)]
    subprocess.run(build, input=(WRITER % {"bytes": FILE_BYTES}).encode(), check=True)
    image = disk(tmp_path / "disk.img", IMAGE_BYTES)
    subprocess.run([MKE2FS, "-q", "-F", "-t", "ext4", str(image)], check=True)
    argv = [sys.executable, str(REPOSITORY / "keel"), "run", "--persist", "--nic", "none", "--root", f"chain:{overlay(tmp_path)}"]
    argv += ["--drive", str(image)] + (["--native"] if system == "native" else [])
    chance = random.Random(1)
    kept = []
    for cut in range(CUTS):
        command = f"cat > /tmp/writer && chmod +x /tmp/writer && exec /tmp/writer {cut}"
        kept.append(cut_power([*argv, "--exec", command], program.read_bytes(), chance.randint(1, MOST_FILES)))
        assert subprocess.run([E2FSCK, "-p", str(image)], capture_output=True).returncode in REPAIRED
        checked = subprocess.run([E2FSCK, "-fn", str(image)], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
    (found := tmp_path / "found").mkdir()
    subprocess.run([DEBUGFS, "-R", f"rdump / {found}", str(image)], check=True, capture_output=True)
    lost = [
        (cut, number)
        for cut, count in enumerate(kept)
        for number in range(count)
        if (found / f"{cut}-{number}").read_bytes() != bytes((at * 31 + cut + number) & 0xFF for at in range(FILE_BYTES))
    ]
    print(f"{CUTS} power cuts, {sum(kept)} files were synchronised, {len(lost)} lost")
    assert lost == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_command_wrote_is_there_when_its_status_is(system: str, tmp_path: Path) -> None:
    """The power fails at the command's status. The run is no success then, although nothing is missing on the disk."""
    image = disk(tmp_path / "disk.img", 64 << 20)
    subprocess.run([MKE2FS, "-q", "-F", "-t", "ext4", str(image)], check=True)
    (cutter := tmp_path / "bin" / "qemu-system-x86_64").parent.mkdir()
    cutter.write_text(CUTTER.format(python=sys.executable, status=STATUS_FRAME))
    cutter.chmod(0o755)
    argv = [sys.executable, str(REPOSITORY / "keel"), "run", "--persist", "--nic", "none", "--root", f"chain:{overlay(tmp_path)}"]
    argv += ["--drive", str(image), "--timeout", str(LIMIT_S)] + (["--native"] if system == "native" else [])
    command = f"mount -t ext4 /dev/vdb /mnt && seq {NUMBERS} > /mnt/numbers"
    environment = {**os.environ, "PATH": f"{cutter.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*argv, "--exec", command], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == NOT_POWERED_OFF, done.stderr
    assert subprocess.run([E2FSCK, "-p", str(image)], capture_output=True).returncode in REPAIRED
    found = subprocess.run([DEBUGFS, "-R", "cat numbers", str(image)], check=True, capture_output=True, text=True).stdout
    assert found.split() == [str(number + 1) for number in range(NUMBERS)]
