# SPDX-License-Identifier: GPL-2.0-only
"""Directories of the host: the user's words for them, what Linux is told, and the confinement of their server."""

import os
import subprocess
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from keel import boot, bootconf, machine, packages, qemu, share
from keel.errors import KeelError
from keel.qemu import Share

NATIVE = qemu.Guest(kernel=Path("/k/bzImage"))


def refusal(*texts: str) -> str:
    with pytest.raises(KeelError) as caught:
        share.parsed(texts)
    return caught.value.line()


@pytest.mark.parametrize(
    ("name", "rest", "place", "writable"),
    [
        ("src", "", "/mnt/src", False),
        ("src", ":/a/b", "/a/b", False),
        ("src", ":/a/b:rw", "/a/b", True),
        ("src", ":/a/b:ro", "/a/b", False),
        ("src", ":rw", "/mnt/src", True),
        ("src", "://a//b/./c/../d/", "/a/b/d", False),
        ("a:b", "", "/mnt/a:b", False),
        ("a:b", ":/c:d", "/c:d", False),
        ("a,b c", "", "/mnt/a,b c", False),
        ("x:rw", ":/x", "/x", False),
    ],
)
def test_words_for_a_share(name: str, rest: str, place: str, writable: bool, tmp_path: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    assert share.parsed([f"{directory}{rest}"]) == (Share(directory, place, writable),)


def test_a_link_is_resolved_once_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who may write the directory that it is in chooses what is shared."""
    (tmp_path / "there" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("there")
    for name, found in (("link", "there"), ("link/sub", "there/sub")):
        assert share.parsed([str(tmp_path / name)])[0].directory == tmp_path / found
        assert capsys.readouterr().err == f"keel: --share {tmp_path / name}: {tmp_path / name} leads to {tmp_path / found}\n"
    share.parsed([f"{tmp_path}/there/sub/../"])
    assert not capsys.readouterr().err
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be shared" in refusal(str(tmp_path / "loop"))


@pytest.mark.parametrize("place", ["/", "/proc", "/proc/x", "/sys/../dev/shm", "/usr/", "//etc", "/run/keel"])
def test_a_place_that_the_guest_needs_is_refused(place: str, tmp_path: Path) -> None:
    assert "the guest needs its own /" in refusal(f"{tmp_path}:{place}")


@pytest.mark.parametrize("rest", [":there", ":", ":rw:/a:", ":there:rw", "/nothing", "/file"])
def test_what_is_no_directory_is_refused_with_the_form(rest: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = refusal(f"{tmp_path}{rest}")
    assert line.startswith("keel: error: --share ") and share.FORM in line


def test_no_name_at_all_is_refused() -> None:
    assert share.FORM in refusal("")
    assert share.FORM in refusal(":/a")
    assert "no name for its place" in refusal("/")


def test_an_unreadable_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so what the kernel answers to another user is put in its place."""
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.R_OK)
    assert "you may not read" in refusal(str(tmp_path))


def test_an_outer_place_is_mounted_first(tmp_path: Path) -> None:
    shares = share.parsed([f"{tmp_path}:/a/b", f"{tmp_path}:/c", f"{tmp_path}:/a:rw"])
    assert [one.place for one in shares] == ["/a", "/a/b", "/c"]


def test_no_two_at_one_place_and_not_too_many(tmp_path: Path) -> None:
    assert "two directories are shared at /a" in refusal(f"{tmp_path}:/a", f"{tmp_path}:/a/")
    assert "too many" in refusal(*(f"{tmp_path}:/{number}" for number in range(machine.MOST_SHARES + 1)))


def test_the_guest_has_room_for_as_many() -> None:
    header = (bootconf.DEFAULT_TEMPLATE.parents[2] / "guest" / "init" / "settings.h").read_text()
    assert f"#define SHARES_MAX {machine.MOST_SHARES}\n" in header


def test_the_current_directory_is_at_its_own_path_unless_a_share_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    here = str(tmp_path / "a" / "b")
    assert share.with_current(()) == ((Share(Path(here), here),), here)
    given = share.parsed([f"{tmp_path / 'a'}:/src:rw"])
    assert share.with_current(given) == (given, "/src/b")
    (tmp_path / "a" / "b").rmdir()
    with pytest.raises(KeelError, match="current directory cannot be found"):
        share.with_current(())


def test_the_current_directory_cannot_hide_the_guest_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    with pytest.raises(KeelError, match="--cwd: the guest needs its own /usr"):
        share.with_current(())


def test_parameters_are_single_words_of_plain_signs() -> None:
    shares = [Share(Path("/a"), '/a "b" ä%$\n'), Share(Path("/b"), "/b", writable=True)]
    words = share.parameters(shares, "/a b")
    assert words == ["keel.share=ro:/a%20%22b%22%20%C3%A4%25%24%0A", "keel.share=rw:/b", "keel.cwd=/a%20b"]
    line = boot.linux_parameters(boot.Choices(shares=tuple(shares), directory="/a b", append="x"), "")
    assert " ".join(words) in line and line.endswith(" x")


def test_paths_that_are_too_long_together_are_refused() -> None:
    choices = boot.Choices(shares=tuple(Share(Path("/a"), f"/{'a' * 250}{number}") for number in range(8)))
    with pytest.raises(KeelError, match="command line is too long"):
        boot.check(choices)


