# SPDX-License-Identifier: GPL-2.0-only
"""Ports of the host that lead to the guest, and its SSH server."""

import os
import socket
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import pytest
from conftest import REPOSITORY, SYSTEMS, Result, keel, run_options
from test_guests import name as name  # a fixture
from test_shell import Terminal, terminal

FAILED = 125
LIMIT_S = 120
# Serves what it is asked, once each, and then waits for the file that ends it.
SERVER = """import socketserver, threading
class Line(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(b"line " + self.rfile.readline())
class Datagram(socketserver.BaseRequestHandler):
    def handle(self): self.request[1].sendto(b"datagram " + self.request[0], self.client_address)
line = socketserver.TCPServer(("", 7), Line)
datagram = socketserver.UDPServer(("", 7), Datagram)
print("serves", flush=True)
line.handle_request()
datagram.handle_request()
"""
both = pytest.mark.parametrize("system", SYSTEMS)


def free_port() -> int:
    """A port of the loopback that nothing uses."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@both
def test_ports_lead_to_the_guest(system: str, tmp_path: Path) -> None:
    """A stream and a datagram reach a server in the guest, and its answers come back."""
    (tmp_path / "server.py").write_text(SERVER)
    port = free_port()
    forwards = ["--forward", f"{port}:7", "--forward", f"127.0.0.1:{port}:7/udp"]
    command = ["--exec", "python3 /mnt/server.py"]
    with terminal(*run_options(system), *forwards, "--share", f"{tmp_path}:/mnt", *command) as guest:
        guest.wait_for(b"serves\r\n")
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as line:
            line.sendall(b"hello\n")
            assert line.makefile("rb").read() == b"line hello\n"
        with closing(socket.socket(type=socket.SOCK_DGRAM)) as datagrams:
            datagrams.settimeout(LIMIT_S)
            datagrams.sendto(b"hello", ("127.0.0.1", port))
            assert datagrams.recv(64) == b"datagram hello"
        assert guest.end() == 0


@both
@pytest.mark.parametrize("card", ["virtio", "virtio,restrict=on"])
def test_the_host_s_loopback_is_out_of_reach_only_where_the_network_leads_nowhere(system: str, card: str) -> None:
    """A server that listens on the host's loopback answers the guest, or does not; forwarded ports lead in with both."""
    port, said = free_port(), b"of the host's loopback"
    host = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Answer, said))
    Thread(target=host.serve_forever, daemon=True).start()
    url = f"http://10.0.2.2:{host.server_port}/"
    ask = f"curl -s --max-time 20 {url} || echo none: $?; cd /etc; exec python3 -u -m http.server 80 2>&1"
    try:
        options = [*run_options(system), "--nic", card, "--forward", f"{port}:80"]
        with terminal(*options, "--exec", ask) as guest:
            answer = b"none: " if card.endswith("restrict=on") else said
            guest.wait_for(answer)
            shown = guest.wait_for(b"Serving HTTP")
            assert said not in shown or not card.endswith("restrict=on")
            with urlopen(f"http://127.0.0.1:{port}/hostname", timeout=LIMIT_S) as page:
                assert page.read() == b"keel\n"
    finally:
        host.shutdown()
        host.server_close()


