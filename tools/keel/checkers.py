# SPDX-License-Identifier: GPL-2.0-only
"""Checkers that are not in Debian: fetched from PyPI by their hashes into an environment in the cache."""

import hashlib
import shutil
from pathlib import Path

from . import packages, process
from .config import Settings
from .errors import KeelError
from .lock import locked
from .progress import Step

DEBIAN_PYTHON = "/usr/bin/python3"
REQUIREMENTS = Path("tools") / "requirements.txt"
VENV = (packages.Need("python3-venv", ("/usr/lib/python3.*/ensurepip",), "makes the environment of the checkers"),)
# Where Debian's Python is newer than that of the pinned one, its reuse is new enough.
REUSE = (packages.Need("reuse", ("/usr/bin/reuse",), "checks the licences"),)
STAMP = ".keel-complete"
HASHES_DIFFER = "DO NOT MATCH THE HASHES"


class CannotFetch(Exception):
    """The checkers are not in the cache and PyPI does not answer; the text says why."""


def ruff(settings: Settings) -> Path:
    """The pinned ruff. Raises CannotFetch if it is not in the cache and PyPI does not answer."""
    return _environment(settings) / "bin" / "ruff"


def reuse(settings: Settings) -> Path:
    """The pinned reuse, or Debian's if that is new enough. Raises CannotFetch as `ruff` does."""
    pinned = _environment(settings) / "bin" / "reuse"
    if pinned.exists():
        return pinned
    packages.require(settings, REUSE)
    return Path(REUSE[0].files[0])


def _environment(settings: Settings) -> Path:
    """The environment with the pinned checkers, made if it is not in the cache."""
    requirements = settings.repository / REQUIREMENTS
    key = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    environment = settings.cache / f"checkers-{key}"
    if not (environment / STAMP).exists():
        packages.require(settings, VENV)
        with locked(settings.cache, "checkers"):
            if not (environment / STAMP).exists():
                _make(settings, requirements, environment)
    return environment


def _make(settings: Settings, requirements: Path, environment: Path) -> None:
    shutil.rmtree(environment, ignore_errors=True)
    log = settings.logs / "checkers.log"
    pip = [str(environment / "bin" / "pip"), "install", "--retries", "1", "--require-hashes", "--only-binary", ":all:"]
    with Step("fetching the checkers from PyPI") as step:
        process.run_logged(
            [DEBIAN_PYTHON, "-m", "venv", str(environment)],
            what="making the environment of the checkers",
            log=log,
            step=step,
        )
        try:
            process.run_logged([*pip, "-r", str(requirements)], what="fetching the checkers", log=log, step=step)
        except KeelError as error:
            text = log.read_text(errors="replace")
            if HASHES_DIFFER in text:
                raise KeelError("a checker from PyPI is not the one that is known", f"see {log}") from error
            raise CannotFetch(reason(text)) from error
    (environment / STAMP).touch()


def reason(text: str) -> str:
    """The first error in pip's output."""
    errors = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    return errors[0] if errors else "pip failed"
