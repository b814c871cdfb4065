# SPDX-License-Identifier: GPL-2.0-only
"""Packages installed in the guest, and a C project built in it, natively and on Keel."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from conftest import REPOSITORY, SCRIPT, SYSTEMS, run_guest
from test_devices import LIMIT_S, serving

sys.path.insert(0, str(REPOSITORY / "tools"))

from keel.config import Settings
from keel.debian import SOURCE, Archive

INSTALLED = ("lua5.4", "liblua5.4-0")
PROJECT = "lua5.4"
BUILD_LIMIT_S = 3600
# Drops lines of apt and dpkg about the time and the terminal.
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
# Without optimisation, which would take most of the compiler's time.
BUILD = """
mkdir /root/project && cd /root/project && tar -xz --strip-components 1 || exit
make -j4 linux MYCFLAGS=-O0 > log 2>&1
echo "made $?"
sort log | grep -c '^gcc'
sha256sum src/*.o src/lua src/luac
src/lua -e 'local t = {} for i = 1, 1000 do t[i] = (i * 7919) % 1009 end table.sort(t) print(#t, t[1], t[500], t[1000])'
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of a folder."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an archive on the host with packages of Debian."""
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
    """apt-get and dpkg fetch, verify, configure and remove as on native Linux."""
    script = f"ARCHIVE={archive} PACKAGES='{' '.join(INSTALLED)}'\n{INSTALL}"
    native, keel = (run_guest(system, SCRIPT, stdin=script.encode(), limit_s=LIMIT_S).output for system in SYSTEMS)
    assert [line for line in native.splitlines() if line.endswith(" 0")][:3] == ["updated 0", "installed 0", "purged 0"], native
    assert keel == native


def test_a_project_is_built_in_parallel() -> None:
    """`make -j4` of Lua on two processors gives the same programs, byte for byte, and they run."""
    description = Archive(Settings(), SOURCE).fetch_source(PROJECT)
    source: Path = next(description.parent.glob(f"{PROJECT}_*.orig.tar.gz"))
    script = f"cat > /tmp/build <<'END'\n{BUILD}END\nexec bash /tmp/build"
    options = ["--smp", "2"]
    results = [
        run_guest(system, script, stdin=source.read_bytes(), limit_s=BUILD_LIMIT_S, options=options).output for system in SYSTEMS
    ]
    native, keel = results
    assert native.startswith("made 0\n") and native.splitlines()[-1].startswith("1000\t"), native
    assert keel == native
