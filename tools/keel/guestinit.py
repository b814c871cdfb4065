# SPDX-License-Identifier: GPL-2.0-only
"""The guest's static init and the archive that carries it to /keel/init."""

from pathlib import Path

from . import cpio, packages, process
from .config import Settings
from .lock import locked

GUEST_PATH = "keel/init"


def build_init(settings: Settings) -> Path:
    """Compile the init and pack it; returns the archive."""
    packages.require(settings, packages.COMPILER)
    archive = settings.init.with_name("init.cpio")
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
        if not archive.exists() or archive.read_bytes() != content:
            archive.write_bytes(content)
    return archive


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
