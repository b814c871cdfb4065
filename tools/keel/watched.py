# SPDX-License-Identifier: GPL-2.0-only
"""A guest under a plugin of the emulator's translator, which counts what it executes or models its cycles."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import plugins, process, qemu, timing
from .config import Settings
from .errors import KeelError


@dataclass(frozen=True)
class Watch:
    """The emulator's arguments, and the file of the plugin's report."""

    arguments: tuple[str, ...]
    report: Path
    machines: Sequence[str]

    def lines(self) -> list[str]:
        """The report; nothing where the guest did not come so far."""
        return self.report.read_text().splitlines() if self.report.exists() else []

    def modelled(self) -> timing.Report:
        """Parts and, with a model, blocks with their cycles."""
        return timing.read_report(self.lines(), self.machines)


def code_of(program: Path) -> range:
    """The addresses of a program's code, where it is linked at fixed ones."""
    told = process.output(["readelf", "-hlW", str(program)])
    # Type, offset, virtual and physical address, sizes in the file and in memory, and what is allowed.
    segments = re.findall(r"^ +LOAD +\S+ (0x\w+) \S+ \S+ (0x\w+) R E ", told, re.MULTILINE)
    if not re.search(r"Type: +EXEC ", told) or len(segments) != 1:
        raise KeelError(f"{program} is not linked at fixed addresses", "--of needs a program that is (gcc -static -no-pie)")
    start, size = (int(word, 0) for word in segments[0])
    return range(start, start + size)


def prepare(
    settings: Settings,
    place: Path,
    machines: Sequence[str],
    *,
    part: bool,
    sums: bool,
    native: bool = False,
    program: Path | None = None,
) -> Watch:
    """Watch a guest, with models of these machines or counting, and files in an empty directory.

    `part`: only what a program marks of itself; `sums`: without a model, how many instructions each part has, and no more;
    `native`: Linux without Keel; `program`: without a model, only what this one executes and kernels do for it.
    """
    report, model = place / "report", place / "model"
    options = [f"output={report}"]
    options += ["part=on"] if part else []
    if program:
        code = code_of(program)
        options.append(f"program={code.start:x}-{code.stop:x}")
    if machines:
        timing.write_model(model, machines, native=native)
        options.append(f"model={model}")
    elif sums:
        options.append("sums=on")
    plugin = plugins.build(settings, "timing" if machines else "profile")
    return Watch(qemu.plugin(plugin, *options), report, machines)
