# SPDX-License-Identifier: GPL-2.0-only
"""The default root: unmodified Debian packages, installed by mmdebstrap and kept in the cache."""

import hashlib
import os
import shlex
import tarfile
from collections.abc import Sequence
from pathlib import Path

from . import cpio, packages, process, rootarchive
from .config import Settings
from .debian import KEYRING, NETWORK_REMEDY, SUITE, Mirror, find_mirror, host_access_settings
from .errors import system_error
from .lock import locked
from .progress import Far, Step

# Incremented when the recipe of the image changes, so that cached images are not used.
RECIPE = "2"
PACKAGES = (
    "bash", "coreutils", "curl", "dbus", "dropbear-bin", "gcc", "git", "iproute2", "iputils-ping", "kmod", "less",
    "libc6-dev", "libpam-systemd", "make", "nano", "openssh-sftp-server", "perl", "procps", "python3", "redis-server",
    "redis-tools", "sqlite3", "strace", "systemd-sysv", "udev", "util-linux", "util-linux-extra",
)  # fmt: skip
LEFT_OUT = (
    "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/lintian/*", "/usr/share/locale/*",
    "/usr/share/man/*",
)  # fmt: skip
# How long mmdebstrap usually takes, for its progress.
MAKING_S = 90.0
NO_RECOMMENDS = 'Apt::Install-Recommends "false";'
# Where systemd does not run, systemctl asks Keel's init (guest/init/attend.c), but complains first.
POWER_PROGRAMS = ("poweroff", "reboot", "halt")
POWER_SCRIPT = """#!/bin/sh
[ -d /run/systemd/system ] || exec 2> /dev/null
exec /usr/sbin/${0##*/} "$@"
"""
# The image is given away as ISO images. So it must have nothing of the host's name, resolver or path to its mirror, such as a
# proxy with its password: mmdebstrap keeps what it configures for apt. Root logs in without a password; no boot is the first one.
HOOKS = (
    'printf "keel\\n" > "$1/etc/hostname"',
    'printf "127.0.0.1 localhost keel\\n::1 localhost\\n" > "$1/etc/hosts"',
    'rm -f "$1/etc/resolv.conf"',
    f'printf "%s\\n" {shlex.quote(NO_RECOMMENDS)} > "$1/etc/apt/apt.conf.d/99mmdebstrap"',
    'sed -i "s/^root:[^:]*:/root::/" "$1/etc/shadow"',
    ': > "$1/etc/machine-id"',
    *(
        f'printf %s {shlex.quote(POWER_SCRIPT)} > "$1/usr/local/sbin/{name}"; chmod 755 "$1/usr/local/sbin/{name}"'
        for name in POWER_PROGRAMS
    ),
)
UNSHARE = (packages.Need("uidmap", ("newuidmap",), "makes the root file system without being root"),)
FAKED = (
    packages.Need("fakechroot", ("fakechroot",), "makes the root file system without being root"),
    packages.FAKEROOT,
)


def default_root(settings: Settings, more: Sequence[str] = ()) -> rootarchive.Root:
    """The default root's archive, with additional packages; made if the cache has none of this recipe."""
    archive = default_archive(settings, more)
    if not archive.exists():
        with locked(settings.cache, "roots"):
            if not archive.exists():
                archive.parent.mkdir(parents=True, exist_ok=True)
                _make(settings, archive, more)
    return rootarchive.checked(archive, settings)


def default_archive(settings: Settings, more: Sequence[str] = ()) -> Path:
    """The path of this recipe's archive in the cache."""
    recipe = "\n".join([RECIPE, SUITE, *_included(more), *LEFT_OUT, *HOOKS])
    key = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    return settings.cache / "roots" / f"debian-{SUITE}-{key}.cpio"


def _included(more: Sequence[str]) -> list[str]:
    """All packages that are asked for by name, in an order of their own."""
    return [*PACKAGES, *sorted(set(more) - set(PACKAGES))]


def needs(settings: Settings, more: Sequence[str] = ()) -> tuple[packages.Need, ...]:
    """The packages that making the default root takes, none if the cache has it."""
    return () if default_archive(settings, more).exists() else (*packages.ROOT, *user_needs())


def _make(settings: Settings, archive: Path, more: Sequence[str]) -> None:
    packages.require(settings, needs(settings, more))
    tar, aside = archive.with_suffix(".tar"), archive.with_suffix(".new")
    try:
        _debootstrap(settings, tar, more)
        with Step("packing the root file system") as step:
            tar_to_cpio(tar, aside, step)
        aside.replace(archive)
    except OSError as error:
        raise system_error("cannot write the root file system", error) from error
    finally:
        tar.unlink(missing_ok=True)
        aside.unlink(missing_ok=True)


