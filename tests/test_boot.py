# SPDX-License-Identifier: GPL-2.0-only
"""Booting: by BIOS and UEFI, from an ISO image, with a screen and a keyboard."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import REPOSITORY, keel, run_guest, started

LIMIT_S = 400
PROMPT = b"root@keel:~#"
# OVMF, its code and its variables, as `./keel run --uefi` gives it to QEMU.
OVMF = ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd")
POWERED_OFF = 0x10 << 1 | 1
WAYS = [("keel", "--uefi"), ("keel", "--graphic"), ("keel", "--uefi --graphic")]
WAYS += [("native", "--graphic"), ("native", "--uefi --graphic")]


@pytest.mark.parametrize(("system", "options"), WAYS)
def test_ways_to_boot(system: str, options: str) -> None:
    """A command runs whatever booted the guest, and a guest with a screen has a framebuffer."""
    result = run_guest(system, "uname -r; cat /proc/fb", limit_s=LIMIT_S, options=options.split())
    screen = "0 simple\n" if "--graphic" in options else ""
    assert result.status == 0, result.error
    assert re.fullmatch(rf"6\.1\.\d+-keel\n{screen}", result.output)


def test_quotes_reach_linux_whatever_boots_it() -> None:
    """The command line is in a module, the boot configuration, so GRUB cannot put backslashes before its quotes."""
    more = """a="b c" d='e' f=\\g h=$i"""
    for by_disc in (False, True):
        options = ["--append", more, *(["--graphic"] if by_disc else [])]
        result = run_guest("keel", "cat /proc/cmdline", limit_s=LIMIT_S, options=options)
        assert f" {more}" in result.output, result.error


KEYS = {" ": "spc", ">": "shift-dot", "/": "slash", "S": "shift-s", "\n": "ret"}


def keys(text: str) -> list[str]:
    """The monitor's commands that type a text."""
    return [f"sendkey {KEYS.get(letter, letter)}" for letter in text]


def colours(picture: Path) -> set[bytes]:
    """The colours of a picture in PPM."""
    data = picture.read_bytes()
    found = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    assert found
    pixels = data[found.end() :]
    assert len(pixels) == int(found[1]) * int(found[2]) * 3
    return {pixels[at : at + 3] for at in range(0, len(pixels), 3)}


# The options that each kind of keyboard adds to a machine or removes.
KEYBOARDS: dict[str, list[str]] = {"ps2": [], "usb": ["-machine", "i8042=off", "-device", "qemu-xhci", "-device", "usb-kbd"]}


@pytest.mark.parametrize("keyboard", KEYBOARDS)
@pytest.mark.parametrize("system", ["keel", "native"])
def test_screen_and_keyboard(system: str, keyboard: str) -> None:
    """Text appears on the screen, and keys reach the shell there."""
    with tempfile.TemporaryDirectory() as place:
        monitor, pictures = Path(place) / "monitor", [Path(place) / f"{number}.ppm" for number in range(2)]
        argv = [sys.executable, str(REPOSITORY / "keel"), "run", "--graphic", "--nic", "none"]
        argv += ["--native"] if system == "native" else []
        argv += [f"--qemu-arg={argument}" for argument in KEYBOARDS[keyboard]]
        argv += ["--qemu-arg=-monitor", f"--qemu-arg=unix:{monitor},server=on,wait=off"]
        with started(argv, monitor) as guest:
            guest.wait_for(PROMPT)
            # Linux probes USB devices in the background, so the prompt may come first.
            guest.say(b"until grep -qi keyboard /proc/bus/input/devices; do :; done; echo fo''und\n")
            guest.wait_for(b"found")
            guest.ask(f"screendump {pictures[0]}")
            guest.ask(*keys("echo it is typed > /dev/ttyS0\n"))
            guest.wait_for(b"it is typed")
            guest.ask(f"screendump {pictures[1]}")
            guest.say(b"exit\n")
            assert guest.child.wait(LIMIT_S) == 0
        assert len(colours(pictures[0])) > 1
        assert pictures[0].read_bytes() != pictures[1].read_bytes()


