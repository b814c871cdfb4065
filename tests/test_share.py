# SPDX-License-Identifier: GPL-2.0-only
"""Directories of the host in the guest: reading, writing, git, the current directory, and what a hostile guest gets by them."""

import fcntl
import os
import shlex
import shutil
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from conftest import GUEST_SOURCES, REPOSITORY, SCRIPT, SYSTEMS, Result, keel, run_guest, run_options, together
from test_command import assert_refused, refuse
from test_restart import CONTAINED, configuration

LIMIT_S = 300
POWERED_OFF = 110
PRIVILEGED = stat.S_ISUID | stat.S_ISGID
# Nothing that a user has configured counts.
PLAIN_GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
COMMIT = ["-c", "user.name=Host", "-c", "user.email=host@example.org", "commit", "-q"]

both = pytest.mark.parametrize("system", SYSTEMS)


def run_script(system: str, script: str, *options: str) -> Result:
    """Run a script in a guest with shared directories."""
    return run_guest(system, SCRIPT, stdin=script.encode(), limit_s=LIMIT_S, options=options)


def git(directory: Path, *arguments: str) -> str:
    """The output of git on the host."""
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, env=PLAIN_GIT, capture_output=True, text=True, check=True).stdout


def modes(directory: Path) -> dict[str, str]:
    """The permissions of all files of a directory."""
    return {path.name: f"{path.lstat().st_mode & 0o7777:o}" for path in directory.iterdir()}


@both
def test_files_in_and_out(system: str, tmp_path: Path) -> None:
    """Names, contents and modes are the same on both sides; without rw the guest may only read, at /mnt/NAME by default."""
    read, written = tmp_path / "a, b: ä", tmp_path / "out"
    read.mkdir()
    written.mkdir()
    (read / "file").write_text("of the host\n")
    (read / "file").chmod(0o750)
    (read / "data").write_bytes(bytes(range(256)) * 5000)
    script = """
    cd '/mnt/a, b: ä' && cat file && stat -c %a file && touch new 2>&1; (echo x >> file) 2>&1
    umask 022; cd /work/out && cp '/mnt/a, b: ä/data' . && mkdir -p d/e && echo deep > d/e/f && ln -s d/e link
    install -m 711 data program && mv d/e/f d/e/g && rm -r program && (umask 077; echo mine > private)
    python3 -c 'import mmap; f = open("data", "r+b"); m = mmap.mmap(f.fileno(), 0); m[:3] = b"abc"'
    """
    done = run_script(system, script, "--share", str(read), "--share", f"{written}:/work/out:rw")
    assert done.status == 0, done.error
    first, mode, *refusals = done.output.splitlines()
    assert (first, mode) == ("of the host", "750")
    assert len(refusals) == 2 and all("Read-only file system" in line for line in refusals)
    assert sorted(modes(read)) == ["data", "file"]
    assert modes(written) == {"data": "644", "d": "755", "link": "777", "private": "600"}
    assert (written / "data").read_bytes() == b"abc" + (read / "data").read_bytes()[3:]
    assert (written / "d/e/g").read_text() == "deep\n" and os.readlink(written / "link") == "d/e"


