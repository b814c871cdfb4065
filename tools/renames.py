#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Replaces Keel's own words by the field's, as the table beside this file says.

Without options it changes its own tree, moves files, and writes docs/renames.md.
On a tree with the new names it changes nothing but that page.
With --patch it reads an older patch from standard input and writes it with the new paths and names,
so that older designs can be followed.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
PAGE = ROOT / "docs/renames.md"
# They have the old words by purpose: this tool and its tables, what explains old words, and what refuses those of a boot
# configuration. The last one names tags of Multiboot.
OWN = (
    "tools/renames.toml",
    "tools/renames.py",
    "docs/renames.md",
    "docs/glossary.md",
    "CHANGELOG.md",
    "docs/boot.md",
    "user/root/src/config.rs",
    "kernel/src/arch/x86_64/start.s",
)
TEXT = {".rs", ".s", ".S", ".c", ".h", ".py", ".toml", ".md", ".conf", ".sh", ".svg", ".sed", ".lds", ".json", ".config", ""}
PATCHED = re.compile(r"^(?:diff --git a/|--- a/|\+\+\+ b/)(\S+)")


@dataclass
class Scope:
    """What is renamed in some of the files."""

    title: str
    paths: list[str]
    but: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        """Whether a file is in it."""
        inside = any(path == top or path.startswith(top.rstrip("/") + "/") for top in self.paths)
        return inside and not any(path == top or path.startswith(top.rstrip("/") + "/") for top in self.but)

    def rules(self) -> Iterator[tuple[re.Pattern[str], str]]:
        """Patterns with what takes their place."""
        for old, new in self.names.items():
            yield re.compile(rf"(?<![A-Za-z0-9_]){re.escape(old)}(?![A-Za-z0-9_])"), new
        for old, new in self.parts.items():
            yield re.compile(old), new


def scopes() -> list[Scope]:
    """The table."""
    return [Scope(**scope) for scope in tomllib.loads(TABLE.read_text())["scope"]]


def moved(path: str, table: list[Scope]) -> str:
    """The new path of a file."""
    for scope in table:
        for old, new in scope.moves.items():
            if path == old or path.startswith(old + "/"):
                path = new + path[len(old) :]
    return path


def renamed(text: str, path: str, table: list[Scope]) -> str:
    """A text of a file with the new words."""
    for scope in table:
        if scope.has(path):
            for pattern, new in scope.rules():
                text = pattern.sub(new, text)
    return text


def translated(patch: str, table: list[Scope]) -> str:
    """A patch with the new paths and words."""
    path, lines = "", []
    for line in patch.splitlines(keepends=True):
        if header := PATCHED.match(line):
            path = header[1]
            words = (moved(word[2:], table) if word[:2] in ("a/", "b/") else None for word in line.split(" "))
            lines.append(" ".join(old if new is None else old[:2] + new for old, new in zip(line.split(" "), words)))
        else:
            lines.append(renamed(line, path, table))
    return "".join(lines)


def page(table: list[Scope]) -> str:
    """docs/renames.md."""
    # REUSE-IgnoreStart
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0-only -->",
        "# Renames",
        "",
        "In November 2026 Keel's own words were replaced by the field's.",
        "`tools/renames.py` did it and wrote this page from `tools/renames.toml`.",
        "`tools/renames.py --patch <OLD.patch` translates a patch made before.",
        "[The glossary](glossary.md) explains the words.",
    ]
    # REUSE-IgnoreEnd
    for scope in table:
        lines += ["", f"## {scope.title}", "", "| before | now |", "|---|---|"]
        for old, new in [*scope.moves.items(), *scope.names.items(), *scope.parts.items()]:
            cells = (cell.replace("|", "\\|") for cell in (old, new))
            lines.append("| " + " | ".join(f"`{cell}`" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def apply(table: list[Scope]) -> int:
    """Changes the tree; how many files."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    changed = 0
    for path in filter(None, listed):
        file = ROOT / path
        if path in OWN or PurePosixPath(path).suffix not in TEXT or file.is_symlink() or not file.is_file():
            continue
        old = file.read_bytes().decode("utf-8", "surrogateescape")
        new = renamed(old, path, table)
        if new != old:
            file.write_bytes(new.encode("utf-8", "surrogateescape"))
            changed += 1
    for scope in table:
        for source, target in scope.moves.items():
            if (ROOT / source).exists():
                (ROOT / target).parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["git", "mv", source, target], cwd=ROOT, check=True)
                changed += 1
    PAGE.write_text(page(table))
    return changed


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patch", action="store_true", help="translate a patch from standard input")
    options = parser.parse_args()
    if options.patch:
        sys.stdout.write(translated(sys.stdin.read(), scopes()))
    else:
        print(f"{apply(scopes())} files changed")


if __name__ == "__main__":
    main()
