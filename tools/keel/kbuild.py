# SPDX-License-Identifier: GPL-2.0-only
"""What Linux's make has left to compile, from the lists of dependencies that it keeps beside its objects."""

import re
from pathlib import Path

# The source of an object, and what else it was made of; an option of the configuration is a file as well.
PARTS = re.compile(r"^(?:source_\S+ := (\S+)| +(?:\$\(wildcard (\S+?)\)|(\S+)) \\?)$", re.MULTILINE)
OBJECTS, AROUND = ".*.o.cmd", (".", ".cmd")
# Programs of the host, which make builds otherwise.
HOSTS = ("scripts", "tools")


def left(out: Path, of: int) -> int:
    """About how many objects make will compile in a directory in which a whole build has that many.

    0 means that this cannot be known: the configuration is another one, and make finds out first what depends on it.
    """
    configured = out / "include" / "config" / "auto.conf"
    lists = [path for path in out.rglob(OBJECTS) if path.relative_to(out).parts[0] not in HOSTS]
    if lists and configured.exists() and configured.stat().st_mtime < (out / ".config").stat().st_mtime:
        return 0
    times: dict[str, float] = {}
    return max(0, of - len(lists)) + sum(_is_old(out, path, times) for path in lists)


def _is_old(out: Path, path: Path, times: dict[str, float]) -> bool:
    """Whether an object is older than a file that it was made of."""
    try:
        made = path.with_name(path.name.removeprefix(AROUND[0]).removesuffix(AROUND[1])).stat().st_mtime
        parts = ["".join(found) for found in PARTS.findall(path.read_text())]
        return any(_time(out, part, times) > made for part in parts)
    except FileNotFoundError:
        return True


def _time(out: Path, part: str, times: dict[str, float]) -> float:
    """When a file was changed; an option that is off has none."""
    if part not in times:
        file = out / part
        times[part] = 0.0 if part.startswith("include/config/") and not file.exists() else file.stat().st_mtime
    return times[part]
