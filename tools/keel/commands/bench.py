# SPDX-License-Identifier: GPL-2.0-only
"""`./keel bench`: measures Keel against the native baseline; bench/run.py does the work."""

import sys

from .. import guestinit, image, linux, packages, process, rust
from ..config import Settings


def bench(settings: Settings, arguments: list[str]) -> int:
    """Build both systems, then hand over to the measuring program."""
    packages.require_emulator(settings)
    guestinit.build_init(settings)
    image.default_root(settings)
    linux.build_native(settings)
    rust.build_all(settings)
    linux.build_server(settings)
    program = settings.repository / "bench" / "run.py"
    return process.run_shown([sys.executable, str(program), *arguments], cwd=settings.repository)
