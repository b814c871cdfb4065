# SPDX-License-Identifier: GPL-2.0-only
"""The arithmetic and the tables of bench/ukl.py, bench/placements.py and bench/latency.py.

Their measurements need guests, and are not tested.
"""

import importlib.util
import sys
from types import ModuleType

import pytest
from conftest import REPOSITORY


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """bench/ukl.py as a module."""
    spec = importlib.util.spec_from_file_location("bench_ukl", REPOSITORY / "bench" / "ukl.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ladder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """bench/placements.py as a module."""
    monkeypatch.syspath_prepend(REPOSITORY / "bench")
    return importlib.import_module("placements")


def test_the_ladder_has_a_column_for_each_place(ladder: ModuleType) -> None:
    """The medians. A place that a program was not measured in is empty, and sizes between one byte and 8 KB are left out."""
    measured = {
        "process": {"call-1": [3, 1, 2], "call-1024": [5], "get": [7]},
        "in the server": {"call-1": [1], "call-1024": [4]},
    }
    assert ladder.table(measured, "instructions").splitlines() == [
        "| instructions | process | in the server |",
        "|---|---|---|",
        "| call-1 | 2 | 1 |",
        "| get | 7 |  |",
    ]


@pytest.fixture
def latency(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """bench/latency.py as a module."""
    monkeypatch.syspath_prepend(REPOSITORY / "bench")
    return importlib.import_module("latency")


def rows(latency: ModuleType, factor: float) -> dict[str, list[float]]:
    """Every row of Redis, and those of memcached at the two lowest rates."""
    loads = [f"redis-{kind}-{load}" for kind in latency.KINDS for load in latency.LOADS]
    loads += [f"memcached-{rate}" for rate in latency.RATES[:2]]
    return {f"{load}-{what}": [1000 * (number + 1) * factor] for number, load in enumerate(loads) for what in ("mean", "99th")}


def test_latencies_of_redis_are_beside_those_of_a_native_process(latency: ModuleType) -> None:
    """A line for each place that was measured, with what it saves. What was not served is empty."""
    half = rows(latency, 0.5)
    del half[f"redis-get-at-{latency.REDIS_RATE}-99th"]
    text = latency.redis_table({"native": rows(latency, 1), "place": half, "other": {}})
    head, _, native, place = text.splitlines()
    assert head.startswith("| Redis, µs | SET, 1: mean | SET, 1: 99th | GET, 1: mean | GET, 1: 99th | SET, 300: mean |")
    assert native == "| native | 1.0 | 1.0 | 4.0 | 4.0 | 2.0 | 2.0 | 5.0 | 5.0 | 3.0 | 3.0 | 6.0 | 6.0 |"
    assert place.startswith("| place | 0.5 (+50%) | 0.5 (+50%) | 2.0 (+50%) |") and place.endswith("| 3.0 (+50%) |  |")


def test_rates_that_are_not_served_are_empty(latency: ModuleType) -> None:
    """The rate within the limit is between two that were measured, and is compared with native's."""
    text = latency.memcached_table({"native": rows(latency, 70), "place": rows(latency, 68), "none": {}})
    head, _, native, place = text.splitlines()
    assert head.count("|") == native.count("|") == 3 + len(latency.RATES)
    assert native.startswith("| native | 490 / 490 | 560 / 560 |  |") and native.endswith("| 5,714 |")
    assert place.startswith("| place | 476 / 476 | 544 / 544 |  |") and place.endswith("| 6,765 (+18%) |")


def test_the_rate_within_a_limit(latency: ModuleType) -> None:
    """Between two rates; none where all are within the limit, or none is."""
    tails = {10: 100.0, 20: 200.0, 30: 900.0}
    assert latency.served_within(tails, 150) == 15
    assert latency.served_within(tails, 550) == 25
    assert latency.served_within(tails, 900) is None
    assert latency.served_within(tails, 50) is None


PARTS = "part 1000 500 400\npart 1000 700 700\npart 300 900 900\nblock 0x1000 3 4 5\n"


def test_cycles_are_those_of_each_repetitions_part(bench: ModuleType) -> None:
    """A part's cycles per instruction, times the instructions of one operation. Rows of a server alone have no part."""
    rows = bench.figures("call 10 20\ncall-server 4 8\nfault 30\nno-row\n")
    assert bench.cycles(rows, PARTS) == {"call": [5, 14], "fault": [90]}


def test_parts_that_are_not_the_repetitions_are_refused(bench: ModuleType) -> None:
    with pytest.raises(bench.BenchError, match="3 parts"):
        bench.cycles({"call": [10, 20]}, PARTS)


def test_the_table_has_what_is_saved_beside_the_paper(bench: ModuleType) -> None:
    """The table has the medians."""
    text = bench.table({"ring 3": {"getppid-0": [200, 100, 900]}, "ring 0": {"getppid-0": [50]}}, "cycles")
    assert text.splitlines()[0] == "| operation | ring 3, cycles | ring 0 | saved | the paper |"
    assert text.splitlines()[2] == "| getppid-0 | 200 | 50 | 75% | 83% |"
