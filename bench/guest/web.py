#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-2.0-only
"""Web servers on loopback, one with a dynamic part: which part of it this process is, its name says.

`static` answers requests itself, `dynamic` asks `app` by a socket for each, as with FastCGI. `asks-static TIMES` and
`asks-dynamic TIMES` make requests.
"""

import socket
import sys
import time
from pathlib import Path

APP = "/tmp/app.socket"
PORTS = {"static": 8001, "dynamic": 8002}
ADDRESS = "127.0.0.1"
ANSWER = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
PIECE = 4096
CLIENT = "asks-"
# Until the one that is asked is there.
WAIT_S = 0.01


def listening(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    """A socket that waits for connections."""
    server = socket.socket(family)
    if family == socket.AF_INET:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(address)
    server.listen()
    return server


def connected(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    """A connection, as soon as there is who accepts it."""
    while True:
        asking = socket.socket(family)
        try:
            asking.connect(address)
        except OSError:
            asking.close()
            time.sleep(WAIT_S)
        else:
            return asking


def compute(request: bytes) -> bytes:
    """The dynamic part: the numbers up to what is asked for, added."""
    number = int(request.split()[1].rpartition(b"/")[2])
    return b"%d\n" % sum(range(number))


def serve_app() -> None:
    """One connection, as a web server keeps it."""
    asking, _ = listening(socket.AF_UNIX, APP).accept()
    while request := asking.recv(PIECE):
        asking.sendall(compute(request))


def serve_web(name: str) -> None:
    """Requests of one client after the other."""
    app = connected(socket.AF_UNIX, APP) if name == "dynamic" else None
    server = listening(socket.AF_INET, (ADDRESS, PORTS[name]))
    while True:
        client, _ = server.accept()
        request = client.recv(PIECE)
        if app:
            app.sendall(request)
            client.sendall(ANSWER + app.recv(PIECE))
        else:
            client.sendall(ANSWER + b"static\n")
        client.close()


def ask(port: int, times: int) -> None:
    """Requests, one after the other."""
    for number in range(times):
        server = connected(socket.AF_INET, (ADDRESS, port))
        server.sendall(b"GET /%d HTTP/1.0\r\n\r\n" % number)
        while server.recv(PIECE):
            pass
        server.close()


if __name__ == "__main__":
    role = Path(sys.argv[0]).name
    if role == "app":
        serve_app()
    elif role in PORTS:
        serve_web(role)
    else:
        ask(PORTS[role.removeprefix(CLIENT)], int(sys.argv[1]))