class _Answer(BaseHTTPRequestHandler):
    """Answers each request with the same words."""

    def __init__(self, said: bytes, *arguments: Any) -> None:
        self.said = said
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """The answer."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.said)))
        self.end_headers()
        self.wfile.write(self.said)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


def test_a_port_in_use_is_refused_before_the_boot() -> None:
    with closing(socket.socket()) as user:
        user.bind(("127.0.0.1", 0))
        user.listen()
        port = user.getsockname()[1]
        refused = keel("run", "--forward", f"{port}:80", "--exec", "true")
    assert refused.status == FAILED
    assert f"port {port} (tcp) of 127.0.0.1 is in use" in refused.last_error_line()


@contextmanager
def with_ssh(options: list[str], name: str) -> Iterator[Terminal]:
    """A guest with an SSH server that runs until its standard input ends."""
    with terminal(*options, "--name", name, "--ssh", "--exec", "echo runs; exec sleep 1000") as guest:
        guest.wait_for(b"runs\r\n")
        yield guest


def copied_there_and_back(name: str, place: Path) -> None:
    """A directory, a file and a stream are the same afterwards; a failure is one line."""
    (place / "tree/sub").mkdir(parents=True)
    file = place / "tree/sub/a file"
    file.write_bytes(bytes(range(256)) * 4096)
    file.chmod(0o750)
    os.utime(file, ns=(0, 1_600_000_000_123_456_789))
    (place / "tree/link").symlink_to("sub/a file")
    assert keel("cp", str(place / "tree"), f"{name}:/root/there", timeout_s=LIMIT_S) == Result(0, "", "")
    assert keel("cp", f"{name}:there", str(place / "back"), timeout_s=LIMIT_S) == Result(0, "", "")
    back = place / "back/sub/a file"
    assert back.read_bytes() == file.read_bytes() and (place / "back/link").readlink() == Path("sub/a file")
    assert (back.stat().st_mode, back.stat().st_mtime_ns) == (file.stat().st_mode, file.stat().st_mtime_ns)
    keel("cp", "-", f"{name}:stream", stdin=b"content", timeout_s=LIMIT_S)
    assert keel("cp", f"{name}:stream", "-", timeout_s=LIMIT_S) == Result(0, "content", "")
    keel("ssh", name, "--", "mount -t tmpfs -o size=64k none /mnt", timeout_s=LIMIT_S)
    for source, target in ((f"{name}:none", str(place)), (str(file), f"{name}:none/"), (str(file), f"{name}:/mnt")):
        refused = keel("cp", source, target, timeout_s=LIMIT_S)
        assert refused.status == FAILED and refused.error.count("\n") == 1, refused


@pytest.mark.parametrize(
    "options", [["run"], ["run", "--native"], ["run", "--init", "systemd"]], ids=["keel", "native", "systemd"]
)
def test_a_session(options: list[str], name: str, tmp_path: Path) -> None:
    """Words, streams and status are passed; no file of the user's is read or written; the keys go with the guest."""
    with with_ssh(options, name):
        words = keel("ssh", name, "--", "sh", "-c", 'echo "$0 $1"; echo error >&2; exit 3', "a  b", "$HOME;'", timeout_s=LIMIT_S)
        assert words == Result(3, "a  b $HOME;'\n", "error\n")
        line = keel("ssh", name, "--", "echo one; echo $0; exit 4", timeout_s=LIMIT_S)
        assert (line.status, line.output.split("\n")[0], "exit" in line.output) == (4, "one", False)
        packed = BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(REPOSITORY / "README.md", "README.md")
        keel("ssh", name, "--", "tar", "-x", "-C", "/tmp", stdin=packed.getvalue(), timeout_s=LIMIT_S)
        digest = keel("ssh", name, "--", "cat", "/tmp/README.md", timeout_s=LIMIT_S)
        assert digest.output == (REPOSITORY / "README.md").read_text()
        copied_there_and_back(name, tmp_path)
        secrets = list((REPOSITORY / "build" / "run").glob("*/private/ssh/key"))
        assert secrets and all(secret.stat().st_mode & 0o77 == 0 for secret in secrets)
        assert keel("stop", name, timeout_s=LIMIT_S).status == 0
    gone = keel("ssh", name, "--", "true")
    assert gone.status == FAILED and f"no guest named {name} runs" in gone.last_error_line()


def test_no_guest_is_shown_another_ones_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clone, which --cwd shows, has none; each guest reaches the others' ports by the host's loopback.

    The pattern does not find the command itself, which the clone has.
    """
    monkeypatch.chdir(REPOSITORY)
    with with_ssh(["run"], name):
        seen = keel("run", "--cwd", "--exec", "grep -rl 'OPENSSH PRIVAT[E]' build/run || echo none", timeout_s=LIMIT_S)
        assert (seen.status, seen.output) == (0, "none\n"), seen.error
        assert keel("stop", name, timeout_s=LIMIT_S).status == 0


def test_a_guest_without_a_server_is_told(name: str) -> None:
    with terminal("run", "--name", name, "--exec", "echo runs; exec sleep 1000") as guest:
        guest.wait_for(b"runs\r\n")
        for words in (["ssh", name, "--", "true"], ["cp", "README.md", f"{name}:"]):
            refused = keel(*words)
            assert refused.status == FAILED and "runs without an SSH server" in refused.last_error_line()
        assert keel("stop", name, timeout_s=LIMIT_S).status == 0


def test_a_root_without_a_server_is_told(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    refused = keel("run", "--root", str(tmp_path), "--nic", "virtio", "--ssh", "--timeout", "60", "--exec", "true")
    assert "the root has no SSH server" in refused.error