def test_each_share_is_a_file_system_and_a_device_with_its_tag() -> None:
    shares = (Share(Path("/a,b"), "/x"), Share(Path("/c"), "/y", writable=True))
    argv = qemu.arguments(replace(NATIVE, shares=shares))
    at = argv.index("-fsdev")
    assert argv[at : at + 8] == [
        *("-fsdev", "local,id=share0,path=/a,,b,security_model=none,multidevs=remap,readonly=on"),
        *("-device", "virtio-9p-pci,fsdev=share0,mount_tag=share0"),
        *("-fsdev", "local,id=share1,path=/c,security_model=none,multidevs=remap,readonly=off"),
        *("-device", "virtio-9p-pci,fsdev=share1,mount_tag=share1"),
    ]
    assert qemu.models(replace(NATIVE, shares=shares))[1:] == ["virtio-9p-pci"] * 2


def test_only_an_emulator_with_a_share_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = (Share(Path("/a"), "/x"),)
    assert share.confined(["qemu", "-m", "1"], ()) == ["qemu", "-m", "1"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    root_s = share.confined(["qemu"], shares)
    assert root_s[0] == "setpriv" and root_s[-1] == "qemu"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert root_s[-len(share.STARTER) - 1 :] == share.confined(["qemu"], shares)


# Each tries one call, and prints what came of it.
ATTEMPTS = {
    "import os; os.mkdir('d', 0o755); os.chmod('d', 0o1777)": True,
    "import os; os.chmod('f', 0o600)": True,
    "import os; os.chmod('f', 0o4755)": False,
    "import os; os.chmod('f', 0o2755)": False,
    "import os; os.fchmod(os.open('f', os.O_RDWR), 0o4755)": False,
    "import os; os.chmod('f', 0o4755, dir_fd=os.open('.', os.O_RDONLY))": False,
    "import os; os.open('new', os.O_CREAT | os.O_WRONLY, 0o644)": True,
    "import os; os.open('new', os.O_CREAT | os.O_WRONLY, 0o4755)": False,
    "import os; os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o2755)": False,
    "import os; os.open('f', os.O_RDONLY, 0o4755)": True,
    "import os, stat; os.mknod('p', stat.S_IFIFO | 0o600)": True,
    "import os, stat; os.mknod('r', stat.S_IFREG | 0o4755)": False,
    "import os, stat; os.mknod('c', stat.S_IFCHR | 0o600, os.makedev(1, 3))": False,
    "import os, stat; os.mknod('b', stat.S_IFBLK | 0o600, os.makedev(7, 0))": False,
    "import os; os.chown('f', os.getuid(), os.getgid())": True,
    "import os; os.chown('f', os.getuid(), os.getgid() + 1)": False,
    "import os; os.lchown('f', os.getuid() + 1, os.getgid())": False,
    "import os; os.fchown(os.open('f', os.O_RDONLY), 12, 34)": False,
    "import os; os.chown('f', -1, -1)": True,
    "import os; os.chown('f', os.getuid(), -1); os.lchown('f', -1, os.getgid()); os.fchown(os.open('f', 0), -1, -1)": True,
    "import os; os.chown('f', -1, os.getgid(), dir_fd=os.open('.', os.O_RDONLY))": True,
    "import os; os.chown('f', -1, os.getgid() ^ 1 << 31)": False,
    "import os; os.fchown(os.open('f', os.O_RDONLY), os.getuid() ^ 1 << 31, -1)": False,
    "import os; os.chown('f', 0xFFFFFFFE, -1, dir_fd=os.open('.', os.O_RDONLY))": False,
    "import ctypes; libc = ctypes.CDLL(None, use_errno=True); assert not libc.syscall(452, -100, b'f', 0o4755, 0)": False,
    "import ctypes; libc = ctypes.CDLL(None, use_errno=True); assert libc.syscall(437, -100, b'f', 0, 0) >= 0": False,
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_would_give_the_guest_a_power_on_the_host_is_refused(attempt: str, tmp_path: Path) -> None:
    if packages.missing(packages.CONFINEMENT):
        pytest.skip("python3-seccomp is not installed")
    (tmp_path / "f").touch()
    command = share.confined([share.STARTER[0], "-c", attempt], (Share(tmp_path, "/x"),))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode == 0) == ATTEMPTS[attempt], done.stderr.decode()
    bits = [path.stat().st_mode & 0o6000 for path in tmp_path.iterdir()]
    assert not any(bits)


@pytest.mark.parametrize("own", [0, 1000, 65534, 0x7FFFFFFF, 0xAAAAAAAA, 0xFFFFFFFE])
def test_every_other_owner_is_refused(own: int) -> None:
    """All numbers but one's own and -1, which changes nothing: those that differ in two bits, and some more."""
    if packages.missing(packages.CONFINEMENT):
        pytest.skip("python3-seccomp is not installed")
    rules = list(import_module("keel.confined").others(own))
    unchanged, bits = {own, 0xFFFFFFFF}, [1 << bit for bit in range(32)]
    numbers = {base ^ (one | other) for base in (*unchanged, 0) for one in bits for other in bits} | unchanged | set(range(4096))
    for number in numbers:
        assert any(number & mask == value for mask, value in rules) == (number not in unchanged), hex(number)


def test_a_setuid_file_that_is_written_to_loses_the_bit(tmp_path: Path) -> None:
    """Root would keep it: the emulator has not that capability."""
    if packages.missing(packages.CONFINEMENT):
        pytest.skip("python3-seccomp is not installed")
    file = tmp_path / "f"
    file.touch()
    file.chmod(0o4755)
    write = "open('f', 'w').write('x')"
    subprocess.run(share.confined([share.STARTER[0], "-c", write], (Share(tmp_path, "/x"),)), cwd=tmp_path, check=True)
    assert file.read_text() == "x" and file.stat().st_mode & 0o7777 == 0o755
