# SPDX-License-Identifier: Apache-2.0
"""The sample runtimes of ``deploy/runtimes``, read from the files that users apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

JSON = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "deploy" / "runtimes"


def samples() -> dict[str, JSON]:
    """Every sample by its name."""
    found = [yaml.safe_load(file.read_text()) for file in sorted(FOLDER.rglob("*.yaml")) if _is_runtime(file)]
    return {runtime["metadata"]["name"]: runtime for runtime in found}


def kustomized(folder: Path = FOLDER) -> set[str]:
    """The names of the samples that ``kubectl apply -k`` would apply."""
    names: set[str] = set()
    for entry in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = folder / entry
        names |= kustomized(path) if path.is_dir() else {yaml.safe_load(path.read_text())["metadata"]["name"]}
    return names


def _is_runtime(file: Path) -> bool:
    return file.name != "kustomization.yaml"
