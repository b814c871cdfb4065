# SPDX-License-Identifier: GPL-2.0-only
"""Sets of options for ring 0, and the kernels that have them."""

from pathlib import Path

import pytest

from keel import linux, ukloptions
from keel.config import REPOSITORY, Settings
from keel.errors import KeelError


def test_every_option_has_its_part_of_the_configuration() -> None:
    files = {path.stem for path in (REPOSITORY / "ukl" / "options").glob("*.config")}
    assert files == set(ukloptions.OPTIONS)
    kconfig = (REPOSITORY / "ukl" / "linux" / "arch" / "x86" / "ukl" / "Kconfig.options").read_text()
    assert all(f"config UKL_{name.upper().replace('-', '_')}\n" in kconfig for name in ukloptions.OPTIONS)


@pytest.mark.parametrize(
    ("text", "options"),
    [("", ()), (" ", ()), ("bypass", ("bypass",)), ("bypass, bypass", ("bypass",)), ("ret,bypass", ("bypass", "ret"))],
)
def test_a_set_is_read(text: str, options: tuple[str, ...]) -> None:
    assert ukloptions.parsed(text) == options
    assert ukloptions.parsed(ukloptions.shown(options)) == options


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("frob", "no option 'frob'"),
        ("bypass,", "no option ''"),
        ("bypass,pf-df", "none becomes a double fault"),
        ("pf-ss", "every set"),
        ("nss", "another process wakes it"),
        ("bypass,nss-ps", "nor copied by fork"),
        ("ret,shortcuts", "without bypass"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(KeelError, match=reason):
        ukloptions.parsed(text)


def test_each_set_has_a_kernel_of_its_own() -> None:
    settings = Settings(build=Path("/build"))
    assert settings.ukl_kernel(()) != settings.ukl_kernel(("bypass",))
    assert settings.ukl_symbols(()) != settings.ukl_symbols(("bypass",))
    assert linux.ukl_target(()) == linux.UKL
    assert linux.ukl_target(("bypass",)).fragments == (*linux.UKL.fragments, "ukl/options/bypass.config")