@both
def test_a_change_on_the_host_is_seen_at_once(system: str, tmp_path: Path) -> None:
    """The guest keeps no copy of what it has read: contents, sizes and names."""
    (tmp_path / "file").write_text("before\n")
    command = "cd /mnt/d; cat file; ls; read line; cat file; ls"
    argv = [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--timeout", str(LIMIT_S)]
    argv += ["--share", f"{tmp_path}:/mnt/d", "--exec", command]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout
        assert [child.stdout.readline() for _ in range(2)] == ["before\n", "file\n"]
        (tmp_path / "file").write_text("after, and longer\n")
        (tmp_path / "other").touch()
        child.stdin.write("go\n")
        child.stdin.close()
        assert child.stdout.read() == "after, and longer\nfile\nother\n"
    assert child.returncode == 0


@both
def test_git(system: str, tmp_path: Path) -> None:
    """git reads in a share that may only be read, and commits in one that may be written, whoever owns the files."""
    for name in ("read", "written"):
        git(tmp_path, "init", "-q", name)
        (tmp_path / name / "file").write_text("one\n")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, *COMMIT, "-m", "one")
        for path in [tmp_path / name, *(tmp_path / name).rglob("*")] if os.geteuid() == 0 else []:
            os.chown(path, 1000, 1000)
    (tmp_path / "read" / "file").write_text("two\n")
    script = f"""
    cd /mnt/read && git status --short && git log --format=%s
    cd /mnt/written && echo two > file && mkdir sub && echo new > sub/new && git add . && git {shlex.join(COMMIT)} -m two
    git status
    git fsck --strict 2>&1; ls ~/.gitconfig /etc/gitconfig 2>/dev/null
    """
    done = run_script(system, script, "--share", str(tmp_path / "read"), "--share", f"{tmp_path / 'written'}:rw")
    assert done.output.splitlines()[:2] == [" M file", "one"], done.error
    assert "nothing to commit, working tree clean" in done.output and "gitconfig" not in done.output
    trusted = ["-c", f"safe.directory={tmp_path / 'written'}"]
    assert git(tmp_path / "written", *trusted, "log", "--format=%s") == "two\none\n"
    assert git(tmp_path / "written", *trusted, "show", "HEAD:sub/new") == "new\n"
    assert git(tmp_path / "written", *trusted, "status", "--short") == ""


# A user's repository runs a program of theirs for whoever looks at it. The share has one, a bare one, and a link to the user's.
FOREIGN_REPOSITORY = """
export HOME=/tmp
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
as_user git init -q /tmp/r
printf '#!/bin/sh\\ntouch /tmp/hook-ran\\n' > /tmp/hook && chmod 755 /tmp/hook
as_user git -C /tmp/r config core.fsmonitor /tmp/hook
cd /tmp/r && git status > /dev/null 2>&1; echo foreign $?
cd /mnt/d/link && git status > /dev/null 2>&1; echo link $?
cd /mnt/d/deep/repository && git status > /dev/null 2>&1; echo deep $?
cd /mnt/d/work && git status --short && echo work $?
cd /mnt/d/bare && git rev-parse --is-bare-repository
cd /mnt/repository && git status --short && echo repository $?
git config --get-all safe.directory | grep -c '[*]'
test -e /tmp/hook-ran && echo ran || echo did not run
"""


@both
@pytest.mark.parametrize("init", ["keel", "systemd"])
def test_git_trusts_what_is_shared_and_nothing_else(system: str, init: str, tmp_path: Path) -> None:
    """The repositories of shares and directly in them; not another user's, whose programs git would run as root."""
    for name in ("d/work", "d/deep/repository", "repository"):
        git(tmp_path, "init", "-q", name)
    git(tmp_path, "init", "-q", "--bare", "d/bare")
    (tmp_path / "d" / "link").symlink_to("/tmp/r")
    for path in tmp_path.rglob("*") if os.geteuid() == 0 else []:
        os.chown(path, 1000, 1000, follow_symlinks=False)
    shares = ["--share", str(tmp_path / "d"), "--share", str(tmp_path / "repository")]
    done = run_script(system, FOREIGN_REPOSITORY, *shares, "--init", init)
    refused, trusted = ["foreign 128", "link 128", "deep 128"], ["work 0", "true", "repository 0", "0"]
    assert done.output.splitlines() == [*refused, *trusted, "did not run"], done.error


@both
def test_a_lock_is_among_the_guest_s_own_programs(system: str, tmp_path: Path) -> None:
    """As documented: the guest's programs exclude each other, and nobody on the host, whose lock they do not see."""
    (tmp_path / "file").touch()
    command = """
    exec 9>> /mnt/d/file; flock -n -x 9 && echo locked; flock -n -x /mnt/d/file true || echo excluded
    read line; flock -u 9; flock -n -x /mnt/d/file true && echo locked beside the host
    """
    argv = [sys.executable, str(REPOSITORY / "keel"), *run_options(system), "--timeout", str(LIMIT_S)]
    argv += ["--share", f"{tmp_path}:/mnt/d:rw", "--exec", command]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout
        assert [child.stdout.readline() for _ in range(2)] == ["locked\n", "excluded\n"]
        with (tmp_path / "file").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            child.stdin.write("go\n")
            child.stdin.close()
            assert child.stdout.read() == "locked beside the host\n"
    assert child.returncode == 0


