# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run on etcd and kube-apiserver, and nothing that acts by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fixtures import admin, cluster, operator, operator_process
from support.plane import Target, fresh_namespace, target, without_exported_kubeconfig
from trainsnap_plane import Plane

__all__ = ["admin", "cluster", "operator", "operator_process"]


@pytest.fixture(scope="session", autouse=True)
def _no_exported_kubeconfig() -> Iterator[None]:
    with without_exported_kubeconfig():
        yield


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Where the tests of this folder run; started when the first test asks for it, once a session."""
    yield from target("api", tmp_path_factory.mktemp("plane-api"))


@pytest.fixture
def local_plane(plane: Target) -> Plane:
    """The local plane itself, to do things to it; skips the test on a user's cluster."""
    return plane.local


@pytest.fixture
def namespace(plane: Target) -> Iterator[str]:
    """A namespace for one test."""
    with fresh_namespace(plane) as name:
        yield name
