# SPDX-License-Identifier: GPL-2.0-only
"""The guest's static init and the archive that has it as /keel/init."""

from pathlib import Path

from . import cpio, packages, process, rootarchive
from .config import Settings
from .lock import locked

GUEST_PATH = "keel/init"
APPLICATIONS = "keel/applications"


def build_init(settings: Settings) -> Path:
    """Compile the init and pack it; returns the archive."""
    archive = settings.init_archive
    if settings.release:
        return archive
    packages.require(settings, packages.COMPILER)
    with locked(settings.locks, "init"):
        settings.init.parent.mkdir(parents=True, exist_ok=True)
        process.run_logged(
            [
                "make",
                "-C",
                str(settings.repository / "guest" / "init"),
                f"O={settings.init.parent}",
            ],
            what="building the guest's init",
            log=settings.logs / "init.log",
        )
        content = pack_init(settings.init.read_bytes())
        _update(archive, content)
    return archive


def with_application(settings: Settings, application: Path) -> Path:
    """An archive of the init and, perhaps, an application for ring 0, which it copies to the root."""
    init = build_init(settings)
    joined = init.with_name(f"with-{application.name}.cpio")  # an application's name cannot collide with the init's files
    writer = cpio.Writer()
    entries = [
        cpio.Entry(APPLICATIONS, cpio.DIRECTORY | 0o755),
        cpio.Entry(f"{APPLICATIONS}/{application.name}", cpio.REGULAR | 0o755, data=application.read_bytes()),
    ]
    content = init.read_bytes()
    content += cpio.padding(len(content)) + b"".join(writer.entry(entry) for entry in entries) + writer.end()
    with locked(settings.locks, "init"):
        _update(joined, content)
    return joined


def _update(archive: Path, content: bytes) -> None:
    """Replace the archive atomically: a guest that starts meanwhile has the complete old one."""
    if not archive.exists() or archive.read_bytes() != content:
        rootarchive.replace_file(archive, content)


def pack_init(program: bytes) -> bytes:
    """The archive with the init; Linux may open the console before the init makes /dev."""
    writer = cpio.Writer()
    entries = [
        cpio.Entry("keel", cpio.DIRECTORY | 0o755),
        cpio.Entry(GUEST_PATH, cpio.REGULAR | 0o755, data=program),
        cpio.Entry("dev", cpio.DIRECTORY | 0o755),
        cpio.Entry("dev/console", cpio.CHARACTER | 0o600, device=(5, 1)),
    ]
    return b"".join(writer.entry(entry) for entry in entries) + writer.end()
