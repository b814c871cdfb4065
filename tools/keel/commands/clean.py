# SPDX-License-Identifier: GPL-2.0-only
"""`./keel clean`: removes what was built, and on request what was fetched."""

import shutil

from .. import slot
from ..config import Settings
from ..errors import KeelError
from ..progress import Step, say


def clean(settings: Settings, cache: bool) -> None:
    """Remove the build directory; the cache, which other clones share, only when asked to."""
    if running := slot.running(settings):
        raise KeelError(f"the guest {running[0].name} still runs", "end it first")
    places = [settings.build, settings.cache] if cache else [settings.build]
    for place in places:
        if place.exists():
            with Step(f"removing {place}"):
                shutil.rmtree(place)
    if not cache:
        say(f"kept: {settings.cache}, what was fetched (--cache removes it)")
