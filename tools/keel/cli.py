# SPDX-License-Identifier: GPL-2.0-only
"""Arguments and help of `./keel`; what a verb does is in commands/."""

import argparse
import difflib
import os
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from . import (
    bochs,
    configuration,
    detached,
    emulators,
    imageformat,
    machine,
    manual,
    placement,
    process,
    share,
    slot,
    timing,
    uklapps,
)
from .arguments import Parser, in_columns
from .boot import DEBIAN_KERNEL, Choices
from .bootconf import DEFAULT_TEMPLATE
from .commands import bench as bench_command
from .commands import build as build_command
from .commands import clean as clean_command
from .commands import console as console_command
from .commands import cp as cp_command
from .commands import debug as debug_command
from .commands import doctor as doctor_command
from .commands import example as example_command
from .commands import guests as guests_command
from .commands import image as image_command
from .commands import profile as profile_command
from .commands import root as root_command
from .commands import run as run_command
from .commands import ssh as ssh_command
from .commands import test as test_command
from .commands import trace as trace_command
from .commands import ukl as ukl_command
from .config import QEMU_VARIABLE, Settings, version
from .errors import Interrupted, KeelError, Status, system_error
from .suites import ALL, PARTS, REST, SUITES, Suite
from .ukloptions import OPTIONS

# `./keel stop` sends the last one. A guest whose init listens is then asked to power off.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
EMULATORS = ("qemu", bochs.EMULATOR)
Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"

EXAMPLES_OF_USE = """examples:
  ./keel run                     a Debian shell on Keel
  ./keel run -- ls -l /proc/1    one command in it
  ./keel help run                the options of a verb

The first run installs the Debian packages that this machine lacks, with sudo and apt-get, and says which before;
with --no-install it names them and stops. Then it fetches and builds Linux, which takes some minutes."""


EXAMPLES_OF_CP = """examples:
  ./keel cp src notes.txt web:/tmp        both into the guest's /tmp
  ./keel cp web:/var/log .                the directory and all that is in it
  ./keel cp web:/proc/cpuinfo - | less    the content of one file"""


COMPLETION_USE = """for this shell, and for all later ones:
  eval "$(./keel completion)"
  ./keel completion > ~/.local/share/bash-completion/completions/keel"""


def make_parser() -> Parser:
    """All verbs and their options; help, completion and manual pages are generated from it."""
    parser = Parser(prog="keel", description="Debian on Keel: Linux as a server on an L4 µ-kernel.", epilog=EXAMPLES_OF_USE)
    parser.add_argument("--version", action="store_true", help="print the version and end")
    verbs = parser.add_subparsers(dest="verb", title="verbs", metavar="VERB")
    _add_run(verbs)
    _add_build(verbs)
    _add_image(verbs)
    _add_others(verbs)
    _add_about(verbs)
    return parser


def _add_verb(verbs: Verbs, name: str, text: str, epilog: str = "", *, has_help: bool = True) -> Parser:
    verb = verbs.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.", epilog=epilog, add_help=has_help)
    verb.add_argument("--verbose", action="store_true", help="show output that otherwise goes only to the logs")
    verb.add_argument(
        "--no-install",
        action="store_true",
        help="fail where a host package is missing instead of installing it",
    )
    return verb


def _add_machine(verb: Parser) -> None:
    """The options of every guest with Linux; `_on_machine` reads them."""
    verb.add_argument("--icount", action="store_true", help="the deterministic instruction clock")
    verb.add_argument("--accel", choices=("auto", "tcg", "kvm"), default="auto", help="auto: KVM where it works")
    _add_memory(verb)
    verb.add_argument(
        "--smp",
        metavar="N",
        type=int,
        default=1,
        help=f"the guest's processors, up to {machine.MOST_PROCESSORS} (%(default)s)",
    )
    verb.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        help=f"end the guest after S seconds with status {int(Status.TIMEOUT)}",
    )
    verb.add_argument("--append", metavar="STR", default="", help="additions to Linux's command line")
    _add_packages(verb)
    _add_shares(verb)
    verb.add_argument(
        "--forward",
        metavar="[ADDR:]HOST:GUEST[/udp]",
        action="append",
        default=[],
        help="a port of this host, of its loopback without ADDR, that leads to one of the guest; may be repeated",
    )
    verb.add_argument(
        "--qemu-arg",
        metavar="ARG",
        action="append",
        default=[],
        help="an additional argument for QEMU; may be repeated",
    )
    _add_qemu(verb)