@both
def test_the_current_directory(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs where the host's user is: at the same path to read, or where a share has the directory."""
    (tmp_path / "a b" / "sub").mkdir(parents=True)
    (tmp_path / "a b" / "file").write_text("here\n")
    monkeypatch.chdir(tmp_path / "a b")
    done = run_guest(system, "pwd; cat file; touch new 2>&1", limit_s=LIMIT_S, options=["--cwd"])
    assert done.output.splitlines()[:2] == [str(tmp_path / "a b"), "here"] and "Read-only" in done.output
    monkeypatch.chdir("sub")
    options = ["--cwd", "--share", f"{tmp_path / 'a b'}:/src:rw"]
    assert run_guest(system, "pwd; touch new", limit_s=LIMIT_S, options=options).output == "/src/sub\n"
    assert (tmp_path / "a b" / "sub" / "new").exists()


@both
def test_with_systemd(system: str, tmp_path: Path) -> None:
    """systemd leaves the mounts as they are; git and the directory are those of its service, too."""
    git(tmp_path, "init", "-q", "repository")
    command = "pwd; git status --short; touch new; systemctl is-active mnt-repository.mount"
    share = ["--share", f"{tmp_path / 'repository'}:rw"]
    with_cwd = [*share, "--cwd", "--init", "systemd"]
    here = Path.cwd()
    os.chdir(tmp_path / "repository")
    try:
        done = run_guest(system, command, limit_s=LIMIT_S, options=with_cwd)
    finally:
        os.chdir(here)
    assert done.output == "/mnt/repository\nactive\n", done.error
    assert (tmp_path / "repository" / "new").exists()


@both
def test_in_a_root_of_the_user_and_on_the_deterministic_clock(system: str, tmp_path: Path) -> None:
    """The root that is in memory gets the place made."""
    (tmp_path / "file").write_text("here\n")
    share = ["--share", f"{tmp_path}:/deep/place"]
    for options in (["--icount"], ["--root", str(minimal_root(tmp_path / "root"))]):
        done = run_guest(system, "read line < /deep/place/file; echo $line", limit_s=LIMIT_S, options=[*options, *share])
        assert (done.status, done.output) == (0, "here\n"), done.error


def minimal_root(directory: Path) -> Path:
    """A root of one shell with its libraries."""
    libraries = [word for word in subprocess.check_output(["ldd", "/bin/dash"], text=True).split() if word.startswith("/")]
    for file in ["/bin/dash", *libraries]:
        (directory / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, directory / file.lstrip("/"))
    (directory / "bin" / "sh").symlink_to("dash")
    return directory


def test_linux_without_devices_says_why(tmp_path: Path) -> None:
    """A server that has no devices cannot have a share: the guest ends, and the line has the reason."""
    without = configuration(tmp_path, **{"hardware rest": CONTAINED})
    options = ["--icount", "--boot-conf", str(without), "--share", str(tmp_path)]
    done = run_guest("keel", "true", limit_s=LIMIT_S, options=options)
    assert done.status == POWERED_OFF
    assert "no 9P on virtio, or no such device" in done.last_error_line()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--share", "/nothing/here"], ["/nothing/here", "No such file", "DIR[:PATH][:rw]"]),
        (["--share", "/etc/passwd"], ["is no directory"]),
        (["--share", "/tmp:relative"], ["/tmp:relative", "PATH begins with a slash"]),
        (["--share", "/tmp:/proc"], ["the guest needs its own /proc"]),
        (["--share", "/"], ["no name for its place"]),
        (["--share", "/tmp:/a", "--share", "/usr:/a"], ["two directories are shared at /a"]),
        (["--share", f"/tmp:/{'a' * 2000}"], ["command line is too long"]),
        (["--share", f"{REPOSITORY}:rw"], ["cannot be shared to be written"]),
        (["--share", f"{REPOSITORY / 'build'}:/x:rw"], ["cannot be shared to be written"]),
        (["--share", f"{REPOSITORY.parent}:/x:rw", "--cwd"], ["cannot be shared to be written"]),
        (["--share", "/:/host"], ["guests' keys are in"]),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[str], words: list[str]) -> None:
    """Before anything is built or started."""
    assert_refused(refuse("run", *arguments), *words)


