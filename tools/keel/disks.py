# SPDX-License-Identifier: GPL-2.0-only
"""Disk images: the user's, checked before a guest gets them, and the default root as an image."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import image, imageformat, layers, machine, measures, packages, process, unpack
from .config import Settings
from .errors import KeelError, system_error
from .lock import locked
from .progress import Far, Step, say
from .qemu import Disk

# A disk of the host with fewer free bytes is full: an image grows in larger steps.
LEAST_FREE = 1 << 20
# The status of `qemu-img check` for an intact image with unused space that is not free.
LEAKS = 3
MBR_MAGIC_AT, MBR_MAGIC = 510, b"\x55\xaa"
SUPERBLOCK_AT = 1024
EXT4_MAGIC_AT, EXT4_MAGIC = SUPERBLOCK_AT + 0x38, b"\x53\xef"
EXT4_BLOCKS_AT, EXT4_BLOCK_SHIFT_AT, EXT4_BLOCKS_HIGH_AT = SUPERBLOCK_AT + 0x4, SUPERBLOCK_AT + 0x18, SUPERBLOCK_AT + 0x150
EXT4_64BIT_AT, EXT4_64BIT = SUPERBLOCK_AT + 0x60, 0x80
EXT4_LEAST_BLOCK_SHIFT = 10
EXT4_MOST_BLOCK_SHIFT = 16
HEAD_BYTES = 4096
# Of the default root's file system: room for what a user installs. The file takes only the space that is written.
DEFAULT_SIZE = "8G"
# The end of the name of a root that an earlier Keel kept in the build directory.
PERSISTENT = "persistent.qcow2"
# Where the mounts are listed, and the types of file systems of networks whose locks are such.
MOUNTS, REMOTE = Path("/proc/self/mountinfo"), ("nfs", "nfs4", "cifs", "smb3")
ELSEWHERE = "XDG_DATA_HOME names another place for data"
# Placeholders for the unpacked files and for the image in the command that makes it.
TREE, IMAGE = "@TREE", "@IMAGE"


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise KeelError(f"{path} cannot be read: {error.strerror or error}") from error


def _is_ext4(head: bytes) -> bool:
    return head[EXT4_MAGIC_AT : EXT4_MAGIC_AT + 2] == EXT4_MAGIC


def _is_partitioned(head: bytes) -> bool:
    return head[MBR_MAGIC_AT : MBR_MAGIC_AT + 2] == MBR_MAGIC


def _ext4_bytes(head: bytes) -> int:
    """The size that the file system states; 0 if that is impossible."""

    def word(at: int) -> int:
        return int.from_bytes(head[at : at + 4], "little")

    blocks = word(EXT4_BLOCKS_AT)
    if word(EXT4_64BIT_AT) & EXT4_64BIT:
        blocks |= word(EXT4_BLOCKS_HIGH_AT) << 32
    shift = EXT4_LEAST_BLOCK_SHIFT + word(EXT4_BLOCK_SHIFT_AT)
    return blocks << shift if shift <= EXT4_MOST_BLOCK_SHIFT else 0


def parse(text: str) -> tuple[str, str | None, Path]:
    """Bus, format and file of `[BUS:][FORMAT:]FILE`; the format is None if none is given."""
    bus, colon, rest = text.partition(":")
    if not colon or bus not in machine.BUSES:
        bus, rest = "virtio", text
    return bus, *imageformat.said(rest)


def examined(
    settings: Settings, path: Path, form: str | None = None, *, bus: str = "virtio", keep: bool = False, root: bool = False
) -> Disk:
    """The disk of an intact image, else KeelError says what is wrong. A root must have a file system.

    The format is from the user or the suffix of the name, never from the content. What an image is over is the user's own choice:
    whoever has made the image can have named any file of this host, and the guest reads it.
    """
    path = path.absolute()  # to QEMU a relative name with a colon is a protocol, one with a dash an option
    _check_file(path, keep=keep)
    # What another run's guest writes is not looked at, and not repaired.
    with held([Disk(path, "", bus, keep)]):
        return _examined(settings, path, form, bus=bus, keep=keep, root=root)


def _check_file(path: Path, *, keep: bool) -> None:
    if not path.is_file():
        words = f"a bus is one of {', '.join(machine.BUSES)}, a format {', '.join(imageformat.WORDS)}"
        remedy = words if ":" in str(path) else ""
        raise KeelError(f"the disk image {path} {'is no file' if path.exists() else 'does not exist'}", remedy)
    if keep and not os.access(path, os.W_OK):
        raise KeelError(f"{path} may not be written", "leave --persist out, or copy it")


def _examined(settings: Settings, path: Path, form: str | None, *, bus: str, keep: bool, root: bool) -> Disk:
    head = _head(path)
    kind = imageformat.QCOW2 if form == imageformat.CHAIN else form or imageformat.of_name(path)
    if kind == imageformat.RAW and not form and head.startswith(imageformat.QCOW2_MAGIC):
        say(f"{path} is taken as raw, as its name says, though it begins like qcow2; a guest may have written that")
    packages.require(settings, packages.IMAGES)
    least_bytes = _check_header(path, follows=form == imageformat.CHAIN).least_bytes if kind == imageformat.QCOW2 else 0
    size = json.loads(_ask(path, "info", "--output=json", "-f", kind, str(path)))["virtual-size"]
    if size == 0:
        raise KeelError(f"{path} is not a usable disk image: it is empty")
    if kind == imageformat.QCOW2:
        if least_bytes > path.stat().st_size:
            raise KeelError(f"{path} is not a usable disk image: it is cut off")
        # A full disk or a killed emulator leaves unused space in the image; opening it for writing reclaims the space.
        repair = ["-r", "leaks"] if keep else []
        _ask(path, "check", "-q", *repair, "-f", kind, str(path), fine=(0, LEAKS))
    if root:
        _check_root(path, _first_bytes(path, kind), size)
    return Disk(path, kind, bus, keep)


def _check_header(path: Path, *, follows: bool) -> imageformat.Header:
    """The header of a qcow2 image, which may be over others where the user has said so."""
    if follows:
        return imageformat.check_chain(path)
    return imageformat.check_alone(path, f"if you made it so: {imageformat.CHAIN}:{path} takes all that it is over")


def _ask(path: Path, *arguments: str, fine: Collection[int] = (0,)) -> str:
    done = subprocess.run(
        ["qemu-img", *arguments], stdin=subprocess.DEVNULL, capture_output=True, env=process.environment(), check=False
    )
    if done.returncode in fine:
        return done.stdout.decode(errors="replace")
    reason = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    if any("another process" in line for line in reason):
        raise _in_use(path)
    raise KeelError(f"{path} is not a usable disk image: {reason[0] if reason else 'it has errors'}")


def _in_use(path: Path) -> KeelError:
    return KeelError(f"the disk image {path} is in use", "end the other guest, or give each a copy")


def _first_bytes(path: Path, kind: str) -> bytes:
    if kind == imageformat.RAW:
        return _head(path)
    with tempfile.TemporaryDirectory() as directory:
        head = Path(directory) / "head"
        _ask(path, "dd", "-f", kind, "-O", "raw", f"bs={HEAD_BYTES}", "count=1", f"if={path}", f"of={head}")
        return head.read_bytes()


def _check_root(path: Path, head: bytes, size: int) -> None:
    if _is_ext4(head):
        if _ext4_bytes(head) == 0:
            raise KeelError(f"{path} is not a usable root: its file system is damaged")
        if _ext4_bytes(head) > size:
            raise KeelError(f"{path} is not a usable root: its file system is cut off")
    elif not _is_partitioned(head):
        remedy = f"qcow2:{path} opens it as qcow2" if head.startswith(imageformat.QCOW2_MAGIC) else ""
        raise KeelError(f"{path} is not a usable root: it holds neither an ext4 file system nor partitions", remedy)


@contextmanager
def held(disks: Sequence[Disk]) -> Iterator[None]:
    """Lock the images: one that is written against all other runs, one that is only read against writers.

    On a network's file system the emulator's own locks do that: there ours would be on the same bytes as those.
    """
    with ExitStack() as stack:
        for disk in disks:
            try:
                file = stack.enter_context(disk.path.open("rb"))
                if _is_remote(file.fileno()):
                    continue
                fcntl.flock(file, (fcntl.LOCK_EX if disk.keep else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise _in_use(disk.path) from error
            except OSError as error:
                raise system_error(f"{disk.path} cannot be read", error) from error
        yield


def _is_remote(descriptor: int) -> bool:
    """Return true if a file is on a file system whose locks of whole files are in truth those of all its bytes."""
    device = os.fstat(descriptor).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text(errors="replace").splitlines():
        about, _, kind = line.partition(" - ")
        if about.split()[2] == wanted:
            return kind.split()[0] in REMOTE
    return False


def full_places(disks: Sequence[Disk]) -> list[Path]:
    """The full disks of the host that a guest writes to: those of images, or of the emulator's temporary files."""
    discarded = Path(os.environ.get("TMPDIR") or "/var/tmp")
    places = {disk.path.absolute().parent if disk.keep else discarded for disk in disks}
    return sorted(place for place in places if shutil.disk_usage(place).free < LEAST_FREE)


