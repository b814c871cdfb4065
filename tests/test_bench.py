# SPDX-License-Identifier: GPL-2.0-only
"""The arithmetic and the tables of the programs in bench/. Their measurements need guests and are not tested here."""

import contextlib
import importlib
import importlib.util
import io
import itertools
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import REPOSITORY


def load(name: str) -> ModuleType:
    """A file of bench/ as a module."""
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "bench" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run() -> ModuleType:
    """bench/run.py."""
    return load("run")


@pytest.fixture(scope="module")
def cputime() -> ModuleType:
    """bench/cputime.py."""
    return load("cputime")


@pytest.fixture(scope="module")
def overlay() -> ModuleType:
    """bench/overlay.py."""
    return load("overlay")


@pytest.fixture(scope="module")
def lines(run: ModuleType, overlay: ModuleType) -> ModuleType:
    """bench/lines.py, which uses the others."""
    assert (run.__name__, overlay.__name__) == ("run", "overlay")
    return load("lines")


@pytest.fixture(scope="module")
def packaged(run: ModuleType, cputime: ModuleType, overlay: ModuleType) -> ModuleType:
    """bench/packaged.py, which uses the others."""
    assert (run.__name__, cputime.__name__, overlay.__name__) == ("run", "cputime", "overlay")
    return load("packaged")


@pytest.fixture(scope="module")
def growth(packaged: ModuleType) -> ModuleType:
    """bench/growth.py, which uses the others."""
    assert packaged.__name__ == "packaged"
    return load("growth")


@pytest.fixture(scope="module")
def pingpong(run: ModuleType) -> ModuleType:
    """bench/small_pingpong.py, which uses the other."""
    assert run.__name__ == "run"
    return load("small_pingpong")


@pytest.fixture(scope="module")
def small_programs(pingpong: ModuleType) -> ModuleType:
    """bench/small_programs.py, which uses the others."""
    assert pingpong.__name__ == "small_pingpong"
    return load("small_programs")


@pytest.fixture(scope="module")
def small_groups(pingpong: ModuleType) -> ModuleType:
    """bench/small_groups.py, which uses the others."""
    assert pingpong.__name__ == "small_pingpong"
    return load("small_groups")


@pytest.fixture(scope="module")
def small_switches(run: ModuleType) -> ModuleType:
    """bench/small_switches.py, which uses the other."""
    assert run.__name__ == "run"
    return load("small_switches")


@pytest.fixture(scope="module")
def small_servers(small_programs: ModuleType) -> ModuleType:
    """bench/small_servers.py, which uses the others."""
    assert small_programs.__name__ == "small_programs"
    return load("small_servers")


@pytest.fixture(scope="module")
def small_applications(small_programs: ModuleType) -> ModuleType:
    """bench/small_applications.py, which uses the others."""
    assert small_programs.__name__ == "small_programs"
    return load("small_applications")


@pytest.fixture(scope="module")
def small_turns(small_applications: ModuleType, small_servers: ModuleType) -> ModuleType:
    """bench/small_turns.py, which uses the others."""
    assert {small_applications.__name__, small_servers.__name__} == {"small_applications", "small_servers"}
    return load("small_turns")


@pytest.fixture(scope="module")
def small(
    small_applications: ModuleType,
    small_groups: ModuleType,
    small_servers: ModuleType,
    small_switches: ModuleType,
    small_turns: ModuleType,
) -> ModuleType:
    """bench/small.py, which uses the others."""
    modules = (small_applications, small_groups, small_servers, small_switches, small_turns)
    names = [module.__name__.removeprefix("small_") for module in modules]
    assert names == ["applications", "groups", "servers", "switches", "turns"]
    return load("small")


def line(name: str, iterations: int, tsc: list[int], idle: int = 0, parts: int = 1, warm_ups: int = 1) -> str:
    """The line of the guest program for a row."""
    counts = {"iterations": iterations, "warm_ups": warm_ups, "parts": parts, "idle_ticks": idle}
    return json.dumps({"name": name, **counts, "tsc": tsc})


def test_the_row_of_gcc_has_all_that_its_file_includes(run: ModuleType, tmp_path: Path) -> None:
    """The guest has these files and nothing else of the project."""
    for source in run.GCC_SOURCES:
        shutil.copy(run.SOURCES / source, tmp_path)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-fsyntax-only", run.GCC_SOURCES[0]], cwd=tmp_path, check=True)


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


def test_debians_own_kernel_stands_beside_them(run: ModuleType) -> None:
    """Its instructions, and Keel's ratio to them; the ratio to native Linux does not change."""
    rows = run.table(results(run, native=200, keel=500, debian=400))
    assert rows[0][-3:] == ["debian, instructions", "keel to that", "remark"]
    assert rows[1] == ["getpid", "200", "500", "2.50", "2.35", "400", "1.25", ""]
    assert run.table(results(run, native=200, debian=400))[1] == ["getpid", "200", "", "2.35", "400", "", ""]


def test_one_system_has_no_ratio(run: ModuleType) -> None:
    """A ratio of one system would mean nothing."""
    native = run.parse_sample(line("write-null", 1, [300]))
    assert run.table({"native": {"write-null": native}})[1] == ["write-null", "300", "", "2.63", ""]


def test_remarks_forbid_what_is_no_measure(run: ModuleType) -> None:
    """A row that idled or scatters has a remark."""
    assert "idled" in run.remark([run.parse_sample(line("x", 1, [100], idle=1))])
    assert "spread 50%" in run.remark([run.parse_sample(line("x", 1, [100, 150, 100]))])
    assert run.remark([run.parse_sample(line("x", 1, [1000, 1001]))]) == ""


def test_markdown_has_a_rule_below_the_header(run: ModuleType) -> None:
    """Every line has the same width."""
    lines = run.as_markdown([["a", "bb"], ["ccc", "d"]]).splitlines()
    assert lines[0] == "| a   | bb |"
    assert set(lines[1]) == {"|", "-"}
    assert len({len(text) for text in lines}) == 1


def results(run: ModuleType, **medians: float) -> dict[str, Any]:
    """Results of both systems with a row `getpid` each."""
    return {system: {"getpid": run.Sample("getpid", [median] * 3, 0)} for system, median in medians.items()}


def test_a_marked_ratio_has_a_remark(run: ModuleType) -> None:
    """Values that scatter are marked."""
    native, keel = run.parse_sample(line("x", 1, [100, 150, 100])), run.parse_sample(line("x", 1, [200]))
    assert run.table({"native": {"x": native}, "keel": {"x": keel}})[1][3:] == ["~2.00", "", "spread 50%"]


def test_the_mean_is_of_the_papers_latencies(run: ModuleType) -> None:
    """The mean exists if all its rows do. The paper's is 1.76."""
    samples = {
        system: {name: run.Sample(name, [value], 0) for name in run.PAPER_LATENCIES}
        for system, value in [("native", 10.0), ("keel", 15.0)]
    }
    assert run.table(samples)[-1] == [run.MEAN_ROW, "", "", "1.50", "1.76", ""]
    del samples["keel"]["shell"]
    assert run.table(samples)[-1][0] != run.MEAN_ROW


def part(untagged: int, tagged: int) -> dict[str, Any]:
    """The line of `./keel profile --parts` for a part."""
    return {"instructions": 1, "cycles": {"skylake": {"untagged": untagged, "tagged": tagged}}}


def test_cycles_are_those_of_a_row_s_parts(run: ModuleType) -> None:
    """The first part of a row warms up; gcc has no such part."""
    lines = [line("x", 10, [100, 100]), line(run.GCC_ROW, 1, [7], warm_ups=0)]
    x, gcc = run.with_cycles(lines, [part(999, 999), part(50, 40), part(60, 30), part(9, 8)])
    assert (x.name, x.cycles) == ("x", {"skylake": {"untagged": [5, 6], "tagged": [4, 3]}})
    assert (gcc.name, gcc.cycles) == (run.GCC_ROW, {"skylake": {"untagged": [9], "tagged": [8]}})
    with pytest.raises(run.BenchError, match="x: the model saw 2 parts of 3"):
        run.with_cycles(lines[:1], [part(1, 1)] * 2)


def test_cycles_of_a_repetition_are_those_of_all_its_parts(run: ModuleType) -> None:
    """A row may mark each of its operations."""
    [trap] = run.with_cycles([line("trap", 2, [9, 9], parts=2)], [part(n, 2 * n) for n in (1, 1, 10, 20, 30, 40)])
    assert trap.cycles == {"skylake": {"untagged": [15, 35], "tagged": [30, 70]}}
    with pytest.raises(run.BenchError, match="trap: the model saw 5 parts of 6"):
        run.with_cycles([line("trap", 2, [9, 9], parts=2)], [part(1, 1)] * 5)


def tasks_results(run: ModuleType) -> dict[str, Any]:
    """A row of native tasks and the row that it is compared with."""

    def sample(name: str, instructions: float, cycles: float) -> Any:
        return run.Sample(name, [instructions] * 3, 0, {"skylake": {"untagged": [cycles], "tagged": [cycles / 2]}})

    return {
        "native": {"pipe-64k": sample("pipe-64k", 3000, 8000)},
        "keel": {"pipe-64k": sample("pipe-64k", 4000, 9000)},
        "tasks": {name: sample(name, 1500, 1000) for name in ("l4-pipe-64k", "l4-fault", "mapping-rpc-2m")},
    }


