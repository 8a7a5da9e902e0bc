# SPDX-License-Identifier: Apache-2.0
"""Writes generated files, or says how they differ from what is on disk. Called by the commands only."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def write(files: Mapping[Path, str], folders: Iterable[Path]) -> list[Path]:
    """Writes what differs and removes leftovers of the generated `folders`. Returns the paths that changed."""
    changed = []
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for path in leftovers(files, folders):
        path.unlink()
        changed.append(path)
    return changed


def differences(files: Mapping[Path, str], folders: Iterable[Path], root: Path) -> list[str]:
    """One short text for each file that is missing, stale or should not be there; empty when all is fresh."""
    found = []
    for path, text in files.items():
        name = path.relative_to(root)
        if not path.exists():
            found.append(f"{name}: missing")
            continue
        old = path.read_text(encoding="utf-8")
        if old != text:
            both = (old.splitlines(), text.splitlines())
            lines = list(difflib.unified_diff(*both, "on disk", "generated", lineterm="", n=1))
            found.append("\n  ".join([f"{name}: differs", *lines[2:12], *(["..."] if len(lines) > 12 else [])]))
    found += [f"{path.relative_to(root)}: is not generated any more" for path in leftovers(files, folders)]
    return found


def leftovers(files: Mapping[Path, str], folders: Iterable[Path]) -> list[Path]:
    """Files in folders that hold nothing but generated files, and that are not among `files`."""
    return sorted(
        path
        for folder in folders
        for path in (folder.rglob("*") if folder.exists() else ())
        if path.is_file() and path not in files and "__pycache__" not in path.parts
    )
