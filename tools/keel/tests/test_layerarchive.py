# SPDX-License-Identifier: GPL-2.0-only
"""A layer over a root archive: what it holds, and that base and layer make the whole again."""

import io
from pathlib import Path

import pytest

from keel import attributes, cpio, layerarchive, rootarchive
from keel.config import Settings

FOLDER, FILE, LINK = cpio.DIRECTORY | 0o755, cpio.REGULAR | 0o644, cpio.SYMLINK | 0o777
BASE = [
    cpio.Entry("dev", FOLDER),
    cpio.Entry("etc", FOLDER),
    cpio.Entry("etc/same", FILE, b"same"),
    cpio.Entry("etc/changed", FILE, b"old"),
    cpio.Entry("etc/mode", FILE, b"x"),
    cpio.Entry("etc/gone", FOLDER),
    cpio.Entry("etc/gone/file", FILE, b"gone"),
    cpio.Entry("perl", FILE, b"perl", links=2, inode=900),
    cpio.Entry("perl5", FILE, links=2, inode=900),
    cpio.Entry("vi", LINK, b"nano"),
]
WHOLE = [
    cpio.Entry("dev", FOLDER, mtime=9),
    cpio.Entry("dev/null", cpio.CHARACTER | 0o666, device=(1, 3)),
    cpio.Entry("etc", FOLDER, mtime=9),
    cpio.Entry("etc/same", FILE, b"same"),
    cpio.Entry("etc/changed", FILE, b"new"),
    cpio.Entry("etc/mode", cpio.REGULAR | 0o4755, b"x", uid=7),
    cpio.Entry("perl", FILE, b"perl", links=3, inode=901),
    cpio.Entry("perl5", FILE, links=3, inode=901),
    cpio.Entry("perl6", FILE, links=3, inode=901),
    cpio.Entry("vi", FOLDER),
    cpio.Entry("vi/more", FILE, b"more"),
]


def write(path: Path, entries: list[cpio.Entry]) -> Path:
    writer = cpio.Writer()
    path.write_bytes(b"".join(map(writer.entry, entries)) + writer.end())
    return path


def read(file: io.BytesIO) -> dict[str, tuple[int, int, int, bytes]]:
    """What Linux has after it has unpacked all archives: a later entry replaces a folder's attributes, never a file."""
    found: dict[str, tuple[int, int, int, bytes]] = {}
    data = cpio.Kept()

    def output_for(_: cpio.Entry) -> cpio.Kept:
        nonlocal data
        data = cpio.Kept()
        return data

    while file.read(1):
        file.seek(-1, io.SEEK_CUR)
        for entry in cpio.read_headers(file, output_for):
            folder = entry.name.rpartition("/")[0]
            assert folder in found or not folder, f"{entry.name} is before its folder"
            assert entry.name not in found or entry.mode & 0o170000 == cpio.DIRECTORY
            found[entry.name] = entry.mode, entry.uid, entry.mtime, data.value
        file.seek(len(cpio.padding(file.tell())), io.SEEK_CUR)
    return found


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    path = tmp_path / "layer"
    layerarchive.difference(write(tmp_path / "base", BASE), write(tmp_path / "whole", WHOLE), path)
    return path


def test_a_layer_has_what_was_changed_and_no_more(layer: Path) -> None:
    entries = list(layerarchive.entries(layer))
    gone = [entry.name for entry in entries if layerarchive.is_whiteout(entry)]
    kept = [entry.name for entry in entries[len(gone) :]]
    assert sorted(gone) == ["etc/changed", "etc/gone", "etc/gone/file", "etc/mode", "perl", "perl5", "vi"]
    assert gone.index("etc/gone/file") < gone.index("etc/gone")
    assert kept == ["etc", "etc/changed", "etc/mode", "perl", "perl5", "perl6", "vi", "vi/more"]