def default_root(settings: Settings, wish: layers.Wanted | None = None, *, keep: bool) -> Disk:
    """The default root, with a layer where one is wanted, on a disk.

    With --persist it is an image of this clone, which starts as a copy of the one in the cache.
    """
    if not keep:
        return _cached(settings, wish)
    return kept_root(settings, layers.stem(settings, wish), lambda aside: _copy_root(settings, _cached(settings, wish), aside))


def kept_root(settings: Settings, stem: str, make: Callable[[Path], None]) -> Disk:
    """The image of this clone that keeps what guests write to the root of this name; `make` makes it at a path."""
    mine, old = settings.kept_roots / f"{settings.clone}-{stem}.qcow2", settings.build / "images" / f"{stem}-{PERSISTENT}"
    with locked(settings.kept_roots, "kept", remedy=ELSEWHERE):
        if mine.exists():
            _check_own(mine)
        elif old.exists():
            _check_own(old)
            say(f"the guest writes to {old}, where an earlier Keel put it; mv {old} {mine} moves it to where data are")
            mine = old
        else:
            _make_persistent(settings, mine, make)
    return examined(settings, mine, keep=True, root=True)


def _cached(settings: Settings, wish: layers.Wanted | None) -> Disk:
    """The image in the cache: the default root's, or the layer's over it."""
    layer = layers.provided(settings, wish) if wish else None
    base = _default_image(settings)
    return Disk(layers.on_disk(settings, layer, base), imageformat.QCOW2) if layer else Disk(base, imageformat.RAW)