def test_native_tasks_stand_beside_linux_and_the_paper(run: ModuleType) -> None:
    """How many times faster; a bandwidth is inverted, and unknown values are left out."""
    rows = run.task_table(tasks_results(run), "tasks", run.TASK_ROWS)
    assert rows[1:] == [
        ["l4-pipe-64k", "pipe-64k", "41 MB/s", "48-70 MB/s", "1.2-1.7", "3,000", "4,000", "1,500", "2.0", ""],
        ["l4-fault", "protection-fault-handled", "", "6.2 µs", "", "", "", "1,500", "", ""],
        ["mapping-rpc-2m", "pipe-64k", "", "", "", "3,000", "4,000", "1,500", "2.0", ""],
    ]
    assert run.TASK_ROWS["rpc-round-trip"].paper() == ["29 µs", "5 µs", "5.8"]
    assert not run.task_table(results(run, native=1, keel=2), "tasks", run.TASK_ROWS)
    assert not run.task_cycle_table(results(run, native=1, keel=2), "tasks", run.TASK_ROWS)


def test_native_tasks_have_cycles_too(run: ModuleType) -> None:
    """Only with rows to compare them with. They do not change the table of the two Linux."""
    measured = tasks_results(run)
    rows = run.task_cycle_table(measured, "tasks", run.TASK_ROWS)
    assert rows[1:] == [["l4-pipe-64k", "8.0", "8.0", "1.2-1.7"], ["mapping-rpc-2m", "8.0", "8.0", ""]]
    assert [row[0] for row in run.table(measured)[1:]] == [row[0] for row in run.cycle_table(measured)[1:]] == ["pipe-64k"]
    assert run.table({"tasks": measured["tasks"]}) == []


def test_rows_of_native_tasks_bring_what_they_are_held_against(run: ModuleType) -> None:
    """Each system has its own rows."""
    asked = ["getpid", "l4-trap", "rpc-64k", "mapping-rpc-64k"]
    assert run.rows_of("native", asked) == run.rows_of("keel", asked) == ["getpid", "trap", "pipe-64k"]
    assert run.rows_of("tasks", asked) == asked[1:]
    assert run.rows_of("tasks", ["getpid"]) == []
    assert run.rows_of("keel", ["getpid-library"]) == ["getpid", "getpid-library"]
    assert run.rows_of("native", ["getpid-entry", "write-null"]) == ["getpid", "write-null"]
    assert run.rows_of("keel", ["hybrid-fault"]) == ["protection-fault-handled", "hybrid-fault"]
    assert run.rows_of("native", ["hybrid-fault"]) == ["protection-fault-handled"]


def test_hybrid_rows_stand_beside_linux_too(run: ModuleType) -> None:
    """They have their own table, and are not in the one of both Linux."""
    sample = {"hybrid-trap": run.parse_sample(line("hybrid-trap", 1, [200])), "trap": run.parse_sample(line("trap", 1, [9000]))}
    measured = {"native": {"trap": run.parse_sample(line("trap", 1, [2000]))}, "keel": sample}
    rows = run.task_table(measured, "keel", run.HYBRID_ROWS)
    assert rows[1:] == [["hybrid-trap", "trap", "12 µs", "3.4 µs", "3.5", "2,000", "9,000", "200", "10.0", ""]]
    assert [row[0] for row in run.table(measured)[1:]] == ["trap"]


def test_interfaces_stand_beside_each_other(run: ModuleType) -> None:
    """Each interface is compared with the native call. The table of both Linux has only the instruction's."""
    calls = {"getpid": 400, "getpid-library": 300, "getpid-entry": 600}
    keel = {name: run.parse_sample(line(name, 1, [tsc])) for name, tsc in calls.items()}
    results = {"native": {"getpid": run.parse_sample(line("getpid", 1, [200]))}, "keel": keel}
    assert run.interface_table(results)[1:] == [
        ["getpid, native", "200", "1.00", "223", "1.00"],
        ["getpid", "400", "2.00", "", ""],
        ["getpid-library", "300", "1.50", "526", "2.36"],
        ["getpid-entry", "600", "3.00", "753", "3.38"],
    ]
    assert [row[0] for row in run.table(results)[1:]] == ["getpid"]
    assert run.interface_table({"keel": keel}) == []


def test_a_row_in_supervisor_mode_is_the_colocated_linux_s_alone(run: ModuleType) -> None:
    """It brings the process's row on all systems, and stands below that, beside the processes of the two others."""
    [row] = run.RING_0_ROWS
    assert run.is_named(row)
    assert run.rows_of("colocated", [row]) == ["getpid", row]
    for system in ("native", "keel", "debian"):
        assert run.rows_of(system, [row]) == ["getpid"]
    measured = results(run, native=200, keel=320, colocated=267)
    measured["colocated"][row] = run.Sample(row, [250.0] * 3, 0)
    assert [line[:6] for line in run.placed_table(measured, run.COLOCATED)[1:]] == [
        ["getpid", "200", "320", "267", "1.33", "0.83"],
        [row, "200", "320", "250", "1.25", "0.78"],
    ]
    assert [line[0] for line in run.table(measured)[1:]] == ["getpid"]
    del measured["colocated"]["getpid"]
    assert [line[0] for line in run.placed_table(measured, run.COLOCATED)[1:]] == [row]


