# SPDX-License-Identifier: GPL-2.0-only
"""Plugins for the translator of this machine's emulator (plugins/)."""

from pathlib import Path

from . import packages, process
from .config import Settings
from .lock import locked

SOURCES = Path(__file__).parent / "plugins"


def build(settings: Settings, name: str) -> Path:
    """The plugin of this name, up to date."""
    packages.require(settings, packages.COMPILER)
    out = settings.build / "plugins"
    with locked(settings.locks, "plugins"):
        out.mkdir(parents=True, exist_ok=True)
        argv = ["make", "-C", str(SOURCES), f"O={out}"]
        process.run_logged(argv, what="building the emulator's plugins", log=settings.logs / "plugins.log")
    return out / f"{name}.so"
