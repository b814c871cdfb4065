# SPDX-License-Identifier: GPL-2.0-only
"""Which QEMU runs a guest: the host's, or a newer one of Debian's backports beside it (`--qemu 10`).

The newer one is unpacked in the cache and never installed. It has its own firmware, and those libraries that the host lacks; only
its own process searches them.
"""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import debian, machine, packages, process, qemu
from .config import Settings
from .errors import KeelError, Status
from .lock import locked
from .progress import Step

# What the backports have; the packages that bring the emulator and what it reads of its own.
BACKPORTED = 10
PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")
FIRMWARE = ("usr/share/qemu", "usr/share/seabios")
PROGRAM = Path("usr/bin") / machine.EMULATOR
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
# The same as seen from the program, so that nothing in the cache's path needs quoting.
OWN_LIBRARIES = "$ORIGIN/../lib/x86_64-linux-gnu"
# A package's dependencies that are libraries; the C library goes with the host's loader.
LIBRARY = re.compile(r"(?:^|, )(lib(?!c6\b|gcc-s1\b)[a-z0-9+.-]+)")
VERSION = re.compile(r"(\d{1,3})(?:\.(\d{1,3}))?")
# Before it the emulator crashes if one processor uses a device's memory while another one moves a device's (`tcg_commit`).
PARALLEL_SINCE = (8, 2)


def chosen(settings: Settings) -> list[str]:
    """The words that start the emulator; the wanted one is fetched where the host's is another, or refused in a line."""
    host = [machine.EMULATOR]
    if not settings.qemu:
        return host
    wanted = _wanted(settings.qemu)
    packages.require_emulator(settings)
    own = version(host)
    if _is(wanted, own):
        return host
    if wanted[0] != BACKPORTED:
        raise KeelError(
            f"--qemu {settings.qemu}: there is no such QEMU",
            f"this machine's is {shown(own)}, and Debian's backports have {BACKPORTED}",
        )
    found = _started(_unpacked(settings))
    if not _is(wanted, version(found)):
        raise KeelError(f"--qemu {settings.qemu}: Debian's backports have {shown(version(found))}", f"say --qemu {BACKPORTED}")
    return found


def _wanted(text: str) -> tuple[int, ...]:
    if not (parts := VERSION.fullmatch(text)):
        raise KeelError(f"--qemu {text}: that is no version of QEMU", f"one is {BACKPORTED}", Status.USAGE)
    wanted = tuple(int(number) for number in parts.groups() if number)
    if wanted < packages.OLDEST_QEMU[: len(wanted)]:
        raise KeelError(f"--qemu {text} is too old", f"{shown(packages.OLDEST_QEMU)} or later is needed")
    return wanted


def _is(wanted: tuple[int, ...], other: tuple[int, int]) -> bool:
    return other[: len(wanted)] == wanted


def version(words: Sequence[str]) -> tuple[int, int]:
    """The version that an emulator says it has."""
    return packages.qemu_version(process.output([*words, "--version"])) or (0, 0)


def shown(number: tuple[int, int]) -> str:
    """A version as a user writes it."""
    return ".".join(map(str, number))


def command(settings: Settings, described: qemu.Guest) -> list[str]:
    """The words that start a guest; its processors take turns only on an emulator that needs it."""
    words = chosen(settings)
    return qemu.arguments(_on(words, described), words)


def _on(words: Sequence[str], described: qemu.Guest) -> qemu.Guest:
    turns = described.takes_turns and described.processors > 1 and version(words) < PARALLEL_SINCE
    return replace(described, takes_turns=turns)


def summary(settings: Settings, described: qemu.Guest) -> str:
    """The emulator and how its processors run, for a reader of a test's output or of a greeting."""
    words = chosen(settings)
    emulator = f"QEMU {shown(version(words))}"
    if described.processors == 1 or described.accelerator != "tcg":
        return emulator
    turns = described.icount or _on(words, described).takes_turns
    return f"{emulator}, {described.processors} processors {'that take turns' if turns else 'in parallel'}"


def require_devices(settings: Settings, models: Sequence[str]) -> None:
    """Require QEMU with these devices: other distributions build it without some. Debian's has all."""
    packages.require_emulator(settings)
    if is_beside(settings):
        return
    known = re.findall(r'^name "([^"]+)"', process.output([machine.EMULATOR, "-device", "help"]), re.MULTILINE)
    if absent := [model for model in models if model not in known]:
        raise KeelError(f"this QEMU has no device {absent[0]}", "Debian's has; or choose others by --drive BUS:FILE and --nic")


def is_beside(settings: Settings) -> bool:
    """Return true if the chosen one is not the host's. It has no modules for windows, and the host's are of another version."""
    return chosen(settings) != [machine.EMULATOR]


def beside(settings: Settings) -> str:
    """The newer emulator that is there already; empty where it has yet to be fetched."""
    tree = _place(settings)
    return shown(version(_started(tree))) if tree.exists() else ""


def _place(settings: Settings) -> Path:
    return settings.cache / f"qemu-{BACKPORTED}"


def _started(tree: Path) -> list[str]:
    """The words that start the emulator of this tree. Its libraries are named only to itself, after what confines it.

    It looks for its modules first in the tree, then in the host's place, where those of another version make it abort.
    """
    libraries = [f"LD_LIBRARY_PATH={OWN_LIBRARIES}"] if list((tree / LIBRARIES).glob("*.so*")) else []
    firmware = [word for place in FIRMWARE for word in ("-L", str(tree / place))]
    return ["env", f"QEMU_MODULE_DIR={tree / LIBRARIES / 'qemu'}", *libraries, str(tree / PROGRAM), *firmware]


def _unpacked(settings: Settings) -> Path:
    """The tree with the newer emulator; unpacked aside, so that the cache has only a whole one."""
    place = _place(settings)
    packages.require(settings, packages.SIGNATURES)
    with locked(settings.cache, "qemu"):
        if place.exists():
            return place
        with tempfile.TemporaryDirectory(dir=settings.cache) as aside:
            tree = Path(aside) / "tree"
            files = [_unpack(settings, name, tree) for name in PACKAGES]
            if lacking := _lacking(tree):
                _add_libraries(settings, files, tree)
                lacking = _lacking(tree)
            if lacking:
                raise KeelError(f"QEMU {BACKPORTED} cannot start here: there is no {lacking[0]}", "it is made for Debian 12")
            tree.rename(place)
    return place


def _unpack(settings: Settings, package: str, tree: Path) -> Path:
    """Fetch a package, which apt verifies, and put its files into the tree; returns the package."""
    file = debian.Archive(settings, debian.BACKPORTS).fetch(package)
    with Step(f"unpacking {package}") as step:
        argv = ["dpkg-deb", "--extract", str(file), str(tree)]
        process.run_logged(argv, what=f"unpacking {package}", log=settings.logs / "qemu.log", step=step)
    return file


def _lacking(tree: Path) -> list[str]:
    """The libraries that the emulator does not find, in the tree or on the host."""
    text = process.output(["env", f"LD_LIBRARY_PATH={OWN_LIBRARIES}", "ldd", str(tree / PROGRAM)])
    return re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE)


def _add_libraries(settings: Settings, files: Sequence[Path], tree: Path) -> None:
    """Unpack all libraries that these packages need, and what those need in turn."""
    done: set[str] = set()
    waiting = list(files)
    while waiting:
        named = LIBRARY.findall(process.output(["dpkg-deb", "--field", str(waiting.pop()), "Depends"]))
        new = [name for name in dict.fromkeys(named) if name not in done]
        done.update(new)
        waiting += [_unpack(settings, name, tree) for name in new]
