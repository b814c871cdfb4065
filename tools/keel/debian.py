# SPDX-License-Identifier: GPL-2.0-only
"""Keel's own apt configuration for Debian's archive, separate from the host's.

Lists, packages and state are in the cache. Two settings are read from the
host's configuration: the mirror, and how to reach it (`Acquire` settings such
as a proxy). Keel never writes to the host's.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from . import process
from .config import Settings
from .errors import KeelError
from .lock import locked
from .progress import Step

SUITE = "bookworm"
# How long a comparison of two versions may take.
COMPARES_S = 10.0
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
DEFAULT_SECURITY = "http://deb.debian.org/debian-security"
# The URI of a mirror without a user and a password; not `file:`, and not the `mirror+file:` of Debian's images for clouds.
ANYBODYS = re.compile(r"https?://[^/@]+(/.*)?")
HOST_SOURCES = Path("/etc/apt")
# The kinds of lines of a sources.list, and what the suite has besides, newer than the release.
BINARY, SOURCE = "deb", "deb-src"
BACKPORTS = f"{SUITE}-backports"
UPDATE = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"]
# Its time is that of the last update, and how long the lists then count as new.
UPDATED, NEW_S = ".updated", 86400.0
NETWORK_REMEDY = "is the network there? a mirror can be given in KEEL_MIRROR and KEEL_SECURITY_MIRROR"
# A version of a package, without an epoch; it names files and folders.
VERSION = re.compile(r"\d[\w.+~-]*", re.ASCII)
VERSION_REMEDY = f"does the archive have this version? {NETWORK_REMEDY}"
# How to reach an archive; all other apt settings of the host are ignored.
TAKEN_OVER = re.compile(r"Acquire::(https?(::.*)?|Check-Valid-Until|Check-Date|Retries|ForceIPv[46]) ")


@dataclass(frozen=True)
class Mirror:
    """Where the archive and its security updates are fetched from."""

    archive: str
    security: str

    def sources(self, kind: str = BINARY) -> list[str]:
        """The lines of a sources.list."""
        start = f"{SOURCE if kind == SOURCE else BINARY} [signed-by={KEYRING}]"
        return [
            *([f"{start} {self.archive} {BACKPORTS} main"] if kind == BACKPORTS else []),
            f"{start} {self.archive} {SUITE} main",
            f"{start} {self.archive} {SUITE}-updates main",
            f"{start} {self.security} {SUITE}-security main",
        ]

    def for_others(self) -> "Mirror":
        """The mirror for another machine: Debian's own if only this host can reach the mirror, or needs a password."""
        archive = self.archive if ANYBODYS.fullmatch(self.archive) else DEFAULT_MIRROR
        security = self.security if ANYBODYS.fullmatch(self.security) else DEFAULT_SECURITY
        return Mirror(archive, security)


def uris_of(text: str) -> dict[str, str]:
    """Suite to URI, from a file in either of apt's formats, one-line or deb822."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+\S", line)
        if match:
            found.setdefault(match[2], match[1])
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"(?m)^(\w[\w-]*):[ \t]*(.*)$", stanza))
        for suite in fields.get("Suites", "").split():
            for uri in fields.get("URIs", "").split()[:1]:
                found.setdefault(suite, uri)
    return found


def find_mirror() -> Mirror:
    """The user's choice, else the host's mirror if it has this suite, else Debian's."""
    found: dict[str, str] = {}
    directory = HOST_SOURCES / "sources.list.d"
    for path in [HOST_SOURCES / "sources.list", *sorted(directory.glob("*"))]:
        if path.is_file() and path.suffix in {".list", ".sources"}:
            found = {**uris_of(path.read_text(errors="replace")), **found}
    return Mirror(
        os.environ.get("KEEL_MIRROR", "") or found.get(SUITE, DEFAULT_MIRROR),
        os.environ.get("KEEL_SECURITY_MIRROR", "") or found.get(f"{SUITE}-security", DEFAULT_SECURITY),
    )


def newest(files: Iterable[Path]) -> Path | None:
    """The file of a package, NAME_VERSION_..., whose version is the highest, as dpkg compares them; None of none."""
    return reduce(lambda best, file: file if _is_older(best, file) else best, files, None)


def _is_older(one: Path | None, other: Path) -> bool:
    if one is None:
        return True
    first, second = (file.name.split("_")[1].replace("%3a", ":") for file in (one, other))
    return process.status_of(["dpkg", "--compare-versions", first, "lt", second], COMPARES_S) == 0


def host_access_settings() -> list[str]:
    """The host's settings for reaching an archive, as lines of an apt configuration."""
    lines = process.output(["apt-config", "dump"]).splitlines()
    return [line for line in lines if TAKEN_OVER.match(line)]


