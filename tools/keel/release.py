# SPDX-License-Identifier: GPL-2.0-only
"""A release set: the files that a project publishes, in one folder, written and checked.

SHA256SUMS has the sum of every file. `./keel run --from` boots a set only if all its files are there, are no others, and have
these sums, and if the manifest is of this Keel's version. That finds damage; who made the set is what a signature shows.
Its files are for the guest alone, except that QEMU opens what the header of the root's image names: that may name nothing.
"""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from . import boot, bootconf, config, debian, disks, imageformat, linux, machine, measures, packages, process
from .config import TASK, Settings, version
from .errors import KeelError, system_error
from .progress import Step
from .qemu import Disk

SUMS, MANIFEST = "SHA256SUMS", "manifest.json"
ISO, ROOT = "keel.iso", "root.qcow2"
# What every set has; the others are native tasks.
FIXED = (
    MANIFEST, ISO, ROOT, bootconf.NAME, config.KERNEL_IMAGE, "sigma0", "root", config.SERVER_IMAGE, config.INIT_ARCHIVE,
    config.PROBE_IMAGE,
)  # fmt: skip
# Incremented when a set has other files, or a file another meaning.
FORMAT = 1
SUM_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
# A set's text files are read whole.
MOST_TEXT_BYTES = 1 << 16
NO_SET = "./keel image --release makes a set"
AGAIN = "fetch the set again"


@dataclass(frozen=True)
class Manifest:
    """What a set is, for its users; `run` needs the first two."""

    format: int
    version: str
    # Of the sources; with a plus sign if they had changes, and empty if they are no clone.
    commit: str
    # Debian's version of Linux's source, and the release whose packages are in the root.
    linux: str
    debian: str
    # The oldest QEMU, its processor, and the usual memory of a guest.
    qemu: str
    processor: str
    memory_mb: int


def described(settings: Settings) -> Manifest:
    """The manifest of a set made now."""
    return Manifest(
        format=FORMAT,
        version=version(),
        commit=_commit(settings.repository),
        linux=linux.source_version(settings),
        debian=debian.SUITE,
        qemu=".".join(map(str, packages.OLDEST_QEMU)),
        processor=machine.CPU,
        memory_mb=machine.DEFAULT_MEMORY_MB,
    )


def _commit(repository: Path) -> str:
    if not (repository / ".git").exists():
        return ""
    git = ["git", "-C", str(repository)]
    changed = process.output([*git, "status", "--porcelain"])
    return process.output([*git, "rev-parse", "HEAD"]).strip() + ("+" if changed else "")