def test_an_application_alone_has_no_shares() -> None:
    """The option is one of `ukl run`, too, where an init mounts it."""
    assert keel("ukl", "run", "--help").output.count("--share DIR[:PATH][:rw]") > 0


@cache
def attacked(system: str) -> tuple[Result, dict[str, tuple[int, int, int]], dict[str, str]]:
    """What the hostile guest says, what is in its share after that (type and mode, owner, group), and beside it."""
    with TemporaryDirectory() as place:
        base = Path(place)
        for name in ("share/directory-of-host", "outside", "read-only"):
            (base / name).mkdir(parents=True)
        (base / "outside" / "secret").write_text("secret of the host\n")
        (base / "read-only" / "file").write_text("kept\n")
        (base / "share" / "setuid").touch()
        (base / "share" / "setuid").chmod(0o4755)
        (base / "share" / "to-secret").symlink_to(base / "outside" / "secret")
        (base / "share" / "to-outside").symlink_to("../outside")
        options = ["--share", f"{base / 'share'}:/mnt/share:rw", "--share", f"{base / 'read-only'}:/mnt/read-only"]
        script = (GUEST_SOURCES / "hostile_share.py").read_bytes()
        command = "python3 - /mnt/share /mnt/read-only"
        done = run_guest(system, command, stdin=script, limit_s=LIMIT_S, options=[*options, "--smp", "2"])
        found = {str(path.relative_to(base)): path.lstat() for path in base.rglob("*")}
        inside = {name: (info.st_mode, info.st_uid, info.st_gid) for name, info in found.items()}
        texts = {name: (base / name).read_text() for name in found if name.startswith(("outside/", "read-only/"))}
        return done, inside, texts


@together("hostile share")
@both
def test_a_hostile_guest_gets_no_power_on_the_host(system: str) -> None:
    """No owner, device or privileged bit is passed on, whoever runs the emulator: root here, if root runs the tests."""
    done, inside, _ = attacked(system)
    said = dict(line.rsplit(" ", 1) for line in done.output.splitlines())
    refused = ["character device", "block device", "setuid", "setgid", "created setuid", "owner", "group"]
    assert {said[name] for name in refused} == {"EPERM"}, done.output
    assert {said[name] for name in ("no owner", "its own owner", "its own group")} == {"done"}, done.output
    assert said["capabilities"] == "ENOTSUP" and said["written setuid"] == "done"
    for name, (mode, owner, group) in inside.items():
        assert not mode & PRIVILEGED and not stat.S_ISCHR(mode) and not stat.S_ISBLK(mode), name
        assert (owner, group) == (os.getuid(), os.getgid()), name
    assert stat.S_IMODE(inside["share/made"][0]) == 0o640


@together("hostile share")
@both
def test_nothing_leads_out_of_the_share(system: str) -> None:
    """Links are followed in the guest; on the host nothing outside has been read, written, linked or made."""
    done, inside, texts = attacked(system)
    said = dict(line.rsplit(" ", 1) for line in done.output.splitlines())
    away = ["the host's link to a file", "the host's link to a directory", "through it", "written through it", "through that"]
    assert {said[name] for name in [*away, "a parent's file"]} == {"ENOENT"}, done.output
    assert said["a hard link from outside"] == "EXDEV"
    assert "secret of the host" not in done.output and "race ['']" in done.output
    assert texts == {"outside/secret": "secret of the host\n", "read-only/file": "kept\n"}
    assert stat.S_IMODE(inside["outside/secret"][0]) == 0o644


@together("hostile share")
@both
def test_what_may_only_be_read_stays_so(system: str) -> None:
    """The emulator refuses, even if the guest has mounted it to write."""
    said = dict(line.rsplit(" ", 1) for line in attacked(system)[0].output.splitlines())
    changes = ["written", "written after a remount", "made", "removed", "mode", "renamed", "linked", "times"]
    assert {said[name] for name in changes} == {"EROFS"}, attacked(system)[0].output
