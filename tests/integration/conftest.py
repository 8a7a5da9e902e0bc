# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run on etcd and kube-apiserver, and nothing that acts by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from support.eras import before_trainsnap
from support.fixtures import admin, cluster, local_plane, namespace, no_exported_kubeconfig, operator, operator_process
from support.operator import Operator
from support.plane import Target, target
from trainsnap_api.transport import Transport

__all__ = ["admin", "cluster", "local_plane", "namespace", "no_exported_kubeconfig", "operator", "operator_process"]


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Where the tests of this folder run; started when the first test asks for it, once a session."""
    yield from target("api", tmp_path_factory.mktemp("plane-api"))


@pytest.fixture(scope="module")
async def stopped(operator_process: Operator, admin: Transport) -> AsyncIterator[Operator]:
    """The operator, stopped, in a cluster of the reference."""
    async with before_trainsnap(operator_process, admin) as operator:
        yield operator
