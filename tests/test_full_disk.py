# SPDX-License-Identifier: GPL-2.0-only
"""A host disk that fills while the guest writes: the guest and the user get an error, and the image stays intact."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY, SYSTEMS
from test_command import small_disk
from test_devices import overlay

LIMIT_S = 300
IMAGE = "64M"
# Writes more than the host has room for, and prints the result and that the guest continues.
FILL = """
import errno, os
disk = os.open("/dev/vdb", os.O_RDWR)
try:
    for block in range(64):
        os.pwrite(disk, bytes([block + 1]) * (1 << 20), block << 20)
    os.fsync(disk)
    print("all written")
except OSError as error:
    print(errno.errorcode[error.errno])
print("continues", flush=True)
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_full_host_disk_is_an_error_to_the_guest(system: str, tmp_path: Path) -> None:
    """A write for which the host has no room fails in the guest, which continues. The image stays usable and has no errors."""
    (place := tmp_path / "small").mkdir()
    image = place / "drive.qcow2"
    run = [sys.executable, str(REPOSITORY / "keel"), "run", *(["--native"] if system == "native" else [])]
    root = ["--root", f"chain:{overlay(tmp_path)}"]
    run += ["--nic", "none", "--timeout", str(LIMIT_S), "--persist", "--drive", str(image), *root]
    steps = (f"qemu-img create -q -f qcow2 {image} {IMAGE}", '"$@" "python3 -u -"', '"$@" true', f"qemu-img check -q {image}")
    script = " && ".join([*steps, "echo whole"])
    words = [*small_disk(place), "sh", "-c", script, "sh", *run, "--exec"]
    done = subprocess.run(words, input=FILL, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False)
    assert f"the host's disk at {place} is full" in done.stderr
    assert done.stdout.splitlines() == ["EIO", "continues", "whole"], done.stdout + done.stderr
