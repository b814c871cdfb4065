#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures how long Redis and memcached take to answer in each place that they can have, on the emulator's instruction clock.

Redis has connections that wait for an answer before they send again, and requests at fixed times. memcached has those at several
rates.
`./keel bench latency` calls `main()`.
"""

import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import placements
import run
from placements import RUNGS, Rung

import ukl
from ukl import SOURCES, Clock, Figures, Program, Ways

PLOTTER = Path(__file__).with_name("plot_latency.py")
CLIENT = "/run/latency"
REDIS, MEMCACHED = "redis", "memcached"
# Requests a second of the clock.
RATES = (5000, 10000, 15000, 20000, 24000, 26000, 28000, 30000, 32000, 34000)
REDIS_RATE = 20000
SERVERS = (
    Program(REDIS, ("--app", REDIS), f"PROGRAM --bind 127.0.0.1 --save '' > /run/log & {CLIENT} {REDIS} {REDIS_RATE}"),
    Program(
        MEMCACHED,
        ("--app", MEMCACHED),
        f"PROGRAM -u root -l 127.0.0.1 -U 0 -t 1 & {CLIENT} {MEMCACHED} {' '.join(map(str, RATES))}",
    ),
)
# The ladder of bench/placements.py, and a kernel with the bypass alone. Servers ask for the bypass wherever they have a gate.
BYPASS = Rung("Unikernel Linux, bypass", unikernel="bypass", native=True)
PLACES = (*RUNGS[:-1], BYPASS, RUNGS[-1])
MEAN, TAIL = "mean", "99th"
KINDS = ("set", "get")
# Redis' loads, as rows and as the table names them: by the number of connections, or at times of the client's own.
LOADS = {"1": "1", "300": "300", f"at-{REDIS_RATE}": f"{REDIS_RATE:,} a second"}
TICKS_A_MICROSECOND = 1000
# Within this time the paper's server answers 99 of 100 requests at the rates that it can serve.
WITHIN_MICROSECONDS = 500


def client() -> dict[str, bytes]:
    """The ordinary program that measures, by its place in the guest."""
    ukl.keel("ukl", "build", "--ordinary", str(SOURCES / "latency.c"))
    return {CLIENT: (ukl.ORDINARY / "latency").read_bytes()}


def measure(clock: Clock, wanted: Collection[str]) -> Ways:
    """The rows of the chosen servers in every place."""
    found: Ways = {}
    more = client()
    for program in SERVERS:
        if program.name not in wanted:
            continue
        built = placements.build(program)
        for place in PLACES:
            if place.only_asked(program):
                continue
            print(f"bench: latency of {program.name}: {place.name} ...", file=sys.stderr, flush=True)
            rows, _ = placements.measure_rung(place, program, clock, built, more)
            if not rows:
                raise ukl.BenchError(f"{program.name} was not measured: {place.name}")
            found.setdefault(place.name, {}).update(rows)
    return found


def microseconds(rows: Figures, row: str) -> float:
    """The median of a row's repetitions."""
    return statistics.median(rows[row]) / TICKS_A_MICROSECOND


def redis_table(found: Ways) -> str:
    """A line for each place: mean and 99th percentile of each load, and what of them the place saves of a native process."""
    loads = [f"{REDIS}-{kind}-{load}" for load in LOADS for kind in KINDS]
    heads = [f"{kind.upper()}, {name}: {what}" for name in LOADS.values() for kind in KINDS for what in (MEAN, TAIL)]
    lines = [f"| Redis, µs | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    rows = [f"{load}-{what}" for load in loads for what in (MEAN, TAIL)]
    native = next(iter(found.values()))
    for place, figures in found.items():
        if rows[0] in figures:
            cells = [_beside(figures, native, row) for row in rows]
            lines.append(f"| {place} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _beside(figures: Figures, native: Figures, row: str) -> str:
    """A time, and how much less it is than native's. Empty where too many requests waited."""
    if row not in figures or row not in native:
        return ""
    time, before = microseconds(figures, row), microseconds(native, row)
    return f"{time:,.1f}" + (f" ({round(100 * (1 - time / before)):+}%)" if figures is not native else "")


def curve(rows: Figures, what: str) -> dict[int, float]:
    """Rate to the time in microseconds, for the rates that were served."""
    return {rate: microseconds(rows, name) for rate in RATES if (name := f"{MEMCACHED}-{rate}-{what}") in rows}


def served_within(tails: Mapping[int, float], limit: float) -> float | None:
    """The rate at which the 99th percentile reaches a limit, between two measured ones; None: at none of them."""
    points = list(tails.items())
    for (rate, time), (next_rate, next_time) in itertools.pairwise(points):
        if time <= limit < next_time:
            return rate + (next_rate - rate) * (limit - time) / (next_time - time)
    return None


def memcached_table(found: Ways) -> str:
    """A line for each place: mean and 99th percentile at each rate, and the rate that is served within the limit."""
    heads = [f"{rate // 1000}" for rate in RATES]
    lines = [
        f"| memcached, µs at so many thousand a second | {' | '.join(heads)} | 99th within {WITHIN_MICROSECONDS} µs |",
        "|---" * (2 + len(heads)) + "|",
    ]
    measured = {place: rows for place, rows in found.items() if curve(rows, TAIL)}
    limits = {place: served_within(curve(rows, TAIL), WITHIN_MICROSECONDS) for place, rows in measured.items()}
    native = next(iter(limits.values()), None)
    for place, rows in measured.items():
        means, tails = curve(rows, MEAN), curve(rows, TAIL)
        cells = [f"{means[rate]:,.0f} / {tails[rate]:,.0f}" if rate in tails else "" for rate in RATES]
        limit = limits[place]
        more = f" ({round(100 * (limit / native - 1)):+}%)" if limit and native and limit != native else ""
        lines.append(f"| {place} | {' | '.join(cells)} | {f'{limit:,.0f}{more}' if limit else ''} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Measure, write and print."""
    options = ukl.options_of("latency", __doc__, arguments, {}, programs=SERVERS, plots=True)
    if options.plot:
        return subprocess.run([run.DEBIAN_PYTHON, str(PLOTTER), str(options.plot)], check=False).returncode
    try:
        found = measure(Clock(options.line, options.output, None), options.programs)
    except ukl.BenchError as error:
        print(f"keel: error: {error}", file=sys.stderr)
        return 1
    (options.output / "latency.json").write_text(json.dumps(found, indent=1))
    tables = {REDIS: redis_table, MEMCACHED: memcached_table}
    text = "\n".join(table(found) for name, table in tables.items() if name in options.programs)
    (options.output / "latency.md").write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
