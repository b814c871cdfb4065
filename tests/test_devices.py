# SPDX-License-Identifier: GPL-2.0-only
"""Disks, network cards and PCI: Linux's own drivers on Keel and on native Linux, and what happens to the images."""

import fcntl
import hashlib
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import GUEST_SOURCES, REPOSITORY, SYSTEMS, Result, keel, run_guest

DISK_BYTES = 4 << 20
# The host, as a guest sees it in QEMU's user-mode network.
HOST = "10.0.2.2"
LIMIT_S = 400
REFUSED = 125
POWERED_OFF = 110
USAGE = 2
# The output of the script for the clock. The flags of alarm and updates are the device's.
CLOCK = ["rtc_cmos True", "set True", "alarm 0xa0 True", "updates 0x90 0x90 0x90", "interrupts True"]
MKE2FS = shutil.which("mke2fs", path="/sbin:/usr/sbin") or "mke2fs"
DEBUGFS = shutil.which("debugfs", path="/sbin:/usr/sbin") or "debugfs"
E2FSCK = shutil.which("e2fsck", path="/sbin:/usr/sbin") or "e2fsck"


class Echo(BaseHTTPRequestHandler):
    """Sends back what it receives."""

    def do_POST(self) -> None:
        """One request."""
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address at which a guest reaches a server on this host."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{http.server_port}/"
        http.shutdown()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an echo server."""
    with serving(Echo) as address:
        yield address


def disk(path: Path, size: int = DISK_BYTES) -> Path:
    """An image without content."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def content(device: str) -> bytes:
    """The content that devices.py writes to a disk."""
    return b"".join(hashlib.shake_128(f"{device} {block}".encode()).digest(16384) for block in range(DISK_BYTES // 16384))


def run_script(system: str, server: str, devices: str, *options: str) -> Result:
    """Run the script for devices in a guest."""
    script = (GUEST_SOURCES / "devices.py").read_bytes()
    command = f"python3 - {DISK_BYTES} {server} {devices} && cat /proc/interrupts >&2"
    return run_guest(system, command, stdin=script, limit_s=LIMIT_S, options=options)


@pytest.mark.parametrize(("system", "more"), [*((system, []) for system in SYSTEMS), ("keel", ["--iommu"])])
def test_every_disk_and_card(system: str, more: list[str], server: str, tmp_path: Path) -> None:
    """Disks on virtio, AHCI and NVMe keep what is written, and an e1000 carries data in both directions; also with an IOMMU."""
    devices = {"/dev/vdb": "virtio", "/dev/sda": "ahci", "/dev/nvme0n1": "nvme"}
    images = {device: disk(tmp_path / f"{bus}.img") for device, bus in devices.items()}
    drives = [f"--drive={bus}:{images[device]}" for device, bus in devices.items()]
    options = ["--persist", "--root", f"chain:{overlay(tmp_path)}", "--nic", "e1000", *more, *drives]
    result = run_script(system, server, " ".join(devices), *options)
    assert result.status == 0, result.error
    wanted = {device: content(device) for device in devices}
    digests = [f"{device} {hashlib.sha256(data).hexdigest()}" for device, data in wanted.items()]
    assert result.output.splitlines() == [*digests, f"network {DISK_BYTES}"]
    assert {device: image.read_bytes() == wanted[device] for device, image in images.items()} == dict.fromkeys(devices, True)


def test_default_network_and_interrupts_by_message(server: str) -> None:
    """On Keel a virtio card carries data in both directions, and it and the root's disk use MSIs."""
    result = run_script("keel", server, "")
    assert (result.status, result.output) == (0, f"network {DISK_BYTES}\n"), result.error
    by_message = [line for line in result.error.splitlines() if "keel-msi" in line]
    for name in ("virtio0-req.0", "virtio1-input.0"):
        assert any(line.endswith(name) and int(line.split()[1]) > 0 for line in by_message), result.error


@pytest.mark.parametrize("system", SYSTEMS)
def test_clock_of_the_machine(system: str) -> None:
    """Linux's CMOS driver reads and sets the date, and gets interrupts for an alarm and for each second. hwclock uses it."""
    command = "python3 - && hwclock --systohc && hwclock --show | cut -c1-4 && date +%Y"
    result = run_guest(system, command, stdin=(GUEST_SOURCES / "clock.py").read_bytes(), limit_s=LIMIT_S)
    *clock, by_hwclock, by_date = result.output.splitlines()
    assert (result.status, clock) == (0, CLOCK), result.error
    assert by_hwclock == by_date


def overlay(directory: Path) -> Path:
    """A writable image over the default root."""
    roots = sorted((Path.home() / ".cache" / "keel" / "roots").glob("*.ext4"), key=lambda path: path.stat().st_mtime)
    path = directory / "root.qcow2"
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(roots[-1]), str(path)]
    subprocess.run(create, check=True)
    return path


# Mounts a disk, writes to it and unmounts it, with the tools of the default root.
WRITE = """
import ctypes, shutil
libc = ctypes.CDLL(None)
assert libc.mount(b"/dev/vdb", b"/mnt", b"ext4", 0, None) == 0
shutil.copytree("/usr/lib/python3", "/mnt/python3")
open("/mnt/file", "w").write("kept")
assert libc.umount(b"/mnt") == 0
open("/root/file", "w").write("kept too")
"""
EXT4_INODES_PER_GROUP_AT = 1024 + 0x28
EXT4_INCOMPATIBLE_AT, EXT4_NEEDS_RECOVERY = 1024 + 0x60, 4


def needs_recovery(image: Path) -> bool:
    """Whether the file system on a qcow2 image was not cleanly unmounted."""
    head = image.with_suffix(".head")
    dd = ["qemu-img", "dd", "-f", "qcow2", "-O", "raw", "bs=4096", "count=1", f"if={image}", f"of={head}"]
    subprocess.run(dd, check=True, capture_output=True)
    return bool(head.read_bytes()[EXT4_INCOMPATIBLE_AT] & EXT4_NEEDS_RECOVERY)


@pytest.mark.parametrize("system", SYSTEMS)
def test_only_persist_keeps_what_is_written(system: str, tmp_path: Path) -> None:
    """Without the option the image does not change. With it the file systems keep what was written and are clean."""
    drive = disk(tmp_path / "drive.img", 64 << 20)
    subprocess.run([MKE2FS, "-q", "-F", "-t", "ext4", str(drive)], check=True)
    before = hashlib.sha256(drive.read_bytes()).digest()
    options = ["--drive", str(drive), "--nic", "none", "--root", f"chain:{(root := overlay(tmp_path))}"]
    assert run_guest(system, f"python3 -c '{WRITE}'", limit_s=LIMIT_S, options=options).status == 0
    assert hashlib.sha256(drive.read_bytes()).digest() == before
    result = run_guest(system, f"test ! -e /root/file && python3 -c '{WRITE}'", limit_s=LIMIT_S, options=[*options, "--persist"])
    assert result.status == 0, result.error
    subprocess.run([E2FSCK, "-fn", str(drive)], check=True, capture_output=True)
    assert subprocess.run([DEBUGFS, "-R", "cat file", str(drive)], check=True, capture_output=True).stdout == b"kept"
    assert not needs_recovery(root)
    assert run_guest(system, "cat /root/file", limit_s=LIMIT_S, options=options).output == "kept too"


@pytest.mark.parametrize("system", SYSTEMS)
def test_run_is_empty_at_each_boot(system: str, tmp_path: Path) -> None:
    """Also on a disk that is kept, on which it had files in an earlier run."""
    options = ["--nic", "none", "--persist", "--root", f"chain:{overlay(tmp_path)}"]
    check = "test ! -e /run/pid && touch /run/pid /run/lock/file && stat -c %a /run/lock"
    for _ in range(2):
        result = run_guest(system, check, limit_s=LIMIT_S, options=options)
        assert (result.status, result.output) == (0, "1777\n"), result.error


# Prints how many entries the folder of PCI devices has; two of every folder are no devices.
COUNT_DEVICES = b"""
int main(void)
{
    DIR *folder = opendir("/sys/bus/pci/devices");
    int count = 0;
    while (folder && readdir(folder))
        count++;
    printf("%d\\n", count);
}
"""
CONTAINED = "irq 3 4\n\tports 0x70-0x71 0x2f8-0x2ff 0x3f8-0x3ff"


def test_a_server_without_hardware_runs_from_its_memory(tmp_path: Path) -> None:
    """Linux that may use only serial lines and a clock finds no firmware and no PCI, and runs."""
    default = (REPOSITORY / "tools" / "keel" / "boot.conf").read_text()
    assert default.count("hardware rest") == 1
    configuration = tmp_path / "boot.conf"
    configuration.write_text(default.replace("hardware rest", CONTAINED))
    (root := tmp_path / "root").mkdir()
    build = ["gcc", "-static", "-include", "dirent.h", "-include", "stdio.h", "-x", "c", "-", "-o", str(root / "show")]
    subprocess.run(build, input=COUNT_DEVICES, check=True)
    options = ["--boot-conf", str(configuration), "--root", str(root), "--nic", "none"]
    result = run_guest("keel", "/show", limit_s=LIMIT_S, options=options)
    assert (result.status, result.output) == (0, "2\n"), result.error


def test_a_header_in_a_raw_disk_is_data(tmp_path: Path) -> None:
    """The next guest reads the same bytes back, even if they look like the header of an image format."""
    secret, header, drive = (tmp_path / name for name in ("secret.img", "header", "drive.img"))
    secret.write_bytes(b"secret" * (1 << 20))
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(secret), str(header)]
    subprocess.run(create, check=True)
    drive.write_bytes(header.read_bytes())
    options = ["--drive", str(drive), "--nic", "none"]
    result = run_guest("native", "head -c 3 /dev/vdb", limit_s=LIMIT_S, options=options)
    assert (result.status, result.output) == (0, "QFI"), result.error


