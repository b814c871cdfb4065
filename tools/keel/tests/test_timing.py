# SPDX-License-Identifier: GPL-2.0-only
"""The model of a processor's time, held against what the papers measured; and how the plugin's report is read."""

import ctypes
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from keel import plugins
from keel.config import REPOSITORY
from keel.errors import KeelError
from keel.profile import MICRO_KERNEL, PROGRAMS, USER, read_symbols
from keel.timing import KINDS, MILLI, VARIANTS, Part, choose, machines, read_report, write_model

PAGE = 4096
KERNEL = 1 << 63
UNTAGGED, TAGGED = range(2)
# As in plugins/model.h.
SYSCALL, SYSRET, IRET, SPACE_CHANGE, INTERRUPT, SEGMENT_LOAD = 1, 2, 4, 6, 7, 8
# More than a machine of the model takes.
MACHINE_BYTES = 4096


class Model:
    """A machine of plugins/model.c."""

    def __init__(self, library: ctypes.CDLL, name: str, directory: Path, *, native: bool = False) -> None:
        self.library = library
        self.machine = ctypes.create_string_buffer(MACHINE_BYTES)
        self.time = (ctypes.c_uint64 * 2)()
        write_model(directory / "model", [name], native=native)
        first, *lines = (directory / "model").read_text().splitlines()
        assert first == f"machine {name}"
        for key, value in (line.split() for line in lines):
            assert library.model_set(self.machine, key.encode(), ctypes.c_uint64(int(value))), key
        assert library.model_start(self.machine)

    def cycles(self) -> list[float]:
        """What went by since this was last asked."""
        taken = [time / MILLI for time in self.time]
        self.time[0] = self.time[1] = 0
        return taken

    def access(self, address: int, *, store: bool = False) -> list[float]:
        """Read or write a datum, at the same physical address, and return the cycles."""
        where = ctypes.c_uint64(address), ctypes.c_uint64(address % KERNEL)
        self.library.model_access(self.machine, *where, ctypes.c_bool(store), self.time)
        return self.cycles()

    def fetch(self, address: int, size: int = 5) -> list[float]:
        """The same for code."""
        where = ctypes.c_uint64(address), ctypes.c_uint64(address % KERNEL)
        self.library.model_fetch(self.machine, *where, ctypes.c_uint64(size), self.time)
        return self.cycles()

    def change(self, change: int) -> list[float]:
        """One of the changes above."""
        self.library.model_change(self.machine, change, self.time)
        return self.cycles()

    def change_space(self) -> list[float]:
        """Write CR3."""
        return self.change(SPACE_CHANGE)

    def misses(self) -> list[list[int]]:
        """Of code's pages and of data's, for each variant, since this was last asked."""
        counted = [[self.library.model_misses(self.machine, variant, kind) for kind in range(2)] for variant in range(2)]
        self.library.model_forget_misses(self.machine)
        return counted


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The model as a library."""
    built = tmp_path_factory.mktemp("model") / "model.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, plugins.SOURCES / "model.c"], check=True)
    found = ctypes.CDLL(str(built))
    found.model_set.restype = found.model_start.restype = ctypes.c_bool
    found.model_misses.restype = ctypes.c_uint64
    return found


@pytest.mark.parametrize("name", machines())
def test_what_was_used_is_there(library: ctypes.CDLL, name: str, tmp_path: Path) -> None:
    model = Model(library, name, tmp_path)
    assert model.access(PAGE)[UNTAGGED] > 0
    assert model.access(PAGE) == [0, 0]
    assert model.access(PAGE, store=True) == [0, 0]
    assert model.fetch(PAGE)[UNTAGGED] > 0
    assert model.fetch(PAGE) == [0, 0]


def test_pentium_4_replaces_its_translations_in_the_time_of_the_paper(library: ctypes.CDLL, tmp_path: Path) -> None:
    """Small address spaces, section 2.3.1: 4,000 cycles for the code's, 3,000 for the data's; patterns of section 4.1."""
    model = Model(library, "pentium4-1400", tmp_path)
    code = [PAGE * 1000 + at * 4160 for at in range(128)]
    data = [PAGE * 9000 + at * 4160 for at in range(64)]
    for _ in range(2):
        first = [sum(model.fetch(at)[UNTAGGED] for at in code), sum(model.access(at)[UNTAGGED] for at in data)]
    assert first == [0, 0]
    assert model.change_space() == [480, 100]
    for at in data:
        model.access(at)
    again = [model.access(at) for at in data]
    assert again == [[0, 0]] * 64
    model.change_space()
    dropped = [sum(model.access(at)[variant] for at in data) for variant in (UNTAGGED, TAGGED)]
    assert dropped == [64 * 48, 0]
    refilled = [model.fetch(at) for at in code]
    # Each takes its TLB entry, and its line of the trace cache that was flushed as well.
    assert sum(time[UNTAGGED] for time in refilled) == 128 * (31 + 27)
    assert sum(time[TAGGED] for time in refilled) == 0
    assert (round(128 * 31, -3), round(64 * 48, -3)) == (4_000, 3_000)


def test_pentium_4_fills_its_trace_cache_in_the_time_of_the_paper(library: ctypes.CDLL, tmp_path: Path) -> None:
    """Section 2.3.1: 5,000 to 10,000 cycles."""
    model = Model(library, "pentium4-1400", tmp_path)
    lines = range(0, int(machines()["pentium4-1400"]["code_cache"]), 64)
    for _ in range(2):
        for at in lines:
            model.fetch(at)
    model.change_space()
    assert 5_000 <= sum(model.fetch(at)[UNTAGGED] for at in lines) <= 10_000


def test_the_kernels_translations_stay_where_there_are_global_pages(library: ctypes.CDLL, tmp_path: Path) -> None:
    for name, walk in (("pentium-133", 25), ("skylake", 0)):
        model = Model(library, name, tmp_path)
        model.access(KERNEL + PAGE)
        model.change_space()
        assert model.access(KERNEL + PAGE) == [walk, 0]


def test_the_server_s_part_of_the_upper_half_is_not_the_kernel_s(library: ctypes.CDLL, tmp_path: Path) -> None:
    """The figure of a walk comes back for pages of the server's alone; native Linux has all of the half."""
    walk, servers = 26, (0xFFFFD00000001000, 0xFFFFFFFFC1000000)
    for native, expected in ((False, walk), (True, 0)):
        model = Model(library, "skylake", tmp_path, native=native)
        for address in (0xFFFF800000001000, 0xFFFFFFFF80100000, *servers):
            model.access(address)
        model.change_space()
        assert [model.access(address)[UNTAGGED] for address in servers] == [expected] * 2
        assert [model.access(address)[UNTAGGED] for address in (0xFFFF800000001000, 0xFFFFFFFF80100000)] == [0, 0]


