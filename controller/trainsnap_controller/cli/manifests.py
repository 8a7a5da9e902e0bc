# SPDX-License-Identifier: Apache-2.0
"""Finds the manifests that ``deploy/kustomize/base`` holds, in a checkout or inside the installed wheel.

The kustomization file is read for its list of resources, so that what ``trainsnap dev`` installs is what
``kubectl apply -k`` would install.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from trainsnap_controller.cli.install import InstallError

JSON = dict[str, Any]
_PACKAGED = Path(__file__).resolve().parent.parent / "_manifests"
_CHECKOUT = Path(__file__).resolve().parents[3]


def root() -> Path:
    """The folder that holds ``deploy`` and ``crds``. Raises InstallError when neither place has them."""
    for candidate in (_PACKAGED, _CHECKOUT):
        if (candidate / "deploy" / "kustomize" / "base").is_dir():
            return candidate
    raise InstallError("the manifests are neither in the installed package nor in a checkout")


def base() -> Iterator[JSON]:
    """Every object of the base, in the order in which they are to be installed."""
    yield from _kustomization(root() / "deploy" / "kustomize" / "base")


def _kustomization(folder: Path) -> Iterator[JSON]:
    for entry in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = (folder / entry).resolve()
        if path.is_dir():
            yield from _kustomization(path)
        else:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            yield from (document for document in yaml.load_all(path.read_bytes(), Loader=loader) if document)
