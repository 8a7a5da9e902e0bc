# SPDX-License-Identifier: Apache-2.0
"""The commands: ``gen`` writes every generated file, ``check`` compares them, ``pin`` renews the pinned schemas.

Run by ``make gen`` and ``make verify``. Exit code 0: done, or all fresh; 1: something differs or does not fit, and
standard error says what.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from trainsnap_codegen.clientdocs import client_docs_files
from trainsnap_codegen.crd import crd_files
from trainsnap_codegen.docs import docs_files
from trainsnap_codegen.faces import face_files
from trainsnap_codegen.gomodules import GoUnavailableError
from trainsnap_codegen.layout import Layout, SchemaError
from trainsnap_codegen.mergekeys import merge_key_files
from trainsnap_codegen.models import model_files
from trainsnap_codegen.output import differences, write
from trainsnap_codegen.pin import pinned_files
from trainsnap_codegen.rbac import rbac_files
from trainsnap_codegen.sources import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def generate(layout: Layout) -> dict[Path, str]:
    """Every generated file and its text, nothing written. Raises SchemaError."""
    sources = load(layout)
    models = model_files(layout, sources)
    return {
        **crd_files(layout, sources),
        **models,
        **face_files(layout),
        **merge_key_files(layout, sources),
        **rbac_files(layout),
        **docs_files(layout),
        **client_docs_files(layout, models),
    }


def folders(layout: Layout) -> list[Path]:
    """Folders that hold nothing but generated files."""
    return [
        layout.root / "crds",
        layout.root / "api" / "trainsnap_api" / "_generated",
        layout.root / "api" / "trainsnap_api" / "client" / "_generated",
        layout.root / "controller" / "trainsnap_controller" / "runtime" / "_generated",
        layout.root / "docs" / "reference",
    ]


def main(arguments: Sequence[str] | None = None, layout: Layout | None = None) -> int:
    """Runs one command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="trainsnap_codegen", description="Makes CRDs and models from the sources.")
    parser.add_argument("command", choices=("gen", "check", "pin"))
    command = parser.parse_args(arguments).command
    layout = layout or Layout()
    try:
        if command == "pin":
            return _pin(layout)
        files = generate(layout)
        if command == "gen":
            for path in write(files, folders(layout)):
                print(path.relative_to(layout.root))
            return 0
        return _check(layout, files)
    except (SchemaError, GoUnavailableError) as error:
        print(f"trainsnap_codegen: {error}", file=sys.stderr)
        return 1


def _pin(layout: Layout) -> int:
    for path in write(pinned_files(layout), ()):
        print(path.relative_to(layout.root))
    return 0


def _check(layout: Layout, files: dict[Path, str]) -> int:
    found = differences(files, folders(layout), layout.root)
    try:
        found += differences(pinned_files(layout), [layout.pinned], layout.root)
    except GoUnavailableError as reason:
        print(f"pinned schemas taken as they are: {reason}", file=sys.stderr)
    for text in found:
        print(text, file=sys.stderr)
    if found:
        print(f"{len(found)} generated files are not fresh: run `make gen`", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
