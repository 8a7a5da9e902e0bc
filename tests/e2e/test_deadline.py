# SPDX-License-Identifier: Apache-2.0
"""activeDeadlineSeconds on real pods: the job ends, its pods go, and a paused job's clock stands still."""

from __future__ import annotations

import pytest

from support.cluster import Cluster
from support.history import events_about, following
from support.objects import condition, runtime, train_job
from support.operator import Operator
from support.pods import Pods
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT

pytestmark = [pytest.mark.anyio, pytest.mark.full]


async def test_a_job_that_runs_too_long_ends(operator: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, num_nodes=2))
    async with following(cluster, JOB_SET) as job_sets:
        # The same deadline for both; one stands still all the time until the other has run out of it.
        await cluster.create(train_job("waits", cluster.namespace, activeDeadlineSeconds=3, suspend=True))
        await cluster.create(train_job("runs", cluster.namespace, activeDeadlineSeconds=3))
        await pods.running("runs", 2)
        await ran_out(cluster, pods, "runs")

        waiting = await cluster.get(TRAIN_JOB, "waits")
        assert [c["type"] for c in waiting["status"]["conditions"]] == ["Suspended"]
        await cluster.patch(TRAIN_JOB, "waits", {"spec": {"suspend": False}})
        await pods.running("waits", 2)
        await ran_out(cluster, pods, "waits")
        assert (job_sets.made("runs"), job_sets.made("waits")) == (1, 1)
    for name in ("runs", "waits"):
        assert await events_about(cluster, name) == []
        assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, name), "it tells what the job ran with"


async def ran_out(cluster: Cluster, pods: Pods, name: str) -> None:
    """Await that a job was ended by its deadline."""
    job = await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Failed"))
    failed = condition(job, "Failed")
    assert failed is not None
    assert (failed["reason"], failed["message"]) == ("DeadlineExceeded", "TrainJob exceeded its active deadline")
    await cluster.until_gone(JOB_SET, name)
    await pods.gone(name)
