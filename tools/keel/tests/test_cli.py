# SPDX-License-Identifier: GPL-2.0-only
"""The command's arguments and its one-line errors."""

import pytest

from keel.cli import main
from keel.errors import Status


@pytest.mark.parametrize(
    "arguments",
    [[], ["run", "--frob"], ["fly"], ["run", "--mem", "lots"], ["run", "--accel", "xen"]],
)
def test_wrong_arguments_end_with_the_usage_status(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == Status.USAGE


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["build", "nothing"], Status.USAGE),
        (["test", "nothing"], Status.USAGE),
        (["example", "nothing"], Status.USAGE),
        (["trace"], Status.USAGE),
        (["trace", "nothing"], Status.USAGE),
        (["trace", "rpc", "--exec", "true"], Status.USAGE),
        (["trace", "rpc", "--last", "0"], Status.USAGE),
        (["ukl", "run", "no-such"], Status.ERROR),
        (["ukl", "run", "../last"], Status.ERROR),
        (["ukl", "build", "/no/such.c"], Status.ERROR),
        (["ukl", "build", "/etc/passwd"], Status.ERROR),
        (["ukl", "build", "two words.c"], Status.ERROR),
        (["run", "--mem", "1"], Status.ERROR),
        (["run", "--exec", ""], Status.ERROR),
        (["run", "--root", "/no/such/root"], Status.ERROR),
    ],
)
def test_errors_are_one_line(arguments: list[str], status: Status, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == status
    error = capsys.readouterr().err
    assert error.startswith("keel: error: ")
    assert error.count("\n") == 1
