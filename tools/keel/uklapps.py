# SPDX-License-Identifier: GPL-2.0-only
"""Applications for level 0 that are built by name, out of Debian's source packages.

Nothing of theirs is kept here, and nothing of them is changed: their own make is told another compiler.
"""

import os
import shutil
from pathlib import Path

from . import linux, process, uklbuild, ukloptions
from .config import Settings
from .debian import SOURCE, Archive
from .errors import KeelError, Status
from .lock import locked
from .progress import Step

REDIS = "redis"
APPLICATIONS = (REDIS,)
UNPACKED = ".keel-unpacked"
# No allocator but libc's, no TLS and no systemd: what musl has not got.
REDIS_WORDS = ("MALLOC=libc", "BUILD_TLS=no", "USE_SYSTEMD=no", "OPTIMIZATION=-O2", "DEBUG=", "redis-server")


def build(settings: Settings, name: str, options: ukloptions.Options, *, ordinary: bool = False) -> Path:
    """The application of a name, for the kernel with these options, or as an ordinary program with the same libc."""
    if name not in APPLICATIONS:
        raise KeelError(f"there is no application {name!r} to build", f"known are {' '.join(APPLICATIONS)}", Status.USAGE)
    if not ordinary:
        linux.build_ukl(settings, options)
    libc, headers = uklbuild.libc(settings, ordinary=ordinary), linux.headers(settings)
    with locked(settings.locks, f"ukl-{name}"):
        source = _unpacked(settings, name, libc)
        # The file has the same name for each kernel: another command line would have everything compiled anew.
        entry = source / "entry.ld"
        words = ["-static", "-no-pie", *([] if ordinary else uklbuild.entry_words(settings, options, entry))]
        compiler = [
            *uklbuild.compiler(settings, ordinary=ordinary),
            f"-specs={libc / 'lib' / 'musl-gcc.specs'}",
            f"-idirafter {headers}",
            "-fno-pie",
        ]
        (source / "src" / "redis-server").unlink(missing_ok=True)
        with Step(f"building {name}") as step:
            process.run_logged(
                [
                    "make",
                    f"-j{len(os.sched_getaffinity(0))}",
                    "-C",
                    str(source / "src"),
                    f"CC={' '.join(compiler)}",
                    f"LDFLAGS={' '.join(words)}",
                    *REDIS_WORDS,
                ],
                what=f"building {name}",
                log=settings.logs / f"ukl-{name}.log",
                step=step,
            )
        return uklbuild.installed(settings, source / "src" / "redis-server", name, None if ordinary else options)


def _unpacked(settings: Settings, name: str, libc: Path) -> Path:
    """Its source, unpacked anew where the package or the libc that it was built with is another."""
    description = Archive(settings, SOURCE).fetch_source(name)
    source = settings.build / "ukl" / f"{name}-{libc.name}-source"
    stamp, state = source / UNPACKED, f"{description.name} {(libc / uklbuild.STAMP).read_text()}\n"
    if stamp.exists() and stamp.read_text() == state:
        return source
    shutil.rmtree(source, ignore_errors=True)
    process.run_logged(
        ["dpkg-source", "--no-check", "-x", str(description), str(source)],
        what=f"unpacking {name}",
        log=settings.logs / f"ukl-{name}-source.log",
        cwd=source.parent,
    )
    stamp.write_text(state)
    return source
