# SPDX-License-Identifier: Apache-2.0
"""A TrainJob on real pods, from its creation to its end, and what its status says on the way."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster import Cluster
from support.history import events_about, following
from support.objects import condition, runtime, runtime_spec, train_job
from support.operator import Operator
from support.pods import Pods
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT

pytestmark = [pytest.mark.anyio, pytest.mark.full]

JSON = dict[str, Any]


def counts(job: JSON) -> list[JSON]:
    """``status.jobsStatus`` without the counts that are 0, each in full in the schema."""
    found = (job.get("status") or {}).get("jobsStatus") or []
    return [{key: value for key, value in item.items() if value != 0} for item in found]


def without_retries(spec: JSON) -> JSON:
    """The runtime's spec, its jobs failing with their first pod."""
    for item in spec["template"]["spec"]["replicatedJobs"]:
        item["template"]["spec"]["backoffLimit"] = 0
    return spec


async def test_a_job_runs_to_completion(operator: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, num_nodes=2))
    async with following(cluster, TRAIN_JOB) as history:
        await cluster.create(train_job("job", cluster.namespace))
        await pods.running("job", 2)
        running = await cluster.until(
            TRAIN_JOB, "job", lambda seen: counts(seen) == [{"name": "node", "ready": 1, "active": 1}]
        )
        assert running["status"].keys() == {"jobsStatus"}
        assert running["status"]["jobsStatus"][0].keys() == {
            *("name", "ready", "succeeded", "failed", "active", "suspended")
        }, "counts of 0 are written too"
        await pods.finish("job")
        done = await cluster.until(
            TRAIN_JOB,
            "job",
            lambda seen: condition(seen, "Complete") and counts(seen) == [{"name": "node", "succeeded": 1}],
        )
    complete = condition(done, "Complete")
    assert complete is not None
    assert (complete["status"], complete["reason"]) == ("True", "AllJobsCompleted")
    assert complete["message"] == "jobset completed successfully"
    assert history.conditions("job") == {("Complete", "True", "AllJobsCompleted")}, "no other condition at any moment"
    assert await events_about(cluster, "job") == []
    snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert snapshot["source"]["trainJob"]["uid"] == done["metadata"]["uid"]


async def test_a_failing_pod_fails_the_job_in_the_words_of_jobset(operator: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, spec=without_retries(runtime_spec(num_nodes=2))))
    async with following(cluster, TRAIN_JOB) as history:
        await cluster.create(train_job("job", cluster.namespace))
        await pods.running("job", 2)
        await pods.finish("job", "failed", only=1)
        done = await cluster.until(
            TRAIN_JOB, "job", lambda seen: condition(seen, "Failed") and counts(seen) == [{"name": "node", "failed": 1}]
        )
    ours, theirs = condition(done, "Failed"), condition(await cluster.get(JOB_SET, "job"), "Failed")
    assert ours is not None
    assert theirs is not None
    assert ours["reason"] == "FailedJobs"
    assert {key: ours[key] for key in theirs} == theirs, "reason, message and time are those of JobSet"
    assert history.conditions("job") == {("Failed", "True", "FailedJobs")}


async def test_the_parts_of_a_job_follow_each_other(operator: Operator, cluster: Cluster) -> None:
    """An initializer first, then the trainer: counts in the order of the runtime, for each part."""
    pods = await Pods.on(cluster)
    spec = runtime_spec(num_nodes=2)
    trainer = spec["template"]["spec"]["replicatedJobs"][0]
    first = {
        "name": "prepare",
        "template": {"spec": {"template": {"spec": {"containers": [{"name": "prepare", "image": "acme/prepare:1"}]}}}},
    }
    trainer["dependsOn"] = [{"name": "prepare", "status": "Complete"}]
    spec["template"]["spec"]["replicatedJobs"] = [first, trainer]
    await cluster.create(runtime("rt", cluster.namespace, spec=spec))
    await cluster.create(train_job("job", cluster.namespace))
    await pods.running("job", 1)
    await cluster.until(TRAIN_JOB, "job", lambda seen: {"name": "prepare", "ready": 1, "active": 1} in counts(seen))
    await pods.finish("job")
    await cluster.until(
        TRAIN_JOB,
        "job",
        lambda seen: counts(seen) == [{"name": "prepare", "succeeded": 1}, {"name": "node", "ready": 1, "active": 1}],
    )
    await pods.finish("job")
    done = await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Complete"))
    assert [c["type"] for c in done["status"]["conditions"]] == ["Complete"]
