# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run on the full plane: controllers, scheduler, JobSet and kwok."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fixtures import admin, cluster, local_plane, namespace, no_exported_kubeconfig, operator, operator_process
from support.plane import Target, target

__all__ = ["admin", "cluster", "local_plane", "namespace", "no_exported_kubeconfig", "operator", "operator_process"]


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Where the tests of this folder run; started when the first test asks for it, once a session."""
    yield from target("full", tmp_path_factory.mktemp("plane-full"))