class Archive:
    """Debian's archive through this configuration; the lists are fetched once a run.

    One for sources has lists of its own, so that only their users fetch them; one for backports has packages of its own as well,
    so that nobody else takes one for the release's.
    """

    def __init__(self, settings: Settings, kind: str = BINARY) -> None:
        self.settings = settings
        self.kind = kind
        self.directory = settings.cache / {BINARY: "apt", SOURCE: "apt-sources"}.get(kind, f"apt-{kind}")
        self.packages = settings.cache / (f"packages-{kind}" if kind == BACKPORTS else "packages")
        self.environment = {"APT_CONFIG": str(self.directory / "apt.conf")}

    def prepare(self) -> None:
        """Write the configuration; it is small and follows the host's mirror."""
        for name in ("state/lists/partial", "cache/archives/partial", "empty"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.packages.mkdir(parents=True, exist_ok=True)
        (self.directory / "state" / "status").touch()
        sources = self.directory / "sources.list"
        sources.write_text("\n".join(find_mirror().sources(self.kind)) + "\n")
        lines = [
            f'Dir::State "{self.directory}/state";',
            f'Dir::State::status "{self.directory}/state/status";',
            f'Dir::Cache "{self.directory}/cache";',
            f'Dir::Etc::sourcelist "{sources}";',
            f'Dir::Etc::sourceparts "{self.directory}/empty";',
            f'Dir::Etc::parts "{self.directory}/empty";',
            f'Dir::Etc::main "{self.directory}/empty/none";',
            f'Dir::Etc::preferencesparts "{self.directory}/empty";',
            f'Dir::Etc::preferences "{self.directory}/empty/none";',
            'APT::Architecture "amd64";',
            'APT::Sandbox::User "";',
            *([f'APT::Default-Release "{BACKPORTS}";'] if self.kind == BACKPORTS else []),
            'Acquire::Languages "none";',
            *host_access_settings(),
        ]
        (self.directory / "apt.conf").write_text("\n".join(lines) + "\n")

    def lacks(self, names: Iterable[str]) -> list[str]:
        """Those of the names that no package of the archive has, by lists that are less than a day old.

        None where that cannot be found out: whatever needs the archive then says why.
        """
        if shutil.which("apt-cache") is None:
            return []
        with locked(self.settings.cache, "apt"):
            try:
                known = self._names()
                if set(names) <= known:
                    return []
                if not self._are_new():
                    self._update()
                    known = self._names()
            except KeelError:
                return []
        return sorted(set(names) - known)

    def _names(self) -> set[str]:
        """All names in the lists, also those that packages only provide; none where there are no lists."""
        self.prepare()
        return set(process.output(["apt-cache", "--all-names", "pkgnames"], env=self.environment).split())

    def _are_new(self) -> bool:
        lists = [path.stat().st_mtime for path in (self.directory / "state" / "lists").glob("*_Packages*")]
        stamp = self.directory / UPDATED
        return bool(lists) and stamp.exists() and time.time() - stamp.stat().st_mtime < NEW_S

    def _update(self) -> None:
        with Step("fetching the lists of Debian's packages", mostly_short=True) as step:
            process.run_logged(
                UPDATE,
                what="fetching the lists of Debian's packages",
                log=self.settings.logs / "apt.log",
                step=step,
                env=self.environment,
                explain=lambda log: KeelError("the lists of Debian's packages cannot be fetched", NETWORK_REMEDY),
            )
        (self.directory / UPDATED).touch()

    def fetch(self, package: str, version: str = "") -> Path:
        """The newest version of a package, or a given one; from the cache if it is there."""
        pattern = f"{package}_{version or '*'}_*.deb"
        with locked(self.settings.cache, "apt"):
            if not (kept := newest(self.packages.glob(pattern))):
                self.prepare()
                self._download(f"{package}={version}" if version else package)
                kept = newest(self.packages.glob(pattern))
        if not kept:
            raise KeelError(f"Debian's archive gave no package {package}", NETWORK_REMEDY)
        return kept

    def fetch_source(self, package: str) -> Path:
        """The description (.dsc) of a source package, with its files in the same directory; from the cache if it is there."""
        with locked(self.settings.cache, "apt"):
            if not (kept := newest(self.packages.glob(f"{package}_*.dsc"))):
                self.prepare()
                self._download(package)
                kept = newest(self.packages.glob(f"{package}_*.dsc"))
        if not kept:
            raise KeelError(f"Debian's archive gave no source of {package}", NETWORK_REMEDY)
        return kept

    def _download(self, package: str) -> None:
        """Fetch into a directory aside, so that the cache has only complete files; the description of a source comes last."""
        fetch = ["source", "--download-only"] if self.kind == SOURCE else ["download"]
        commands = (
            UPDATE,
            ["apt-get", "-q", *fetch, package],
        )
        with (
            tempfile.TemporaryDirectory(dir=self.packages) as aside,
            Step(f"fetching {package}") as step,
        ):
            for argv in commands:
                process.run_logged(
                    argv,
                    what=f"fetching {package} from Debian's archive",
                    log=self.settings.logs / "apt.log",
                    step=step,
                    cwd=Path(aside),
                    env=self.environment,
                    remedy=VERSION_REMEDY if "=" in package else NETWORK_REMEDY,
                )
            (self.directory / UPDATED).touch()
            for path in sorted(Path(aside).iterdir(), key=lambda path: path.suffix == ".dsc"):
                path.replace(self.packages / path.name)