HELLO = """
#include <fcntl.h>
#include <unistd.h>
#include <sys/reboot.h>
int main(void)
{
    int line = open("/dev/ttyS0", O_WRONLY);
    write(line, "hello from the disc\\r\\n", 21);
    fsync(line);
    sleep(1);
    reboot(RB_POWER_OFF);
}
"""


@pytest.fixture(scope="module")
def disc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ISO image with a root of one program."""
    place = tmp_path_factory.mktemp("disc")
    (root := place / "root").mkdir()
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", str(root / "init")], input=HELLO.encode(), check=True)
    made = keel("image", "--root", str(root), str(place / "keel.iso"))
    assert made.status == 0, made.error
    return place / "keel.iso"


def machine(disc: Path, *arguments: str) -> list[str]:
    """A PC with the ISO image as its only drive, and its first serial line here."""
    drive = ["-drive", f"file={disc},format=raw,if=none,readonly=on,id=disc", *arguments]
    exit_port = ["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
    return ["qemu-system-x86_64", "-m", "1024", "-display", "none", "-no-reboot", "-serial", "stdio", *drive, *exit_port]


def uefi() -> list[str]:
    """UEFI in place of the BIOS."""
    files = [f"if=pflash,format=raw,unit={n},readonly=on,file=/usr/share/OVMF/{name}" for n, name in enumerate(OVMF)]
    return ["-drive", files[0], "-drive", files[1].replace("readonly=on", "snapshot=on")]


DRIVES = {"cd": "ide-cd,drive=disc", "stick": "virtio-blk-pci,drive=disc"}


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_a_disc_boots(disc: Path, firmware: str, drive: str) -> None:
    """By either firmware, from a CD and from a plain drive, on QEMU's default machine."""
    with started(machine(disc, "-device", DRIVES[drive], *(uefi() if firmware == "uefi" else []))) as guest:
        guest.wait_for(b"hello from the disc")
        assert guest.child.wait(LIMIT_S) == POWERED_OFF


def test_the_default_root_on_a_disc(tmp_path: Path) -> None:
    """Debian runs, its root is writable, users can ping, and leaving the shell powers the machine off."""
    made = keel("image", str(tmp_path / "debian.iso"), timeout_s=1200)
    assert made.status == 0, made.error
    with started(machine(tmp_path / "debian.iso", "-device", DRIVES["stick"])) as guest:
        guest.wait_for(PROMPT)
        guest.say(b'python3 -c \'print(6 * 7, file=open("/root/file", "w"))\' && echo it is $(cat /root/file)\n')
        guest.wait_for(b"it is 42")
        guest.say(b"setpriv --reuid 65534 --regid 65534 --clear-groups ping -q -c 1 127.0.0.1 > /dev/null && echo it pi''ngs\n")
        guest.wait_for(b"it pings")
        guest.say(b"exit\n")
        assert guest.child.wait(LIMIT_S) == POWERED_OFF


def test_what_cannot_be_a_disc(tmp_path: Path) -> None:
    """A root that is no archive, and a place that cannot be written, are named before anything is built."""
    image = tmp_path / "root.img"
    with image.open("wb") as file:
        file.truncate(1 << 20)
        file.seek(1080)
        file.write(b"\x53\xef")
    (empty := tmp_path / "empty").mkdir()
    refusals = {
        ("--root", str(image), str(tmp_path / "x.iso")): "is a disk image",
        ("--root", str(empty), str(tmp_path / "x.iso")): "neither an /init nor a shell",
        (str(tmp_path / "absent" / "x.iso"),): "cannot be written",
        ("--append", "a\nb", str(tmp_path / "x.iso")): "one line",
    }
    for arguments, reason in refusals.items():
        result = keel("image", *arguments, timeout_s=60)
        assert (result.status, reason in result.last_error_line()) == (125, True), result.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "root.img"]