def test_pentium_enters_and_leaves_the_kernel_in_the_time_of_the_paper(library: ctypes.CDLL, tmp_path: Path) -> None:
    """SOSP'97, section 5.2: 82 cycles."""
    model = Model(library, "pentium-133", tmp_path)
    for pair in ((SYSCALL, SYSRET), (INTERRUPT, IRET)):
        assert sum(model.change(change)[UNTAGGED] for change in pair) == 82


def test_pentium_4_reloads_the_segments_of_a_switch_in_the_time_of_the_paper(library: ctypes.CDLL, tmp_path: Path) -> None:
    """Section 2.3.2: 253 cycles; the data segments are four."""
    model = Model(library, "pentium4-1400", tmp_path)
    assert sum(model.change(SEGMENT_LOAD)[TAGGED] for _ in range(4)) == 253


def test_misses_are_counted_by_kind(library: ctypes.CDLL, tmp_path: Path) -> None:
    """A page that another level of the TLB has is no miss; what a change of space drops is, without tags."""
    model = Model(library, "skylake", tmp_path)
    pages = [PAGE * at for at in range(100)]
    for at in pages:
        model.access(at)
    model.fetch(PAGE)
    assert model.misses() == [[0, 100]] * 2
    for at in pages:
        model.access(at)
    assert model.misses() == [[0, 0]] * 2
    model.change_space()
    model.fetch(PAGE)
    model.access(PAGE)
    model.access(2 * PAGE)
    assert model.misses() == [[1, 1], [0, 0]]


def test_pentium_s_stores_bring_no_line(library: ctypes.CDLL, tmp_path: Path) -> None:
    """SOSP'97, section 6.2."""
    model = Model(library, "pentium-133", tmp_path)
    model.access(PAGE, store=True)
    assert model.access(PAGE)[UNTAGGED] == machines()["pentium-133"]["data_from_second"]


def test_a_set_forgets_what_was_used_least_recently(library: ctypes.CDLL, tmp_path: Path) -> None:
    model = Model(library, "pentium-133", tmp_path)
    one_set = [at * 8192 for at in range(3)]
    for at in (0, 1, 0, 2):
        model.access(one_set[at])
    assert model.access(one_set[0])[UNTAGGED] == 0
    assert model.access(one_set[1])[UNTAGGED] > 0


