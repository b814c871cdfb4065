# SPDX-License-Identifier: GPL-2.0-only
"""The cost of the µ-kernel's mechanisms in executed instructions, and their ceilings.

The native task user/bench measures on the deterministic clock; it runs alone, so that a figure is the same number in
every run of the same build.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from . import boot, bootconf, latency, machine, nativetasks
from .config import Settings
from .errors import KeelError

TIMEOUT_S = 120.0
# The µ-kernel's command line without its clearing of registers, and the name of that column.
UNSCRUBBED_LINE = "noclear"
# The ceilings are for code of this compiler and later ones. Code of an older one (a Debian 12 without its security updates has
# 1.85) takes up to 26 % more, so all ceilings are higher there.
MEASURED_RUST = (1, 96)
OLDER_RUST_FACTOR = 1.3


@dataclass(frozen=True)
class Known:
    """The facts known about a figure in advance.

    The ceiling is what a test holds it to: a few percent above what it was when it was last made better.
    """

    ceiling: int
    sel4: int | None = None
    pistachio: int | None = None


# seL4's C fast path and Pistachio's assembler fast path, measured on the same clock. Lower a ceiling when its figure sinks.
KNOWN = {
    "null-call": Known(210, sel4=241, pistachio=80),
    "ipc-0-words-one-space": Known(165),
    "ipc-0-words-one-space-one-way": Known(82),
    "ipc-4-words-one-space": Known(165),
    "ipc-4-words-one-space-one-way": Known(82),
    "ipc-16-words-one-space": Known(212),
    "ipc-16-words-one-space-one-way": Known(106),
    "ipc-0-words-two-spaces": Known(173, sel4=420, pistachio=362),
    "ipc-0-words-two-spaces-one-way": Known(87),
    "ipc-4-words-two-spaces": Known(173),
    "ipc-4-words-two-spaces-one-way": Known(87),
    "ipc-16-words-two-spaces": Known(220),
    "ipc-16-words-two-spaces-one-way": Known(111),
    "string-64k-one-space": Known(14_970),
    "string-64k-two-spaces": Known(14_980),
    "map-page-two-spaces": Known(710),
    "unmap-page-two-spaces": Known(642),
    "map-64k-two-spaces": Known(1_215),
    "unmap-64k-two-spaces": Known(1_190),
    "map-page-and-tables-two-spaces": Known(2_180),
    "unmap-page-and-tables-two-spaces": Known(960),
    "page-fault-one-space": Known(605),
    "page-fault-two-spaces": Known(452, sel4=2_395, pistachio=1_533),
    "page-fault-and-registers-two-spaces": Known(503),
    "exception-one-space": Known(1_345),
    "exception-two-spaces": Known(1_340, sel4=1_249),
    "interrupt-one-space": Known(515),
    "interrupt-two-spaces": Known(522),
    "foreign-call-in": Known(100),
    "foreign-call-out": Known(114),
    "foreign-call": Known(214),
    "foreign-call-32-bit-in": Known(143),
    "foreign-call-32-bit-out": Known(192),
    "foreign-call-32-bit": Known(335),
    "foreign-call-32-bit-small-in": Known(157),
    "foreign-call-32-bit-small-out": Known(198),
    "foreign-call-32-bit-small": Known(355),
    "task-create": Known(4_090),
    "task-delete": Known(4_680),
    "lthread-create": Known(1_630),
    "rpc-two-spaces": Known(271),
    "mapping-rpc-64k-two-spaces": Known(4_440),
    "pipe-1-byte-two-spaces": Known(8_285),
    "lthread-delete": Known(550),
    "ipc-32-bit-small-spaces": Known(268),
    "ipc-32-bit-two-spaces": Known(250),
    "ipc-4-words-two-spaces-fpu-of-one": Known(221),
    "ipc-4-words-two-spaces-fpu-of-both": Known(264),
}


@dataclass(frozen=True)
class Figure:
    """One figure: instructions, the median of an odd number of samples and the extremes."""

    name: str
    median: int
    least: int
    most: int
    idled: bool

    @property
    def remark(self) -> str:
        """How samples differ from the median."""
        return "idled: not a measure" if self.idled else "" if self.least == self.most else f"{self.least} to {self.most}"


def parse(output: str) -> list[Figure]:
    """The figures in the output of the measuring program."""
    return [Figure(**json.loads(line)) for line in output.splitlines() if line.startswith("{")]


def measure(settings: Settings, kernel_line: str = "") -> list[Figure]:
    """Boot the measuring program on the deterministic clock; the parts are built."""
    # QEMU knows no limits of segments; what windows take is the same.
    line = f"small-unsafe {kernel_line}".rstrip()
    choices = boot.Choices(boot_template=bootconf.FIGURES_TEMPLATE, icount=True, kernel_line=line)
    ended = nativetasks.run(settings, choices, TIMEOUT_S)
    if ended.exit_value != machine.EXIT_TESTS_PASSED:
        raise KeelError(f"the measuring program failed: {ended.last_line()}")
    return parse(ended.output)


def leeway(compiler: tuple[int, int]) -> float:
    """The factor of the ceilings for a compiler."""
    return 1.0 if compiler >= MEASURED_RUST else OLDER_RUST_FACTOR


def judge(figures: Sequence[Figure], leeway: float) -> Iterator[tuple[str, str]]:
    """Each figure's name with what is wrong with it, or nothing; also those that should be there."""
    for figure in figures:
        known = KNOWN.get(figure.name)
        if figure.idled:
            yield figure.name, "the processor idled while it was measured"
        elif known is None:
            yield figure.name, "expected a ceiling in the table, there is none"
        elif figure.median > known.ceiling * leeway:
            yield figure.name, f"expected at most {known.ceiling * leeway:.0f} instructions, got {figure.median}"
        else:
            yield figure.name, ""
    for name in KNOWN.keys() - {figure.name for figure in figures}:
        yield name, "expected a figure, there is none"


def rows(figures: Sequence[Figure], unscrubbed: Sequence[Figure]) -> list[list[str]]:
    """A header and a line for each figure; beside it what it is where SYSCALL leaves the user's registers."""
    rows = [["operation", "instructions", UNSCRUBBED_LINE, "seL4", "Pistachio", "remark"]]
    without = {figure.name: f"{figure.median:,}" for figure in unscrubbed}
    for figure in figures:
        known = KNOWN.get(figure.name, Known(figure.median))
        others = ("" if number is None else f"{number:,}" for number in (known.sel4, known.pistachio))
        rows.append([figure.name, f"{figure.median:,}", without.get(figure.name, ""), *others, figure.remark])
    return rows


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, to be read on a terminal too."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "".join(f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths))} |\n" for row in rows)


def as_json(figures: Sequence[Figure], unscrubbed: Sequence[Figure], sections: Sequence[latency.Section]) -> str:
    """Every number, with the ceilings."""
    without = {figure.name: figure.median for figure in unscrubbed}
    measured = {
        figure.name: {
            "median": figure.median,
            "least": figure.least,
            "most": figure.most,
            "idled": figure.idled,
            UNSCRUBBED_LINE: without.get(figure.name),
            "ceiling": KNOWN[figure.name].ceiling if figure.name in KNOWN else None,
        }
        for figure in figures
    }
    data = {
        "unit": "guest instructions",
        "clock": "QEMU -icount shift=0",
        "figures": measured,
        "longest stretches with interrupts off": [asdict(section) for section in sections],
    }
    return json.dumps(data, indent=2) + "\n"
