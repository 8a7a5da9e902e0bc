# SPDX-License-Identifier: Apache-2.0
"""Objects in the way: foreign ones, leftovers of an earlier job, and a snapshot that is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.admission import without_webhooks
from support.cluster import Cluster
from support.identity import service_account
from support.objects import condition, image_of, runtime, runtime_spec, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api.transport import Transport
from trainsnap_api.transport.resources import (
    CONFIG_MAP,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
MARK: JSON = {"metadata": {"annotations": {"snapshot.trainer.kubeflow.org/break-glass": "test"}}}


@pytest.fixture
async def as_operator(operator: Operator, plane: Target, admin: Transport, cluster: Cluster) -> AsyncIterator[Cluster]:
    """The namespace seen with the operator's own rights: only it may create snapshots."""
    async with service_account(str(plane.kubeconfig), admin, "kubeflow-system", "trainsnap") as api:
        yield Cluster(api, cluster.namespace)


def snapshot(namespace: str, **changes: Any) -> JSON:
    """A snapshot called ``job`` with another image than the runtime's."""
    source = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "rt", "origin": "Runtime",
              "digest": "sha256:" + "0" * 64, "capturedAt": "2026-01-01T00:00:00Z",
              "trainJob": {"name": "job", "uid": "of-an-earlier-job"}}  # fmt: skip
    metadata = {"name": "job", "namespace": namespace, **changes.pop("metadata", {})}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntimeSnapshot", "metadata": metadata,
            "source": source, "spec": runtime_spec(image="acme/evil:1"), **changes}  # fmt: skip


async def break_glass(cluster: Cluster) -> None:
    await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", MARK)
    await cluster.delete(TRAINING_RUNTIME_SNAPSHOT, "job")


async def blocked(cluster: Cluster, reason: str) -> str:
    """Await the condition Blocked with a reason; returns its message."""
    job = await cluster.until(
        TRAIN_JOB, "job", lambda found: (condition(found, "Blocked") or {}).get("reason") == reason
    )
    found = condition(job, "Blocked")
    assert found is not None
    message: str = found["message"]
    return message


async def test_a_foreign_snapshot_is_neither_used_nor_overwritten(as_operator: Cluster, cluster: Cluster) -> None:
    owner = await cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": cluster.namespace}}
    )
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    foreign = await as_operator.create(snapshot(cluster.namespace, metadata={"ownerReferences": [reference]}))
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    assert "exists and was not made for this TrainJob" in await blocked(cluster, "SnapshotConflict")
    assert await cluster.find(JOB_SET, "job") is None
    assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job") == foreign
    events = await cluster.events_of("job")
    assert [event["reason"] for event in events] == ["TrainJobResourcesCreationFailed"]

    await break_glass(cluster)
    await cluster.until(JOB_SET, "job")
    healed = await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked") is None)
    assert "conditions" not in healed.get("status", {})


async def test_a_leftover_of_an_earlier_job_is_replaced(as_operator: Cluster, cluster: Cluster) -> None:
    leftover = await as_operator.create(snapshot(cluster.namespace))
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    job = await cluster.create(train_job("job", cluster.namespace))
    job_set = await cluster.until(JOB_SET, "job")
    assert image_of(job_set) == "acme/train:1"
    taken = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert taken["metadata"]["uid"] != leftover["metadata"]["uid"]
    assert taken["source"]["trainJob"]["uid"] == job["metadata"]["uid"]


async def test_a_recreated_job_waits_for_the_old_jobset_and_starts_afresh(operator: Operator, cluster: Cluster) -> None:
    """No garbage collector runs here, so that what an earlier job leaves behind stays until the test removes it."""
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    await cluster.delete(TRAIN_JOB, "job")
    job = await cluster.create(train_job("job", cluster.namespace))
    assert "belongs to an earlier TrainJob of this name" in await blocked(cluster, "WaitingForLeftovers")
    await cluster.delete(JOB_SET, "job")
    job_set = await cluster.until(JOB_SET, "job")
    assert image_of(job_set) == "acme/train:2"
    taken = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert taken["source"]["trainJob"]["uid"] == job["metadata"]["uid"]
    await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked") is None)