def _debootstrap(settings: Settings, tar: Path, more: Sequence[str]) -> None:
    """Run mmdebstrap in the first mode that this user and this host allow."""
    modes = {UNSHARE: "unshare", FAKED: "fakechroot"}
    _run_mmdebstrap(settings, tar, modes.get(user_needs(), "root"), more)


def user_needs() -> tuple[packages.Need, ...]:
    """The additional needs of a user other than root for making the root file system."""
    if os.geteuid() == 0:
        return ()
    return UNSHARE if _may_unshare() else FAKED


def _may_unshare() -> bool:
    """Whether this system lets a user have a user name space, which a container or chroot may forbid."""
    return process.status_of(["unshare", "--user", "--map-root-user", "true"], timeout_s=10.0) == 0


def mmdebstrap_arguments(tar: Path, mode: str, access: list[str], mirror: Mirror, more: Sequence[str] = ()) -> list[str]:
    """The command that makes the root as a tar file."""
    lines = " ".join(map(shlex.quote, mirror.for_others().sources()))
    return [
        "mmdebstrap",
        "--variant=apt",
        f"--mode={mode}",
        "--architectures=amd64",
        "--format=tar",
        f"--include={','.join(_included(more))}",
        f"--keyring={KEYRING}",
        f"--aptopt={NO_RECOMMENDS}",
        *(f"--aptopt={line}" for line in access),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        *(f"--customize-hook={hook}" for hook in HOOKS),
        f'--customize-hook=printf "%s\\n" {lines} > "$1/etc/apt/sources.list"',
        SUITE,
        str(tar),
        *mirror.sources(),
    ]


def _run_mmdebstrap(settings: Settings, tar: Path, mode: str, more: Sequence[str]) -> None:
    def measure(line: bytes) -> str:
        """Mmdebstrap names each phase in a line of its own."""
        return line.decode(errors="replace").removeprefix("I: ").rstrip(".") if line.startswith(b"I: ") else ""

    with Step("making the root file system from Debian packages", usually_s=MAKING_S) as step:
        process.run_logged(
            mmdebstrap_arguments(tar, mode, host_access_settings(), find_mirror(), more),
            what="making the root file system",
            log=settings.logs / "root.log",
            step=step,
            measure=measure,
            remedy=f"has Debian {SUITE} all of {' '.join(more)}? {NETWORK_REMEDY}" if more else NETWORK_REMEDY,
        )


def tar_to_cpio(tar: Path, archive: Path, step: Step | None = None) -> None:
    """Convert a tar file, with owners, devices and hard links, without being root."""
    writer = cpio.Writer()
    with tarfile.open(tar) as source, archive.open("wb") as out:
        links: dict[str, int] = {}
        for member in source.getmembers():
            if member.islnk():
                links[member.linkname] = links.get(member.linkname, 1) + 1
        inodes = {name: writer.new_inode() for name in links}
        for member in source:
            if step:
                step.update(Far(100 * member.offset // tar.stat().st_size, 100, "%"))
            origin = member.linkname if member.islnk() else member.name
            entry = _entry(member, inodes.get(origin, 0), links.get(origin, 1), source, origin)
            if entry is None:
                continue
            out.write(writer.header(entry) + entry.data)
            data = source.extractfile(member) if member.isreg() else None
            while data and (part := data.read(cpio.COPY_BYTES)):
                out.write(part)
            out.write(cpio.padding(out.tell()))
        out.write(writer.end())


def _entry(member: tarfile.TarInfo, inode: int, links: int, source: tarfile.TarFile, origin: str) -> cpio.Entry | None:
    name = member.name.removeprefix("./")
    if name in {"", "."}:
        return None
    types = {
        tarfile.DIRTYPE: cpio.DIRECTORY,
        tarfile.SYMTYPE: cpio.SYMLINK,
        tarfile.CHRTYPE: cpio.CHARACTER,
        tarfile.BLKTYPE: cpio.BLOCK,
        tarfile.FIFOTYPE: cpio.FIFO,
    }
    target = source.getmember(origin) if member.islnk() else member
    data = member.linkname.encode("utf-8", "surrogateescape") if member.issym() else b""
    return cpio.Entry(
        name,
        types.get(member.type, cpio.REGULAR) | target.mode,
        data=data,
        uid=member.uid,
        gid=member.gid,
        mtime=int(member.mtime),
        links=links,
        inode=inode,
        device=(member.devmajor, member.devminor) if member.ischr() or member.isblk() else (0, 0),
        size=member.size if member.isreg() else len(data),
    )