def _add_qemu(verb: Parser) -> None:
    """The option of every verb that starts an emulator; `_choose_qemu` reads it."""
    verb.add_argument(
        "--qemu",
        metavar="VERSION",
        help=f"{emulators.BACKPORTED}: that QEMU, out of Debian's backports and beside the host's where that is another",
    )


def _add_memory(verb: Parser) -> None:
    verb.add_argument(
        "--mem",
        metavar="MB",
        type=int,
        default=machine.DEFAULT_MEMORY_MB,
        help="the guest's memory (%(default)s)",
    )


def _add_packages(verb: Parser) -> None:
    verb.add_argument(
        "--packages",
        metavar="NAMES",
        type=_names,
        default=(),
        help="more Debian packages in the default root, separated by commas or spaces; NAME:i386 is unpacked into /i386",
    )
    verb.add_argument("--layer", metavar="NAME", help="a name for what --packages adds; without --packages, what has this name")


def _add_shares(verb: Parser) -> None:
    verb.add_argument(
        "--share",
        metavar="DIR[:PATH][:rw]",
        action="append",
        default=[],
        help="a directory of this machine at PATH in the guest (/mnt/NAME), which may write there with rw; may be repeated",
    )
    verb.add_argument(
        "--cwd", action="store_true", help="start in this directory; where no --share has it, it is at its own path to read"
    )