def test_another_level_of_translations_is_asked_first(library: ctypes.CDLL, tmp_path: Path) -> None:
    model = Model(library, "skylake", tmp_path)
    # Their lines all fit into the first cache.
    data = [at * 4160 for at in range(256)]
    for at in data:
        model.access(at)
    assert {model.access(at)[UNTAGGED] for at in data} == {machines()["skylake"]["page_from_second"]}


@pytest.mark.parametrize("parameter", ["line", "code_cache_ways", "data_pages"])
def test_a_machine_that_makes_no_sense_is_refused(library: ctypes.CDLL, parameter: str, tmp_path: Path) -> None:
    model = Model(library, "skylake", tmp_path)
    assert library.model_set(model.machine, parameter.encode(), ctypes.c_uint64(0))
    assert not library.model_start(model.machine)
    assert not library.model_set(model.machine, b"speed", ctypes.c_uint64(1))


def test_an_unknown_machine_is_refused() -> None:
    assert choose("skylake,pentium-133") == ["skylake", "pentium-133"]
    with pytest.raises(KeelError, match="there is no machine 486"):
        choose("skylake,486")


def test_a_report_is_read() -> None:
    lines = [
        "part 10 20 15 30 30",
        "misses 1 2 0 0 3 2 0 0",
        "space_changes 4",
        "part 7 8 8 9 9",
        "block 0xffffffff80100008 3 5 4 6 6",
        "block 0x400000 2 3 2 1 1",
    ]
    report = read_report(lines, ["a", "b"])
    misses = {
        name: dict(zip(VARIANTS, [dict(zip(KINDS, [first, 2])), {"code": 0, "data": 0}])) for name, first in [("a", 1), ("b", 3)]
    }
    assert report.parts == [
        Part(10, {"a": dict(zip(VARIANTS, [20, 15])), "b": dict(zip(VARIANTS, [30, 30]))}, misses, 4),
        Part(7, {"a": dict(zip(VARIANTS, [8, 8])), "b": dict(zip(VARIANTS, [9, 9]))}),
    ]
    images = [read_symbols(MICRO_KERNEL, "ffffffff80100000 T receive\n")]
    assert report.profile("a", "tagged", images).counts == Counter({(MICRO_KERNEL, "receive"): 4, (USER, PROGRAMS): 2})


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """What plugins/timing.c makes of one instruction's bytes; the emulator's functions are not there."""
    place = tmp_path_factory.mktemp("decoder")
    (place / "decoder.c").write_text(
        '#include "timing.c"\n'
        "static const uint8_t *bytes; static size_t size;\n"
        "size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn) { (void)insn; return size; }\n"
        "const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn) { (void)insn; return bytes; }\n"
        "EXPORT int changes_to(const uint8_t *code, size_t count) { bytes = code; size = count; return change_of(NULL); }\n"
        "EXPORT int loads(const uint8_t *code, size_t count) { bytes = code; size = count; return is_segment_load(NULL); }\n"
    )
    sources, marks = plugins.SOURCES, REPOSITORY / "guest"
    command = ["cc", "-shared", "-fPIC", "-DPLUGIN_API=1", f"-I{sources}", f"-I{marks}", "-o", str(place / "decoder.so")]
    subprocess.run([*command, place / "decoder.c"], check=True)
    return ctypes.CDLL(str(place / "decoder.so"), mode=os.RTLD_LAZY)


@pytest.mark.parametrize(
    "code", ["8ed8", "418ed8", "668ed8", "8e2424", "07", "17", "1f", "0fa1", "480fa9", "0fb20424", "660fb50424"]
)
def test_a_load_of_a_segment_register_is_known(decoder: ctypes.CDLL, code: str) -> None:
    assert decoder.loads(bytes.fromhex(code), len(code) // 2)


@pytest.mark.parametrize("code", ["8cd8", "c50424", "0fa0", "40", "48", "66", "0f", "488b07", "f30f1e", "0fb6c0"])
def test_other_instructions_are_none(decoder: ctypes.CDLL, code: str) -> None:
    assert not decoder.loads(bytes.fromhex(code), len(code) // 2)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("0f05", SYSCALL),
        ("0f34", SYSCALL),
        ("480f07", SYSRET),
        ("0f07", SYSRET),
        ("0f35", SYSRET),
        ("cd80", INTERRUPT),
        ("cc", 0),
    ],
)
def test_a_change_of_mode_is_known(decoder: ctypes.CDLL, code: str, change: int) -> None:
    assert decoder.changes_to(bytes.fromhex(code), len(code) // 2) == change
