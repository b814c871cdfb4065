# SPDX-License-Identifier: GPL-2.0-only
"""SSH to a guest: the keys of one run, what the guest gets of them, and the configuration by which clients reach it.

The client's key never leaves this host, and the guest's own key is made here as well, so that the client knows it. They are
in the guest's private directory as long as it runs. guest/init/ssh.c starts the server.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path

from . import cpio, process, rootarchive
from .errors import KeelError
from .forward import LOOPBACK
from .slot import Slot

GUEST_PORT = 22
# The place of the guest's files in its RAM disk, and their source that is no key.
ARCHIVE_PLACE = "keel/ssh"
START = Path(__file__).with_name("ssh-start")
BANNER = b"SSH-2.0-"
# How long a server may take that is just being started, and one answer of it.
STARTS_S = 60.0
ANSWERS_S = 5.0
AGAIN_S = 0.2
# In a file of ssh's these end or expand a path even within quotes.
MEANINGFUL = frozenset('"\\$%\n')
CONFIGURATION = """Host {name}
  HostName {address}
  HostKeyAlias {name}
  Port {port}
  User root
  IdentityFile "{key}"
  IdentitiesOnly yes
  IdentityAgent none
  PreferredAuthentications publickey
  UserKnownHostsFile "{known_hosts}"
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  LogLevel ERROR
"""


def _directory(slot: Slot) -> Path:
    return slot.private / "ssh"


def configuration(slot: Slot) -> Path:
    """The file for `ssh -F`, with the guest's name as the host's; there is none without a server."""
    return _directory(slot) / "config"


def make_keys(slot: Slot, port: int) -> None:
    """Make both keys, and write what a client needs to reach the guest at this port of the loopback."""
    place = _directory(slot)
    if wrong := MEANINGFUL & set(str(place)):
        raise KeelError(f"{place} has a {min(wrong)!r}, which ssh does not take in a path", "set TMPDIR to another place")
    place.mkdir()
    for name in ("key", "host-key"):
        process.output(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"keel {slot.name}", "-f", str(place / name)])
    known_hosts = place / "known_hosts"
    known_hosts.write_text(f"{slot.name} {(place / 'host-key.pub').read_text()}")
    text = CONFIGURATION.format(name=slot.name, address=LOOPBACK, port=port, key=place / "key", known_hosts=known_hosts)
    configuration(slot).write_text(text)


def with_keys(slot: Slot, ramdisk: Path) -> Path:
    """The RAM disk with the guest's part of the keys appended, as a file in the guest's private directory."""
    place = _directory(slot)
    sources = {"authorized_keys": place / "key.pub", "host-key": place / "host-key", "start": START}
    keys, joined = place / "keys.cpio", place / "ramdisk.cpio"
    writer = cpio.Writer()
    entries = [cpio.Entry(ARCHIVE_PLACE, cpio.DIRECTORY | 0o700)]
    for name, source in sources.items():
        entries.append(cpio.Entry(f"{ARCHIVE_PLACE}/{name}", cpio.REGULAR | 0o600, data=source.read_bytes()))
    keys.write_bytes(b"".join(map(writer.entry, entries)) + writer.end())
    rootarchive.join([ramdisk, keys], joined)
    return joined


def wait_for_server(port: int, runs: Callable[[], bool]) -> bool:
    """Wait until the server answers; false if the guest ends first or a server that starts would long have answered."""
    until = time.monotonic() + STARTS_S
    while not _answers(port):
        if not runs() or time.monotonic() > until:
            return False
        time.sleep(AGAIN_S)
    return True


def _answers(port: int) -> bool:
    """Whether a server is there; the emulator accepts a connection before the guest does, and then closes it."""
    try:
        with socket.create_connection((LOOPBACK, port), ANSWERS_S) as line:
            return line.recv(len(BANNER)) == BANNER
    except OSError:
        return False
