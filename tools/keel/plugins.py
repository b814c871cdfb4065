# SPDX-License-Identifier: GPL-2.0-only
"""Plugins for the translator of the emulator that runs the guests (plugins/)."""

from pathlib import Path

from . import emulators, packages, process
from .config import Settings
from .lock import locked

SOURCES = Path(__file__).parent / "plugins"
# From which QEMU on each version of the interface is there, newest first.
INTERFACES = {(9, 1): 3, (9, 0): 2, (0, 0): 1}


def interface(emulator: tuple[int, int]) -> int:
    """The newest version of the interface that we know and this emulator has."""
    return next(version for since, version in INTERFACES.items() if emulator >= since)


def build(settings: Settings, name: str) -> Path:
    """The plugin of this name, up to date."""
    packages.require(settings, packages.COMPILER)
    packages.require_emulator(settings)
    version = interface(emulators.version(emulators.chosen(settings)))
    out = settings.build / "plugins" / str(version)
    with locked(settings.locks, "plugins"):
        out.mkdir(parents=True, exist_ok=True)
        argv = ["make", "-C", str(SOURCES), f"O={out}", f"API={version}"]
        process.run_logged(argv, what="building the emulator's plugins", log=settings.logs / "plugins.log")
    return out / f"{name}.so"