def test_base_and_layer_make_the_whole(layer: Path, tmp_path: Path) -> None:
    merged = io.BytesIO()
    layerarchive.merge(tmp_path / "base", layer, merged)
    merged.seek(0)
    whole = io.BytesIO((tmp_path / "whole").read_bytes())
    ignored = ("dev", "dev/null")
    found, expected = ({name: file for name, file in read(of).items() if name not in ignored} for of in (merged, whole))
    assert found == expected


def test_a_root_in_memory_has_its_layer(layer: Path, tmp_path: Path, settings: Settings) -> None:
    init = write(tmp_path / "init.cpio", [cpio.Entry("init", FILE, b"init")])
    base, over = (rootarchive.checked(path, settings) for path in (tmp_path / "base", layer))
    root = rootarchive.over(base, over)
    assert root.content_bytes == base.content_bytes + over.content_bytes and root.packed_bytes > base.packed_bytes
    with_layer = rootarchive.boot_archive(settings, root, init).read_bytes()
    assert rootarchive.boot_archive(settings, base, init).read_bytes() != with_layer
    found = read(io.BytesIO(with_layer))
    assert found["init"][3] == b"init" and found["etc/changed"][3] == b"new" and "etc/gone" not in found


@pytest.mark.parametrize("of", ["bin/a", "bin"])
@pytest.mark.parametrize(
    ("old", "new", "is_changed"),
    [({}, {"x": b"1"}, True), ({"x": b"1"}, {}, True), ({"x": b"1"}, {"x": b"2"}, True), ({"x": b"1"}, {"x": b"1"}, False)],
)
def test_a_change_of_nothing_but_an_attribute_counts(
    old: dict[str, bytes], new: dict[str, bytes], is_changed: bool, of: str, tmp_path: Path
) -> None:
    """All names of the file come again, and its attributes with them; a folder for notes is no change of the file's."""
    for archive, values in (("base", old), ("whole", new)):
        writer = attributes.Writer()
        parts = [
            writer.entry(cpio.Entry("bin", FOLDER)),
            writer.notes("bin", values if of == "bin" else {}),
            writer.entry(cpio.Entry("bin/a", FILE, b"a", links=2, inode=900)),
            writer.notes("bin/a", values if of == "bin/a" else {}),
            writer.entry(cpio.Entry("bin/b", FILE, links=2, inode=900)),
        ]
        (tmp_path / archive).write_bytes(b"".join([*parts, writer.end()]))
    layerarchive.difference(tmp_path / "base", tmp_path / "whole", tmp_path / "layer")
    made = [entry.name for entry in layerarchive.entries(tmp_path / "layer") if not layerarchive.is_whiteout(entry)]
    changed = {"bin": ["bin"], "bin/a": ["bin/a", "bin/b"]}[of] if is_changed else []
    assert [name for name in made if not attributes.is_ours(name)] == changed
    assert [found for name in made if (found := attributes.noted(name))] == ([(of, "x")] if is_changed and new else [])
    merged = io.BytesIO()
    layerarchive.merge(tmp_path / "base", tmp_path / "layer", merged)
    merged.seek(0)
    assert read(merged) == read(io.BytesIO((tmp_path / "whole").read_bytes()))


@pytest.mark.parametrize("links", [1, 2])
def test_a_change_of_nothing_but_the_data_counts(links: int, tmp_path: Path) -> None:
    """The data of a file with several names come with the first."""
    names = ["a", "b"][:links]
    for archive, data in (("base", b"12"), ("whole", b"21")):
        entries = [cpio.Entry(name, FILE, data if name == "a" else b"", links=links, inode=900) for name in names]
        write(tmp_path / archive, entries)
    layerarchive.difference(tmp_path / "base", tmp_path / "whole", tmp_path / "layer")
    assert [entry.name for entry in layerarchive.entries(tmp_path / "layer")] == [*reversed(names), *names]


def test_a_damaged_base_is_reported(layer: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.write_bytes(base.read_bytes()[:-300])
    with pytest.raises(cpio.BrokenArchive):
        layerarchive.merge(base, layer, io.BytesIO())
