# SPDX-License-Identifier: GPL-2.0-only
"""The default root: unmodified Debian packages, installed by mmdebstrap and kept in the cache."""

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from . import packages, process, rootarchive, tararchive
from .config import Settings
from .debian import KEYRING, NETWORK_REMEDY, SUITE, Archive, Mirror, find_mirror, host_access_settings
from .errors import KeelError, system_error
from .lock import locked
from .progress import Step

FAKECHROOT = "fakechroot"
# Incremented when the recipe of the image changes, so that cached images are not used.
RECIPE = "3"
PACKAGES = (
    "bash", "coreutils", "curl", "dbus", "dropbear-bin", "gcc", "git", "iproute2", "iputils-ping", "kmod", "less",
    "libc6-dev", "libpam-systemd", "make", "nano", "openssh-sftp-server", "perl", "procps", "python3", "redis-server",
    "redis-tools", "sqlite3", "strace", "systemd-sysv", "udev", "util-linux", "util-linux-extra",
)  # fmt: skip
LEFT_OUT = (
    "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/lintian/*", "/usr/share/locale/*",
    "/usr/share/man/*",
)  # fmt: skip
# Packages of another architecture, NAME:i386, which most often cannot be beside those of the default root. They are unpacked with
# what they depend on into a folder, and their scripts do not run: `chroot /i386 PROGRAM` finds its libraries there.
APART = "i386"
# How long mmdebstrap usually takes for all packages and for a few more, for its progress.
MAKING_S, INSTALLING_S = 90.0, 20.0
# What mmdebstrap makes itself in a base before it installs packages there: apt's settings for this host, and devices.
MADE_AGAIN = re.compile(r"dev/|etc/apt/(sources\.list|apt\.conf\.d/99mmdebstrap)$")
# apt-get as mmdebstrap runs it for its own variants. A copy needs no fsync; a package that the default root has stays there.
INSTALL = (
    "APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --yes --no-remove -o DPkg::Options::=--force-unsafe-io "
    '-o DPkg::Chroot-Directory="$1" install'
)
# What is done: the beginning of a line of mmdebstrap or apt-get.
PHASE = re.compile(rb"(?:I: )?((?<=I: )[^:.]+|(?:Unpacking|Setting up) \S+)")
# What apt-get prints about a package that does not exist, about a mirror's file that is not what its index says, or about
# packages that cannot be together.
UNKNOWN = re.compile(
    r"^(?:E|Error): (?:Unable to locate package (\S+)|Package '?([^' ]+)'? has no installation candidate)", re.MULTILINE
)
OUT_OF_STEP = re.compile(r"(\S+)  File has unexpected size .* Mirror sync in progress\?")
CONFLICT = re.compile(r"(?:The following packages will be REMOVED|REMOVING):\n((?: .*\n)+)")
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
# Without user name spaces. fakechroot writes absolute links with the path of the root before them, and removes it when it reads
# them; these three folders are the host's for it. systemd's file is read-only, and the user is root in name only.
FAKED_SETUP = (
    'tar --extract --xattrs --xattrs-include="*" --directory="$1" --file={tar} '
    '--transform="flags=RsH;s,^/,$1/,;s,^$1/dev/,/dev/,;s,^$1/proc/,/proc/,;s,^$1/sys/,/sys/,"'
)
FAKED_HOOK = 'chmod u+w "$1/etc/machine-id"'
UNSHARE = (packages.Need("uidmap", ("newuidmap",), "makes the root file system without being root"),)
FAKED = (
    packages.Need(FAKECHROOT, ("fakechroot",), "makes the root file system without being root"),
    packages.FAKEROOT,
)


def default_root(settings: Settings) -> rootarchive.Root:
    """The default root's archive; made if the cache has none of this recipe."""
    archive = default_archive(settings)
    if not archive.exists():
        with locked(settings.cache, "roots"):
            if not archive.exists():
                make_archive(settings, archive)
    return rootarchive.checked(archive, settings)


def default_archive(settings: Settings) -> Path:
    """The path of this recipe's archive in the cache."""
    return settings.cache / "roots" / f"debian-{SUITE}-{key()}.cpio"


def key(more: Sequence[str] = (), name: str = "") -> str:
    """What distinguishes this recipe, with additional packages and a name for them, from all others."""
    recipe = "\n".join([RECIPE, SUITE, *PACKAGES, *more, *LEFT_OUT, *HOOKS, *filter(None, [name])])
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


def additional(more: Sequence[str]) -> tuple[str, ...]:
    """Those packages that the default root does not have by name, in an order of their own."""
    return tuple(sorted(set(more) - set(PACKAGES)))


def needs(settings: Settings) -> tuple[packages.Need, ...]:
    """The packages that making the default root takes, none if the cache has it."""
    return () if default_archive(settings).exists() else making_needs()


def making_needs() -> tuple[packages.Need, ...]:
    """The packages that making any root takes."""
    return (*packages.ROOT, *user_needs())


