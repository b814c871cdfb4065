# SPDX-License-Identifier: GPL-2.0-only
"""The plugins for the emulator's translator are there for each version of its interface."""

import subprocess
from pathlib import Path

import pytest

from keel import plugins


@pytest.mark.parametrize(("emulator", "version"), [((7, 2), 1), ((8, 2), 1), ((9, 0), 2), ((9, 1), 3), ((10, 0), 3)])
def test_an_emulator_has_a_version(emulator: tuple[int, int], version: int) -> None:
    assert plugins.interface(emulator) == version


@pytest.mark.parametrize("version", plugins.INTERFACES.values())
def test_plugins_are_built_for_each_version(version: int, tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "-C", plugins.SOURCES, f"O={tmp_path}", f"API={version}"], check=True)
    for name in ("latency", "profile", "timing"):
        told = subprocess.run(["readelf", "-Ws", tmp_path / f"{name}.so"], check=True, capture_output=True, text=True).stdout
        assert ("qemu_plugin_register_vcpu_tb_exec_inline" in told) == (version == 1 and name == "profile")
        assert "qemu_plugin_version" in told