async def test_an_owner_reference_that_was_taken_off_is_put_back(as_operator: Cluster, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    job = await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    await as_operator.patch(TRAINING_RUNTIME_SNAPSHOT, "job", {"metadata": {"ownerReferences": None}})
    again = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job", lambda found: "ownerReferences" in found["metadata"])
    (reference,) = again["metadata"]["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (job["metadata"]["uid"], True)


async def test_a_lost_snapshot_is_taken_again_from_the_same_runtime(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace, suspend=True))
    before = await cluster.until(JOB_SET, "job")
    old = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    await break_glass(cluster)
    again = await cluster.until(
        TRAINING_RUNTIME_SNAPSHOT, "job", lambda found: found["metadata"]["uid"] != old["metadata"]["uid"]
    )
    assert again["spec"] == old["spec"]
    assert (await cluster.get(JOB_SET, "job"))["spec"] == before["spec"]


async def test_a_lost_snapshot_is_not_taken_from_another_runtime(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    await break_glass(cluster)
    message = await blocked(cluster, "SnapshotLost")
    assert "generation 2) is not the one that the JobSet was built from" in message
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None

    # What is running can still be paused and resumed, and its end is seen.
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": True}})
    await cluster.until(JOB_SET, "job", lambda found: found["spec"]["suspend"])
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})
    job_set = await cluster.until(JOB_SET, "job", lambda found: not found["spec"]["suspend"])
    assert image_of(job_set) == "acme/train:1"

    # An admin puts the old content back: the digest says that it is the same.
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:1")})
    await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked") is None)


async def test_a_lost_snapshot_and_a_lost_runtime(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    await cluster.delete(TRAINING_RUNTIME, "rt")
    await break_glass(cluster)
    assert "the snapshot is gone, and spec.runtimeRef: TrainingRuntime 'rt' does not exist" in await blocked(
        cluster, "SnapshotLost"
    )
    status = {"conditions": [{"type": "Completed", "status": "True", "reason": "AllJobsCompleted",
                              "message": "jobset completed successfully",
                              "lastTransitionTime": "2026-01-05T10:00:00Z"}]}  # fmt: skip
    await cluster.patch(JOB_SET, "job", {"status": status}, subresource="status")
    job = await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Complete"))
    assert condition(job, "Blocked") is None, "a finished job is not blocked"


async def test_a_jobset_without_a_record_is_not_taken_for_an_older_one(operator: Operator, cluster: Cluster) -> None:
    async with without_webhooks(cluster.api, cluster.namespace):
        operator.pause()
        await cluster.create(runtime("rt", cluster.namespace))
        job = await cluster.create(train_job("job", cluster.namespace))
        reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "job",
                     "uid": job["metadata"]["uid"], "controller": True}  # fmt: skip
        await cluster.create(
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": "job", "namespace": cluster.namespace, "ownerReferences": [reference]},
                "spec": runtime_spec(image="acme/before:1")["template"]["spec"],
            }
        )
        operator.resume()
    assert "the JobSet does not say what it was built from" in await blocked(cluster, "SnapshotLost")
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None
    assert image_of(await cluster.get(JOB_SET, "job")) == "acme/before:1"


async def test_a_foreign_jobset_is_neither_used_nor_changed(operator: Operator, cluster: Cluster) -> None:
    foreign = await cluster.create(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "job", "namespace": cluster.namespace},
            "spec": {**runtime_spec()["template"]["spec"], "suspend": True},
        }
    )
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    assert "is controlled by nobody, not by this TrainJob" in await blocked(cluster, "ChildConflict")
    assert await cluster.get(JOB_SET, "job") == foreign
    await cluster.delete(JOB_SET, "job")
    await cluster.until(JOB_SET, "job", lambda found: not found["spec"]["suspend"])


async def test_finished_jobs_are_left_alone(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    status = {"conditions": [{"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "m",
                              "lastTransitionTime": "2026-01-05T10:00:00Z"}]}  # fmt: skip
    await cluster.patch(JOB_SET, "job", {"status": status}, subresource="status")
    await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Failed"))
    await break_glass(cluster)
    await cluster.delete(JOB_SET, "job")
    await cluster.patch(TRAIN_JOB, "job", {"metadata": {"labels": {"touched": "yes"}}})
    # A second job proves that the operator has gone on since.
    await cluster.create(train_job("later", cluster.namespace))
    await cluster.until(JOB_SET, "later")
    assert await cluster.find(JOB_SET, "job") is None
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None
    assert await cluster.find(CONFIG_MAP, "job-runtime-snapshot") is None
