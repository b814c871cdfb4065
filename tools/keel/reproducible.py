# SPDX-License-Identifier: GPL-2.0-only
"""Whether the same sources in two directories are built to the same bytes.

One build is this clone's own, as it is by now; the other one is made of a copy, from scratch, without objects that ccache has.
Both take the packages of the default root from the cache: another day's archive may have others.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from . import process
from .config import Settings
from .progress import Step

# Another name and length than the clone's.
COPY = "a-copy-of-the-sources"
# ccache compiles, and keeps the new result.
COMPILED_AGAIN = {"CCACHE_RECACHE": "1"}


def judge(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each file that is built, with what differs, or nothing."""
    settings.cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=settings.cache, prefix="reproducible-") as aside:
        place = Path(aside)
        other = replace(settings, repository=place / COPY, build=place / COPY / "build")
        copy(settings.repository, other.repository)
        _build(settings, settings.repository, place / "first", {})
        _build(settings, other.repository, place / "second", COMPILED_AGAIN)
        yield from different(place / "first", place / "second")
        yield "native Linux", difference(settings.native_kernel, other.native_kernel)
        yield "native Linux, with its symbols", difference(settings.native_symbols, other.native_symbols)


def copy(repository: Path, place: Path) -> None:
    """A clone at the same commit, with the same changes."""
    git = ["git", "-C", str(repository)]
    process.output(["git", "clone", "--quiet", "--shared", "--no-checkout", str(repository), str(place)])
    names = process.output([*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")
    for name in names:
        if name and (repository / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repository / name, place / name)
            shutil.copymode(repository / name, place / name)
    process.output(["git", "-C", str(place), "reset", "--quiet"])


def _build(settings: Settings, repository: Path, release: Path, environment: Mapping[str, str]) -> None:
    """Build native Linux and make a release set, by the command of these sources."""
    keel = [sys.executable, str(repository / "keel")]
    for arguments in (["build", "native"], ["image", "--release", str(release)]):
        what = f"{release.name} build: keel {' '.join(arguments[:2])}"
        with Step(what) as step:
            process.run_logged(
                [*keel, *arguments, *([] if settings.install else ["--no-install"])],
                what=what,
                log=settings.logs / f"reproducible-{release.name}-{arguments[0]}.log",
                step=step,
                measure=lambda line: line.decode(errors="replace").removeprefix("keel: "),
                env=environment,
            )


def different(first: Path, second: Path) -> Iterator[tuple[str, str]]:
    """The files of two folders, each with what differs, or nothing."""
    for name in sorted({path.name for path in (*first.iterdir(), *second.iterdir())}):
        yield name, difference(first / name, second / name)


def difference(first: Path, second: Path) -> str:
    """The first byte at which two files differ, or nothing."""
    for path in (first, second):
        if not path.exists():
            return f"there is no {path}"
    one, other = first.read_bytes(), second.read_bytes()
    if one == other:
        return ""
    shorter = min(len(one), len(other))
    at = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    return f"they differ from byte {at} of {len(one)} and {len(other)}"