def old_persistent(settings: Settings) -> list[Path]:
    """The images with guests' changes to default roots that an earlier Keel has put into the build directory."""
    return sorted((settings.build / "images").glob(f"*-{PERSISTENT}"))


def all_persistent(settings: Settings) -> list[Path]:
    """The images with guests' changes to default roots, of all clones."""
    return [*old_persistent(settings), *sorted(settings.kept_roots.glob("*.qcow2"))]


def persistent(settings: Settings) -> list[Path]:
    """Those of this clone."""
    return [path for path in all_persistent(settings) if path.parent != settings.kept_roots or is_own(settings, path)]


def is_own(settings: Settings, path: Path) -> bool:
    """Return true if a kept root is this clone's, by its name."""
    return path.name.startswith(f"{settings.clone}-")


def _make_persistent(settings: Settings, mine: Path, make: Callable[[Path], None]) -> None:
    """A copy: an image backed by the one in the cache would break when that is removed and made again."""
    others = all_persistent(settings)
    aside = mine.with_suffix(".new")
    try:
        make(aside)
        aside.replace(mine)
    except OSError as error:
        raise system_error(f"{mine} cannot be written", error, ELSEWHERE) from error
    finally:
        aside.unlink(missing_ok=True)
    shown = f"; others are {', '.join(map(str, others))}" if others else ""
    say(f"a new persistent root begins: {mine}{shown}")


def _copy_root(settings: Settings, base: Disk, aside: Path) -> None:
    with Step("copying the root disk") as step:
        argv = ["qemu-img", "convert", "-p", "-f", base.image_format, "-O", "qcow2", str(base.path), str(aside)]
        process.run_logged(
            argv, what="copying the root disk", log=settings.logs / "disk.log", step=step, measure=measures.percent
        )