def make_archive(settings: Settings, archive: Path, more: Sequence[str] = (), base: Path | None = None) -> None:
    """Make the archive of the default root, with additional packages installed into a copy of a base that is its archive.

    Nothing is left if that fails.
    """
    packages.require(settings, making_needs())
    installed = [name for name in more if not is_apart(name)]
    unpacked = [name.removesuffix(f":{APART}") for name in more if is_apart(name)]
    mode = {UNSHARE: "unshare", FAKED: FAKECHROOT}.get(user_needs(), "root")
    tar, base_tar, apart_tar, aside = (archive.with_suffix(suffix) for suffix in (".tar", ".base.tar", ".apart.tar", ".new"))
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        if base and not installed:
            tararchive.from_cpio(base, tar, is_wanted=lambda name: True)
        elif base:
            tararchive.from_cpio(base, base_tar, is_wanted=lambda name: not MADE_AGAIN.match(name))
            _run_mmdebstrap(settings, installed, mmdebstrap_arguments(tar, mode, *_reached(), installed, base_tar))
        else:
            _run_mmdebstrap(settings, installed, mmdebstrap_arguments(tar, mode, *_reached(), installed))
        if unpacked:
            _run_mmdebstrap(settings, unpacked, apart_arguments(apart_tar, mode, *_reached(), unpacked), f" for {APART}")
        with Step("packing the root file system") as step:
            tararchive.to_cpio(tar, aside, step, (apart_tar, APART) if unpacked else None)
        aside.replace(archive)
    except OSError as error:
        raise system_error("cannot write the root file system", error) from error
    finally:
        for path in (tar, base_tar, apart_tar, aside):
            path.unlink(missing_ok=True)


def is_apart(package: str) -> bool:
    """Whether a package is of the other architecture, by its name."""
    return package.endswith(f":{APART}")


def check_known(settings: Settings, names: Sequence[str]) -> None:
    """Refuse packages that Debian does not have, as far as its lists are there or can be fetched."""
    if unknown := Archive(settings).lacks(names) if names else []:
        raise _unknown(unknown)


def _unknown(names: Sequence[str], what_for: str = "") -> KeelError:
    return KeelError(f"Debian {SUITE} has no package {', '.join(names)}{what_for}", f"packages.debian.org/{SUITE} lists all")


def _reached() -> tuple[list[str], Mirror]:
    """How this host reaches the archive."""
    return host_access_settings(), find_mirror()


def user_needs() -> tuple[packages.Need, ...]:
    """The additional needs of a user other than root for making the root file system."""
    if os.geteuid() == 0:
        return ()
    return UNSHARE if _may_unshare() else FAKED


def _may_unshare() -> bool:
    """Whether this system lets a user have a user name space, which a container or chroot may forbid."""
    return process.status_of(["unshare", "--user", "--map-root-user", "true"], timeout_s=10.0) == 0


def mmdebstrap_arguments(
    tar: Path, mode: str, access: list[str], mirror: Mirror, more: Sequence[str] = (), base: Path | None = None
) -> list[str]:
    """The command that makes the root as a tar file: all of it, or by installing packages into the base, another tar file."""
    lines = " ".join(map(shlex.quote, mirror.for_others().sources()))
    whole = ["--variant=apt", f"--include={','.join([*PACKAGES, *more])}"]
    faked = mode == FAKECHROOT
    copied = FAKED_SETUP.format(tar=shlex.quote(str(base))) if faked else f"tar-in {shlex.quote(str(base))} /"
    over = ["--variant=custom", f"--setup-hook={copied}", f"--customize-hook={INSTALL} {' '.join(more)}"]
    return [
        *_common_arguments(mode, "amd64", access),
        *(over if base else whole),
        *(f"--customize-hook={hook}" for hook in (*([FAKED_HOOK] if faked else ()), *HOOKS)),
        f'--customize-hook=printf "%s\\n" {lines} > "$1/etc/apt/sources.list"',
        SUITE,
        str(tar),
        *mirror.sources(),
    ]


def apart_arguments(tar: Path, mode: str, access: list[str], mirror: Mirror, names: Sequence[str]) -> list[str]:
    """The command that unpacks packages of the other architecture, and what they depend on, into a tar file."""
    what = ["--variant=extract", f"--include={','.join(names)}"]
    return [*_common_arguments(mode, APART, access), *what, SUITE, str(tar), *mirror.sources()]


def _common_arguments(mode: str, architecture: str, access: list[str]) -> list[str]:
    return [
        "mmdebstrap",
        f"--mode={mode}",
        f"--architectures={architecture}",
        "--format=tar",
        f"--keyring={KEYRING}",
        f"--aptopt={NO_RECOMMENDS}",
        *(f"--aptopt={line}" for line in access),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    ]


def _run_mmdebstrap(settings: Settings, more: Sequence[str], argv: list[str], what_for: str = "") -> None:
    def measure(line: bytes) -> str:
        """Mmdebstrap names each phase in a line of its own, perhaps with a command, and apt-get each package."""
        found = PHASE.match(line)
        return found[1].decode(errors="replace") if found else ""

    what = f"installing {' '.join(more)}" if more else "making the root file system"
    with Step(what if more else f"{what} from Debian packages", usually_s=INSTALLING_S if more else MAKING_S) as step:
        process.run_logged(
            argv,
            what=what,
            log=settings.logs / "root.log",
            step=step,
            measure=measure,
            remedy=f"has Debian {SUITE} all of {' '.join(more)}? {NETWORK_REMEDY}" if more else NETWORK_REMEDY,
            explain=partial(explanation, what_for=what_for),
        )


def explanation(log: str, what_for: str = "") -> KeelError | None:
    """What is wrong with the packages that were asked for, from the output of apt-get; None if it was something else.

    `what_for` is put after the names of those that do not exist.
    """
    if unknown := sorted({found for pair in UNKNOWN.findall(log) for found in pair if found}):
        return _unknown(unknown, what_for)
    if out_of_step := OUT_OF_STEP.search(log):
        remedy = "try again later, or give another one in KEEL_MIRROR and KEEL_SECURITY_MIRROR"
        return KeelError(f"the mirror is being changed: {out_of_step[1]} is not what its index says", remedy)
    if conflict := CONFLICT.search(log):
        names = " ".join(conflict[1].split())
        return KeelError(f"the packages conflict with some of the default root: {names}", "leave out those that need its removal")
    return None
