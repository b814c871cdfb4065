# SPDX-License-Identifier: GPL-2.0-only
"""The arithmetic and the tables of bench/run.py; what it measures needs guests and is not judged here."""

import importlib.util
import json
import sys
from types import ModuleType

import pytest
from conftest import REPOSITORY


@pytest.fixture(scope="module")
def run() -> ModuleType:
    """bench/run.py as a module."""
    spec = importlib.util.spec_from_file_location("bench_run", REPOSITORY / "bench" / "run.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def line(name: str, iterations: int, tsc: list[int], idle: int = 0) -> str:
    """What the guest program prints for a row."""
    return json.dumps({"name": name, "iterations": iterations, "idle_ticks": idle, "tsc": tsc})


def test_sample_is_for_one_operation(run: ModuleType) -> None:
    """Counts are divided by the iterations; the median is compared."""
    sample = run.parse_sample(line("getpid", 10, [1000, 1200, 5000]))
    assert sample.median == 120
    assert sample.spread == pytest.approx(400 / 120)


def test_table_shows_ratio_and_paper(run: ModuleType) -> None:
    """Both systems, their ratio, and the paper's where there is one."""
    native = run.parse_sample(line("getpid", 1, [200]))
    keel = run.parse_sample(line("getpid", 1, [500]))
    rows = run.table({"native": {"getpid": native}, "keel": {"getpid": keel}})
    assert rows[1] == ["getpid", "200", "500", "2.50", "2.35", ""]


def test_one_system_has_no_ratio(run: ModuleType) -> None:
    """A ratio of one system would mean nothing."""
    native = run.parse_sample(line("write-null", 1, [300]))
    assert run.table({"native": {"write-null": native}})[1] == ["write-null", "300", "", "", ""]


def test_remarks_forbid_what_is_no_measure(run: ModuleType) -> None:
    """A row that idled or that scatters says so."""
    assert "idled" in run.remark([run.parse_sample(line("x", 1, [100], idle=1))])
    assert "spread 50%" in run.remark([run.parse_sample(line("x", 1, [100, 150, 100]))])
    assert run.remark([run.parse_sample(line("x", 1, [1000, 1001]))]) == ""


def test_markdown_has_a_rule_below_the_header(run: ModuleType) -> None:
    """Every line has the same width."""
    lines = run.as_markdown([["a", "bb"], ["ccc", "d"]]).splitlines()
    assert lines[0] == "| a   | bb |"
    assert set(lines[1]) == {"|", "-"}
    assert len({len(text) for text in lines}) == 1


def test_unknown_system_is_refused(run: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names what was asked for."""
    with pytest.raises(SystemExit):
        run.main(["--systems", "vax"])
    assert "vax" in capsys.readouterr().err