def _check_own(mine: Path) -> None:
    """Checks images of an earlier Keel, backed by the image in the cache, which may have been made again since."""
    if base := imageformat.read_header(mine, mine).backing_name:
        remedy = f"if it is the same: qemu-img rebase -b '' {mine}; else move the image away"
        raise KeelError(f"{mine} was made over {base}, which may be another file system by now", remedy)


def needs(settings: Settings, wish: layers.Wanted | None = None) -> tuple[packages.Need, ...]:
    """The packages that the default root on a disk takes, with a layer where one is wanted."""
    layer = layers.find(settings, wish) if wish else None
    if _image_of(image.default_archive(settings)).exists() and (wish is None or (layer and layer.disk.exists())):
        return packages.IMAGES
    return (*packages.IMAGES, *packages.FILE_SYSTEMS, *layers.needs(settings, wish), *owner_needs())


def owner_needs() -> tuple[packages.Need, ...]:
    """An ordinary user cannot give files to their owners; fakeroot pretends to."""
    return () if os.geteuid() == 0 else (packages.FAKEROOT,)


def _image_of(archive: Path) -> Path:
    return archive.with_suffix(".ext4")


def _default_image(settings: Settings) -> Path:
    root = _image_of(image.default_archive(settings))
    if not root.exists():
        packages.require(settings, needs(settings))
        mke2fs = packages.program("mke2fs")
        format_disk = [mke2fs, "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", TREE, IMAGE]
        _make_of(settings, image.default_root(settings).path, root, [*format_disk, DEFAULT_SIZE])
    return root


def default_squashfs(settings: Settings) -> Path:
    """The default root in one compressed file."""
    root = image.default_archive(settings).with_suffix(".squashfs")
    if not root.exists():
        packages.require(settings, squashfs_needs(settings))
        program = ["mksquashfs", TREE, IMAGE, "-info", "-no-progress", "-comp", "zstd", "-mkfs-time", "0"]
        _make_of(settings, image.default_root(settings).path, root, program)
    return root


def squashfs_needs(settings: Settings) -> tuple[packages.Need, ...]:
    """The packages that the default root in one compressed file takes."""
    return (*packages.SQUASHFS, *image.needs(settings), *owner_needs())


def _make_of(settings: Settings, archive: Path, root: Path, program: Sequence[str]) -> None:
    with locked(settings.cache, "roots"):
        if not root.exists():
            _make(settings, archive, root, program)


def _make(settings: Settings, archive: Path, root: Path, program: Sequence[str]) -> None:
    """Make the image by a program whose words name the unpacked archive and the image as TREE and IMAGE."""
    aside = root.with_suffix(".new")
    owners = ["fakeroot"] if owner_needs() else []
    try:
        with (
            tempfile.TemporaryDirectory(dir=root.parent) as directory,
            Step("making the root disk") as step,
        ):
            unpack = [sys.executable, "-m", f"{__package__}.unpack", str(archive), directory]
            script = 'count=$1; shift; "${@:1:count}" && "${@:count+1}"'
            words = [str(len(unpack)), *unpack, *({TREE: directory, IMAGE: str(aside)}.get(word, word) for word in program)]
            process.run_logged(
                [*owners, "bash", "-c", script, "make", *words],
                what="making the root disk",
                log=settings.logs / "disk.log",
                step=step,
                measure=_unpacked_then_packed(),
                env={"PYTHONPATH": str(settings.repository / "tools")},
            )
        aside.replace(root)
    except OSError as error:
        raise system_error("cannot write the root disk", error) from error
    finally:
        aside.unlink(missing_ok=True)


def _unpacked_then_packed() -> measures.Measure:
    """How far the unpacking is, and then mksquashfs, which names each file; mke2fs names none."""
    packing: measures.Measure | None = None

    def measure(line: bytes) -> str | Far:
        nonlocal packing
        if found := unpack.FILES.fullmatch(line):
            packing = measures.counted(rb"^(file|symbolic link|directory|fifo) ", int(found[1]), "files packed")
            return "packing"
        return packing(line) if packing else measures.percent(line)

    return measure
