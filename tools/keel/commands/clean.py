# SPDX-License-Identifier: GPL-2.0-only
"""`./keel clean`: removes what was built, and on request what was fetched."""

import shutil

from .. import disks, slot
from ..config import Settings
from ..errors import KeelError
from ..progress import Step, say


def clean(settings: Settings, *, cache: bool, persistent: bool) -> None:
    """Remove the build directory; the cache, which other clones share, and what guests wrote only when asked to."""
    if running := slot.running(settings):
        raise KeelError(f"the guest {running[0].name} still runs", "end it first")
    if (kept := disks.persistent(settings)) and not persistent:
        names = ", ".join(map(str, kept))
        raise KeelError(f"what guests wrote would be removed: {names}", "move it away, or give --persistent as well")
    places = [settings.build, settings.cache] if cache else [settings.build]
    for place in places:
        if place.exists():
            with Step(f"removing {place}"):
                shutil.rmtree(place)
    if not cache:
        say(f"kept: {settings.cache}, what was fetched (--cache removes it)")
