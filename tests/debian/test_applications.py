# SPDX-License-Identifier: GPL-2.0-only
"""Whole applications of Debian's in the task of Linux itself, unmodified (docs/placements.md), on one processor and on two.

They take long; `./keel test linux-applications` runs them. Each says that it is there: the stubs of its calls are mapped in it.
"""

import pytest
from conftest import GUEST_SOURCES, REPOSITORY, SCRIPT, Result, run_guest
from test_suites import outcomes_of

LIMIT_S = 3600
# Redis and sqlite are in the root.
PACKAGES = ["--packages", "libpython3.11-testsuite memcached nginx-light wrk"]
CLIENTS = REPOSITORY / "tests" / "ukl"
# So many tests of each succeed at least.
PYTHON = {"test_threading": 150, "test_signal": 40, "test_subprocess": 200}
PYTHON_PROGRAM = "/usr/bin/python3.11"
# Runs a suite in the interpreter that has said where it is.
RUN_SUITE = """import runpy, sys
print("stubs", open("/proc/self/maps").read().count("[keel]"), flush=True)
sys.argv = ["test", "-v", sys.argv[1]]
runpy.run_module("test", run_name="__main__", alter_sys=True)"""
# An oops of Linux's, and what says that a named program is an ordinary process, except where it is a second one.
LOG = "dmesg | grep -c Oops; dmesg | grep 'an ordinary process' | grep -vc 'another one is in the server'"
CLEAN = ["0", "0"]
STUBS = "grep -cF keel]"

pytestmark = pytest.mark.parametrize("processors", ["1", "2"])


def inside(program: str, processors: str, command: str, stdin: bytes = b"") -> Result:
    """The result of a command on Keel, where a program is in the server."""
    options = ["--smp", processors, "--place", f"{program}=server", *PACKAGES]
    return run_guest("keel", command, stdin=stdin, limit_s=LIMIT_S, options=options)


@pytest.mark.parametrize("suite", PYTHON)
def test_python(suite: str, processors: str) -> None:
    """Each test of the suite has the same result as in a process of native Linux."""
    command = f"cd /tmp && python3 -c '{RUN_SUITE}' {suite} 2>&1"
    native = run_guest("native", command, limit_s=LIMIT_S, options=["--smp", processors, *PACKAGES])
    placed = inside(PYTHON_PROGRAM, processors, command)
    assert [result.output.splitlines()[0] for result in (native, placed)] == ["stubs 0", "stubs 1"]
    before, after = outcomes_of(native), outcomes_of(placed)
    both = before | after
    different = [f"{name}: {before.get(name)}, inside {after.get(name)}" for name in both if before.get(name) != after.get(name)]
    assert not different, "\n".join(different)
    assert list(after.values()).count("ok") >= PYTHON[suite]


REDIS = "/usr/bin/redis-server"
REQUESTS = 20_000
# Each kind of request that redis-benchmark makes, and how many of each have had an effect.
BENCHMARK = f"""
redis-server --save '' > log & server=$!
until [ "$(redis-cli ping 2> /dev/null)" = PONG ]; do sleep 0.1; done
{STUBS} /proc/$server/maps
redis-benchmark -n {REQUESTS} -c 50 -q -t set,get,incr,lpush,mset > benchmark 2>&1; echo $?
tr '\\r' '\\n' < benchmark | grep -o '^[A-Z]*.*: [0-9.]* requests per second' | sed 's/[: ].*//' | sort -u | tr '\\n' ' '; echo
redis-cli get counter:__rand_int__; redis-cli llen mylist; redis-cli dbsize
redis-cli shutdown nosave; wait $server; echo $?; {LOG}
"""


def test_redis(processors: str) -> None:
    """Many keys, Lua, a forked child that saves them, and a second life with what it saved."""
    client = (CLIENTS / "redis_client.py").read_bytes()
    result = inside(REDIS, processors, f"python3 - {REDIS}; echo $?; {LOG}", client)
    lines = [
        "stubs 1",
        "keys :100000",
        "eval value42!",
        "bgsave +Background saving started",
        "ended with 0",
        "restarted :100000 $10 value99999",
    ]
    assert result.output.splitlines() == [*lines, "0", *CLEAN], result.error


def test_redis_benchmark(processors: str) -> None:
    """Fifty clients of redis-benchmark's; each of their requests has had its effect once."""
    result = inside(REDIS, processors, SCRIPT, BENCHMARK.encode())
    effects = [str(REQUESTS), str(REQUESTS)]
    stubs, status, kinds, *rest = result.output.splitlines()
    assert (stubs, status, kinds.split()) == ("1", "0", ["GET", "INCR", "LPUSH", "MSET", "SET"]), result
    assert rest[:2] == effects and rest[3:] == ["0", *CLEAN], result


def test_memcached(processors: str) -> None:
    """Four threads serve a thousand connections at once."""
    client = (CLIENTS / "memcached_client.py").read_bytes()
    program = "/usr/bin/memcached"
    result = inside(program, processors, f"python3 - {program} 1000; echo $?; {LOG}", client)
    lines = ["stubs 1", "stored 1000", "right 10000", "counted 1000", "left value999", "ended with 0"]
    assert result.output.splitlines() == [*lines, "0", *CLEAN], result.error


def test_sqlite(processors: str) -> None:
    """Tables, transactions, a write-ahead log, and writers that lock each other out: as on native Linux."""
    script = (GUEST_SOURCES / "packages" / "sqlite.sh").read_text()
    place = f"cd /tmp; sqlite3 :memory: '.shell {STUBS} /proc/$PPID/maps'"
    options = ["--smp", processors, *PACKAGES]
    native = run_guest("native", SCRIPT, stdin=f"{place}\n{script}".encode(), limit_s=LIMIT_S, options=options)
    placed = inside("/usr/bin/sqlite3", processors, SCRIPT, f"{place}\n{script}\n{LOG}".encode())
    assert native.output.splitlines()[0] == "0" and "integrity_check" not in native.output, native
    assert placed.output.splitlines() == ["1", *native.output.splitlines()[1:], *CLEAN], placed.error


# One process: the workers of a master are its children, which are ordinary processes.
NGINX = f"""
head -c 100000 /dev/urandom > /var/www/html/file
nginx -g 'daemon off; master_process off;' & server=$!
until curl -s -o /dev/null http://127.0.0.1/; do sleep 0.1; done
{STUBS} /proc/$server/maps
wrk -t 1 -c 100 -d 5s http://127.0.0.1:80/file > answers; echo $?
grep -c 'Socket errors\\|Non-2xx' answers
awk '/requests in/ {{ print ($1 > 100) }}' answers
curl -s http://127.0.0.1/file | cmp - /var/www/html/file && echo same
grep -c '"GET /file HTTP/1.1" 200 100000' /var/log/nginx/access.log | awk '{{ print ($1 > 100) }}'
nginx -s quit; wait $server; echo $?; {LOG}
"""


def test_nginx(processors: str) -> None:
    """wrk gets a file over a hundred connections without an error, and it is the file."""
    result = inside("/usr/sbin/nginx", processors, SCRIPT, NGINX.encode())
    assert result.output.splitlines() == ["1", "0", "0", "1", "same", "1", "0", *CLEAN], result
