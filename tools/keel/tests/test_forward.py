# SPDX-License-Identifier: GPL-2.0-only
"""Ports that are forwarded: the user's words, and the ports of this host."""

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from keel import boot, forward, process, qemu
from keel.errors import KeelError
from keel.qemu import Forward

CHOICES = boot.Choices(command="true")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("8080:80", Forward("127.0.0.1", 8080, 80)),
        ("1:65535/tcp", Forward("127.0.0.1", 1, 65535)),
        ("0.0.0.0:5353:53/udp", Forward("0.0.0.0", 5353, 53, "udp")),
    ],
)
def test_a_forward_is_said(text: str, wanted: Forward) -> None:
    assert forward.parse(text) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is none"),
        ("80", "is none"),
        ("8080:80/sctp", "is none"),
        ("8080:80,hostfwd=tcp::1-:1", "is none"),
        ("٨٠:80", "is none"),
        ("::1:8080:80", "is none"),
        ("0:80", "no port 0"),
        ("8080:65536", "no port 65536"),
        (f"{'9' * 5000}:80", "no port 9999"),
        ("localhost:8080:80", "no IPv4 address"),
        (":8080:80", "no IPv4 address"),
        ("127.0.0.1,x:8080:80", "no IPv4 address"),
        ("[::1]:8080:80", "IPv4 addresses only"),
    ],
)
def test_what_is_no_forward_is_refused(text: str, said: str) -> None:
    with pytest.raises(KeelError, match=said):
        boot.check(replace(CHOICES, forwards=(text,)))


@pytest.mark.parametrize("other", ["8080:81", "0.0.0.0:8080:80"])
def test_a_port_is_given_once(other: str) -> None:
    with pytest.raises(KeelError, match="twice"):
        forward.parse_all(["8080:80", other])
    assert len(forward.parse_all(["8080:80", "8080:80/udp", "127.0.0.2:8080:80"])) == 3


@pytest.mark.parametrize("wanted", [{"forwards": ("8080:80",)}, {"ssh": True}])
@pytest.mark.parametrize(("without", "said"), [({"card": "none"}, "--nic none"), ({"icount": True}, "--icount")])
def test_a_network_is_needed(wanted: dict[str, object], without: dict[str, object], said: str) -> None:
    boot.check(replace(CHOICES, **wanted))
    with pytest.raises(KeelError, match=f"needs a network, and {said}"):
        boot.check(replace(CHOICES, **wanted, **without))


def test_the_emulator_is_given_each() -> None:
    guest = qemu.Guest(Path("k"), card="virtio", forwards=(Forward("127.0.0.1", 8080, 80), Forward("0.0.0.0", 53, 53, "udp")))
    assert "user,id=net,hostfwd=tcp:127.0.0.1:8080-:80,hostfwd=udp:0.0.0.0:53-:53" in qemu.arguments(guest)


def listens(kind: socket.SocketKind) -> socket.socket:
    """Another program's socket."""
    other = socket.socket(type=kind)
    other.bind((forward.LOOPBACK, 0))
    if kind is socket.SOCK_STREAM:
        other.listen()
    return other


@pytest.mark.parametrize(("protocol", "kind"), [("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)])
def test_a_port_in_use_is_refused(protocol: str, kind: socket.SocketKind) -> None:
    with listens(kind) as other:
        port = other.getsockname()[1]
        with pytest.raises(KeelError, match=f"port {port} .{protocol}. of 127.0.0.1 is in use"):
            with forward.held([Forward(forward.LOOPBACK, port, 80, protocol)]):
                pass


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(KeelError, match=r"has no address 192\.0\.2\.1"):
        with forward.held([Forward("192.0.2.1", 8080, 80)]):
            pass


def test_a_port_that_is_held_can_be_listened_on_by_the_emulator_alone() -> None:
    """As libslirp does it, which binds for reuse."""
    with forward.held([Forward(forward.LOOPBACK, 0, 80)]) as [chosen]:
        with socket.socket() as emulator, socket.socket() as other:
            with pytest.raises(OSError, match="in use"):
                other.bind((forward.LOOPBACK, chosen.host))
            emulator.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            emulator.bind((forward.LOOPBACK, chosen.host))
            emulator.listen()
    with socket.socket() as other:
        other.bind((forward.LOOPBACK, chosen.host))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not listen on all ports")
def test_a_port_that_the_user_may_not_have_is_refused() -> None:
    script = (
        "import os; from keel import forward, qemu; os.setuid(65534)\n"
        "try: forward.held([qemu.Forward('127.0.0.1', 81, 80)]).__enter__()\n"
        "except Exception as error: print(error.line())"
    )
    said = process.output([sys.executable, "-c", script], env={"PYTHONPATH": str(Path(forward.__file__).parents[1])})
    assert "this user may not listen on port 81 (choose one from 1024 on)" in said