def _add_place(verb: Parser) -> None:
    verb.add_argument(
        "--place",
        metavar="WHO=WHERE",
        action="append",
        default=[],
        help=f"what runs where on Keel: {placement.LINUX}={placement.KERNEL}, Linux in supervisor mode, in the spaces of all "
        f"processes; and besides /PATH={placement.KERNEL} or {placement.SERVER}, that program, too; without it "
        f"/PATH={placement.SERVER}, that program in Linux's own task, or {placement.I386}={placement.SMALL} or "
        f"{placement.RESIDENT}, 32-bit programs in windows of Linux's tables, or Linux in theirs; may be repeated",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _add_run(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "run", "boot Debian and stay at its shell, or run one command in it")
    verb.add_argument("--exec", metavar="CMD", dest="command", help="run CMD; its output and exit status are ours")
    verb.add_argument("words", metavar="-- CMD", nargs="*", help="run it as --exec does, each word unchanged")
    verb.add_argument(
        "--root",
        metavar="[FORMAT:]FILE",
        help="another root: a directory or a .cpio(.gz/.xz/.zst) as RAM disk; as disk, an image of the format raw, qcow2 or "
        f"chain (qcow2 over other images), or by its name's end: {', '.join(imageformat.ROOT_SUFFIXES)}",
    )
    verb.add_argument(
        "--from",
        metavar="DIR",
        type=Path,
        dest="release",
        help="boot the release set in DIR, as ./keel image --release makes it; nothing is built",
    )
    verb.add_argument(
        "--init", choices=machine.INITS, default="keel", help="process 1 of the guest: %(default)s, or the root's systemd"
    )
    verb.add_argument("--name", metavar="NAME", help="the guest's name in ./keel ps and its logs")
    verb.add_argument("--persist", action="store_true", help="keep what the guest writes to its disks; discarded otherwise")
    verb.add_argument(
        "--drive",
        metavar="[BUS:][FORMAT:]FILE",
        action="append",
        default=[],
        help=f"another disk; BUS is {', '.join(machine.BUSES)}; FORMAT is raw, qcow2 or chain, without it qcow2 for a .qcow2; "
        "may be repeated",
    )
    verb.add_argument(
        "--detach", action="store_true", help="return when the guest runs; ./keel console is its terminal, ./keel stop ends it"
    )
    verb.add_argument("--ssh", action="store_true", help="an SSH server in the guest, for ./keel ssh")
    verb.add_argument(
        "--nic",
        choices=machine.NETWORKS,
        metavar="CARD[,restrict=on]",
        help="the network card: virtio (none with --icount), e1000 or none; with restrict=on the network leads nowhere",
    )
    verb.add_argument(
        "--native",
        action="store_true",
        help="native Linux, the baseline of every figure",
    )
    verb.add_argument(
        "--kernel",
        metavar=f"{DEBIAN_KERNEL}|FILE",
        help="with --native, another kernel: the one that Debian ships, or a bzImage; the default root is in memory then",
    )
    _add_place(verb)
    _add_machine(verb)
    verb.add_argument(
        "--emulator",
        choices=EMULATORS,
        default=EMULATORS[0],
        help="%(default)s, or bochs, slower by far, where segments have limits; it has no disks, network or shares",
    )
    verb.add_argument(
        "--boot-conf",
        metavar="FILE",
        type=Path,
        default=DEFAULT_TEMPLATE,
        help="another boot configuration for the root task",
    )
    verb.add_argument("--uefi", action="store_true", help="boot by UEFI instead of a BIOS")
    verb.add_argument(
        "--iommu", action="store_true", help="a machine with an IOMMU, by which the root task confines the devices' DMA"
    )
    verb.add_argument("--graphic", action="store_true", help="a screen and a keyboard, in a window or by VNC")
    verb.add_argument("--gdb", action="store_true", help="stop at the first instruction and wait for ./keel gdb")


def _add_build(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "build", "build without running")
    verb.places = [*build_command.TARGETS, *build_command.MORE]
    verb.add_argument("target", nargs="*", metavar="TARGET", help=" ".join(verb.places))


def _add_image(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "image", "make a bootable ISO image of Debian on Keel for a PC with BIOS or UEFI")
    verb.add_argument("file", metavar="FILE.iso", nargs="?", type=Path, help="where it goes")
    verb.add_argument("--release", metavar="DIR", type=Path, help="instead, all files that a project publishes, in a new folder")
    verb.add_argument("--root", metavar="FILE", help="another root: a directory or a .cpio(.gz/.xz/.zst)")
    verb.add_argument("--append", metavar="STR", default="", help="additions to Linux's command line")
    verb.add_argument("--boot-conf", metavar="FILE", type=Path, default=DEFAULT_TEMPLATE, help="another boot configuration")


def _add_others(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "test", "run the test suites, those of every day by default", _suites())
    verb.add_argument("suite", nargs="*", metavar="SUITE", help="suites or parts of them, from the tables below")
    _add_qemu(verb)
    verb.places = [*SUITES, *PARTS, ALL]
    verb = _add_verb(verbs, "example", "run a native example on the µ-kernel, or list them")
    verb.add_argument("name", nargs="?", metavar="NAME", help="one of the folders in user/examples")
    verb.add_argument("--timeout", metavar="S", type=float, help="end it after S seconds")
    _add_qemu(verb)
    _add_root(verbs)
    _add_ukl(verbs)
    _add_trace(verbs)
    _add_profile(verbs)
    _add_verb(verbs, "ps", "list the guests that run")
    verb = _add_verb(verbs, "console", "attach to the shell of a guest that runs with --detach, or follow its command's output")
    verb.add_argument("name", metavar="NAME", help="as ./keel ps lists it")
    verb = _add_verb(verbs, "stop", "make guests power off")
    verb.add_argument("names", nargs="+", metavar="NAME", help="as ./keel ps lists them")
    _add_ssh(verbs)
    _add_cp(verbs)
    verb = _add_verb(verbs, "gdb", "gdb on a running guest, with symbols")
    verb.add_argument("view", nargs="?", metavar="VIEW", help=f"whose symbols come first: {' or '.join(slot.VIEWS)}")
    verb.add_argument("name", nargs="?", metavar="NAME", help="as ./keel ps lists it; without it the guest started last")
    verb.places = slot.VIEWS
    # Each measurement has its own options and help.
    _add_qemu(_add_verb(verbs, "bench", "measure Keel against native Linux, or what ./keel bench --help lists", has_help=False))
    verb = _add_verb(verbs, "clean", "remove what was built")
    verb.add_argument("--cache", action="store_true", help="also what was fetched, for all clones")
    verb.add_argument(
        "--persistent", action="store_true", help="also what guests of this clone wrote to default roots with run --persist"
    )
    _add_verb(verbs, "doctor", "say what is missing on this machine and how to install it")


def _add_ssh(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "ssh", "open a session in a guest that runs with --ssh, or run one command in it")
    verb.add_argument("-t", "--terminal", action="store_true", help="the command has a terminal, as ssh -t gives it")
    verb.add_argument("name", nargs="?", metavar="NAME", help="as ./keel ps lists it; may be left out if there is one only")
    verb.add_argument("words", metavar="-- CMD", nargs="*", help="a line for the guest's shell, or several words, each unchanged")


def _add_cp(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "cp", "copy files and directories to or from a guest that runs with --ssh", EXAMPLES_OF_CP)
    verb.add_argument(
        "places", nargs="+", metavar="FILE", help="what is copied: all FILEs here, or all in one guest, as NAME:FILE"
    )
    verb.add_argument(
        "place",
        metavar="PLACE",
        help="on the other side: a directory that is there, or else a new name; - for FILE or PLACE is a stream of ours",
    )


def _suites() -> str:
    """The tables at the end of the help of `test`."""
    parts = {name: part for name, part in PARTS.items() if name not in SUITES | REST}
    return "\n".join(
        f"{title}:\n{in_columns([(name, suite.what, suite.lasts, _budget(suite)) for name, suite in group.items()])}"
        for title, group in (
            ("suites of every day", SUITES),
            (f"suites that take too long for every day; '{ALL}' runs both", REST),
            ("parts of suites", parts),
        )
    )


def _budget(suite: Suite) -> str:
    return "" if suite.budget is None else f"(budget {suite.budget} min)"


def _add_about(verbs: Verbs) -> None:
    verb = verbs.add_parser("help", help="show the help of a verb", description="Shows the help of a verb.")
    verb.add_argument("topic", nargs="*", metavar="VERB", help="as typed before --help")
    verb.places = [name for name in verbs.choices if name != "help"]
    _add_verb(verbs, "completion", "print a script for bash that completes verbs and options", COMPLETION_USE)
    verb = _add_verb(verbs, "man", "write the manual pages, made from the helps")
    verb.add_argument("directory", nargs="?", type=Path, metavar="DIRECTORY", help="a folder for man -M (build/man)")


def _add_trace(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "trace", "run a guest and show the µ-kernel's last events")
    verb.add_argument("name", nargs="?", metavar="EXAMPLE", help="a native example: one of the folders in user/examples")
    verb.add_argument("--boot-conf", metavar="FILE", type=Path, help="native tasks under this boot configuration")
    verb.add_argument("--exec", metavar="CMD", dest="command", help="CMD in Debian on Keel")
    verb.add_argument("--processors", metavar="N", type=int, default=1, help="of a native guest (%(default)s)")
    verb.add_argument("--timeout", metavar="S", type=float, help="look after S seconds if the guest has not ended by then")
    verb.add_argument("--last", metavar="N", type=int, help="only the last N events")
    verb.add_argument("--chrome", metavar="FILE", type=Path, help="write them for Chrome and Perfetto instead")
    verb.add_argument(
        "--all", metavar="FILE", type=Path, dest="everything", help="write all events of CMD, on the deterministic clock, instead"
    )
    _add_memory(verb)
    _add_qemu(verb)


def _add_profile(verbs: Verbs) -> None:
    verb = _add_verb(verbs, "profile", "run one command and show where its instructions go")
    verb.add_argument("command", metavar="CMD", help="a command in Debian, as for run --exec")
    verb.add_argument("--native", action="store_true", help="on native Linux instead of on Keel")
    _add_place(verb)
    _add_packages(verb)
    _add_memory(verb)
    verb.add_argument("--smp", metavar="N", type=int, default=1, help="processors, which take turns (%(default)s)")
    verb.add_argument("--part", action="store_true", help="only the last part that the program marks (guest/mark.h)")
    verb.add_argument(
        "--of", metavar="FILE", type=Path, help="only what this program executes, linked where no other is, and kernels for it"
    )
    verb.add_argument("--top", metavar="N", type=int, default=30, help="functions that are shown (%(default)s)")
    verb.add_argument("--folded", metavar="FILE", type=Path, help="also write them all for tools that draw flame graphs")
    verb.add_argument("--machine", metavar="NAME", help=f"modelled cycles of a processor: {', '.join(timing.machines())}")
    verb.add_argument("--tagged", action="store_true", help="of a processor whose TLB has address space tags (PCID)")
    verb.add_argument("--parts", metavar="FILE", type=Path, help="instead write what each part took as JSON; NAME may be several")
    verb.add_argument("--timeout", metavar="S", type=float, help="end the guest after S seconds")
    _add_qemu(verb)


def _add_root(verbs: Verbs) -> None:
    verb = verbs.add_parser("root", help="the default root and its layers of packages", description="Default roots and layers.")
    actions = verb.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_verb(actions, "list", "list the default root, what run --packages has added to it, and what run --persist keeps")
    remove = _add_verb(actions, "remove", "remove layers, a default root with all its layers, or what run --persist keeps")
    remove.add_argument("names", nargs="+", metavar="NAME", help="as ./keel root list shows it")


def _add_ukl(verbs: Verbs) -> None:
    verb = verbs.add_parser("ukl", help="applications inside the kernel: build one, run one", description="Unikernel Linux.")
    actions = verb.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = _add_verb(actions, "build", "build a C or C++ program as an application for ring 0, and the kernel for it")
    build.add_argument("sources", nargs="*", metavar="FILE", help="its sources; the first one gives it its name")
    build.add_argument(
        "--app", metavar="NAME", help=f"instead, an application out of Debian's sources: {' '.join(uklapps.APPLICATIONS)}"
    )
    build.add_argument("--cflags", metavar="WORDS", default="", help="more words for gcc, as --cflags=-O3")
    build.add_argument("--options", metavar="A,B", default="", help=f"what its kernel has beyond the base: {','.join(OPTIONS)}")
    build.add_argument("--ordinary", action="store_true", help="as an ordinary program with the same libc, to compare with")
    build.add_argument("--linked", action="store_true", help="into the kernel's own image, which then boots by itself")
    run = _add_verb(actions, "run", "boot that kernel: the application runs, then a shell as usual")
    run.add_argument("name", nargs="?", metavar="NAME", help="an application; the one that was built last by default")
    run.add_argument("words", nargs="*", metavar="ARGUMENT", help="for the application, after --")
    run.add_argument("--exec", metavar="CMD", dest="command", help="run CMD instead; the application is in /run/ukl")
    run.add_argument("--alone", action="store_true", help="nothing but the kernel that the application is linked into")
    _add_machine(run)


def _root(settings: Settings, options: argparse.Namespace) -> None:
    if options.action == "list":
        root_command.show(settings)
    else:
        root_command.remove(settings, options.names)


def _ukl(settings: Settings, options: argparse.Namespace) -> int:
    if options.action == "build":
        ukl_command.build(
            settings,
            ukl_command.Wanted(
                options.sources, options.cflags.split(), options.app, options.options, options.ordinary, options.linked
            ),
        )
        return Status.OK
    choices = replace(_on_machine(options), application_arguments=tuple(options.words), alone=options.alone)
    return ukl_command.run(settings, options.name, choices)


def _image(settings: Settings, options: argparse.Namespace) -> int:
    verb: Parser = options.parser.verbs()[options.verb]
    wanted = image_command.Wanted(options.root, options.append, options.boot_conf)
    if (options.file is None) == (options.release is None):
        verb.error("give one of FILE.iso and --release DIR")
    if options.release is None:
        return image_command.image(settings, options.file, wanted)
    if wanted != image_command.Wanted():
        verb.error("--release has the default root and configuration, without --root, --append and --boot-conf")
    return image_command.release_set(settings, options.release)


def _profiled(options: argparse.Namespace) -> profile_command.Wanted:
    return profile_command.Wanted(
        command=options.command,
        native=options.native,
        memory_mb=options.mem,
        processors=options.smp,
        part=options.part,
        packages=options.packages,
        layer=options.layer,
        top=options.top,
        folded=options.folded,
        timeout_s=options.timeout,
        machines=timing.choose(options.machine) if options.machine else (),
        tagged=options.tagged,
        parts=options.parts,
        placement=placement.parse(options.place),
        program=options.of,
    )


def _wanted(options: argparse.Namespace) -> trace_command.Wanted:
    return trace_command.Wanted(
        example=options.name,
        template=options.boot_conf,
        command=options.command,
        processors=options.processors,
        timeout_s=options.timeout,
        last=options.last,
        chrome=options.chrome,
        everything=options.everything,
        memory_mb=options.mem,
    )


def _parse(arguments: list[str]) -> argparse.Namespace:
    """The options. All must be known, except those that `bench` hands on."""
    parser = make_parser()
    arguments, words = _cut(arguments) if arguments[:1] == ["ssh"] else (arguments, [])
    options, others = parser.parse_known_args(arguments)
    options.parser, options.argument = parser, others
    if options.verb is None and others:
        parser.refuse(others[0])
    if options.verb is None:
        return options
    if options.verb == "help":
        return _parse([*options.topic, "--help"])
    verb = parser.verbs()[options.verb]
    if others and options.verb != "bench":
        (verb.verbs()[options.action] if verb.verbs() else verb).refuse(others[0])
    if options.verb == "run":
        _take_words(verb, options, arguments)
    if options.verb == "ssh":
        _refuse_words(verb, options.words)
        options.words = words
    return options


def _cut(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is before the first `--`, and after it: argparse would take a command's first word for a name that is left out."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _refuse_words(verb: Parser, words: list[str]) -> None:
    if words:
        verb.error(f"{words[0]!r} is no option; a command goes after --")


def _take_words(verb: Parser, options: argparse.Namespace, arguments: list[str]) -> None:
    """Make the words after `--` the command, quoted for the guest's shell."""
    if not options.words:
        return
    if "--" not in arguments or options.words != arguments[arguments.index("--") + 1 :]:
        _refuse_words(verb, options.words)
    if options.command is not None:
        verb.error("the command is given twice, by --exec and after --")
    options.command = shlex.join(options.words)


def _dispatch(options: argparse.Namespace) -> int:
    if options.version:
        print(f"keel {version()}")
        return Status.OK
    if options.verb is None:
        options.parser.print_help()
        return Status.OK
    _choose_qemu(options)
    settings = Settings(verbose=options.verbose, install=not options.no_install)
    if options.verbose:
        process.show_logged()
    if hasattr(options, "qemu"):
        emulators.chosen(settings)  # what cannot be had is refused before anything long begins
    if options.verb == "run":
        return run_command.run(settings, _choices(options))
    if options.verb in configuration.IGNORING:
        configuration.ignore()
    actions: dict[str, Callable[[], int | None]] = {
        "build": lambda: build_command.build(settings, _known(options, options.target)),
        "image": lambda: _image(settings, options),
        "test": lambda: test_command.test(settings, _known(options, options.suite)),
        "example": lambda: example_command.example(settings, options.name, options.timeout),
        "root": lambda: _root(settings, options),
        "ukl": lambda: _ukl(settings, options),
        "trace": lambda: trace_command.trace(settings, _wanted(options)),
        "profile": lambda: profile_command.run(settings, _profiled(options)),
        "ps": lambda: guests_command.ps(settings),
        "ssh": lambda: ssh_command.session(settings, options.name, options.words, terminal=options.terminal),
        "cp": lambda: cp_command.cp(settings, [*options.places, options.place]),
        "console": lambda: console_command.console(settings, options.name),
        "stop": lambda: guests_command.stop(settings, options.names),
        "gdb": lambda: debug_command.debug(settings, *_viewed(options)),
        "bench": lambda: bench_command.bench(settings, options.argument),
        "clean": lambda: clean_command.clean(settings, cache=options.cache, persistent=options.persistent),
        "doctor": lambda: doctor_command.doctor(settings),
        "completion": lambda: print(manual.completion(options.parser), end=""),
        "man": lambda: manual.write(options.parser, options.directory or settings.build / "man"),
    }
    return actions[options.verb]() or Status.OK


def _choose_qemu(options: argparse.Namespace) -> None:
    """Make --qemu the choice of this command, and of those that it starts."""
    if (wanted := getattr(options, "qemu", None)) is None:
        return
    if getattr(options, "emulator", None) == bochs.EMULATOR:
        raise KeelError(f"--emulator {bochs.EMULATOR} has no --qemu", "leave one of them out", Status.USAGE)
    os.environ[QEMU_VARIABLE] = wanted


def _known(options: argparse.Namespace, names: list[str]) -> list[str]:
    """The names, all of them known. argparse cannot check a list that may be empty."""
    verb = options.parser.verbs()[options.verb]
    for name in names:
        if name not in verb.places:
            verb.error(f"there is no {name}", *difflib.get_close_matches(name, verb.places, 1))
    return names


def _viewed(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """The view and the name of `gdb`, either of which may be left out: no guest is named like a view."""
    if options.view is None or options.view in slot.VIEWS:
        return options.view, options.name
    if options.name is not None:
        verb: Parser = options.parser.verbs()[options.verb]
        verb.error(f"{options.view!r} is no VIEW: {', '.join(slot.VIEWS)}")
    return None, options.view


def _on_machine(options: argparse.Namespace) -> Choices:
    """The options of `_add_machine`, and the command."""
    shares, directory = share.parsed(options.share), ""
    if options.cwd:
        shares, directory = share.with_current(shares)
    return Choices(
        command=options.command,
        icount=options.icount,
        accelerator=options.accel,
        memory_mb=options.mem,
        processors=options.smp,
        timeout_s=options.timeout,
        append=options.append,
        packages=options.packages,
        layer=options.layer,
        shares=shares,
        directory=directory,
        emulator_arguments=tuple(options.qemu_arg),
        forwards=tuple(options.forward),
    )


def _choices(options: argparse.Namespace) -> Choices:
    return replace(
        _on_machine(options),
        native=options.native,
        bochs=options.emulator == bochs.EMULATOR,
        placement=placement.parse(options.place),
        kernel=options.kernel,
        root=options.root,
        gdb=options.gdb,
        boot_template=options.boot_conf,
        drives=tuple(options.drive),
        card=options.nic,
        persist=options.persist,
        init=options.init,
        uefi=options.uefi,
        iommu=options.iommu,
        graphic=options.graphic,
        name=options.name,
        release=options.release,
        ssh=options.ssh,
        detached=options.detach,
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A second signal must not disturb the cleanup that the first has started.
    for known in ENDING:
        signal.signal(known, signal.SIG_IGN)
    raise Interrupted


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit status."""
    for number in ENDING:
        signal.signal(number, _interrupt)
    status = _status(arguments)
    detached.note_status(status)
    return status


def _status(arguments: list[str]) -> int:
    try:
        return int(_dispatch(_parse(configuration.with_defaults(arguments, make_parser))))
    except KeelError as error:
        print(error.line(), file=sys.stderr)
        return error.status
    except Interrupted:
        print("keel: interrupted", file=sys.stderr)
        return Status.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it; no message can reach it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Status.INTERRUPTED
    except OSError as error:
        print(system_error(str(error.filename or "an output"), error).line(), file=sys.stderr)
        return Status.ERROR
