# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the guest: a memcached server and many connections to it at once, and prints what they see.

`python3 memcached_client.py SERVER [CONNECTIONS]`.
"""

import contextlib
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

PORT = 11211
CONNECTIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 500
ROUNDS = 10
LISTENING = "server listening"
Line = tuple[socket.socket, BinaryIO]


def started(server: str) -> "subprocess.Popen[str]":
    """The server, once it listens. Its later output about each command is read and dropped."""
    words = ["-vv", "-u", "root", "-l", "127.0.0.1", "-p", str(PORT), "-U", "0", "-t", "4", "-c", str(2 * CONNECTIONS)]
    child = subprocess.Popen([server, *words], stderr=subprocess.PIPE, text=True)
    assert child.stderr
    said = child.stderr
    line = next((line for line in said if LISTENING in line), None)
    assert line, f"the server ended without {LISTENING!r}"
    threading.Thread(target=lambda: [None for _ in said], daemon=True).start()
    return child


def asked(lines: list[Line], requests: list[str]) -> list[str]:
    """The first line of each connection's answer; all requests are sent before the first answer is read."""
    for (line, _), request in zip(lines, requests, strict=True):
        line.sendall(request.encode())
    return [answers.readline().decode().strip() for _, answers in lines]


def got(lines: list[Line], keys: list[str]) -> list[str]:
    """The value of a key for each connection."""
    heads = asked(lines, [f"get {key}\r\n" for key in keys])
    assert all(head.startswith("VALUE ") for head in heads)
    rests = [[answers.readline().decode().strip() for _ in range(2)] for _, answers in lines]
    assert all(end == "END" for _, end in rests)
    return [value for value, _ in rests]


def main() -> None:
    """Everything, in the order in which it is printed."""
    # A connection is a descriptor here.
    resource.setrlimit(resource.RLIMIT_NOFILE, (4 * CONNECTIONS, 4 * CONNECTIONS))
    server = started(sys.argv[1])
    # Of a program without a gate in the server of Keel.
    print("stubs", Path(f"/proc/{server.pid}/maps").read_text().count("[keel]"))
    with contextlib.ExitStack() as stack:
        lines: list[Line] = []
        for _ in range(CONNECTIONS):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", PORT)))
            lines.append((line, stack.enter_context(line.makefile("rb"))))
        stored = asked(lines, [f"set key{n} 0 0 {len(f'value{n}')}\r\nvalue{n}\r\n" for n in range(CONNECTIONS)])
        print("stored", stored.count("STORED"))
        of_another = [(n * 7 + 1) % CONNECTIONS for n in range(CONNECTIONS)]
        right = 0
        for _ in range(ROUNDS):
            values = got(lines, [f"key{n}" for n in of_another])
            right += sum(value == f"value{n}" for value, n in zip(values, of_another, strict=True))
        print("right", right)
        asked(lines[:1], ["set count 0 0 1\r\n0\r\n"])
        print("counted", max(int(word) for word in asked(lines, ["incr count 1\r\n"] * CONNECTIONS)))
        for line, answers in lines[CONNECTIONS // 2 :]:
            answers.close()
            line.close()
        print("left", got(lines[:1], [f"key{CONNECTIONS - 1}"])[0])
    server.send_signal(signal.SIGTERM)
    print("ended with", server.wait())


if __name__ == "__main__":
    main()
