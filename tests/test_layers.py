# SPDX-License-Identifier: GPL-2.0-only
"""Layers of packages over the default root: what a guest sees of them, and what is left of an installation that fails.

The packages come from Debian's archive.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPOSITORY, SYSTEMS, keel, run_guest, together

# One layer for all of them.
pytestmark = together("layers")
PACKAGES, LAYER, UNWANTED = "less,mtr-tiny,vim-tiny", "keel-tests", "keel-tests-unwanted"
MOST_MB = 16
INTERRUPTED = 130
LIMIT_S = 300
# The packages' scripts have made `vi`, which works, and given a file its capability; files of the default root, with several
# names, another owner, set-id or a capability, are as they were. It has no files of documents that dpkg misses, except licences.
SEEN = """
dpkg-query -W -f '${Status}\\n' vim-tiny
readlink -f "$(command -v vi)"
echo one > /tmp/file && vi -e -s -c s/one/two/ -c wq /tmp/file && cat /tmp/file
stat -c '%a %U %G %h' /var/log/redis /usr/bin/su /usr/bin/perl
getcap /usr/bin/mtr-packet /usr/bin/ping
dpkg --audit
dpkg --verify | grep -v '^missing .*/usr/share/\\(doc\\|info\\|lintian\\|locale\\|man\\)/' | grep -v ' c /etc/'
"""
EXPECTED = """\
install ok installed
/usr/bin/vim.tiny
two
2750 redis adm 2
4755 root root 1
755 root root 2
/usr/bin/mtr-packet cap_net_raw=ep
/usr/bin/ping cap_net_raw=ep
"""


@pytest.fixture(scope="module", autouse=True)
def layer() -> Iterator[None]:
    """The layer, which is removed in the end."""
    made = keel("run", "--native", "--packages", PACKAGES, "--layer", LAYER, "--exec", "true", timeout_s=LIMIT_S)
    assert made.status == 0, made.error
    yield
    removed = keel("root", "remove", LAYER)
    assert removed.status == 0, removed.error
    assert LAYER not in listed()


def listed() -> dict[str, list[str]]:
    """The table of default roots and layers: a row by its name."""
    return {words[0]: words[1:] for line in keel("root", "list").output.splitlines() if (words := line.split())}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("options", [[], ["--icount"]], ids=["disk", "memory"])
def test_a_guest_sees_a_root_with_the_packages(system: str, options: list[str]) -> None:
    result = run_guest(system, SEEN, limit_s=LIMIT_S, options=[*options, "--layer", LAYER])
    assert result.output == EXPECTED, result.error


def test_a_layer_has_only_the_difference() -> None:
    size, *packages = listed()[LAYER]
    assert packages == ["mtr-tiny", "vim-tiny"] and int(size) <= MOST_MB


def test_a_taken_name_is_refused() -> None:
    result = keel("run", "--native", "--packages", "gdb", "--layer", LAYER, "--exec", "true")
    assert result.status != 0 and "has other packages: mtr-tiny vim-tiny" in result.last_error_line()


def test_a_package_that_does_not_exist_is_named() -> None:
    packages = "tree,keel-tests-no-such-package"
    result = keel("run", "--native", "--packages", packages, "--layer", UNWANTED, "--exec", "true", timeout_s=LIMIT_S)
    assert result.status != 0 and "has no package keel-tests-no-such-package" in result.last_error_line()
    assert UNWANTED not in listed()


def test_an_interrupted_installation_leaves_nothing() -> None:
    words = ["run", "--native", "--packages", "tree", "--layer", UNWANTED, "--exec", "true", "--verbose"]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)  # mmdebstrap's root must be reached by other users
        with subprocess.Popen(
            [sys.executable, str(REPOSITORY / "keel"), *words],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": name},
        ) as process:
            assert process.stderr
            assert any("running special hook" in line for line in process.stderr)
            assert list(place.iterdir())
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert process.wait(LIMIT_S) == INTERRUPTED, rest
        assert rest.splitlines()[-1] == "keel: interrupted"
        assert list(place.iterdir()) == []
    assert UNWANTED not in listed()
