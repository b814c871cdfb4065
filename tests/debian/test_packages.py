# SPDX-License-Identifier: GPL-2.0-only
"""Packages that are installed in the guest and purged again, natively and on Keel."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler

import pytest
from conftest import REPOSITORY, SCRIPT, SYSTEMS, run_guest
from test_devices import LIMIT_S, serving

sys.path.insert(0, str(REPOSITORY / "tools"))

from keel.config import Settings
from keel.debian import Archive

INSTALLED = ("lua5.4", "liblua5.4-0")
# What apt and dpkg tell of their time and of the terminal is left out.
INSTALL = """
rm -f /etc/apt/sources.list.d/*
echo "deb [trusted=yes] $ARCHIVE ./" > /etc/apt/sources.list
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
echo "updated $?"
apt-get -qq -y install $PACKAGES
echo "installed $?"
lua5.4 -e 'print(_VERSION, #arg)'
update-alternatives --query lua-interpreter | grep -c ^Alternative
dpkg --verify $PACKAGES
apt-get -qq -y purge $PACKAGES
echo "purged $?"
dpkg --audit
dpkg -l $PACKAGES 2>&1 | tail -1
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of a folder."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an archive with Debian's own packages, on the host."""
    place = tmp_path_factory.mktemp("archive")
    entries = []
    for name in INSTALLED:
        package = Archive(Settings()).fetch(name)
        data = package.read_bytes()
        (place / package.name).write_bytes(data)
        control = subprocess.run(["dpkg-deb", "-f", str(package)], capture_output=True, text=True, check=True).stdout
        entries.append(f"{control}Filename: ./{package.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n")
    (place / "Packages").write_text("\n".join(entries))
    with serving(partial(Quiet, directory=str(place))) as address:
        yield address


def test_packages_are_installed_and_purged(archive: str) -> None:
    """apt-get and dpkg fetch, verify, configure and remove as on the bare machine."""
    script = f"ARCHIVE={archive} PACKAGES='{' '.join(INSTALLED)}'\n{INSTALL}"
    native, keel = (run_guest(system, SCRIPT, stdin=script.encode(), limit_s=LIMIT_S).output for system in SYSTEMS)
    assert [line for line in native.splitlines() if line.endswith(" 0")][:3] == ["updated 0", "installed 0", "purged 0"], native
    assert keel == native
