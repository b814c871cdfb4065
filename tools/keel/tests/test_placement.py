# SPDX-License-Identifier: GPL-2.0-only
"""The words of --place."""

import pytest

from keel import boot, bootconf, placement
from keel.errors import KeelError
from keel.placement import Placement, parse


def test_without_a_word_linux_is_a_task() -> None:
    assert parse([]) == Placement()
    assert parse(["linux=kernel", "linux=task"]) == Placement()
    assert Placement().kernel_words() == Placement().linux_words() == []


def test_linux_and_programs_beside_it() -> None:
    found = parse(["/bin/a=b=kernel", "linux=kernel", "/usr/bin/perl=server"])
    assert found == Placement("kernel", (("/bin/a=b", "kernel"), ("/usr/bin/perl", "server")))
    assert found.kernel_words() == ["supervisor"]
    assert found.linux_words() == ["keel.place=/bin/a=b=kernel", "keel.place=/usr/bin/perl=server"]


def test_programs_in_the_server() -> None:
    found = parse(["/usr/bin/perl=server", "linux=task"])
    assert found == Placement("task", (("/usr/bin/perl", "server"),))
    assert found.kernel_words() == []
    assert found.linux_words() == ["keel.place=/usr/bin/perl=server"]


def test_32_bit_programs_in_windows() -> None:
    small, unsafe = parse(["i386=small"]), parse(["i386=small-unsafe"])
    assert small.linux_words() == unsafe.linux_words() == ["keel.place=i386=small"]
    assert (small.kernel_words(), unsafe.kernel_words()) == ([], ["small-unsafe"])


def test_linux_in_32_bit_programs_spaces() -> None:
    resident = parse(["i386=resident"])
    assert resident.linux_words() == ["keel.place=i386=resident"]
    assert (resident.kernel_words(), resident.linux_place()) == (["supervisor"], "resident")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["linux"], "nothing can be placed so"),
        (["linux=server"], "nothing can be placed so"),
        (["linux="], "nothing can be placed so"),
        (["=kernel"], "nothing can be placed so"),
        (["perl=kernel"], "nothing can be placed so"),
        (["/usr/bin/perl=place"], "nothing can be placed so"),
        (["/usr/bin/perl=kernel"], "only beside linux=kernel"),
        (["/usr/bin/perl=kernel", "linux=task"], "only beside linux=kernel"),
        (["/usr/bin/perl=kernel", "/usr/bin/sort=server"], "only beside linux=kernel"),
        (["linux=kernel", "/a b=kernel"], "has a blank"),
        (["i386=large"], "nothing can be placed so"),
        (["i386=small", "linux=kernel"], "have no programs"),
        (["i386=small", "/usr/bin/perl=server"], "have no programs"),
        (["i386=resident", "linux=kernel"], "have no programs"),
        (["linux=kernel", "/" + 255 * "a" + "=kernel"], "more than 255 bytes"),
        (["linux=kernel", *(f"/{number}=kernel" for number in range(9))], "9 programs"),
    ],
)
def test_what_cannot_be_is_an_error(words: list[str], reason: str) -> None:
    with pytest.raises(KeelError, match=reason):
        parse(words)


def test_the_boot_configuration_says_it() -> None:
    template = bootconf.read(bootconf.DEFAULT_TEMPLATE)
    assert "\tplace task\n" in bootconf.fill(template, ramdisk="r", linux_args="")
    assert "\tplace kernel\n" in bootconf.fill(template, ramdisk="r", linux_args="", linux_place=placement.KERNEL)
    choices = boot.Choices(placement=parse(["linux=kernel"]))
    assert boot.kernel_parameters(choices).split()[-1] == placement.SUPERVISOR_TASKS
