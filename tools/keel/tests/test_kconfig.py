# SPDX-License-Identifier: GPL-2.0-only
"""Whether configuration fragments took effect."""

from keel import kconfig

FINAL = 'CONFIG_NET=y\nCONFIG_NR=4\n# CONFIG_FTRACE is not set\nCONFIG_NAME="-keel"\n'


def test_values_strings_and_unset_symbols_are_read() -> None:
    assert kconfig.parse(FINAL + "# a comment\n") == {
        "NET": "y",
        "NR": "4",
        "FTRACE": "n",
        "NAME": '"-keel"',
    }


def test_a_fragment_that_took_effect_gives_nothing() -> None:
    assert kconfig.without_effect(["CONFIG_NET=y", "# CONFIG_FTRACE is not set"], FINAL) == []


def test_an_absent_symbol_counts_as_unset() -> None:
    assert kconfig.without_effect(["# CONFIG_PARAVIRT is not set"], FINAL) == []
    assert kconfig.without_effect(["CONFIG_AIO=y"], FINAL) == ["CONFIG_AIO: asked for y, got n"]


def test_a_later_fragment_wins() -> None:
    assert kconfig.without_effect(["CONFIG_NR=8", "CONFIG_NR=4"], FINAL) == []
    assert kconfig.without_effect(["CONFIG_NR=4", "CONFIG_NR=8"], FINAL) == ["CONFIG_NR: asked for 8, got 4"]
