# SPDX-License-Identifier: Apache-2.0
"""Fixtures over a plane: an admin's connection, the operator, a namespace of one's own.

A conftest that has a session-scoped ``plane`` fixture imports these. Each conftest that does gets fixtures of its own,
so that the tests of one plane never see the connection to another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from support.cluster import Cluster
from support.operator import Operator
from trainsnap_api.transport import Transport


class HasKubeconfig(Protocol):
    """A running plane."""

    @property
    def kubeconfig(self) -> object: ...


@pytest.fixture(scope="session")
async def admin(plane: HasKubeconfig) -> AsyncIterator[Transport]:
    """A connection with all rights."""
    async with await Transport.connect(kubeconfig=str(plane.kubeconfig), probe=True) as api:
        yield api


@pytest.fixture(scope="session")
def operator_process(plane: HasKubeconfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The one operator of the plane. Tests use ``operator``."""
    operator = Operator(Path(str(plane.kubeconfig)), tmp_path_factory.mktemp("operator") / "log")
    operator.start()
    yield operator
    operator.resume()
    assert operator.stop() == 0, operator.tail()


@pytest.fixture
def operator(operator_process: Operator) -> Iterator[Operator]:
    """The operator, running. A test may stop, kill or pause it; afterwards it runs again."""
    yield operator_process
    if operator_process.running:
        operator_process.resume()
    else:
        operator_process.start()


@pytest.fixture
def cluster(admin: Transport, namespace: str) -> Cluster:
    """An admin's view of a fresh namespace."""
    return Cluster(admin, namespace)
