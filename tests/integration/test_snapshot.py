# SPDX-License-Identifier: Apache-2.0
"""What a snapshot holds, who owns it, how it looks in kubectl, and that nothing about it can change."""

from __future__ import annotations

import copy
import subprocess
from typing import Any

import pytest

from support.cluster import Cluster, eventually
from support.objects import runtime, runtime_spec, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api.transport import ApiError, Transport
from trainsnap_api.transport.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller.snapshot.digest import digest

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
CRD = f"{TRAINING_RUNTIME_SNAPSHOT.plural}.{TRAINING_RUNTIME_SNAPSHOT.group}"


async def snapshot_of(cluster: Cluster, name: str = "job", **options: Any) -> JSON:
    """The snapshot of a fresh job over a fresh runtime."""
    await cluster.create(runtime("rt", cluster.namespace, **options))
    await cluster.create(train_job(name, cluster.namespace))
    await cluster.until(JOB_SET, name)
    return await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name)


async def test_content_owner_and_provenance(operator: Operator, cluster: Cluster) -> None:
    labelled = runtime("rt", cluster.namespace, num_nodes=2, torch=True, command=["python", "x.py"])
    labelled["metadata"]["labels"] = {"team": "ml"}
    labelled["metadata"]["annotations"] = {"admin-only": "secret"}
    source = await cluster.create(labelled)
    job = await cluster.create(train_job("job", cluster.namespace))
    job_set = await cluster.until(JOB_SET, "job")
    snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")

    assert snapshot["spec"] == source["spec"], "the runtime as the API server has it, defaults included"
    assert snapshot["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "job",
            "uid": job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    captured_at = snapshot["source"].pop("capturedAt")
    assert captured_at >= job["metadata"]["creationTimestamp"]
    assert snapshot["source"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "TrainingRuntime",
        "name": "rt",
        "uid": source["metadata"]["uid"],
        "generation": 1,
        "labels": {"team": "ml"},
        "trainJob": {"name": "job", "uid": job["metadata"]["uid"]},
        "origin": "Runtime",
        "digest": digest(source["spec"]),
    }
    annotations = job_set["metadata"]["annotations"]
    assert annotations["snapshot.trainer.kubeflow.org/uid"] == source["metadata"]["uid"]
    assert annotations["snapshot.trainer.kubeflow.org/generation"] == "1"
    assert annotations["snapshot.trainer.kubeflow.org/digest"] == digest(source["spec"])


async def test_columns(operator: Operator, cluster: Cluster, plane: Target) -> None:
    snapshot = await snapshot_of(cluster)

    def kubectl(*arguments: str) -> list[list[str]]:
        command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "-n", cluster.namespace, *arguments]
        return [line.split() for line in subprocess.check_output(command, text=True, timeout=30).splitlines()]

    header, row = kubectl("get", "trainingruntimesnapshots")
    assert header == ["NAME", "KIND", "RUNTIME", "GENERATION", "ORIGIN", "AGE"]
    assert row[:5] == ["job", "TrainingRuntime", "rt", "1", "Runtime"]
    header, row = kubectl("get", "trsnap", "-o", "wide")
    assert (header[-1], row[-1]) == ("DIGEST", snapshot["source"]["digest"])


async def test_a_runtime_without_spec_gives_a_snapshot_without_spec(operator: Operator, cluster: Cluster) -> None:
    bare = runtime("rt", cluster.namespace)
    del bare["spec"]
    await cluster.create(bare)
    await cluster.create(train_job("job", cluster.namespace))
    snapshot = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert "spec" not in snapshot
    assert "opaque" not in snapshot


SWAPPED: JSON = {"spec": None, "opaque": {"spec": {"a": 1}}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"spec": {"mlPolicy": {"numNodes": 9}}}, id="edit of the spec"),
        pytest.param({"spec": None}, id="removal of the spec"),
        pytest.param(SWAPPED, id="another member in its stead"),
        pytest.param({"source": {"digest": "sha256:" + "0" * 64}}, id="edit of the source"),
        pytest.param({"source": {"previous": []}}, id="addition to the source"),
        pytest.param({"source": None}, id="removal of the source"),
        pytest.param({"metadata": {"ownerReferences": []}}, id="owner reference taken off"),
        pytest.param({"metadata": {"finalizers": ["acme.io/mine"]}}, id="finalizer put on"),
    ],
)
async def test_an_admin_cannot_change_it(operator: Operator, cluster: Cluster, body: JSON) -> None:
    before = await snapshot_of(cluster)
    with pytest.raises(ApiError) as refused:
        await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", body)
    assert refused.value.status in (403, 422)
    assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job") == before


async def test_the_order_of_a_list_cannot_change(operator: Operator, cluster: Cluster) -> None:
    snapshot = await snapshot_of(cluster, env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    pods = snapshot["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pods["containers"][0]["env"].reverse()
    with pytest.raises(ApiError, match="the order of lists included"):
        await cluster.api.replace(TRAINING_RUNTIME_SNAPSHOT, snapshot)


async def test_labels_and_annotations_are_free(operator: Operator, cluster: Cluster) -> None:
    before = await snapshot_of(cluster)
    body = {"metadata": {"labels": {"team": "ml"}, "annotations": {"note": "keep"}}}
    changed = await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", body)
    assert changed["metadata"]["labels"] == {"team": "ml"}
    assert {k: changed[k] for k in ("spec", "source")} == {k: before[k] for k in ("spec", "source")}


async def _apply_schema(admin: Transport, crd: JSON, added: JSON | None) -> None:
    body = await admin.get(CUSTOM_RESOURCE_DEFINITION, CRD)
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = copy.deepcopy(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    if added is not None:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["mlPolicy"]["properties"]["addedLater"] = added
    await admin.replace(CUSTOM_RESOURCE_DEFINITION, body)


async def test_a_field_that_a_later_crd_defaults_shows_on_old_snapshots(
    operator: Operator, cluster: Cluster, admin: Transport
) -> None:
    before = await snapshot_of(cluster)
    crd = await admin.get(CUSTOM_RESOURCE_DEFINITION, CRD)
    try:
        await _apply_schema(admin, crd, added={"type": "string", "default": "fresh"})
        after = await cluster.until(
            TRAINING_RUNTIME_SNAPSHOT, "job", lambda found: found["spec"]["mlPolicy"].get("addedLater") == "fresh"
        )
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"], "nobody wrote it"
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert after["source"]["digest"] == before["source"]["digest"] == digest(before["spec"])

        labelled = await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", {"metadata": {"labels": {"a": "b"}}})
        assert labelled["spec"]["mlPolicy"]["addedLater"] == "fresh"

        # The job goes on as if nothing had happened: paused and resumed on the same JobSet.
        await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": True}})
        await cluster.until(JOB_SET, "job", lambda found: found["spec"]["suspend"])
        await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})
        await cluster.until(JOB_SET, "job", lambda found: not found["spec"]["suspend"])
    finally:
        await _apply_schema(admin, crd, added=None)
        await eventually(
            lambda: cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job"),
            lambda found: "addedLater" not in found["spec"]["mlPolicy"],
            what="the released schema again",
        )


async def test_a_job_paused_at_once_has_its_snapshot_at_once(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    await cluster.create(train_job("job", cluster.namespace, suspend=True))
    snapshot = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job") == snapshot
