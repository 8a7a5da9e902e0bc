# SPDX-License-Identifier: Apache-2.0
"""The lease and the recorder against the API server's own validation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.cluster import Cluster
from trainsnap_api.transport.resources import EVENT, LEASE
from trainsnap_controller.manager import LeaderElector, LeaseLostError, LeaseTimes
from trainsnap_controller.observe.events import EVENT_REASONS, RESOURCES_CREATION_FAILED, EventRecorder

pytestmark = [pytest.mark.anyio, pytest.mark.api]

QUICK = LeaseTimes(lease_duration=3.0, renew_deadline=2.0, retry_period=0.2)


def elector(cluster: Cluster, identity: str) -> LeaderElector:
    return LeaderElector(cluster.api, namespace=cluster.namespace, name="lease", identity=identity, times=QUICK)


@asynccontextmanager
async def running(runnable: LeaderElector | EventRecorder) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(runnable.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


async def test_one_leads_and_the_next_follows_at_once_when_the_lease_is_given_back(cluster: Cluster) -> None:
    first, second = elector(cluster, "first"), elector(cluster, "second")
    async with running(first):
        await asyncio.wait_for(first.elected.wait(), 10)
        async with running(second):
            await asyncio.sleep(QUICK.lease_duration + 0.5)
            assert not second.elected.is_set()
            assert "held by first" in second.ready().detail
            spec = (await cluster.get(LEASE, "lease"))["spec"]
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", 3, 0)
            await first.stop()
            started = time.monotonic()
            await asyncio.wait_for(second.elected.wait(), 10)
            assert time.monotonic() - started < QUICK.lease_duration
            assert (await cluster.get(LEASE, "lease"))["spec"]["leaseTransitions"] == 1


async def test_a_holder_that_died_is_replaced_after_its_lease(cluster: Cluster) -> None:
    first, second = elector(cluster, "first"), elector(cluster, "second")
    async with running(first):
        await asyncio.wait_for(first.elected.wait(), 10)
    async with running(second):
        await asyncio.wait_for(second.elected.wait(), 15)


async def test_a_lease_that_is_taken_away_is_noticed(cluster: Cluster) -> None:
    first = elector(cluster, "first")
    async with running(first) as task:
        await asyncio.wait_for(first.elected.wait(), 10)
        await cluster.patch(LEASE, "lease", {"spec": {"holderIdentity": "somebody-else"}})
        await asyncio.wait([task], timeout=10)
        assert isinstance(task.exception(), LeaseLostError)
        assert not first.may_write()


async def test_events_are_accepted_and_counted(cluster: Cluster) -> None:
    outcomes: list[str] = []
    recorder = EventRecorder(cluster.api, instance="pod-1", counted=outcomes.append)
    job: dict[str, Any] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": cluster.namespace, "uid": "u1"},
    }
    async with running(recorder):
        for reason in EVENT_REASONS:
            recorder.record(job, reason, "\N{GRINNING FACE}" * 5000)
        recorder.record(job, RESOURCES_CREATION_FAILED, "it % failed")
        await until(lambda: outcomes.count("created") == len(EVENT_REASONS) + 1, f"all are created: {outcomes}")
        recorder.record(job, RESOURCES_CREATION_FAILED, "it % failed")
        await until(lambda: "counted" in outcomes, f"a repetition is counted: {outcomes}")
    events = (await cluster.api.list(EVENT, cluster.namespace)).items
    assert len(events) == len(EVENT_REASONS) + 1
    event = next(e for e in events if e["note"] == "it % failed")
    assert event["series"]["count"] == 2
    assert event["reportingController"] == "trainer-trainjob-controller"
    assert event["regarding"]["name"] == "job"
    assert all(len(e["note"].encode()) <= 1024 for e in events)