@contextmanager
def written(directory: Path) -> Iterator[Path]:
    """A folder to write a set to, which appears under its name, with its sums, when the block has ended well."""
    check_place(directory)
    aside = directory.absolute().with_name(f".{directory.name}.{os.getpid()}")
    try:
        aside.mkdir()
        yield aside
        names = sorted(path.name for path in aside.iterdir())
        (aside / SUMS).write_text("".join(f"{_sum(aside / name)}  {name}\n" for name in names))
        aside.replace(directory)
    except OSError as error:
        raise system_error(f"{directory} cannot be written", error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def check_place(directory: Path) -> None:
    """Refuse a place that no set can be written to."""
    if not directory.name or not directory.absolute().parent.is_dir():
        raise KeelError(f"{directory} cannot be written", "name a new folder in one that is there")
    if directory.is_symlink() or directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise KeelError(f"{directory} is there already", "name a new folder, or remove that one")


def fill(settings: Settings, aside: Path, parts: list[Path]) -> None:
    """Write a set's files, except the ISO image: these parts, the default root, the boot configuration and the manifest."""
    for part in parts:
        shutil.copyfile(part, aside / part.name)
    shutil.copyfile(bootconf.DEFAULT_TEMPLATE, aside / bootconf.NAME)
    _pack_root(settings, disks.default_root(settings, keep=False).path, aside / ROOT)
    (aside / MANIFEST).write_text(json.dumps(asdict(described(settings)), indent=2) + "\n")


def _pack_root(settings: Settings, image: Path, packed: Path) -> None:
    with Step("compressing the root disk") as step:
        process.run_logged(
            ["qemu-img", "convert", "-p", "-c", "-f", "raw", "-O", "qcow2", str(image), str(packed)],
            what="compressing the root disk",
            log=settings.logs / "disk.log",
            step=step,
            measure=measures.percent,
        )


def refuse(choices: boot.Choices) -> None:
    """Refuse the options that a set has nothing for."""
    if choices.native:
        raise KeelError("--native needs a kernel that a release set does not have", "leave --from out")
    if choices.packages or choices.layer:
        adding = "--packages" if choices.packages else "--layer"
        raise KeelError(f"{adding} adds to the root that is made here, and --from has its own", "leave one of them out")
    if choices.icount and choices.root is None:
        raise KeelError(
            "--icount needs a root in memory, and the one of --from is on a disk, which runs in the host's time",
            "leave --icount out, or give --root a directory or an archive",
        )


def opened(settings: Settings, choices: boot.Choices, directory: Path) -> tuple[Settings, boot.Choices]:
    """The settings and choices of a run from a set, which has been checked."""
    directory = directory.absolute()
    with Step(f"checking {directory.name}", mostly_short=True):
        sums = _sums(directory)
        _check_files(directory, sums)
        _check_manifest(directory)
        _check_root(directory / ROOT)
    own = directory / bootconf.NAME if choices.boot_template == bootconf.DEFAULT_TEMPLATE else choices.boot_template
    return replace(settings, release=directory), replace(choices, boot_template=own)


def root_disk(settings: Settings, directory: Path, *, keep: bool) -> Disk:
    """The set's root; with --persist a copy among the user's data, made once for all sets with this root."""
    root = directory / ROOT
    if not keep:
        return Disk(root, imageformat.QCOW2)
    return disks.kept_root(settings, f"release-{_sums(directory)[ROOT][:12]}", lambda aside: _copy(root, aside))


def _copy(root: Path, aside: Path) -> None:
    """Copy the set's root with a mode by which its user may write to it."""
    with Step("copying the root disk", mostly_short=True):
        shutil.copyfile(root, aside)


def _sums(directory: Path) -> dict[str, str]:
    """The sums by the names of the files, which are plain names."""
    if not directory.is_dir():
        raise KeelError(f"{directory} is no folder", NO_SET)
    if not os.path.lexists(directory / SUMS):
        raise KeelError(f"{directory} is no release set: it has no {SUMS}", NO_SET)
    sums: dict[str, str] = {}
    for line in _text(directory / SUMS).splitlines():
        if (found := SUM_LINE.fullmatch(line)) is None or found[2] in sums:
            raise KeelError(f"{directory / SUMS} has a wrong line: {line[:100]!r}", AGAIN)
        if found[2] not in FIXED and not TASK.fullmatch(found[2]):
            raise KeelError(f"{directory / SUMS} names what is no file of a set: {found[2][:100]!r}", AGAIN)
        sums[found[2]] = found[1]
    return sums


def _check_files(directory: Path, sums: dict[str, str]) -> None:
    try:
        present = {path.name: path.lstat() for path in directory.iterdir()}
    except OSError as error:
        raise system_error(f"{directory} cannot be read", error) from error
    if missing := sorted({*sums, *FIXED} - set(present)):
        raise KeelError(f"the release set {directory} lacks {missing[0]}", AGAIN)
    if others := sorted(set(present) - {*sums, SUMS}):
        raise KeelError(f"the release set {directory} has a file that {SUMS} does not name: {others[0]!r}", "move it away")
    for name in [SUMS, *sums]:
        if not stat.S_ISREG(present[name].st_mode):
            raise KeelError(f"{directory / name} is no file", AGAIN)
    for name, expected in sums.items():
        if _sum(directory / name) != expected:
            raise KeelError(f"{directory / name} does not have the sum that {SUMS} says", AGAIN)


def _check_manifest(directory: Path) -> None:
    try:
        manifest = Manifest(**json.loads(_text(directory / MANIFEST)))
    except (ValueError, TypeError, RecursionError) as error:
        raise KeelError(f"{directory / MANIFEST} is no manifest of a release set", AGAIN) from error
    if manifest.format != FORMAT or manifest.version != version():
        shown = f"{manifest.version!s:.20} (format {manifest.format!s:.20})"
        remedy = "run it by the Keel of its version"
        raise KeelError(f"{directory} is a set of Keel {shown}, and this is {version()} (format {FORMAT})", remedy)


def _check_root(root: Path) -> None:
    """Refuse a root that is over another file, or has its data in one: the guest would read that file of the host's."""
    try:
        imageformat.check_alone(root, AGAIN)
    except KeelError as error:
        raise KeelError(error.what, AGAIN) from error


def _text(path: Path) -> str:
    """A small text file, which is not a symbolic link, nor what a reader could wait for."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise KeelError(f"{path} is no file", AGAIN)
        with path.open("rb") as file:
            data = file.read(MOST_TEXT_BYTES + 1)
        if len(data) > MOST_TEXT_BYTES:
            raise KeelError(f"{path} is too large", AGAIN)
        return data.decode()
    except OSError as error:
        raise system_error(f"{path} cannot be read", error) from error
    except UnicodeDecodeError as error:
        raise KeelError(f"{path} is not text", AGAIN) from error


def _sum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise system_error(f"{path} cannot be read", error) from error
