# SPDX-License-Identifier: Apache-2.0
"""Two operators with leader election: one works, the other takes over, and a lease of somebody else is respected."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster, eventually
from support.objects import runtime, train_job
from support.operator import Operator
from support.replica import QUICK, Replica, replica
from trainsnap_api.transport import NotFound
from trainsnap_api.transport.resources import JOB_SET, LEASE, TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
NAME, NAMESPACE = "trainer.kubeflow.org", "kubeflow-system"


@pytest.fixture
def arguments(operator: Operator, local_plane: Plane) -> Iterator[tuple[str, ...]]:
    """How a replica is started on the plane, while the operator of the other tests is away."""
    kubeconfig = local_plane.service_account_kubeconfig(NAMESPACE, "trainsnap")
    assert operator.stop() == 0
    yield ("run", "--kubeconfig", str(kubeconfig))
    operator.start()


async def lease_of(cluster: Cluster) -> JSON:
    spec: JSON = (await cluster.api.get(LEASE, NAME, NAMESPACE))["spec"]
    return spec


async def without_lease(cluster: Cluster) -> None:
    try:
        await cluster.api.delete(LEASE, NAME, NAMESPACE)
    except NotFound:
        return


async def leading(*replicas: Replica) -> Replica:
    """Await that one of them leads; fails if more do."""

    async def look() -> list[Replica]:
        return [one for one in replicas if one.leads()]

    leaders = await eventually(look, bool, what="a leader", seconds=60)
    assert len(leaders) == 1
    return leaders[0]


@asynccontextmanager
async def pair(arguments: tuple[str, ...], cluster: Cluster, folder: Path) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas and a runtime: the one that leads, and the one that stands by."""
    await without_lease(cluster)
    await cluster.create(runtime("rt", cluster.namespace))
    with (
        replica(folder / "a", *arguments, leaderElection=QUICK) as a,
        replica(folder / "b", *arguments, leaderElection=QUICK) as b,
    ):
        first = await leading(a, b)
        second = b if first is a else a
        await second.until("/readyz/leader-election?verbose", 200, f"standing by: lease {NAME} is held by ")
        yield first, second


async def test_the_second_takes_over_from_the_first(
    arguments: tuple[str, ...], cluster: Cluster, tmp_path: Path
) -> None:
    async with pair(arguments, cluster, tmp_path) as (first, second):
        await cluster.create(train_job("one", cluster.namespace))
        await cluster.until(JOB_SET, "one")
        held = await lease_of(cluster)
        assert not second.leads()
        assert second.metric("trainsnap_cache_events_total", resource=TRAIN_JOB.name) > 0
        assert second.metric("workqueue_adds_total") == 0, "nothing is kept for the day on which it leads"

        first.kill()
        await cluster.create(train_job("two", cluster.namespace))
        await cluster.until(JOB_SET, "two")
        assert second.leads()
        taken = await lease_of(cluster)
        assert taken["holderIdentity"] not in ("", held["holderIdentity"])
        assert taken["leaseTransitions"] == held["leaseTransitions"] + 1

        assert second.stop() == 0
        assert (await lease_of(cluster))["holderIdentity"] == "", "given back, for the next one not to wait"


async def test_a_leader_that_was_asleep_does_not_write_any_more(
    arguments: tuple[str, ...], cluster: Cluster, tmp_path: Path
) -> None:
    async with pair(arguments, cluster, tmp_path) as (first, second):
        first.pause()
        await cluster.create(train_job("job", cluster.namespace))
        await cluster.until(JOB_SET, "job")
        first.resume()
        code = await eventually(first.exit_code, lambda seen: seen is not None, what="the sleeper has ended")
        assert code == 1
        assert any("no longer leading" in line["msg"] for line in first.lines())
        assert second.leads()


async def test_a_lease_of_another_operator_is_respected(
    arguments: tuple[str, ...], cluster: Cluster, tmp_path: Path
) -> None:
    """The reference uses the same lease: whoever comes second waits."""
    await without_lease(cluster)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {
        "holderIdentity": "somebody-else",
        "leaseDurationSeconds": 3600,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 7,
    }
    metadata = {"name": NAME, "namespace": NAMESPACE}
    theirs = await cluster.create(
        {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
    )
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    with replica(tmp_path / "a", *arguments, leaderElection=QUICK) as waiting:
        await waiting.until("/readyz/leader-election?verbose", 200, f"lease {NAME} is held by somebody-else")
        assert not waiting.leads()
        assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None
        assert await cluster.api.get(LEASE, NAME, NAMESPACE) == theirs

        await cluster.api.merge_patch(LEASE, NAME, NAMESPACE, {"spec": {"holderIdentity": ""}})
        await cluster.until(JOB_SET, "job")
        assert waiting.leads()
        assert (await lease_of(cluster))["leaseTransitions"] == 8
        assert waiting.stop() == 0
