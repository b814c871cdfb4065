# SPDX-License-Identifier: GPL-2.0-only
"""The command's arguments, its help, and its one-line errors."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from keel import configuration, manual
from keel.arguments import Parser
from keel.boot import Choices
from keel.cli import main, make_parser
from keel.commands import debug as debug_command
from keel.commands import run as run_command
from keel.config import REPOSITORY, Settings, version
from keel.errors import Status
from keel.suites import PARTS, SUITES


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration file, of which there is none yet."""
    file = tmp_path / "config.toml"
    monkeypatch.setenv(configuration.VARIABLE, str(file))
    return file


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Choices]:
    """What `run` is called with, in place of a run."""
    kept: list[Choices] = []

    def run(settings: Settings, choices: Choices) -> int:
        kept.append(choices)
        return Status.OK

    monkeypatch.setattr(run_command, "run", run)
    return kept


def ended(arguments: list[str]) -> int:
    """The status, however the command ends."""
    try:
        return main(arguments)
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "--frob"], "--frob"),
        (["run", "--memm", "3"], "did you mean --mem?"),
        (["run", "--nat"], "--nat"),
        (["run", "ls"], "after --"),
        (["run", "ls", "--", "x"], "'ls'"),
        (["run", "--exec", "a", "--", "b"], "twice"),
        (["runn"], "did you mean run?"),
        (["--frob"], "--frob"),
        (["help", "fly"], "fly"),
        (["run", "--mem", "lots"], "lots"),
        (["run", "--accel", "xen"], "xen"),
        (["image"], "FILE.iso"),
        (["ukl", "build", "--link"], "did you mean --linked?"),
        (["bench", "kernel", "--outputs", "x"], "did you mean --output?"),
        (["clean", "everything"], "everything"),
        (["build", "nothing"], "no nothing"),
        (["test", "unti"], "did you mean unit?"),
        (["cp", "one"], "PLACE is missing"),
        (["root"], "ACTION is missing"),
        (["gdb", "web", "linux"], "'web' is no VIEW: kernel, linux"),
        (["gdb", "linux", "web", "more"], "more"),
    ],
)
def test_wrong_arguments_end_with_one_line_and_the_usage_status(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(arguments) == Status.USAGE
    error = capsys.readouterr().err
    assert error.startswith("keel: error: ") and error.count("\n") == 1
    assert word in error and "--help" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["VERB", "./keel run"]),
        (["--help"], ["VERB", "./keel run"]),
        (["help"], ["usage: keel "]),
        (["help", "run"], ["--exec CMD", "-- CMD"]),
        (["help", "ukl", "build"], ["--linked"]),
        (["bench", "kernel", "--help"], ["keel bench kernel", "--output"]),
        (["help", "bench", "tasks"], ["keel bench tasks", "--growth", "--small", "--line"]),
        (["test", "--help"], [*SUITES, *PARTS, "hour"]),
    ],
)
def test_help(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(arguments) == Status.OK
    shown = capsys.readouterr().out
    assert [word for word in words if word not in shown] == []


def test_each_suite_and_example_is_a_row_with_what_it_is_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    ended(["test", "--help"])
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert all(suite.what in rows[name] and suite.lasts in rows[name] for name, suite in {**SUITES, **PARTS}.items())
    assert all(rows[name].endswith(f"(budget {suite.budget} min)") for name, suite in SUITES.items())
    assert main(["example"]) == Status.OK
    examples = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["hello", "The", "smallest", "program", "seconds"] in examples


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["ls", "-l", "/"], "ls -l /"),
        (["echo", "two words", "it's", "$HOME"], "echo 'two words' 'it'\"'\"'s' '$HOME'"),
        (["env", "--", "a"], "env -- a"),
        (["echo", ""], "echo ''"),
    ],
)
def test_words_behind_dashes_come_to_the_shell_as_they_are(words: list[str], command: str, chosen: list[Choices]) -> None:
    assert main(["run", "--icount", "--", *words]) == Status.OK
    assert (chosen[0].command, chosen[0].icount) == (command, True)
    split = subprocess.run(["sh", "-c", f"set -- {command}; printf '%s\\n' \"$@\""], capture_output=True, text=True, check=True)
    assert split.stdout == "".join(f"{word}\n" for word in words).replace("$HOME", "$HOME")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["example", "nothing"], Status.USAGE),
        (["trace"], Status.USAGE),
        (["trace", "nothing"], Status.USAGE),
        (["trace", "rpc", "--exec", "true"], Status.USAGE),
        (["trace", "rpc", "--last", "0"], Status.USAGE),
        (["trace", "rpc", "--all", "events"], Status.USAGE),
        (["trace", "--exec", "true", "--all", "events", "--last", "5"], Status.USAGE),
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


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], (None, None)),
        (["linux"], ("linux", None)),
        (["web"], (None, "web")),
        (["kernel", "web"], ("kernel", "web")),
    ],
)
def test_gdb_takes_a_view_and_a_name(words: list[str], asked: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[str | None, ...]] = []
    monkeypatch.setattr(debug_command, "debug", lambda _, *views: kept.append(views))
    assert main(["gdb", *words]) == Status.OK
    assert kept == [asked]


