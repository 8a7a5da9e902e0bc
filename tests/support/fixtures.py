# SPDX-License-Identifier: Apache-2.0
"""Fixtures over a plane: the plane itself, an admin's connection, the operator, a namespace of one's own.

A conftest that has a session-scoped ``plane`` fixture imports these. Each conftest that does gets fixtures of its own,
so that the tests of one plane never see the connection to another.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import pytest

from support.cluster import Cluster
from support.operator import Operator
from support.plane import Target, fresh_namespace
from trainsnap_api.transport import Transport
from trainsnap_plane import Plane


@pytest.fixture(scope="session", autouse=True)
def no_exported_kubeconfig() -> Iterator[None]:
    """Nothing that a test starts may reach for the developer's own cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("KUBECONFIG", raising=False)
        yield


@pytest.fixture
def local_plane(plane: Target) -> Plane:
    """The local plane itself, to do things to it; skips the test on a user's cluster."""
    return plane.local


@pytest.fixture
def namespace(plane: Target) -> Iterator[str]:
    """A namespace for one test."""
    with fresh_namespace(plane) as name:
        yield name


@pytest.fixture(scope="session")
async def admin(plane: Target) -> AsyncIterator[Transport]:
    """A connection with all rights."""
    async with await Transport.connect(kubeconfig=plane.kubeconfig, probe=True) as api:
        yield api


@pytest.fixture(scope="session")
def operator_process(plane: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The one operator of the plane. Tests use ``operator``."""
    operator = Operator(plane.kubeconfig, tmp_path_factory.mktemp("operator") / "log")
    operator.start()
    yield operator
    operator.resume()
    assert operator.stop() == 0, operator.tail()


@pytest.fixture
def operator(operator_process: Operator) -> Iterator[Operator]:
    """The operator, running. A test may stop, kill or pause it; afterwards it runs again."""
    _await_watches(operator_process)  # an earlier test may have restarted the API server under it
    yield operator_process
    if operator_process.running:
        operator_process.resume()
    else:
        operator_process.start()


def _await_watches(operator: Operator, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not operator.follows():
        assert time.monotonic() < end, f"a kind is not followed:\n{operator.tail()}"
        time.sleep(0.05)


@pytest.fixture
def cluster(admin: Transport, namespace: str) -> Cluster:
    """An admin's view of a fresh namespace."""
    return Cluster(admin, namespace)