def refused(*arguments: str, status: int = REFUSED) -> str:
    """The one line of a refusal."""
    result = keel("run", "--native", "--exec", "true", *arguments, timeout_s=60)
    assert result.status == status, result.error
    assert result.output == ""
    return result.last_error_line()


def test_unusable_images_are_refused(tmp_path: Path) -> None:
    """A drive that is missing, broken or too many is named before anything starts."""
    assert "absent.img" in refused("--drive", str(tmp_path / "absent.img"))
    broken = tmp_path / "broken.qcow2"
    broken.write_bytes(b"QFI\xfb" + bytes(range(256)))
    assert "broken.qcow2" in refused("--drive", str(broken))
    assert "broken.qcow2" in refused("--root", str(broken))
    cut = disk(tmp_path / "cut.img", 8 << 20)
    subprocess.run([MKE2FS, "-q", "-F", "-t", "ext4", str(cut)], check=True)
    with cut.open("r+b") as file:
        file.truncate(4 << 20)
    assert "cut off" in refused("--root", str(cut))
    assert "empty" in refused("--drive", str(disk(tmp_path / "empty.img", 0)))
    assert "virtio, ahci, nvme" in refused("--drive", f"floppy:{cut}")
    assert "too many" in refused(*["--drive", str(cut)] * 6)
    assert "--nic" in refused("--nic", "none", "--nic", "carrier-pigeon", status=USAGE)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_root_that_cannot_be_mounted_is_told(system: str, tmp_path: Path) -> None:
    """A file system with damage that only Linux can find ends the guest, and the error says why."""
    root = disk(tmp_path / "root.img", 8 << 20)
    subprocess.run([MKE2FS, "-q", "-F", "-t", "ext4", str(root)], check=True)
    with root.open("r+b") as file:
        file.seek(EXT4_INODES_PER_GROUP_AT)
        file.write(bytes(4))
    result = run_guest(system, "true", limit_s=LIMIT_S, options=["--nic", "none", "--root", str(root)])
    assert result.status == POWERED_OFF
    assert "no file system that can be mounted" in result.last_error_line()


def test_an_image_in_use_is_refused(tmp_path: Path) -> None:
    """A guest cannot write an image that another one reads, or read one that another one writes."""
    drive = disk(tmp_path / "drive.img")
    with drive.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert "in use" in refused("--persist", "--drive", str(drive), "--root", f"chain:{overlay(tmp_path)}")
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "in use" in refused("--drive", str(drive))
