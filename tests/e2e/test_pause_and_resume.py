# SPDX-License-Identifier: Apache-2.0
"""Pausing and resuming on real pods, with JobSet's own admission, whatever happens to the runtime meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster import Cluster
from support.history import events_about
from support.objects import condition, runtime, runtime_spec, train_job
from support.operator import Operator
from support.pods import Pods, images
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME, TRAINING_RUNTIME_SNAPSHOT

pytestmark = [pytest.mark.anyio, pytest.mark.full]

JSON = dict[str, Any]
OLD, NEW = "acme/train:old", "acme/train:new"


async def paused(cluster: Cluster, pods: Pods, name: str) -> None:
    """Await that a job stands still: no pod, and its condition says so."""
    job = await cluster.until(
        TRAIN_JOB, name, lambda seen: (condition(seen, "Suspended") or {}).get("status") == "True"
    )
    found = condition(job, "Suspended")
    assert found is not None
    assert (found["reason"], found["message"]) == ("Suspended", "TrainJob is suspended")
    await cluster.until(JOB_SET, name, lambda seen: seen["spec"]["suspend"])
    await pods.gone(name)


async def resumed(cluster: Cluster, pods: Pods, name: str, count: int = 1) -> list[JSON]:
    """Resume a job, and await its pods and its condition."""
    await cluster.patch(TRAIN_JOB, name, {"spec": {"suspend": False}})
    running = await pods.running(name, count)
    job = await cluster.until(
        TRAIN_JOB, name, lambda seen: (condition(seen, "Suspended") or {}).get("status") == "False"
    )
    assert [c["type"] for c in job["status"]["conditions"]] == ["Suspended"]
    return running


@pytest.mark.parametrize("change", ["edited", "deleted", "recreated"])
async def test_jobs_keep_their_image_through_a_pause(operator: Operator, cluster: Cluster, change: str) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, image=OLD, num_nodes=2))
    await cluster.create(train_job("running", cluster.namespace))
    await cluster.create(train_job("from-the-start", cluster.namespace, suspend=True))
    await pods.running("running", 2)
    await cluster.patch(TRAIN_JOB, "running", {"spec": {"suspend": True}})
    for name in ("running", "from-the-start"):
        await paused(cluster, pods, name)
    snapshots = [await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name) for name in ("running", "from-the-start")]

    if change != "edited":
        await cluster.delete(TRAINING_RUNTIME, "rt")
    if change == "recreated":
        await cluster.create(runtime("rt", cluster.namespace, image=NEW))
    if change == "edited":
        await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image=NEW)})

    for name in ("running", "from-the-start"):
        assert images(await resumed(cluster, pods, name, 2)) == {OLD}
        await pods.finish(name)
    for name, before in zip(("running", "from-the-start"), snapshots, strict=True):
        done = await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Complete"))
        assert [c["type"] for c in done["status"]["conditions"]] == ["Suspended", "Complete"]
        assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name) == before
        assert await events_about(cluster, name) == [], "JobSet's admission refused nothing"


async def test_patches_of_a_paused_job_reach_its_pods(operator: Operator, cluster: Cluster) -> None:
    """What a queue controller does: pause, choose a node, resume; then choose another one, all on one JobSet."""
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, image=OLD))
    await cluster.create(train_job("job", cluster.namespace, suspend=True))
    await paused(cluster, pods, "job")
    uid = (await cluster.get(JOB_SET, "job"))["metadata"]["uid"]
    for node in ("cpu-0", "cpu-1"):
        wanted = {"kubernetes.io/hostname": node}
        await cluster.patch(TRAIN_JOB, "job", {"spec": {"runtimePatches": [scheduling(wanted)]}})
        await cluster.until(JOB_SET, "job", lambda seen, wanted=wanted: selector(seen) == wanted)  # type: ignore[misc]
        (pod,) = await resumed(cluster, pods, "job")
        assert pod["spec"]["nodeName"] == node
        await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": True}})
        await paused(cluster, pods, "job")
    # What is taken back leaves the JobSet; JobSet itself then leaves it on the Jobs that it has made already.
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"runtimePatches": None}})
    await cluster.until(JOB_SET, "job", lambda seen: selector(seen) is None)
    assert (await cluster.get(JOB_SET, "job"))["metadata"]["uid"] == uid
    assert await events_about(cluster, "job") == []


def scheduling(node_selector: dict[str, str]) -> JSON:
    """A patch of the trainer's pods as queue controllers write it."""
    pod = {"spec": {"nodeSelector": node_selector}}
    jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
    return {
        "manager": "queue.example.com/manager",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }


def selector(job_set: JSON) -> JSON | None:
    """The node selector of the first replicated job's pods."""
    pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    found: JSON | None = pod.get("nodeSelector")
    return found
