# SPDX-License-Identifier: GPL-2.0-only
"""A guest under a plugin of the emulator's translator, which counts what it executes or models its cycles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import plugins, qemu, timing
from .config import Settings


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


def prepare(settings: Settings, place: Path, machines: Sequence[str], *, part: bool, sums: bool, native: bool = False) -> Watch:
    """Watch a guest, with models of these machines or counting, and files in an empty directory.

    `part`: only what a program marks of itself; `sums`: without a model, how many instructions each part has, and no more;
    `native`: Linux without Keel.
    """
    report, model = place / "report", place / "model"
    options = [f"output={report}"]
    options += ["part=on"] if part else []
    if machines:
        timing.write_model(model, machines, native=native)
        options.append(f"model={model}")
    elif sums:
        options.append("sums=on")
    plugin = plugins.build(settings, "timing" if machines else "profile")
    return Watch(qemu.plugin(plugin, *options), report, machines)
