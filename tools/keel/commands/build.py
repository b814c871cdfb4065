# SPDX-License-Identifier: GPL-2.0-only
"""`./keel build`: brings the named parts up to date."""

from collections.abc import Callable, Sequence

from .. import guestinit, image, linux, rust
from ..config import Settings

TARGETS: dict[str, Callable[[Settings], object]] = {
    "init": guestinit.build_init,
    "keel": rust.build_all,
    "native": linux.build_native,
    "linux": linux.build_server,
    "root": image.default_root,
}
# Targets that are built only if they are named.
MORE: dict[str, Callable[[Settings], object]] = {"ukl": linux.build_ukl}


def build(settings: Settings, targets: Sequence[str]) -> None:
    """Build the targets, all of them by default, in the order that `run` needs them."""
    for name in targets or TARGETS:
        {**TARGETS, **MORE}[name](settings)
