#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Python as programs use it: threads, subprocesses, sockets, signals, mmap, asyncio, multiprocessing."""

import asyncio
import hashlib
import mmap
import multiprocessing
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time


def threads() -> None:
    """A queue that eight workers empty, and a counter under a lock."""
    tasks: queue.Queue[int] = queue.Queue()
    lock, total = threading.Lock(), 0

    def work() -> None:
        nonlocal total
        while (item := tasks.get()) >= 0:
            with lock:
                total += item
            tasks.task_done()

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for item in range(1000):
        tasks.put(item)
    tasks.join()
    for _ in workers:
        tasks.put(-1)
    for worker in workers:
        worker.join()
    print("threads:", total)


def subprocesses() -> None:
    """Output, error output, statuses, signals and time limits of children."""
    done = subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 7"], capture_output=True, text=True)
    print("subprocess:", done.returncode, done.stdout.strip(), done.stderr.strip())
    sorter = subprocess.run(["sort", "-n"], input="3\n1\n2\n", capture_output=True, text=True)
    print("sorted:", sorter.stdout.split())
    sleeper = subprocess.Popen(["sleep", "100"])
    sleeper.terminate()
    print("terminated:", sleeper.wait())
    try:
        subprocess.run(["sleep", "100"], timeout=0.1)
    except subprocess.TimeoutExpired:
        print("timed out")
    try:
        subprocess.run(["/nonexistent"])
    except FileNotFoundError as error:
        print("absent:", error.errno)


def serve_once(server: socket.socket) -> None:
    """Answer one connection with its input in capitals."""
    connection, _ = server.accept()
    with connection:
        while data := connection.recv(4096):
            connection.sendall(data.upper())


def sockets() -> None:
    """TCP over loopback with a thread, and a local pair with select."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve_once, args=(server,))
        thread.start()
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(b"over tcp" * 10000)
            client.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: client.recv(65536), b""))
        thread.join()
    print("tcp:", len(received), received[:8].decode())
    left, right = socket.socketpair()
    print("select:", len(select.select([right], [], [], 0.01)[0]))
    left.send(b"x")
    print("select:", len(select.select([right], [], [], 1)[0]))


def signals() -> None:
    """Handlers, alarms that interrupt, and masks."""
    seen: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while len(seen) < 2:
        time.sleep(1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    os.kill(os.getpid(), signal.SIGUSR2)
    print("signals:", seen, int(signal.sigwait({signal.SIGUSR2})))


def memory() -> None:
    """Shared anonymous memory over fork, and a mapped file."""
    shared = mmap.mmap(-1, 8192)
    pid = os.fork()
    if pid == 0:
        shared[4096:4101] = b"child"
        os._exit(0)
    os.waitpid(pid, 0)
    print("mmap:", shared[4096:4101].decode())
    with tempfile.TemporaryFile() as file:
        file.truncate(100000)
        with mmap.mmap(file.fileno(), 0) as view:
            view[99990:] = b"0123456789"
        file.seek(99995)
        print("file:", file.read().decode())


def square(value: int) -> int:
    """What the worker processes compute."""
    return value * value


async def gather() -> None:
    """A hundred tasks, a subprocess and a server in one loop."""

    async def double(value: int) -> int:
        await asyncio.sleep(0.001 * (value % 7))
        return value * 2

    print("asyncio:", sum(await asyncio.gather(*(double(value) for value in range(100)))))
    child = await asyncio.create_subprocess_exec("echo", "from a child", stdout=subprocess.PIPE)
    output, _ = await child.communicate()
    print("asyncio child:", output.decode().strip())


def main() -> None:
    """All parts in order."""
    threads()
    subprocesses()
    sockets()
    signals()
    memory()
    with multiprocessing.Pool(3) as pool:
        print("pool:", sum(pool.map(square, range(200))))
    asyncio.run(gather())
    print("hash:", hashlib.sha256(b"keel" * 100000).hexdigest()[:16])
    print("big:", len(str(3**9000)), sum(float(i) ** 0.5 for i in range(100000)))
    sys.exit(4)


if __name__ == "__main__":
    main()
