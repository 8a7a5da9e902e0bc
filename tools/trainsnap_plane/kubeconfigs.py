# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files with everything inside, so that they can be copied anywhere. Called by `Plane` and the bootstrap."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml

from .layout import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from .certs import Pair


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def with_certificate(path: Path, *, server: str, authority: Path, user: str, pair: Pair) -> Path:
    """Write a kubeconfig that logs in with a client certificate."""
    return _write(path, server, authority, user, {
        "client-certificate-data": _encoded(pair.certificate),
        "client-key-data": _encoded(pair.key),
    })  # fmt: skip


def with_token(path: Path, *, server: str, authority: Path, user: str, token: str) -> Path:
    """Write a kubeconfig that logs in with a bearer token, as a ServiceAccount does."""
    return _write(path, server, authority, user, {"token": token})


def _write(path: Path, server: str, authority: Path, user: str, login: dict[str, Any]) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "plane", "cluster": {"server": server, "certificate-authority-data": _encoded(authority)}}
        ],
        "users": [{"name": user, "user": login}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": user}}],
        "current-context": "plane",
    }
    write_atomically(path, yaml.safe_dump(document, sort_keys=False))
    return path
