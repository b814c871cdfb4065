# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the guest: a Redis server and a client of its protocol, which prints the server's answers.

`python3 redis_client.py SERVER` starts it twice on one directory.
"""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

PORT = 6379
KEYS = 100_000
# How many commands are sent before their answers are read.
BATCH = 1000
READY, SAVED = "Ready to accept connections", "Background saving terminated with success"
SERVER, DIRECTORY = sys.argv[1], tempfile.mkdtemp()


def encoded(*words: str) -> bytes:
    """A command."""
    return b"".join([f"*{len(words)}\r\n".encode(), *(f"${len(word)}\r\n{word}\r\n".encode() for word in words)])


def started() -> tuple["subprocess.Popen[str]", Callable[[str], None]]:
    """The server, once it reports that it is ready, and a function that waits for another of its lines."""
    words = ["--port", str(PORT), "--dir", DIRECTORY, "--save", ""]
    server = subprocess.Popen([SERVER, *words], stdout=subprocess.PIPE, text=True)

    def wait_for(words: str) -> None:
        assert server.stdout
        line = next((line for line in server.stdout if words in line), None)
        assert line, f"the server ended without {words!r}"

    wait_for(READY)
    return server, wait_for


def main() -> None:
    """Everything, in the order in which it is printed."""
    server, wait_for = started()
    # Of a program without a gate in the server of Keel.
    print("stubs", Path(f"/proc/{server.pid}/maps").read_text().count("[keel]"))
    with socket.create_connection(("127.0.0.1", PORT)) as line, line.makefile("rb") as answers:

        def ask(*words: str) -> str:
            line.sendall(encoded(*words))
            answer = answers.readline().decode().strip()
            return answers.readline().decode().strip() if answer.startswith("$") else answer

        for first in range(0, KEYS, BATCH):
            line.sendall(b"".join(encoded("SET", f"key{n}", f"value{n}") for n in range(first, first + BATCH)))
            assert all(answers.readline() == b"+OK\r\n" for _ in range(BATCH))
        print("keys", ask("DBSIZE"))
        print("eval", ask("EVAL", "return redis.call('get', KEYS[1]) .. '!'", "1", "key42"))
        print("bgsave", ask("BGSAVE"))
        wait_for(SAVED)
        line.sendall(encoded("SHUTDOWN", "NOSAVE"))
    print("ended with", server.wait())
    server, _ = started()
    with socket.create_connection(("127.0.0.1", PORT)) as line, line.makefile("rb") as answers:
        line.sendall(encoded("DBSIZE") + encoded("GET", "key99999"))
        print("restarted", *(answers.readline().decode().strip() for _ in range(3)))
    server.terminate()
    server.wait()


if __name__ == "__main__":
    main()
