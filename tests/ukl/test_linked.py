# SPDX-License-Identifier: GPL-2.0-only
"""Applications in their kernel's own image: `./keel ukl build --linked`."""

from pathlib import Path

import pytest
from conftest import REPOSITORY, keel, started, together

LIMIT_S = 300
# A build takes back the image of the earlier one, which must not be another test's.
pytestmark = together("linked")
# A process with a child, which must have its own copy of the data.
SOURCE = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int value = 1;

int main(int argc, char **argv)
{
	unsigned short cs;

	__asm__("mov %%cs, %0" : "=r"(cs));
	if (!fork()) {
		value = 2;
		_exit(0);
	}
	wait(NULL);
	printf("linked: ring %d, value %d, %s\n", cs & 3, value, argc > 1 ? argv[1] : "no words");
	return 0;
}
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel with an application in it."""
    source = tmp_path_factory.mktemp("ukl") / "linked.c"
    source.write_text(SOURCE)
    built = keel("ukl", "build", "--linked", str(source), timeout_s=3600)
    assert built.status == 0, built.error
    return REPOSITORY / "build" / "ukl" / "linked" / "linked" / "bzImage"


def test_the_image_is_all_that_a_machine_needs(image: Path) -> None:
    """Any boot loader of Linux boots it, without a RAM disk, a root or arguments. The machine powers off when the application
    ends.
    """
    argv = ["qemu-system-x86_64", "-kernel", str(image), "-m", "256", "-nographic", "-no-reboot", "-nic", "none"]
    with started(argv) as machine:
        machine.wait_for(b"linked: ring 0, value 1, no words\r\n", LIMIT_S)
        assert machine.child.wait(LIMIT_S) == 0


def test_alone_it_gets_words(image: Path) -> None:
    """`./keel run` boots it too, and passes arguments on."""
    assert image.is_file()
    with started(
        [str(REPOSITORY / "keel"), "ukl", "run", "--alone", "--timeout", str(LIMIT_S), "linked", "--", "some"]
    ) as machine:
        machine.wait_for(b"linked: ring 0, value 1, some\r\n", LIMIT_S)
        assert machine.child.wait(LIMIT_S) == 0


def test_beside_a_root_it_is_one_program(image: Path) -> None:
    """Other programs run as usual, and the application is in the same directory as others."""
    assert image.is_file()
    command = "/run/ukl/linked there; cat /proc/1/comm"
    result = keel("ukl", "run", "linked", "--timeout", str(LIMIT_S), "--exec", command, timeout_s=2 * LIMIT_S)
    assert result.output == "linked: ring 0, value 1, there\ninit\n", result.error


def test_alone_is_refused_where_it_cannot_be(image: Path, tmp_path: Path) -> None:
    """A command needs a root, and an application that is not in its kernel's image needs a RAM disk."""
    assert image.is_file()
    refused = keel("ukl", "run", "linked", "--alone", "--exec", "true")
    assert "with --alone there is nothing but the application" in refused.error
    (tmp_path / "loose.c").write_text(SOURCE)
    assert keel("ukl", "build", str(tmp_path / "loose.c"), timeout_s=3600).status == 0
    assert "loose is not linked into a kernel" in keel("ukl", "run", "loose", "--alone").error
