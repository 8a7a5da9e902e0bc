# SPDX-License-Identifier: Apache-2.0
"""TrainJobs are deleted, with the real garbage collector and namespace controller, and the snapshot guard in force."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from support.cluster import Cluster, eventually
from support.history import History, following
from support.objects import condition, image_of, runtime, runtime_spec, train_job
from support.operator import Operator
from support.pods import Pods
from support.quiet import quiet
from trainsnap_api.transport.resources import (
    JOB_SET,
    NAMESPACE,
    POD,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)

pytestmark = [pytest.mark.anyio, pytest.mark.full]

JOBS = ("running", "paused", "finished")
CHILDREN = (JOB_SET, TRAINING_RUNTIME_SNAPSHOT)


async def three_jobs(cluster: Cluster) -> Pods:
    """A running, a paused and a finished job, each with its snapshot and its JobSet."""
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace))
    for name in JOBS:
        await cluster.create(train_job(name, cluster.namespace, suspend=name == "paused"))
    for name in ("running", "finished"):
        await pods.running(name)
    await pods.finish("finished")
    await cluster.until(TRAIN_JOB, "finished", lambda seen: condition(seen, "Complete"))
    await cluster.until(TRAIN_JOB, "paused", lambda seen: condition(seen, "Suspended"))
    await cluster.until(TRAIN_JOB, "running", lambda seen: (seen.get("status") or {}).get("jobsStatus"))
    for name in JOBS:
        await cluster.until(JOB_SET, name)
    return pods


@asynccontextmanager
async def children_followed(cluster: Cluster) -> AsyncIterator[list[History]]:
    """What happens to JobSets and snapshots."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(following(cluster, resource)) for resource in CHILDREN]


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_all_that_belongs_to_a_job_goes_with_it(operator: Operator, cluster: Cluster, propagation: str) -> None:
    await three_jobs(cluster)
    async with children_followed(cluster) as histories:
        for name in JOBS:
            await cluster.delete(TRAIN_JOB, name, propagation=propagation)
        for name in JOBS:
            for resource in (TRAIN_JOB, *CHILDREN):
                await cluster.until_gone(resource, name)
        await eventually(lambda: cluster.api.list(POD, cluster.namespace), lambda seen: not seen.items, what="no pods")
        await quiet(operator)
        for history in histories:
            assert [kind for kind, _ in history.changes if kind == "ADDED"] == [], "nothing was made anew"
    assert await cluster.find(TRAINING_RUNTIME, "rt") is not None


async def test_an_operator_that_sleeps_meanwhile_makes_nothing_anew(operator: Operator, cluster: Cluster) -> None:
    """It hears of everything at once when it wakes up, and of the children perhaps before it hears of the job."""
    await three_jobs(cluster)
    async with children_followed(cluster) as histories:
        operator.pause()
        for name in JOBS:
            await cluster.delete(TRAIN_JOB, name)
        for name in JOBS:
            for resource in CHILDREN:
                await cluster.until_gone(resource, name)
        operator.resume()
        later = await cluster.create(train_job("later", cluster.namespace))
        await cluster.until(JOB_SET, "later")
        await quiet(operator)
        for history in histories:
            made = [obj["metadata"]["name"] for kind, obj in history.changes if kind == "ADDED"]
            assert set(made) == {later["metadata"]["name"]}


async def test_a_namespace_with_jobs_and_snapshots_can_be_deleted(operator: Operator, cluster: Cluster) -> None:
    await three_jobs(cluster)
    await cluster.delete(NAMESPACE, cluster.namespace)
    # With any pod in it the namespace controller needs a second and a third look, after 5 and 10 s.
    await cluster.until_gone(NAMESPACE, cluster.namespace, seconds=40)


async def test_orphans_do_not_belong_to_the_next_job_of_the_name(operator: Operator, cluster: Cluster) -> None:
    await three_jobs(cluster)
    old = {name: await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name) for name in JOBS}
    for name in JOBS:
        await cluster.delete(TRAIN_JOB, name, propagation="Orphan")
    for name in JOBS:
        await cluster.until_gone(TRAIN_JOB, name)
        for resource in CHILDREN:
            left = await cluster.get(resource, name)
            assert "ownerReferences" not in left["metadata"], "the garbage collector may take its reference off"
        assert (await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name))["source"] == old[name]["source"]

    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:next")})
    for name in JOBS:
        await cluster.create(train_job(name, cluster.namespace))
    for name in JOBS:
        # A JobSet without an owner could be anybody's. It is named, and not touched.
        job = await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Blocked"))
        blocked = condition(job, "Blocked")
        assert blocked is not None
        assert blocked["reason"] == "ChildConflict"
        assert f"JobSet {cluster.namespace}/{name} exists" in blocked["message"]
        await cluster.delete(JOB_SET, name)
    for name in JOBS:
        job = await cluster.get(TRAIN_JOB, name)
        uid = job["metadata"]["uid"]
        await cluster.until(JOB_SET, name, lambda seen: image_of(seen) == "acme/train:next")
        fresh = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name)
        assert fresh["metadata"]["uid"] != old[name]["metadata"]["uid"]
        assert image_of(fresh) == "acme/train:next"
        assert fresh["source"]["trainJob"]["uid"] == uid
        assert [owner["uid"] for owner in fresh["metadata"]["ownerReferences"]] == [uid]
        await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Blocked") is None)
