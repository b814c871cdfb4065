# SPDX-License-Identifier: GPL-2.0-only
"""`./keel image`: makes a bootable ISO image of Linux on Keel for a PC, with the root in the RAM disk."""

import os
from dataclasses import dataclass
from pathlib import Path

from .. import accel, boot, cpio, disks, guestinit, imageformat, linux, loader, packages, release, rootarchive, rust, slot
from ..bootconf import DEFAULT_TEMPLATE
from ..config import Settings
from ..errors import KeelError, Status, system_error
from ..progress import Step, say

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What an image has in place of the default root and configuration, and in addition to Linux's parameters."""

    root: str | None = None
    append: str = ""
    template: Path = DEFAULT_TEMPLATE


def image(settings: Settings, file: Path, wanted: Wanted) -> int:
    """Runs the verb. The image appears under its name when it is complete."""
    parameters = boot.disc_parameters(None if wanted.root else boot.DISC_ROOT, wanted.append)
    boot.check_disc(wanted.template, parameters)
    if file.is_dir() or not file.parent.is_dir():
        raise KeelError(f"{file} cannot be written", "name a file in a directory that is there")
    if file.exists() and not file.is_file():
        raise KeelError(f"{file} is no file", "make a file, and copy it to the device: cp FILE.iso /dev/sdX")
    given = _given_root(settings, wanted.root) if wanted.root else None
    packages.require(settings, _needs(settings, given is None))
    _make(settings, file, wanted.template, parameters, given)
    say(f"{file} boots on a PC by BIOS or UEFI, from a CD or, copied to it as it is, from a USB stick")
    return Status.OK


def release_set(settings: Settings, directory: Path) -> int:
    """Runs the verb with --release. The set appears under its name when it is complete."""
    release.check_place(directory)
    packages.require(settings, [*_needs(settings, default_root=True), *disks.needs(settings)])
    with release.written(directory) as aside:
        parameters = boot.disc_parameters(boot.DISC_ROOT, "")
        tasks = _make(settings, aside / release.ISO, DEFAULT_TEMPLATE, parameters)
        parts = [settings.linux_server, settings.init_archive, accel.build_probe(settings)]
        release.fill(settings, aside, [*tasks, *parts])
    say(f"{directory} can be published; ./keel run --from {directory} boots it without building")
    return Status.OK


def _given_root(settings: Settings, root: str) -> rootarchive.Root:
    form, place = imageformat.of_root(root)
    if form:
        raise KeelError(f"the root of an ISO image is in memory, and {root} is a disk image", "give a directory or an archive")
    given = rootarchive.from_user(place, settings)
    if not given.starts:
        raise KeelError(f"{root} has neither an /init nor a shell", "give another root")
    return given


def _make(settings: Settings, file: Path, template: Path, parameters: str, given: rootarchive.Root | None = None) -> list[Path]:
    """Build all that an image has and make it; returns the µ-kernel and the native tasks in it."""
    init = guestinit.build_init(settings)
    rust.build_all(settings)
    linux.build_server(settings)
    with slot.taken(settings, "image") as mine:
        ramdisk = rootarchive.boot_archive(settings, given, init) if given else _default_ramdisk(settings, mine, init)
        described = boot.disc_guest(settings, mine, template, ramdisk, parameters)
        aside = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with Step("making the ISO image") as step:
                loader.make_disc(described, mine.directory, aside, mine.log("disc"), menu=True, step=step)
            aside.replace(file)
        except OSError as error:
            raise system_error(f"{file} cannot be written", error) from error
        finally:
            aside.unlink(missing_ok=True)
    images = [described.kernel, *(module.path for module in described.modules)]
    return [path for path in images if path.parent == settings.keel_directory]


def _needs(settings: Settings, default_root: bool) -> list[packages.Need]:
    needs = [*packages.LINUX, *packages.SIGNATURES, *packages.RUST, *packages.UEFI_LOADER]
    return [*needs, *disks.squashfs_needs(settings)] if default_root else needs


def _default_ramdisk(settings: Settings, mine: slot.Slot, init: Path) -> Path:
    """The init, and the default root as one file that it mounts: unpacked it would take much more memory."""
    root = disks.default_squashfs(settings)
    ramdisk = mine.directory / "root.cpio"
    writer = cpio.Writer()
    with ramdisk.open("wb") as out, root.open("rb") as content:
        out.write(init.read_bytes())
        out.write(cpio.padding(out.tell()))
        entry = cpio.Entry(boot.DISC_ROOT, cpio.REGULAR | 0o644, size=root.stat().st_size)
        out.write(writer.header(entry))
        while data := content.read(cpio.COPY_BYTES):
            out.write(data)
        out.write(cpio.padding(out.tell()))
        out.write(writer.end())
    return ramdisk
