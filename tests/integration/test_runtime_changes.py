# SPDX-License-Identifier: Apache-2.0
"""The main job: whatever happens to a runtime, its jobs keep what they were started with."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission import without_webhooks
from support.cluster import Cluster
from support.objects import condition, image_of, runtime, runtime_spec, train_job
from support.operator import Operator
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)

pytestmark = [pytest.mark.anyio, pytest.mark.api]

OLD, NEW = "acme/train:old", "acme/train:new"


async def started(cluster: Cluster, name: str = "job", **spec: Any) -> None:
    """A job over a fresh runtime, with its JobSet."""
    await cluster.create(runtime("rt", cluster.namespace, image=OLD))
    await cluster.create(train_job(name, cluster.namespace, **spec))
    await cluster.until(JOB_SET, name)


async def change_image(cluster: Cluster, image: str) -> None:
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image=image)})


async def suspend(cluster: Cluster, name: str, value: bool) -> None:
    await cluster.patch(TRAIN_JOB, name, {"spec": {"suspend": value}})
    await cluster.until(JOB_SET, name, lambda found: found["spec"]["suspend"] is value)


async def test_an_edit_does_not_reach_a_running_job(operator: Operator, cluster: Cluster) -> None:
    await started(cluster)
    before = await cluster.get(JOB_SET, "job")
    await change_image(cluster, NEW)
    await cluster.create(train_job("later", cluster.namespace))
    later = await cluster.until(JOB_SET, "later")
    assert image_of(later) == NEW
    assert await cluster.get(JOB_SET, "job") == before, "the older job's JobSet was not even written"


async def test_an_edit_does_not_reach_a_job_that_is_paused_and_resumed(operator: Operator, cluster: Cluster) -> None:
    await started(cluster)
    snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    await suspend(cluster, "job", True)
    await change_image(cluster, NEW)
    await suspend(cluster, "job", False)
    assert image_of(await cluster.get(JOB_SET, "job")) == OLD
    assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job") == snapshot


async def test_a_job_created_paused_keeps_the_runtime_of_that_moment(operator: Operator, cluster: Cluster) -> None:
    await started(cluster, suspend=True)
    await change_image(cluster, NEW)
    await suspend(cluster, "job", False)
    assert image_of(await cluster.get(JOB_SET, "job")) == OLD


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
async def test_a_deleted_runtime_is_not_missed(operator: Operator, cluster: Cluster, paused: bool) -> None:
    await started(cluster, suspend=paused)
    await cluster.delete(TRAINING_RUNTIME, "rt")
    await suspend(cluster, "job", not paused)
    await suspend(cluster, "job", paused)
    job = await cluster.patch(TRAIN_JOB, "job", {"metadata": {"labels": {"touched": "yes"}}})
    assert condition(job, "Blocked") is None
    await cluster.delete(JOB_SET, "job")
    await cluster.until(JOB_SET, "job", lambda found: image_of(found) == OLD)


async def test_a_runtime_recreated_with_other_content_is_another_one(operator: Operator, cluster: Cluster) -> None:
    await started(cluster)
    await cluster.delete(TRAINING_RUNTIME, "rt")
    await cluster.create(runtime("rt", cluster.namespace, image=NEW))
    await cluster.create(train_job("later", cluster.namespace))
    assert image_of(await cluster.until(JOB_SET, "later")) == NEW
    await suspend(cluster, "job", True)
    await suspend(cluster, "job", False)
    assert image_of(await cluster.get(JOB_SET, "job")) == OLD


async def test_a_namespaced_and_a_cluster_runtime_of_one_name(operator: Operator, cluster: Cluster) -> None:
    name = cluster.namespace  # unique in the cluster
    await cluster.create(runtime(name, cluster.namespace, image="acme/team:1"))
    await cluster.create(runtime(name, image="acme/all:1"))
    try:
        await cluster.create(train_job("team", cluster.namespace, name))
        await cluster.create(train_job("all", cluster.namespace, name, kind="ClusterTrainingRuntime"))
        assert image_of(await cluster.until(JOB_SET, "team")) == "acme/team:1"
        assert image_of(await cluster.until(JOB_SET, "all")) == "acme/all:1"
    finally:
        await cluster.delete(CLUSTER_TRAINING_RUNTIME, name)


async def test_a_missing_runtime_blocks_the_job_until_it_appears(operator: Operator, cluster: Cluster) -> None:
    async with without_webhooks(cluster.api, cluster.namespace):
        await cluster.create(train_job("job", cluster.namespace))
    blocked = await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked"))
    found = condition(blocked, "Blocked")
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "RuntimeNotFound")
    assert found["message"] == (
        f"spec.runtimeRef: TrainingRuntime 'rt' does not exist in namespace {cluster.namespace}"
    )
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked") is None)


async def test_an_unsupported_kind_is_said_and_nothing_is_made(operator: Operator, cluster: Cluster) -> None:
    async with without_webhooks(cluster.api, cluster.namespace):
        await cluster.create(train_job("job", cluster.namespace, kind="SlurmRuntime"))
    blocked = await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked"))
    found = condition(blocked, "Blocked")
    assert found is not None
    assert found["reason"] == "RuntimeNotSupported"
    assert "unsupported runtime: SlurmRuntime.trainer.kubeflow.org" in found["message"]
    assert await cluster.find(JOB_SET, "job") is None
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None


async def test_a_job_of_another_controller_is_left_alone(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("theirs", cluster.namespace, managedBy="kueue.x-k8s.io/multikueue", suspend=True))
    await cluster.create(train_job("ours", cluster.namespace))
    await cluster.until(JOB_SET, "ours")
    theirs = await cluster.get(TRAIN_JOB, "theirs")
    assert "status" not in theirs
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "theirs") is None
