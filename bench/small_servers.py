# SPDX-License-Identifier: GPL-2.0-only
"""Servers of Linux in small address spaces: sections 4.6 and 4.7 of the paper about these. bench/small.py runs the experiments.

A web server with FastCGI is lighttpd, because Debian has no thttpd, with a FastCGI server of ours, as the paper's is theirs. The
database is SQLite's shell, for MySQL. Their clients are 32-bit programs in the same guest (bench/guest/servers.c).
"""

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import run
from small_pingpong import CODE, DATA, LARGE, SMALL
from small_programs import (
    APART,
    MOUNTS,
    PAPER_MACHINE,
    RESIDENT,
    SYSTEMS,
    TOOLS,
    Found,
    Workload,
    archive,
    found,
    in_guest,
    in_limits,
    kind_of,
    modelled,
    window_steps,
)

FASTCGI, DATABASE = "fastcgi", "database"
# The program that measures, and the web server's configuration (bench/guest).
PROGRAM, CONFIGURATION = "servers", "lighttpd.conf"
WEB_SERVER, DATABASE_SERVER = "lighttpd", "sqlite3"
# The rows: a server that replies at once, those with FastCGI by the pages of its working set, and those of the database.
REPLY, REQUEST, QUERY = "reply", "fastcgi-", "select-"
# Of all sizes together: figure 7 has curves without numbers. Of very simple queries, in section 4.7.
PAPER_REQUEST, PAPER_QUERY = "1.05 to 1.06", "1.03 at most"
TITLE = ["paper, large / small"]


def files_of(output: Path) -> dict[str, Path]:
    """What the servers' guest has in /tmp, when the program has been built."""
    return {PROGRAM: output / PROGRAM, CONFIGURATION: run.SOURCES / CONFIGURATION}


def measure_rows(output: Path, is_wanted: Callable[[str], bool], server: str) -> run.Results:
    """The wanted rows of the program that measures, on each system, with a server of Debian's for i386."""
    run.build_programs(output, PROGRAM)
    rows = [row for row in run.listed(output / PROGRAM) if is_wanted(row)]
    work = Workload(f"./{PROGRAM} {' '.join(rows)}")
    files = archive(files_of(output))
    results: run.Results = {}
    for system in SYSTEMS:
        steps = [*MOUNTS, f"tar -x -C {APART}/tmp", *window_steps(system, work), f"chroot {APART} {in_limits(work)}"]
        results[system] = in_guest(system, output, steps, files, (*TOOLS, server), [PAPER_MACHINE])
    return results


def measure_web(output: Path) -> Found:
    """Figure 7."""
    results = measure_rows(output, lambda row: not row.startswith(QUERY), WEB_SERVER)
    papers = {name: [PAPER_REQUEST if name.startswith(REQUEST) else ""] for name in results[SMALL]}
    tables, kept = found(results, "request", papers, TITLE)
    return [*tables, (f"The same without what a {REPLY} takes", table_of_rest(results))], kept


def measure_database(output: Path) -> Found:
    """Section 4.7."""
    results = measure_rows(output, lambda row: row.startswith(QUERY), DATABASE_SERVER)
    return found(results, "query", {name: [PAPER_QUERY] for name in results[SMALL]}, TITLE)


def table_of_rest(results: run.Results) -> list[list[str]]:
    """Header and rows: what a request takes more than one that is replied to at once, by the pages of the FastCGI server."""
    compared, whats = (LARGE, RESIDENT), [PAPER_MACHINE, *(kind_of(PAPER_MACHINE, kind) for kind in (CODE, DATA))]
    rows = [["pages", *SYSTEMS, *(f"{system} / {SMALL}" for system in compared), "paper"]]
    rows[0] += [f"{kind} misses, {system}" for kind in (CODE, DATA) for system in SYSTEMS]
    for name in (name for name in results[SMALL] if name.startswith(REQUEST)):
        cycles, *misses = (rest(results, name, what) for what in whats)
        ratios = [f"{cycles[system] / cycles[SMALL]:.2f}" for system in compared]
        shown, *others = ([f"{count:,.0f}" for count in counts.values()] for counts in (cycles, *misses))
        rows.append([name.removeprefix(REQUEST), *shown, *ratios, PAPER_REQUEST, *chain.from_iterable(others)])
    return rows


def rest(results: run.Results, name: str, what: str) -> dict[str, float]:
    """By system: how many cycles or misses a row has more than that of a server that replies at once."""
    return {system: modelled(samples[name], what) - modelled(samples[REPLY], what) for system, samples in results.items()}