def test_a_row_in_supervisor_mode_has_a_boot_of_its_own(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program is placed under another name; where the other rows run, no program is placed."""
    booted: list[tuple[str, list[str]]] = []

    def guest(system: str, command: str, stdin: bytes, placed: list[str]) -> str:
        assert system == "colocated"
        name = command.split()[-1]
        with tarfile.open(fileobj=io.BytesIO(stdin)) as archive:
            assert command.split()[-2].removeprefix("./") in archive.getnames()
        booted.append((command.rpartition("&& ")[2], placed))
        return line(name, 1, [300])

    (tmp_path / "bench").write_bytes(b"")
    monkeypatch.setattr(run, "run_guest", guest)
    [row] = run.RING_0_ROWS
    assert list(run.measure("colocated", tmp_path, ["getpid", row], "")) == ["getpid", row]
    placed = ["--place", "/tmp/bench/bench-ring-0=kernel"]
    assert booted == [("./bench getpid", []), (f"./bench-ring-0 {row}", placed)]


def test_with_two_processors_the_program_stays_on_the_first(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs and gcc run there, and that the second processor idles is no fault."""
    commands: list[list[str]] = []

    def guest(system: str, command: str, stdin: bytes, placed: list[str]) -> str:
        assert run.BOOTED[system] == ["--smp", "2"]
        commands.append(command.split(" && "))
        return line("getpid", 1, [300], idle=7)

    (tmp_path / "bench").write_bytes(b"")
    monkeypatch.setattr(run, "run_guest", guest)
    samples = run.measure(run.TWO_PROCESSORS, tmp_path, ["getpid", run.GCC_ROW], "")
    assert samples["getpid"].idle_ticks == 0
    assert [[step.split()[:2] for step in steps if "./bench" in step] for steps in commands] == [[["taskset", "1"]] * 2]
    assert run.TWO_PROCESSORS not in run.options_of(["getpid"]).systems


def test_the_marks_of_native_tasks_are_the_profiler_s() -> None:
    """One is C and the other Rust."""
    header = (REPOSITORY / "guest" / "mark.h").read_text()
    rust = (REPOSITORY / "user" / "bench" / "src" / "paper" / "part.rs").read_text().replace("_", "")
    first = int(re.findall(r"MARK_FIRST (0x\w+)", header)[0], 16)
    for name in ("MARK_PART_BEGINS", "MARK_PART_ENDS"):
        offset = int(re.findall(rf"{name} \(MARK_FIRST \+ (\d+)\)", header)[0])
        assert f"{name.replace('_', '')}: u32 = {first + offset:#x}" in rust
    opcode = re.findall(r"MARK_OPCODE (.*)", header)[0]
    assert f".byte {opcode}" in rust


def test_native_tasks_measure_every_row_the_same_each_time(run: ModuleType) -> None:
    """Each of them reports its work to the checker, and none idles."""
    first, second = (run.measure_tasks(Path(), [*run.TASK_ROWS], "") for _ in range(2))
    assert {sample.name for sample in first} == set(run.TASK_ROWS)
    assert first == second and not any(sample.idle_ticks for sample in first)
    assert max(sample.spread for sample in first) < run.SPREAD_LIMIT


def test_the_profiler_counts_what_the_clock_counts(tmp_path: Path, run: ModuleType) -> None:
    """The plugin and the guest count the same instructions for each part, except for blocks that are left in their middle."""
    report = tmp_path / "parts.json"
    lines = run.run_keel(["bench", "tasks", "--parts", str(report), "rpc-64k"], "tasks", b"").splitlines()
    counts = [part["instructions"] for part in json.loads(report.read_text())][1:]
    assert counts == pytest.approx(json.loads(lines[0])["tsc"], rel=0.005)


def test_whole_programs_are_counted_in_their_order(packaged: ModuleType, run: ModuleType) -> None:
    """A failed workload has parts but no result. A missing part is an error."""
    told = [json.loads(line(name, works, [1] * count)) for name, works, count in (("fio", 1, 2), ("bad", 0, 1), ("iperf3", 1, 2))]
    parts = [{"instructions": n} for n in (10, 12, 7, 20, 20, 99)]
    found = packaged.samples(told, parts)
    assert [(name, one.per_operation) for name, one in found.items()] == [("fio", [10, 12]), ("iperf3", [20, 20])]
    with pytest.raises(run.BenchError, match="iperf3: the plugin saw 1 parts of 2"):
        packaged.samples(told, parts[:4])


def test_whole_programs_come_with_what_they_need(packaged: ModuleType, tmp_path: Path) -> None:
    """A server starts before its client, long workloads run less often, and a failed one does not end the others."""
    script = packaged.script(["iperf3", "hackbench", "compile-kconfig"], 3)
    assert "iperf3 -s -D && ./bench command iperf3 3 sh -c" in script
    assert './bench command hackbench 3 sh -c "(hackbench -g 1 -l 20) > /dev/null"' in script
    assert "./bench command compile-kconfig 1 " in script
    (tmp_path / "program").write_text("#!/bin/sh\necho $2 >> told; test $2 != hackbench\n")
    (tmp_path / "program").chmod(0o755)
    script = packaged.script(["hackbench", "fio"], 1).replace("/tmp/bench", str(tmp_path)).replace("./bench", "./program")
    assert subprocess.run(["sh", "-c", script.replace("tar -x", "true")], check=False).returncode == 1
    assert (tmp_path / "told").read_text().split() == ["hackbench", "fio"]


def test_the_port_comes_with_what_its_compilation_reads(tmp_path: Path, overlay: ModuleType) -> None:
    """Commands and files are those that Linux's build recorded, in one folder."""
    kept = tmp_path / ".a.o.cmd"
    source, header = f"{tmp_path}/l4-src/a.c", f"{tmp_path}/l4-src/arch/asm/../a.h"
    kept.write_text(
        f"cmd_arch/a.o := ccache gcc -I{tmp_path}/l4-src -c -o arch/a.o {source} ; ./tools/objtool arch/a.o\n\n"
        f"source_arch/a.o := {source}\n\n"
        f"deps_arch/a.o := \\\n  {header} \\\n    $(wildcard include/config/SMP) \\\n  include/b.h \\\n\n"
        "arch/a.o: $(deps_arch/a.o)\n"
    )
    commands, files = overlay.commands_and_files([kept], tmp_path)
    assert commands == "set -e\nmkdir -p arch\ngcc -I../l4-src -c -o arch/a.o ../l4-src/a.c\n"
    assert sorted(files) == ["l4-src/a.c", "l4-src/arch/a.h", "l4/include/b.h", "l4/include/generated/autoconf.h"]
    kept.write_text("cmd_built-in.a := ar\n")
    with pytest.raises(ValueError, match="no command that compiles"):
        overlay.commands_and_files([kept], tmp_path)


def boots(packaged: ModuleType, monkeypatch: pytest.MonkeyPatch, *, failing: str = "") -> list[list[str]]:
    """Fake guests: each reports the workloads in its script, 100 instructions for each."""
    started: list[list[str]] = []

    def boot(argv: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        names = [name for name in packaged.WORKLOADS if f"./bench command {name} " in argv[-1]]
        started.append(names)
        Path(argv[argv.index("--parts") + 1]).write_text(json.dumps([{"instructions": 100}] * len(names)))
        lines = [line(name, int(name != failing), [1]) for name in names]
        return subprocess.CompletedProcess(argv, int(failing in names), "\n".join(lines).encode())

    monkeypatch.setattr(packaged.subprocess, "run", boot)
    monkeypatch.setattr(packaged, "archive", lambda _: b"")
    return started


def test_what_was_counted_stays(packaged: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed workload is reported. --resume runs only it again, or everything if the tree has changed."""
    file = tmp_path / "kept.json"
    about = {"version": packaged.run.VERSION, "commit": "a"}
    kept = packaged.Kept(file, about, resume=True)
    boots(packaged, monkeypatch, failing="fio")
    packaged.count_all(["native"], tmp_path, ["fio", "iperf3"], 1, kept)
    assert (list(kept.results["native"]), kept.failures) == (["iperf3"], ["fio failed on native"])
    started = boots(packaged, monkeypatch)
    again = packaged.Kept(file, about, resume=True)
    packaged.count_all(["native"], tmp_path, ["fio", "iperf3"], 1, again)
    assert (started, again.failures) == ([["fio"]], [])
    packaged.count_all(["native"], tmp_path, ["fio", "iperf3"], 1, packaged.Kept(file, about, resume=True))
    assert len(started) == 1
    assert not packaged.Kept(file, {**about, "commit": "b"}, resume=True).results
    assert not packaged.Kept(file, about, resume=False).results


def round_trips(pingpong: ModuleType) -> tuple[list[str], list[dict[str, Any]]]:
    """The lines of one size of each of the client's rows, in both places, and their parts."""
    lines: list[str] = []
    parts: list[dict[str, Any]] = []
    for row in pingpong.ABOUT:
        for place, untagged in ((pingpong.LARGE, 500), (pingpong.SMALL, 200)):
            lines.append(line(f"{place}-{row}/16", 10, [1000]))
            cycles = {"untagged": untagged, "tagged": 150}
            misses = {"untagged": {"code": untagged, "data": 0}, "tagged": {"code": 0, "data": 0}}
            by_machine = {"cycles": cycles, "misses": misses}
            parts += [{}, {what: dict.fromkeys(pingpong.MACHINES, numbers) for what, numbers in by_machine.items()}]
    return lines, parts


def test_a_round_trip_in_small_spaces_is_compared(run: ModuleType, pingpong: ModuleType) -> None:
    """One round trip's figures; with tags a large one is compared with the same small one. What is kept is read again."""
    lines, parts = round_trips(pingpong)
    found = pingpong.trips(lines, parts)
    assert pingpong.table(found["data"], "skylake", "data pages")[1] == (
        ["16", "50", "15", "20", "2.50", "1.00", "50.0", "20.0", "0.0", "0.0"]
    )
    assert pingpong.instructions(found)[1] == ["data", "16", "100", "100"]
    assert pingpong.from_kept(json.loads(json.dumps(pingpong.as_kept(found)))) == found
    with pytest.raises(run.BenchError, match="saw 11 parts of 12"):
        pingpong.trips(lines, parts[1:])
    with pytest.raises(run.BenchError, match="small-data/0: the processor idled"):
        pingpong.trips([line("small-data/0", 10, [1], idle=1)], parts[:2])


def test_experiments_of_small_spaces_are_known_and_kept(
    run: ModuleType, small: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An experiment that is not measured again keeps its figures; an unknown one is refused before anything long starts."""
    monkeypatch.setattr(small, "EXPERIMENTS", {"one": ("the first", lambda _: ([("Title", [["a"], ["b"]])], {"row": 1}))})
    (tmp_path / "small.json").write_text('{"other": 2}')
    assert small.main(["one", "--output", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "small.json").read_text()) == {"other": 2, "one": {"row": 1}}
    assert capsys.readouterr().out.startswith("Title\n\n| a |")
    with pytest.raises(SystemExit):
        small.main(["doom"])
    assert "there is no experiment doom: choose from one" in capsys.readouterr().err
    (tmp_path / "small.json").write_text("no JSON")
    assert small.main(["one", "--output", str(tmp_path)]) == 1
    assert "holds no results" in capsys.readouterr().err


def small_samples(run: ModuleType, small_programs: ModuleType, name: str, **cycles: tuple[int, int]) -> dict[str, Any]:
    """Samples of an operation on each system, with the same cycles of each machine and as many misses."""
    found: dict[str, Any] = {}
    for system, (untagged, tagged) in cycles.items():
        both = {"untagged": [untagged], "tagged": [tagged]}
        kinds = [small_programs.kind_of(machine, kind) for machine in small_programs.MACHINES for kind in ("code", "data")]
        found[system] = {name: run.Sample(name, [100.0], 0, dict.fromkeys([*small_programs.MACHINES, *kinds], both))}
    return found


def test_linuxs_programs_in_small_spaces_stand_beside_the_paper(run: ModuleType, small_programs: ModuleType) -> None:
    """Only beside the cycles of the paper's machine. Tags are those of the large spaces."""
    results = small_samples(run, small_programs, "getpid", native=(10, 10), large=(60, 40), small=(20, 20), resident=(30, 30))
    tables, kept = small_programs.found(results, "system call", {"getpid": ["1.74"]}, ["paper"])
    by_title = dict(tables)
    assert by_title["Instructions of a system call"][1] == ["getpid", "100", "100", "100", "100", ""]
    figures = ["getpid", "10", "60", "40", "20", "30", "3.00", "2.00"]
    misses = ["10", "60", "20", "30"] * 2
    assert by_title["Modelled cycles of a system call, pentium4-1400"][1] == [*figures, "1.74", *misses]
    assert by_title["Modelled cycles of a system call, skylake"][1] == [*figures, *misses]
    assert kept["small"]["getpid"]["modelled"]["skylake"]["tagged"] == [20]


def test_misses_are_counted_as_cycles_are(
    run: ModuleType, small_programs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each operation. Only small programs are asked whether they have a window, and get packages of i386."""
    variants = {"untagged": {"code": 30, "data": 50}, "tagged": {"code": 0, "data": 10}}
    one = {"instructions": 100, "cycles": {"skylake": {"untagged": 70, "tagged": 60}}, "misses": {"skylake": variants}}
    asked: list[Any] = []

    def run_keel(words: list[str], system: str, stdin: bytes) -> str:
        asked.append(words)
        Path(words[words.index("--parts") + 1]).write_text(json.dumps([one, one]))
        return line("getpid", 10, [1000])

    monkeypatch.setattr(run, "run_keel", run_keel)
    for system in small_programs.SYSTEMS:
        packages = ("dash", "make") if system == "small" else ()
        sample = small_programs.in_guest(system, tmp_path, ["true"], b"", packages)["getpid"]
        assert sample.cycles["skylake, data misses"] == {"untagged": [5], "tagged": [1]}
        assert ("--native" in asked[-1], "dmesg" in asked[-1][-1]) == (system == "native", system == "small")
        assert ("dash:i386,make:i386" in asked[-1]) == (system == "small")


def test_turns_are_counted_between_stamps(small_turns: ModuleType) -> None:
    """Bochs's other errors are none, nor what is before the first stamp or after the last one."""
    log = "".join(
        f"{time:011}e[CPU0  ] {what}\n"
        for time, what in (
            (15, "read_virtual_checks(): read beyond limit"),
            (16, "read_virtual_checks(): read beyond limit expand down"),
            (17, "write_virtual_checks(): write beyond limit, r/w"),
            (18, "write_virtual_checks(): no write access to seg"),
            (31, "read_virtual_checks(): read beyond limit"),
            (48, "read_virtual_checks(): read beyond limit"),
        )
    )
    output = f"{16:016x}\nwords\n{{}}\n{32:016x}\n{48:016x}\n"
    assert small_turns.counted(["one", "two"], output, log) == {
        "one": small_turns.Counted(3, 16),
        "two": small_turns.Counted(0, 16),
    }
    with pytest.raises(ValueError):
        small_turns.counted(["one"], output, log)
    rows = 'words\n{"one_side": 1}\n{"name": "select", "iterations": 2, "tsc": [1, 2], "span": [16, 48]}\n'
    assert small_turns.counted_rows(rows, log) == {"select": small_turns.Counted(0.75, 8)}


def test_a_root_for_counting_turns_can_link_a_program(small_turns: ModuleType) -> None:
    """It lacks what is large and not used, of which each would be read from the emulator's disc."""
    library, compiler = "usr/lib/i386-linux-gnu/", "usr/lib/gcc/i686-linux-gnu/12/"
    needed = [f"{library}libc.so.6", f"{library}libc_nonshared.a", f"{compiler}libgcc.a", f"{compiler}liblto_plugin.so"]
    assert not [name for name in needed if small_turns.LEFT_OUT.match(name)]
    unused = [f"{library}libc.a", f"{library}libLLVM-15.so.1", f"{library}dri/swrast_dri.so", f"{compiler}lto1"]
    assert all(small_turns.LEFT_OUT.match(name) for name in unused)


def test_turns_of_an_object_are_what_the_longer_run_has_more(small_turns: ModuleType, small_applications: ModuleType) -> None:
    """By as many objects as it has more."""
    found = {}
    for name, request in small_applications.REQUESTS.items():
        objects = request.repetitions * request.objects
        for times in (1, small_applications.LONGER):
            run_name = small_applications.run_name(name, times * request.repetitions)
            found[run_name] = small_turns.Counted(1000 + 3 * times * objects, 5000 + 7 * times * objects)
    assert set(found) == set(small_applications.runs())
    assert small_turns.counted_objects(found) == dict.fromkeys(small_applications.REQUESTS, small_turns.Counted(3, 7))


def test_turns_are_counted_of_all_that_are_measured_in_windows(
    run: ModuleType, small_turns: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each guest has the packages and files of its workloads, and windows of their size."""
    guests = []

    def in_bochs(_: Path, packages: tuple[str, ...], files: dict[str, Path], steps: list[str]) -> tuple[str, str]:
        guests.append((set(packages), set(files), " ".join(steps)))
        lines = [f"{time:016x}" for time in range(steps.count(f"/tmp/{small_turns.STAMP}"))]
        rows = [row for _, rows in small_turns.SERVERS.values() for row in rows if re.search(rf"\b{row}\b", steps[0])]
        lines += [json.dumps({"name": row, "iterations": 1, "tsc": [1], "span": [0, 9]}) for row in rows]
        return "\n".join([*lines, '{"accesses": 1, "one_side": 1, "both_sides": 9}']), ""

    monkeypatch.setattr(small_turns, "in_bochs", in_bochs)
    monkeypatch.setattr(run, "build_programs", lambda *_: None)
    tables, kept = small_turns.measure(tmp_path)
    assert set(small_turns.EXPERIMENTS) < set(kept["turns"])
    assert len(tables[1][1]) == len(kept["turns"]) + 1
    for package, file, step in (
        ("gcc", run.GCC_SOURCES[0], "echo 512 >"),
        ("make", "make/bench/guest/separate.mk", "echo 512 >"),
        ("sqlite3", "servers", "./servers select-constant"),
        ("lighttpd", "lighttpd.conf", "./servers reply"),
    ):
        assert any(package in packages and file in files and step in steps for packages, files, steps in guests)
    assert any("xvfb" in packages and "echo 256 >" in steps and "exec Xvfb" in steps for packages, _, steps in guests)


def test_turns_are_added_to_the_figures_without_them(
    run: ModuleType, small_turns: ModuleType, small_programs: ModuleType
) -> None:
    """With the cost of instructions, an exception, its return and segment loads on the paper's machine."""
    assert small_turns.instructions_of_a_turn('x\n{"accesses": 10, "one_side": 20, "both_sides": 8020}\n') == 800
    assert small_turns.cycles_of_a_turn("pentium4-1400", 800) == 800 + 700 + 700 + 4 * 63.25
    results = small_samples(run, small_programs, "gcc", native=(1, 1), large=(60_000, 1), small=(20_000, 1), resident=(21_000, 1))
    kept = {"gcc": small_programs.found(results, "program", {"gcc": []}, [])[1]}
    counted = {"getpid": small_turns.Counted(9, 100), "gcc": small_turns.Counted(10, 5000)}
    [title, getpid, gcc] = small_turns.table(counted, 547, kept)
    assert getpid == ["getpid", "9", "100", "19,800", *[""] * 6]
    assert gcc == ["gcc", "10", "5,000", "22,000", "20,000", "42,000", "3.00", "1.43", "1.05", "0.50"]
    assert len(title) == len(getpid) == len(gcc)


def test_the_32_bit_program_has_the_papers_calls(run: ModuleType, small_programs: ModuleType, tmp_path: Path) -> None:
    """And each workload has a window, and less to map than that."""
    run.build_programs(tmp_path, small_programs.PROGRAM)
    assert set(small_programs.PAPER_CALLS) <= set(run.listed(tmp_path / small_programs.PROGRAM))
    for work in (small_programs.PIPELINES | small_programs.COMPILATIONS).values():
        assert work.most_mb < work.window_mb in {256, 512, 1024}
    (tmp_path / run.PROGRAM).touch()
    with tarfile.open(fileobj=io.BytesIO(small_programs.archive({"a/bench": tmp_path / run.PROGRAM}))) as packed:
        assert packed.getnames() == ["a/bench"]


def test_a_request_to_an_x_server_is_what_a_longer_run_has_more(
    run: ModuleType, small_programs: ModuleType, small_applications: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Per object, of which a repetition may have many. The server is limited, and waited for; the paper's figures are of large
    and small spaces.
    """
    started, asked = 1000.0, []

    def in_guest(system: str, output: Path, steps: list[str], *others: Any) -> Any:
        asked.append(steps)
        samples = {}
        for step in steps:
            if found := re.search(r"command (\S+) 1 .*x11perf .*-(\w+) -reps (\d+) -repeat 1;", step):
                name, _, repetitions = found.groups()
                drawn = started + 2000 * int(repetitions)
                cycles = {what: {"untagged": [drawn], "tagged": [started]} for what in modelled}
                samples[name] = run.Sample(name, [drawn], 1, cycles)
        return samples

    machine = small_programs.PAPER_MACHINE
    modelled = [machine, *(small_programs.kind_of(machine, kind) for kind in ("code", "data"))]
    monkeypatch.setattr(small_programs, "in_guest", in_guest)
    monkeypatch.setattr(run, "build_programs", lambda *_: None)
    monkeypatch.setattr(small_programs, "archive", lambda *_: b"")
    tables, kept = small_applications.measure_x11perf(tmp_path)
    assert len(asked) == len(small_programs.SYSTEMS)
    assert all(any("ulimit -v" in step and "exec Xvfb" in step for step in steps) for steps in asked)
    assert kept["small"]["Dot"]["instructions"] == [2]
    assert kept["small"]["Dot"]["modelled"] == {what: {"untagged": [2], "tagged": [0]} for what in modelled}
    rows = {row[0]: row for row in tables[1][1]}
    assert rows["QueryPointer"][1:5] == ["2,000", "2,000", "0", "2,000"]
    assert rows["QueryPointer"][8:12] == ["1.00", "54,499", "48,144", "1.13"]
    assert rows["GetImage 10x10"][1] == "500"


def test_make_has_what_it_builds(
    small_programs: ModuleType, small_applications: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The makefile compiles each source that is sent with it, and no other; each finds its headers."""
    files: dict[str, Path] = {}

    def measure_programs(output: Path, workloads: Any, packages: tuple[str, ...], sent: dict[str, Path]) -> dict[str, Any]:
        assert "make" in packages
        assert all(work.most_mb < work.window_mb in {256, 512, 1024} for work in workloads.values())
        files.update(sent)
        return {}

    monkeypatch.setattr(small_applications, "measure_programs", measure_programs)
    monkeypatch.setattr(small_applications, "found_of", lambda *_: ([], {}))
    small_applications.measure_make(tmp_path)
    for name, file in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tmp_path / name)
    tree = tmp_path / small_applications.TREE
    make = ["make", "-C", tree, "-f", small_applications.MAKEFILE]
    built = subprocess.run([*make, "-n"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert set(re.findall(r"\S+\.c\b", built)) == set(small_applications.SOURCES)
    objects = [source.replace(".c", ".o") for source in small_applications.SOURCES]
    subprocess.run([*make, "CFLAGS=-std=gnu11 -D_GNU_SOURCE -fsyntax-only", *objects], stdout=subprocess.PIPE, check=True)


def test_a_request_counts_without_the_clients_part(
    run: ModuleType, small_programs: ModuleType, small_servers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is the row that is replied to at once. Each system gets the program and a configuration, and is asked no query."""
    replied = small_samples(run, small_programs, "reply", native=(5, 5), large=(10, 8), small=(10, 10), resident=(10, 10))
    asked = small_samples(run, small_programs, "fastcgi-16", native=(10, 10), large=(70, 48), small=(30, 30), resident=(32, 32))
    limits = []

    def in_guest(system: str, output: Path, steps: list[str], files: bytes, packages: list[str], machines: list[str]) -> Any:
        with tarfile.open(fileobj=io.BytesIO(files)) as packed:
            assert packed.getnames() == ["servers", "lighttpd.conf"]
        assert "lighttpd" in packages and machines == ["pentium4-1400"]
        assert "ulimit -v" in steps[-1] and "select" not in steps[-1]
        limits.append("small_window_mb" in " ".join(steps))
        return {**replied[system], **asked[system]}

    monkeypatch.setattr(small_servers, "in_guest", in_guest)
    monkeypatch.setattr(run, "listed", lambda program: ["reply", "fastcgi-16", "select-row"])
    tables = dict(small_servers.measure_web(tmp_path)[0])
    assert limits == [system == "small" for system in small_programs.SYSTEMS]
    rest = tables["The same without what a reply takes"]
    assert rest[1] == ["16", "5", "60", "20", "22", "3.00", "1.10", "1.05 to 1.06", *["5", "60", "20", "22"] * 2]


def test_the_web_servers_configuration_is_the_programs(run: ModuleType, small_servers: ModuleType, tmp_path: Path) -> None:
    """The client finds its port, and it the socket of FastCGI. The program has rows of each kind."""
    run.build_programs(tmp_path, small_servers.PROGRAM)
    rows = run.listed(tmp_path / small_servers.PROGRAM)
    assert small_servers.REPLY in rows
    assert all(any(row.startswith(kind) for row in rows) for kind in (small_servers.REQUEST, small_servers.QUERY))
    configuration = (run.SOURCES / small_servers.CONFIGURATION).read_text()
    web, fastcgi = ((run.SOURCES / name).read_text() for name in ("web.c", "fastcgi.c"))
    port, place = re.search(r"#define PORT (\d+)", web), re.search(r'#define SOCKET "(.*)"', fastcgi)
    assert port and f"server.port = {port[1]}\n" in configuration
    assert place and f'"socket" => "/tmp/{place[1]}",' in configuration


def record(kind: int, content: bytes, padding: int = 0, request: int = 1) -> bytes:
    """One of FastCGI."""
    return struct.pack(">BBHHBB", 1, kind, request, len(content), padding, 0) + content + bytes(padding)


def test_the_fastcgi_server_answers_whole_requests_only(run: ModuleType, tmp_path: Path) -> None:
    """However they arrive, and whatever others send. It keeps running."""
    main = '#include "bench.h"\n#include "fastcgi.h"\nvoid start_child(void (*work)(void)) { work(); }\n'
    (tmp_path / "main.c").write_text(main + "int main(void) { start_fastcgi(16); return 1; }\n")
    build = ["gcc", "-m32", "-static", "-D_GNU_SOURCE", f"-I{run.SOURCES}", "-o", "server", "main.c", run.SOURCES / "fastcgi.c"]
    subprocess.run(build, check=True, cwd=tmp_path)
    output = b"Content-Type: text/plain\r\n\r\nHello world\n"
    start, parameters = record(1, bytes([0, 1, 0, 0, 0, 0, 0, 0])), record(4, bytes(65535), 255) + record(4, b"")
    last = record(5, b"", 7, request=258)
    with subprocess.Popen(["./server"], cwd=tmp_path) as server, contextlib.chdir(tmp_path):

        def reply(*pieces: bytes) -> bytes:
            with socket.socket(socket.AF_UNIX) as client:
                while client.connect_ex("fastcgi") and server.poll() is None:
                    time.sleep(0.01)
                for piece in pieces:
                    client.sendall(piece)
                client.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: client.recv(4096), b""))

        try:
            expected = b"".join(record(*of, request=258) for of in ((6, output), (6, b""), (3, bytes(8))))
            assert reply(start + parameters + record(5, b"text") + last) == expected
            assert reply(*(bytes([byte]) for byte in start + record(4, b"") + last)) == expected
            for cut in (b"", start, last[:-1], b"\xff" * 4096):
                assert reply(cut) == b""
            assert reply(start + last) == expected
        finally:
            server.kill()


def test_small_spaces_are_drawn(pingpong: ModuleType, tmp_path: Path) -> None:
    """As SVG and PNG, a panel for each working set, also of pipes, and requests to a web server. Nothing else is drawn."""
    kept = tmp_path / "small.json"

    def draw() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(REPOSITORY / "keel"), "bench", "small", "--plot", str(kept)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    trips = pingpong.as_kept(pingpong.trips(*round_trips(pingpong)))
    sample = {"modelled": {"pentium4-1400": {"untagged": [20, 30]}}}
    requests = {system: {"reply": sample, "fastcgi-16": sample, "fastcgi-32": sample} for system in ("large", "small")}
    trips_by_pipes = {"pipe": sample, "pipe-data-16": sample, "pipe-code-32": sample, "pipe-nops-4096": sample}
    pipes = dict.fromkeys(("native", "large", "small", "resident"), trips_by_pipes)
    kept.write_text(json.dumps({pingpong.NAME: trips, "fastcgi": requests, "pipes": pipes}))
    assert draw().returncode == 0
    assert ">pages that the FastCGI server reads<" in (tmp_path / "small-web.svg").read_text()
    drawn = (tmp_path / "small-pipes.svg").read_text()
    assert all(f">{name}<" in drawn for name in (*pipes, "ITLB: pages with a jump"))
    drawn = (tmp_path / "small-spaces.svg").read_text()
    assert all(f">{name}<" in drawn for name in ("large spaces", "small spaces", "trace cache: NOPs"))
    assert (tmp_path / "small-spaces.png").stat().st_size
    kept.write_text("{}")
    refused = draw()
    assert refused.returncode == 1 and "nothing that is drawn: no ping-pong, no pipes" in refused.stderr


def test_native_tasks_in_windows_change_no_space(run: ModuleType, tmp_path: Path) -> None:
    """Between small spaces a TLB with tags changes nothing; between large ones each round trip writes CR3 twice, and loses the
    client's data pages. Sizes that have no room are refused."""
    report, machine = tmp_path / "parts", "pentium4-1400"
    options = ["bench", "tasks", "--small", "--machine", machine, "--parts", str(report)]
    lines = run.run_keel([*options, "data/16", "both-code/2"], "small", b"").splitlines()
    parts = {json.loads(text)["name"]: part for text, part in zip(lines, json.loads(report.read_text())[1::2], strict=True)}
    rounds = json.loads(lines[0])["iterations"]
    for row in ("data/16", "both-code/2"):
        small, large = (parts[f"{place}-{row}"]["cycles"][machine] for place in ("small", "large"))
        assert small["untagged"] == small["tagged"]
        assert large["untagged"] - large["tagged"] >= rounds * 2 * (480 - 100)
        changes = [parts[f"{place}-{row}"]["space_changes"] for place in ("small", "large")]
        assert changes == [0, rounds * 2]
    misses = {place: parts[f"{place}-data/16"]["misses"][machine] for place in ("small", "large")}
    assert misses["large"]["untagged"]["data"] >= 16 * rounds
    assert misses["small"]["untagged"]["data"] == misses["large"]["tagged"]["data"] == 0
    with pytest.raises(run.BenchError):
        run.run_keel(["bench", "tasks", "--small", "data/129"], "small", b"")


def modelled_part(groups: ModuleType, cycles: int, changes: int = 0) -> dict[str, Any]:
    """A part of the model's, the same of each machine."""
    misses = {"code": cycles // 100, "data": 0}
    variants = {"cycles": {"untagged": cycles, "tagged": cycles // 2}, "misses": {"untagged": misses, "tagged": misses}}
    by_machine = {what: dict.fromkeys(groups.MACHINES, numbers) for what, numbers in variants.items()}
    return {"instructions": 0, "space_changes": changes, **by_machine}


def test_groups_are_compared_with_one_and_with_none(run: ModuleType, small_groups: ModuleType) -> None:
    """What fills caches does not count. A revocation's steps are apart, each the mean of all rounds."""
    took = {"one": (300, 0), "groups": (400, 10), "large": (600, 20)}
    lines = [line(f"{place}-data-16/4", 10, [1000]) for place in took]
    filled = modelled_part(small_groups, 9999)
    parts = [part for each in took.values() for part in (filled, modelled_part(small_groups, each[0] * 10, each[1]))]
    lines.append(line("home-24-8/2", 2, [200, 400, 600, 800], parts=12))
    parts += [filled] * 4 + [modelled_part(small_groups, cycles) for cycles in (10, 20, 30, 40, 50, 60, 70, 80)]
    visits, revocations = small_groups.found(lines, parts)
    cycles = ["300", "400", "600", "150", "200", "300"]
    figures = [*cycles, "1.50", "1.33", "3.0", "4.0", "6.0", "0.00 / 1.00 / 2.00"]
    assert small_groups.visits_table(visits, "skylake")[1] == ["8 data pages", "16 of 17", "4", *figures]
    about = ["home", "16 MB", "8", "2"]
    assert small_groups.revocations_table(revocations, None)[1] == [*about, "100", "200", "300", "400"]
    assert small_groups.revocations_table(revocations, "skylake")[1] == [*about, "30", "40", "50", "60"]
    with pytest.raises(run.BenchError, match="too few"):
        small_groups.found(lines, parts[:-1])
    with pytest.raises(run.BenchError, match="1 parts more"):
        small_groups.found(lines, [*parts, filled])
    with pytest.raises(run.BenchError, match="one-data-16/4: the processor idled"):
        small_groups.found([line("one-data-16/4", 10, [1], idle=1)], parts[:2])


def test_a_window_has_the_tables_that_are_used(small_groups: ModuleType) -> None:
    """Of each size all of them in one row, and each number of groups in another."""
    words = small_groups.revocation_words()
    assert len(words) == len(set(words))
    assert {"home-24-8/32", "home-28-128/1", "chief-30-512/1", "home-30-8/32"} <= set(words)
    assert not {"home-24-64/1", "home-28-512/1"} & set(words)


def test_groups_change_spaces_and_revocation_does_not_grow(run: ModuleType, tmp_path: Path) -> None:
    """CR3 is written twice for each visit of another group, in spaces of their own for each round trip. A window costs as much to
    take and to give among four groups as in one."""
    report = tmp_path / "parts"
    rows = ["empty-16/4", "home-24-8/1", "home-24-8/4"]
    options = ["bench", "tasks", "--small", "--machine", "skylake", "--parts", str(report)]
    told = [json.loads(text) for text in run.run_keel([*options, *rows], "groups", b"").splitlines()]
    changes = [part["space_changes"] for part in json.loads(report.read_text())[1:6:2]]
    trips = told[0]["iterations"]
    assert changes == [0, 2 * trips // 17, 2 * trips]
    assert told[-1]["tsc"] == told[-2]["tsc"] and len(told[-1]["tsc"]) == 4
    for word in ("data-0/3", "empty-1/32", "home-23-1/1", "home-24-9/1", "chief-24-1/33"):
        with pytest.raises(run.BenchError):
            run.run_keel(["bench", "tasks", "--small", word], "groups", b"")


def traced_switches(switches: ModuleType, names: dict[int, str], order: list[int], makers: dict[int, int]) -> list[Any]:
    """Events of tasks that run in this order; each announces itself when it first runs, after its maker's call."""
    events: list[Any] = []

    def add(kind: str, task: int, partner: str, word: int = 0) -> None:
        events.append(switches.Event(len(events), 0, kind, f"{task}.0v1", partner, 0, word, "-"))

    last, seen = "nil", set()
    for task in order:
        if task in makers and task not in seen:
            add("EXCEPTION", makers[task], "4.0v1", 59)
        add("SWITCH", task, last)
        last = f"{task}.0v1"
        if task in names and task not in seen:
            for piece in range(4):
                letters = int.from_bytes(names[task].encode().ljust(16, b"\0")[4 * piece :][:4], "little")
                add("EXCEPTION", task, "4.0v1", letters << 32 | switches.ANNOUNCES | piece)
        elif task > 4:
            add("FAULT", task, "4.0v1", 0x1000)
        seen.add(task)
    return events


def test_switches_are_counted_with_the_server_and_without_it(run: ModuleType, small_switches: ModuleType) -> None:
    """A program that is left for the server and goes on has not switched. What starts a compiler is in no group, and a compiler's
    group is what it started. What ran before is in no count."""
    names = {10: "make", 11: "gcc", 12: "x86_64-linux-as", 13: "gcc"}
    order = [9, 4, 10, 4, 10, 4, 11, 4, 12, 4, 11, 4, 3, 4, 12, 4, 13, 4, 10, 4, 9]
    events = traced_switches(small_switches, names, order, {11: 10, 12: 11, 13: 10})
    found = small_switches.analysed(events, small_switches.WORKLOADS["make"])
    assert found.programs == {
        ("make", "gcc"): 1,
        ("gcc", "x86_64-linux-as"): 2,
        ("x86_64-linux-as", "gcc"): 1,
        ("x86_64-linux-as", "gcc 2"): 1,
        ("gcc 2", "make"): 1,
    }
    assert (found.all["make", "Linux"], found.all["Linux", "heartbeat"], found.all.total()) == (2, 1, 16)
    assert found.groups == {"make": "", "gcc": "gcc", "x86_64-linux-as": "gcc", "gcc 2": "gcc 2"}
    assert small_switches.summary({"make": found})[1] == ["make", "16", "6", "3", "50%"]
    assert small_switches.pairs_table(found)[1] == ["gcc", "x86_64-linux-as", "2", "gcc"]
    assert small_switches.visits_table(found)[1] == ["make", "2", "0"]
    assert small_switches.from_kept(json.loads(json.dumps(small_switches.as_kept(found)))) == found
    gap = [event for event in events if event.thread != "13.0v1"]
    with pytest.raises(run.BenchError, match="has a gap"):
        small_switches.analysed(gap, small_switches.WORKLOADS["make"])
    with pytest.raises(run.BenchError, match="no program announced itself"):
        small_switches.analysed(events[:2], small_switches.WORKLOADS["make"])


def test_groups_can_be_those_of_names(small_switches: ModuleType) -> None:
    """Of web servers and their clients, which the same shell starts."""
    events = traced_switches(small_switches, {10: "sh", 11: "app", 12: "static"}, [10, 4, 11, 4, 12, 4, 11], {11: 10, 12: 10})
    found = small_switches.analysed(events, small_switches.WORKLOADS["webs"])
    assert found.groups == {"sh": "", "app": "dynamic", "static": "static"}


def test_a_program_announces_its_name_and_runs_on(run: ModuleType, small_switches: ModuleType, tmp_path: Path) -> None:
    """With the library, whose calls Linux does not have; the archive has what the guest compiles, and that can be compiled."""
    library = tmp_path / small_switches.LIBRARY
    run.build_programs(tmp_path, small_switches.LIBRARY)
    told = subprocess.run(["/bin/echo", "here"], env={"LD_PRELOAD": str(library)}, capture_output=True, text=True, check=True)
    assert (told.stdout, told.stderr) == ("here\n", "")
    with tarfile.open(fileobj=io.BytesIO(small_switches.archive(tmp_path))) as packed:
        packed.extractall(tmp_path / "guest")
    subprocess.run(["make", "-s", "-C", str(tmp_path / "guest")], stdout=subprocess.DEVNULL, check=True)


def test_switches_are_drawn(small_switches: ModuleType, tmp_path: Path) -> None:
    """Both circles of a workload, without the other figure where there is nothing for it."""
    events = traced_switches(small_switches, {10: "make", 11: "gcc"}, [10, 4, 11, 4, 10], {11: 10})
    found = small_switches.analysed(events, small_switches.WORKLOADS["make"])
    kept = tmp_path / "small.json"
    kept.write_text(json.dumps({small_switches.NAME: {"make": small_switches.as_kept(found)}}))
    command = [sys.executable, str(REPOSITORY / "keel"), "bench", "small", "--plot", str(kept)]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
    drawn = (tmp_path / "small-switches.svg").read_text()
    assert all(f">{name}<" in drawn for name in ("make: all", "make: without Linux", "gcc"))
    assert not (tmp_path / "small-spaces.svg").exists()


def test_a_traced_guest_has_a_limit(
    run: ModuleType, small_switches: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measurement ends even if a guest hangs."""
    seen: list[str] = []
    (tmp_path / small_switches.LIBRARY).touch()
    (tmp_path / "switches-none.trace").touch()
    monkeypatch.setattr(run, "run_keel", lambda arguments, *_: seen.extend(arguments))
    assert small_switches.traced(tmp_path, "none", small_switches.Workload("", "true")) == []
    assert seen[seen.index("--timeout") + 1] == str(small_switches.LIMIT_S)


def test_each_switch_of_a_command_is_seen(
    run: ModuleType, small_switches: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than the ring holds at once; the trace has no gap. The programs of a pipeline switch to each other."""
    work = small_switches.Workload("", "seq 200000 | wc -l", names={"seq": "pipe", "wc": "pipe"})
    run.build_programs(tmp_path, small_switches.LIBRARY)
    monkeypatch.setattr(small_switches, "LIMIT_S", run.LIMIT_S)
    events = small_switches.traced(tmp_path, "pipe", work)
    assert len(events) > 2 * importlib.import_module("keel.tracering").RECORDS
    found = small_switches.analysed(events, work)
    assert found.programs["seq", "wc"] > 1 and found.programs["wc", "seq"] > 1
    assert found.all["seq", "wc"] == 0 < found.all["seq", "Linux"]
    assert found.inside() >= found.programs["seq", "wc"] + found.programs["wc", "seq"]


@pytest.mark.parametrize(
    ("arguments", "word"), [(["quake"], "quake"), (["--systems", "vax"], "vax"), (["--repeats", "0"], "--repeats is from 1")]
)
def test_unknown_workloads_are_refused(
    packaged: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], word: str
) -> None:
    """Refused before anything long starts; the message names the wrong value."""
    with pytest.raises(SystemExit):
        packaged.main(arguments)
    assert word in capsys.readouterr().err


def test_the_emulator_s_time_is_told_with_its_spread(packaged: ModuleType, run: ModuleType) -> None:
    """Values that scatter are marked, and so is their ratio."""

    def timed(*times: float) -> dict[str, Any]:
        return {"fio": run.Sample("fio", list(times), 0)}

    steady = {"native": timed(2.0, 2.0, 2.1, 2.0, 2.0), "keel": timed(3.0, 3.0, 3.0, 3.1, 3.0)}
    assert packaged.time_table(steady)[1] == ["fio", "2.00", "5%", "3.00", "3%", "1.50"]
    steady["keel"] = timed(3.0, 3.0, 3.0, 4.5, 3.0)
    assert packaged.time_table(steady)[1][-2:] == ["50%", "~1.50"]
    assert packaged.time_table({"keel": steady["keel"]})[1] == ["fio", "3.00", "50%", "~"]


def test_systems_take_turns_when_they_are_timed(packaged: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each boot gives one number per workload."""
    booted: list[str] = []

    def boot(system: str, _programs: Path, names: list[str]) -> dict[str, float]:
        booted.append(system)
        return dict.fromkeys(names, float(len(booted)))

    monkeypatch.setattr(packaged, "time_boot", boot)
    file, about = tmp_path / "kept.json", {"version": packaged.run.VERSION}
    kept = packaged.Kept(file, about, resume=False)
    packaged.time_all(["native", "keel"], tmp_path, ["fio"], 2, kept)
    assert booted == ["native", "keel"] * 2
    assert [kept.results[system]["fio"].per_operation for system in kept.results] == [[1, 3], [2, 4]]
    packaged.time_all(["native", "keel"], tmp_path, ["fio"], 3, packaged.Kept(file, about, resume=True))
    assert booted == ["native", "keel"] * 3


# It runs until its time was read for the last time.
GUEST = """
import os, sys, time
print("begins one", flush=True)
until = time.process_time() + 0.5
while time.process_time() < until: pass
print("ends one", flush=True)
print("begins two", flush=True)
print("ends two", flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
os.unlink(sys.argv[2])
sys.exit(int(sys.argv[1]))
"""
READINGS = 4


def test_time_is_the_emulator_s_between_two_lines(cputime: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of the descendant with the emulator's name. A failed guest gives no result."""
    spent, readings, seen = cputime.spent, itertools.count(1), tmp_path / "seen"

    def watched(pid: int) -> float:
        seconds: float = spent(pid)
        if next(readings) % READINGS == 0:
            seen.touch()
        return seconds

    monkeypatch.setattr(cputime, "spent", watched)
    emulator = tmp_path / cputime.EMULATOR
    emulator.symlink_to(sys.executable)
    guest = tmp_path / "guest.py"
    guest.write_text(GUEST)
    # The shell stays, and the emulator is its child.
    argv = ["sh", "-c", f'PYTHONHOME={sys.prefix} {emulator} {guest} "$1" {seen}; exit $?', "sh"]
    pieces = cputime.time_pieces([*argv, "0"], b"")
    assert pieces["one"] > 0.4 and pieces["two"] < 0.1
    with pytest.raises(cputime.TimeError, match="status 3"):
        cputime.time_pieces([*argv, "3"], b"")
    with pytest.raises(cputime.TimeError, match="no emulator"):
        cputime.time_pieces(["echo", "begins one"], b"")
    assert cputime.seconds_of("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0", 100) == 3.0


def test_native_tasks_refuse_what_they_do_not_know(capfd: pytest.CaptureFixture[str], run: ModuleType) -> None:
    """The message says what."""
    with pytest.raises(run.BenchError):
        run.measure_tasks(Path(), ["l4-warp"], "")
    assert "there is no row l4-warp" in capfd.readouterr().err


def test_cycles_have_a_table_of_their_own(run: ModuleType) -> None:
    """Ratios by machine and variant; none if nothing was modelled."""

    def modelled(cycles: float) -> Any:
        return run.Sample("getpid", [1.0], 0, {"skylake": {"untagged": [cycles], "tagged": [cycles / 2]}})

    rows = run.cycle_table({"native": {"getpid": modelled(2)}, "keel": {"getpid": modelled(5)}})
    assert rows == [["operation", "skylake, untagged", "skylake, tagged", "paper"], ["getpid", "2.50", "2.50", "2.35"]]
    assert run.cycle_table(results(run, native=200, keel=430)) == []


def test_results_come_back(run: ModuleType, tmp_path: Path) -> None:
    """Written results can be read, with a header that names the sources and the tools of the build."""
    kept, about = tmp_path / "results.json", run.header("")
    assert re.match(r"\d+\.\d+\.\d+-", str(about["linux"])) and str(about["rust"]).startswith("rustc 1.")
    assert "gcc" in str(about["gcc"]) and "QEMU" in str(about["emulator"])
    before = results(run, native=200, keel=430)
    before["keel"]["getpid"].cycles["skylake"] = {"untagged": [1.0], "tagged": [2.0]}
    kept.write_text(run.as_json(before, about))
    assert run.from_json(kept) == (before, about)


@pytest.mark.parametrize(
    ("text", "word"),
    [('{"version": 99}', "version 99"), ("[]", "no results"), ("{", "no results"), ('{"version": 2}', "no results")],
)
def test_other_results_are_refused(
    run: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, word: str
) -> None:
    """Results of another version, and files that are no results."""
    kept = tmp_path / "results.json"
    kept.write_text(text)
    assert run.main(["--compare", str(kept), str(kept)]) == 1
    assert word in capsys.readouterr().err


def test_comparison_tells_the_change(run: ModuleType) -> None:
    """Rows that are in both."""
    assert run.comparison(results(run, keel=400), results(run, native=200, keel=430))[1:] == [
        ["getpid", "keel", "400", "430", "+7.5%"]
    ]


def test_an_interrupted_run_goes_on(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of the same tree are kept. Those of another tree are measured again."""
    measured: list[str] = []

    def measure(system: str, _programs: Path, rows: list[str], _machines: str) -> dict[str, Any]:
        measured.append(system)
        return {row: run.Sample(row, [1.0], 0) for row in rows}

    monkeypatch.setattr(run, "measure", measure)
    run.measure_all(["native"], ["getpid"], tmp_path, "", resume=False)
    assert set(run.measure_all(["native", "keel"], ["getpid"], tmp_path, "", resume=True)) == {"native", "keel"}
    assert measured == ["native", "keel"]
    monkeypatch.setattr(run, "header", lambda _machines: {"version": run.VERSION, "commit": "another"})
    run.measure_all(["native"], ["getpid"], tmp_path, "", resume=True)
    assert measured == ["native", "keel", "native"]


@pytest.mark.parametrize("words", [[], ["--table"]])
def test_only_the_paper_s_table_needs_a_build(
    lines: ModuleType, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --table the sizes are counted from the sources, and nothing is built."""
    built: list[bool] = []
    monkeypatch.setattr(sys, "argv", ["lines.py", *words])
    monkeypatch.setattr(lines.run, "build_systems", lambda: built.append(True))
    monkeypatch.setattr(lines, "IMAGES", ())
    monkeypatch.setattr(lines, "read_for", lambda _out, _source: set())
    assert lines.main() == 0
    shown = capsys.readouterr().out
    assert "kernel mode" in shown
    assert bool(built) == ("paper, L4Linux" in shown) == bool(words)


def test_lines_are_counted_as_in_the_paper(lines: ModuleType, tmp_path: Path) -> None:
    """Lines without comments and blank lines of the files that a build has read: each file once, by owner."""
    out, sources, port = tmp_path / "out", tmp_path / "pristine", tmp_path / "port"
    for place in (sources / "arch/x86/a.c", sources / "arch/x86/own.c", sources / "kernel/k.c", sources / "drivers/d.c"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("int a;\nint b;\n")
    (port / "arch/l4").mkdir(parents=True)
    (port / "arch/l4/p.c").write_text("int p;\n")
    out.mkdir()
    (out / ".a.o.cmd").write_text(
        f"cmd_a.o := gcc -D__KERNEL__ -c -o a.o {sources}/kernel/k.c\n\nsource_a.o := {sources}/kernel/k.c\n\n"
        f"deps_a.o := \\\n  {sources}/arch/l4/adapted/a.c \\\n  include/generated/b.h \\\n  /usr/include/c.h \\\n\n"
    )
    (out / ".tool.o.cmd").write_text(f"cmd_tool.o := gcc -o tool.o t.c\n\nsource_tool.o := {sources}/drivers/d.c\n\n")
    assert lines.read_for(out, sources) == {"kernel/k.c", "arch/x86/a.c"}
    native = {"arch/x86/a.c", "arch/x86/own.c", "kernel/k.c", "drivers/d.c"}
    keel = {"arch/x86/a.c", "arch/l4/p.c", "kernel/k.c"}
    counted = [row[1:3] for row in lines.table(native, keel, sources, port)[1:]]
    assert counted == [["2", "1"], ["2", "2"], ["2", "2"], ["2", "0"]]


def test_results_are_drawn(run: ModuleType, tmp_path: Path) -> None:
    """As SVG and PNG, a pair for each machine. Results that lack a system are refused."""
    kept = tmp_path / "results.json"

    def draw() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(REPOSITORY / "keel"), "bench", "--plot", str(kept)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    measured = results(run, native=200, keel=430)
    kept.write_text(run.as_json(measured, run.header("")))
    assert draw().returncode == 0
    assert ">getpid<" in (tmp_path / "slowdown.svg").read_text() and not (tmp_path / "load.svg").exists()
    for users, instructions in ((1, 6e9), (4, 12e9)):
        for system in measured.values():
            system[f"job-of-{users}-users"] = run.Sample(f"job-of-{users}-users", [instructions], 0)
    kept.write_text(run.as_json(measured, run.header("")))
    assert draw().returncode == 0
    assert ">jobs a minute<" in (tmp_path / "load.svg").read_text() and (tmp_path / "load.png").stat().st_size
    for sample in (system["getpid"] for system in measured.values()):
        sample.cycles["skylake"] = {"untagged": [2.0], "tagged": [1.0]}
    kept.write_text(run.as_json(measured, run.header("skylake")))
    assert draw().returncode == 0
    assert {file.name for file in tmp_path.glob("*skylake*")} == {"slowdown-skylake.svg", "slowdown-skylake.png"}
    kept.write_text(run.as_json(results(run, keel=430), run.header("")))
    refused = draw()
    assert refused.returncode == 1 and "has not measured native and keel" in refused.stderr


def grown(run: ModuleType, **medians: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Results of systems: instructions by stage and size."""
    return {
        system: {
            f"{stage}/{size}": run.Sample(f"{stage}/{size}", [value], 0)
            for stage, values in stages.items()
            for size, value in values.items()
        }
        for system, stages in medians.items()
    }


def remark_of(run: ModuleType, growth: ModuleType, stage: str, native: dict[int, float], keel: dict[int, float]) -> str:
    """The table's row for a stage."""
    [row] = growth.table(grown(run, native={stage: native}, keel={stage: keel}))[1:]
    return str(row[-1])


def test_a_ratio_that_grows_is_marked(run: ModuleType, growth: ModuleType) -> None:
    """A stage is marked if its ratio at any larger size is above 1.3 times that at the smallest. A large or falling ratio is not
    marked.
    """
    native = {1: 100.0, 16: 1600.0, 64: 6400.0}
    rows = growth.table(grown(run, native={"munmap": native}, keel={"munmap": {1: 200.0, 16: 4480.0, 64: 12800.0}}))
    assert rows[1] == [
        "munmap",
        "1, 16, 64 MB",
        "100 to 6,400",
        "200 to 12,800",
        "2.00, 2.80, 2.00",
        "1.40",
        growth.GROWS,
    ]
    for ratios, remark in (((1, 1, 1.31), growth.GROWS), ((1, 1, 1.29), ""), ((50, 50, 50), ""), ((9, 5, 2), "")):
        keel = {size: native[size] * ratio for size, ratio in zip(native, ratios)}
        assert remark_of(run, growth, "munmap", native, keel) == remark


def test_what_keel_has_not_reached_is_marked(run: ModuleType, growth: ModuleType) -> None:
    """A size that only native Linux reached is a fault; one that neither reached is none."""
    native = {16: 100.0, 32: 200.0, 64: 400.0}
    assert remark_of(run, growth, "fork", native, {16: 150.0, 32: 300.0}) == "**not at 64**"
    assert remark_of(run, growth, "fork", {16: 100.0}, {16: 150.0}) == ""


def test_fork_has_a_limit_of_its_own(run: ModuleType, growth: ModuleType) -> None:
    """At most twice native Linux's, also with two processors, which only Keel has on this clock."""
    native = {16: 100.0, 32: 200.0}
    for stage in ("fork-alone", "fork-heartbeat"):
        assert remark_of(run, growth, stage, native, {16: 190.0, 32: 420.0}) == "**above 2**"
        assert remark_of(run, growth, stage, native, {16: 190.0, 32: 390.0}) == ""
    assert remark_of(run, growth, "fork", native, {16: 190.0, 32: 420.0}) == ""
    both = grown(run, native={"fork-mapper": native}, keel={"fork-mapper": native, "fork-mapper-2": {16: 190.0, 32: 420.0}})
    assert [(row[0], row[4], row[-1]) for row in growth.table(both)[1:]] == [
        ("fork-mapper", "1.00, 1.00", ""),
        ("fork-mapper-2", "1.90, 2.10", "**above 2**"),
    ]


def test_growth_that_idled_is_told(run: ModuleType, growth: ModuleType) -> None:
    """With the sizes."""
    results = grown(run, native={"munmap": {1: 10.0, 16: 10.0}}, keel={"munmap": {1: 10.0, 16: 10.0}})
    results["keel"]["munmap/16"] = run.Sample("munmap/16", [10.0], 3)
    assert growth.table(results)[1][-1] == "idled at 16"


def test_the_objects_of_the_kernel_have_a_table(run: ModuleType, growth: ModuleType) -> None:
    """Growth there is marked too."""
    measured = {"tasks-create": {16: 100.0, 256: 120.0}, "chain-unmap": {16: 100.0, 256: 900.0}}
    rows = growth.task_table(grown(run, tasks=measured))[1:]
    assert rows == [
        ["tasks-create", "16, 256 tasks", "100, 120", "1.20", ""],
        ["chain-unmap", "16, 256 mappings", "100, 900", "9.00", growth.GROWS],
    ]


def test_growth_asks_each_guest_for_its_rows(growth: ModuleType) -> None:
    """Native tasks measure their own rows alone; fork has a machine of one processor and one of two."""
    work = growth.plan(["native", "keel", "tasks"], ["mremap", "fork-alone", "chain"], [4, 8])
    assert {(system, guest.name): pieces for (system, guest), pieces in work.items()} == {
        **{(system, "small pages"): ["mremap/4", "mremap/8"] for system in ("native", "keel")},
        **{(system, "fork"): ["fork-alone/4", "fork-alone/8"] for system in ("native", "keel")},
        ("keel", "fork, 2 processors"): ["fork-alone/4", "fork-alone/8"],
        ("tasks", "the µ-kernel alone"): ["chain/4", "chain/8"],
    }


def test_growth_of_a_cut_off_guest_is_kept(growth: ModuleType) -> None:
    """Only complete lines are used. The suffix of the guest is placed before the size."""
    text = f"{line('fork-alone/16', 2, [100], idle=9)}\ngrowth: words\n{line('fork-alone/32', 1, [7])[:-4]}"
    found = growth.parse(text, growth.FORKING[1])
    assert [(name, one.median, one.idle_ticks) for name, one in found.items()] == [("fork-alone-2/16", 50, 0)]
    assert growth.parse(text, growth.FORKING[0])["fork-alone/16"].idle_ticks == 9


def test_growth_measures_what_it_names(run: ModuleType, growth: ModuleType, tmp_path: Path) -> None:
    """The program has all rows, and the stages on Keel. In a few rows, the costs of two sizes differ no more than the sizes."""
    run.build_programs(tmp_path)
    listed = subprocess.run([tmp_path / "growth", "list"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    assert sorted(listed) == sorted(growth.ROWS)
    names = ["touch", "mprotect"]
    [((system, guest), pieces)] = growth.plan(["keel"], names, [1, 4]).items()
    samples, failure = growth.measure(system, guest, pieces, tmp_path)
    assert not failure
    assert set(samples) == {f"{stage}/{size}" for name in names for stage in growth.ROWS[name].stages for size in (1, 4)}
    assert not any(sample.idle_ticks for sample in samples.values())
    for stage in (stage for name in names for stage in growth.ROWS[name].stages):
        assert samples[f"{stage}/4"].median < samples[f"{stage}/1"].median * 4 * growth.GROWTH_LIMIT


def test_growth_of_native_tasks_is_measured(growth: ModuleType, tmp_path: Path) -> None:
    """Every row of the native tasks, by the command of the bench."""
    [((system, guest), pieces)] = growth.plan(["tasks"], list(growth.TASK_ROWS), [4]).items()
    samples, failure = growth.measure(system, guest, pieces, tmp_path)
    assert not failure
    assert set(samples) == {f"{stage}/4" for row in growth.TASK_ROWS.values() for stage in row.stages}


def test_growth_is_drawn(run: ModuleType, growth: ModuleType, tmp_path: Path) -> None:
    """As SVG and PNG. Results of a single size are refused."""
    kept = tmp_path / "growth.json"

    def draw() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(REPOSITORY / "keel"), "bench", "growth", "--plot", str(kept)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    sizes = {1: 10.0, 16: 20.0}
    measured = grown(run, native={"munmap": sizes}, keel={"munmap": sizes}, tasks={"chain-map": sizes})
    kept.write_text(run.as_json(measured, run.header("")))
    assert draw().returncode == 0
    assert all(f">{name}<" in (tmp_path / "growth.svg").read_text() for name in ("munmap", "chain-map"))
    assert (tmp_path / "growth.png").stat().st_size
    kept.write_text(run.as_json(grown(run, native={"munmap": {1: 10.0}}, keel={"munmap": {1: 10.0}}), run.header("")))
    refused = draw()
    assert refused.returncode == 1 and "no operation at two sizes" in refused.stderr
    assert growth.main(["--compare", str(kept), str(kept)]) == 0


def test_placements_are_drawn(tmp_path: Path) -> None:
    """As SVG and PNG, with the place that a row lacks left out. Results without a row that is drawn are refused."""
    kept = tmp_path / "placements.json"

    def draw() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(REPOSITORY / "keel"), "bench", "placements", "--plot", str(kept)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    rows = {
        "native process": {"getpid-0": [200.0, 210.0], "read-1": [400.0]},
        "process": {"getpid-0": [320.0], "read-1": [500.0]},
    }
    kept.write_text(
        json.dumps({"instructions": {**rows, "a place": {"read-1": [300.0]}}, "cycles": {place: {} for place in rows}})
    )
    assert draw().returncode == 0
    drawn = (tmp_path / "placements.svg").read_text()
    assert all(f">{name}<" in drawn for name in ("getpid", "read 1 byte", "process", "a place", "executed instructions"))
    assert "modelled cycles" not in drawn and (tmp_path / "placements.png").stat().st_size
    kept.write_text(json.dumps({"instructions": {place: {"write-2": [1.0]} for place in rows}, "cycles": {}}))
    refused = draw()
    assert refused.returncode == 1 and "none of the rows that are drawn" in refused.stderr


def test_latencies_are_drawn(tmp_path: Path) -> None:
    """As SVG and PNG, a curve for each place that has one. Results without a curve are refused."""
    kept = tmp_path / "latency.json"

    def draw() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(REPOSITORY / "keel"), "bench", "latency", "--plot", str(kept)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    rows = {f"memcached-{rate}-{what}": [rate * 10.0] for rate in (5000, 10000) for what in ("mean", "99th")}
    kept.write_text(json.dumps({"native process": rows, "process": rows, "Unikernel Linux": {"redis-get-1-mean": [1.0]}}))
    assert draw().returncode == 0
    drawn = (tmp_path / "latency.svg").read_text()
    assert all(f">{name}<" in drawn for name in ("native process", "process", "memcached: mean", "memcached: 99th percentile"))
    assert ">Unikernel Linux<" not in drawn and (tmp_path / "latency.png").stat().st_size
    kept.write_text(json.dumps({"process": {"redis-get-1-mean": [1.0]}}))
    refused = draw()
    assert refused.returncode == 1 and "no curve" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "word"), [(["quake"], "quake"), (["--systems", "vax"], "vax"), (["--sizes", "1,x"], "1,x")]
)
def test_growth_refuses_what_it_does_not_know(
    growth: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], word: str
) -> None:
    """Refused before anything long starts; the message names the wrong value."""
    with pytest.raises(SystemExit):
        growth.main(arguments)
    assert word in capsys.readouterr().err


def test_unknown_row_is_refused(run: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused before both Linux are built; the message names the wrong value."""
    with pytest.raises(SystemExit):
        run.options_of(["getpid", "getpit"])
    assert "no row getpit" in capsys.readouterr().err
    assert run.options_of(["getpid", run.GCC_ROW, *run.TASK_ROWS]).row[0] == "getpid"


def test_unknown_system_is_refused(run: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the wrong value."""
    with pytest.raises(SystemExit):
        run.main(["--systems", "vax"])
    assert "vax" in capsys.readouterr().err