def test_the_configuration_gives_defaults(config: Path, chosen: list[Choices]) -> None:
    """An option on the command line decides, lists grow, and other verbs have nothing of it."""
    config.write_text('[run]\nmem = 4096\nsmp = 2\niommu = true\nuefi = false\nqemu-arg = ["-S"]\n[clean]\ncache = false\n')
    assert main(["run", "--smp", "4", "--qemu-arg=-s"]) == Status.OK
    (run,) = chosen
    assert (run.memory_mb, run.processors, run.iommu, run.uefi) == (4096, 4, True, False)
    assert run.emulator_arguments == ("-S", "-s")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[run]\nmemm = 1\n", "did you mean mem?"),
        ("[run]\nexec = 'ls'\n", "'exec'"),
        ("[run]\nmem = 'lots'\n", "lots"),
        ("[run]\nmem = [1, 2]\n", "mem"),
        ("[run]\nuefi = 'yes'\n", "true or false"),
        ("[run]\naccel = 'xen'\n", "xen"),
        ("[run]\nmem = {a = 1}\n", "mem"),
        ("run = 1\n", "'run'"),
        ("[fly]\n", "'fly'"),
        ("[test]\n", "'test'"),
        ("[run\n", "line 1"),
    ],
)
def test_a_wrong_configuration_is_one_line(
    config: Path, text: str, word: str, chosen: list[Choices], capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the file, and no verb that reads it begins; those that prove and measure do not read it."""
    config.write_text(text)
    assert main(["run"]) == Status.ERROR
    error = capsys.readouterr().err
    assert error.startswith(f"keel: error: {config}") and word in error and error.count("\n") == 1
    assert not chosen
    assert ended(["test", "nothing"]) == Status.USAGE
    assert ended(["bench", "kernel", "--help"]) == Status.OK


def test_a_configuration_that_cannot_be_read(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.mkdir()
    assert main(["run"]) == Status.ERROR
    assert str(config) in capsys.readouterr().err


def test_what_is_proved_and_measured_starts_commands_without_a_configuration(config: Path) -> None:
    config.write_text("[run]\nmem = 4096\n")
    assert ended(["test", "nothing"]) == Status.USAGE
    assert configuration.place() is None


def test_where_the_configuration_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(configuration.VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert configuration.place() == tmp_path / ".config" / "keel" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/xdg")
    assert configuration.place() == Path("/etc/xdg/keel/config.toml")


@pytest.mark.parametrize(
    ("typed", "wanted", "unwanted"),
    [
        (["keel", "ru"], {"run"}, {"build"}),
        (["keel", "--v"], {"--version"}, set()),
        (["./keel", "run", "--n"], {"--native", "--nic", "--no-install"}, {"--mem"}),
        (["keel", "run", "--accel", ""], {"auto", "tcg", "kvm"}, {"--mem"}),
        (["keel", "test", "kernel-b"], {"kernel-bochs"}, {"unit"}),
        (["keel", "ukl", ""], {"build", "run"}, set()),
        (["keel", "help", "ima"], {"image"}, set()),
        (["keel", "gdb", ""], {"kernel", "linux"}, set()),
    ],
)
def test_bash_completes(typed: list[str], wanted: set[str], unwanted: set[str]) -> None:
    script = manual.completion(make_parser()) + f'COMP_WORDS=("$@"); COMP_CWORD={len(typed) - 1}; _keel; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run(["bash", "-c", script, "bash", *typed], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert wanted <= found and not unwanted & found and not done.stderr


def all_parsers(parser: Parser) -> list[Parser]:
    return [parser, *(one for verb in parser.verbs().values() for one in all_parsers(verb))]


def test_manual_pages_have_all_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One for each verb; no line of a text begins with what troff takes for a command."""
    assert main(["man", str(tmp_path)]) == Status.OK
    assert str(tmp_path) in capsys.readouterr().err
    parsers = {parser.prog.replace(" ", "-"): parser for parser in all_parsers(make_parser())}
    pages = {path.stem: path.read_text() for path in (tmp_path / "man1").iterdir()}
    assert pages.keys() == parsers.keys() and "keel-ukl-build" in pages
    commands = {"TH", "SH", "TP", "nf", "fi", "\\"}
    for name, text in pages.items():
        options = [string for action in parsers[name].options() for string in action.option_strings]
        assert all(option.replace("-", "\\-") in text for option in options)
        assert {line[1:].split()[0].rstrip('"') for line in text.splitlines() if line[:1] in (".", "'")} <= commands


def test_there_is_one_version(capsys: pytest.CaptureFixture[str]) -> None:
    """That of Cargo's workspace: all crates have it, the command prints it, and CHANGELOG.md begins with it."""
    number = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert version() == number
    assert ended(["--version"]) == Status.OK
    assert capsys.readouterr().out == f"keel {number}\n"
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == number
    locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    assert {package["version"] for package in locked if "source" not in package} == {number}
    members = list(REPOSITORY.glob("*/Cargo.toml")) + list(REPOSITORY.glob("user/*/Cargo.toml"))
    assert members and all("version.workspace = true" in member.read_text() for member in members)
