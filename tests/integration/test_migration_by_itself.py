# SPDX-License-Identifier: Apache-2.0
"""The operator meets a cluster of the reference: running, paused, created paused, finished and broken jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from support.admission import CONFIGURATIONS
from support.cluster import Cluster, eventually
from support.history import events_about
from support.legacy import config_map, finish, left_by_reference, live_runtime
from support.objects import condition, image_of, runtime, runtime_spec, train_job
from support.operator import Operator
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
NAME = "job-runtime-snapshot"


@pytest.fixture(scope="module")
async def before_trainsnap(operator_process: Operator, admin: Transport) -> AsyncIterator[Operator]:
    """The operator, in a cluster in which every job counts as older than it; afterwards none does.

    Without webhooks: they would be asked while the operator is paused. A start of it brings them back.
    """

    async def move(moment: str | None) -> None:
        body = {"data": {"legacyBefore": moment}}
        await admin.merge_patch(CONFIG_MAP, "trainsnap-state", "kubeflow-system", body)
        operator_process.stop()
        operator_process.start()

    await move("2100-01-01T00:00:00Z")
    for resource, name in CONFIGURATIONS:
        await admin.delete(resource, name)
    await anyio.sleep(1.0)
    yield operator_process
    await move(None)


@pytest.fixture
def reference(before_trainsnap: Operator) -> Iterator[Operator]:
    """The operator, paused: what the test makes now was made by the reference. ``resume`` is the upgrade."""
    before_trainsnap.pause()
    yield before_trainsnap
    before_trainsnap.resume()


async def adopted(cluster: Cluster, name: str = "job", origin: str = "ConfigMap") -> JSON:
    found = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, name)
    assert found["source"]["origin"] == origin
    return found


async def blocked(cluster: Cluster, reason: str, name: str = "job") -> str:
    job = await cluster.until(
        TRAIN_JOB, name, lambda found: (condition(found, "Blocked") or {}).get("reason") == reason
    )
    found = condition(job, "Blocked")
    assert found is not None
    message: str = found["message"]
    return message


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
async def test_a_job_goes_on_with_the_runtime_of_its_configmap(
    reference: Operator, cluster: Cluster, paused: bool
) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1", torch=True))
    job, kept, made = await left_by_reference(cluster, train_job("job", cluster.namespace, suspend=paused))
    assert kept is not None
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    reference.resume()
    snapshot = await adopted(cluster)
    assert image_of(snapshot) == "acme/train:1"
    assert snapshot["source"]["generation"] == 1
    assert "annotations" not in snapshot["source"], "an admin's last-applied-configuration stays with the admin"
    await cluster.patch(TRAIN_JOB, "job", {"metadata": {"labels": {"touched": "yes"}}})
    await cluster.create(train_job("later", cluster.namespace))
    await cluster.until(JOB_SET, "later")
    assert await cluster.get(JOB_SET, "job") == made, "not one field of it, the resourceVersion included"
    assert await cluster.get(CONFIG_MAP, NAME) == kept

    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": not paused}})
    job_set = await cluster.until(JOB_SET, "job", lambda found: found["spec"]["suspend"] is (not paused))
    assert image_of(job_set) == "acme/train:1"
    assert condition(await cluster.get(TRAIN_JOB, "job"), "Blocked") is None
    assert await events_about(cluster, "job") == []
    assert job["metadata"]["uid"] == snapshot["source"]["trainJob"]["uid"]


async def test_a_job_without_jobset_starts_from_its_configmap(reference: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    await left_by_reference(cluster, train_job("job", cluster.namespace), with_job_set=False)
    await cluster.delete(TRAINING_RUNTIME, "rt")
    reference.resume()
    await adopted(cluster)
    assert image_of(await cluster.until(JOB_SET, "job")) == "acme/train:1"


async def test_finished_and_foreign_jobs_are_left_alone(reference: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    _, kept, made = await left_by_reference(cluster, train_job("job", cluster.namespace))
    await finish(cluster, "job")
    managed_by = {"managedBy": "kueue.x-k8s.io/multikueue"}
    await left_by_reference(cluster, train_job("other", cluster.namespace, **managed_by))
    reference.resume()
    await left_by_reference(cluster, train_job("later", cluster.namespace))
    await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "later")
    for name in ("job", "other"):
        assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, name) is None
    assert await cluster.get(CONFIG_MAP, NAME) == kept
    assert await cluster.get(JOB_SET, "job") == made


BROKEN = [
    pytest.param({"text": "{{"}, "data['runtime'] cannot be read: line", id="not YAML"),
    pytest.param({"data": {"x": ""}}, "data has no key 'runtime'", id="no key"),
    pytest.param({"binaryData": {"runtime": "e30="}}, "binaryData has it", id="binary"),
    pytest.param({"edit": ("name: rt\n", "name: other\n")}, "of another runtime", id="another runtime"),
    pytest.param({"edit": ("numNodes: 1", "numNodes: many")}, "spec.mlPolicy.numNodes", id="a value of the wrong type"),
    pytest.param({"edit": ("numNodes: 1", "torch: []")}, "spec.mlPolicy.torch", id="a list for an object"),
    pytest.param({"edit": ("numNodes: 1", "numNodes: 1\n    nodes: 1")}, 'unknown field "spec.mlPolicy.nodes"',
                 id="a field that the schema would prune"),
]  # fmt: skip


@pytest.mark.parametrize("built", [True, False], ids=["with JobSet", "created paused"])
@pytest.mark.parametrize(("change", "want"), BROKEN)
async def test_a_broken_configmap_blocks_the_job_and_is_left_for_a_human(
    reference: Operator, cluster: Cluster, change: JSON, want: str, built: bool
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    job, _, made = await left_by_reference(
        cluster, train_job("job", cluster.namespace, suspend=not built), with_config_map=False, with_job_set=built
    )
    change = dict(change)
    whole = config_map(job, await live_runtime(cluster, job))
    if "edit" in change:
        change["text"] = whole["data"]["runtime"].replace(*change.pop("edit"))
    broken = await cluster.create(config_map(job, **change))
    reference.resume()
    message = await blocked(cluster, "LegacySnapshotInvalid")
    assert want in message
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None
    assert await cluster.get(CONFIG_MAP, NAME) == broken
    assert await cluster.find(JOB_SET, "job") == made, "the JobSet goes on, or there is none"
    events = await eventually(lambda: events_about(cluster, "job"), bool, what="an event")
    assert {reason for reason, _ in events} == {"TrainJobResourcesCreationFailed"}

    await cluster.patch(CONFIG_MAP, NAME, {"binaryData": None, "data": whole["data"]})
    await cluster.patch(TRAIN_JOB, "job", {"metadata": {"labels": {"healed": "yes"}}})
    await adopted(cluster)
    await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked") is None)


async def test_a_configmap_of_somebody_else_blocks_the_job(reference: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    job = await cluster.create(train_job("job", cluster.namespace))
    foreign = config_map(job, await live_runtime(cluster, job))
    del foreign["metadata"]["ownerReferences"]
    await cluster.create(foreign)
    reference.resume()
    assert "nobody controls it" in await blocked(cluster, "LegacySnapshotInvalid")
    assert await cluster.find(JOB_SET, "job") is None


async def test_a_job_from_before_snapshots_keeps_its_jobset(reference: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    wanted = train_job("job", cluster.namespace, suspend=True)
    _, _, made = await left_by_reference(cluster, wanted, with_config_map=False)
    await left_by_reference(cluster, train_job("same", cluster.namespace, suspend=True), with_config_map=False)
    changed = runtime_spec(image="acme/train:2")
    changed["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {
        "a": "b"
    }
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": changed})
    reference.resume()
    snapshot = await adopted(cluster, origin="LegacyJob")
    assert image_of(snapshot) == "acme/train:2"
    events = await eventually(lambda: events_about(cluster, "job"), bool, what="the difference is reported")
    ((reason, note),) = events
    assert reason == "LegacyJobDiffers"
    assert "spec.replicatedJobs[0].template.spec.template.spec.containers[0].image" in note
    assert "nodeSelector" in note
    assert await cluster.get(JOB_SET, "job") == made
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})
    job_set = await cluster.until(JOB_SET, "job", lambda found: not found["spec"]["suspend"])
    assert made is not None
    assert {**job_set["spec"], "suspend": True} == made["spec"]


async def test_what_a_runtime_has_lost_since_stays_in_a_jobset_from_before_snapshots(
    reference: Operator, cluster: Cluster
) -> None:
    """An apply would take it away on resuming, since it was applied under the name that trainsnap uses."""
    spec = runtime_spec()
    pod = spec["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod |= {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"gpu": "yes"}}
    pod["containers"][0]["env"] = [{"name": "MODE", "value": "prod"}]
    await cluster.create(runtime("rt", cluster.namespace, spec=spec))
    wanted = train_job("job", cluster.namespace, suspend=True)
    _, _, made = await left_by_reference(cluster, wanted, with_config_map=False)
    assert made is not None
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec()})
    reference.resume()
    await adopted(cluster, origin="LegacyJob")
    ((reason, note),) = await eventually(lambda: events_about(cluster, "job"), bool, what="the difference is reported")
    assert reason == "LegacyJobDiffers"
    for lost in ("tolerations", "nodeSelector", "env"):
        assert lost in note
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})
    job_set = await cluster.until(JOB_SET, "job", lambda found: not found["spec"]["suspend"])
    assert {**job_set["spec"], "suspend": True} == made["spec"]


async def test_an_unchanged_job_from_before_snapshots_has_nothing_to_report(
    reference: Operator, cluster: Cluster
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    wanted = train_job("job", cluster.namespace, suspend=True)
    _, _, made = await left_by_reference(cluster, wanted, with_config_map=False)
    assert made is not None
    reference.resume()
    await adopted(cluster, origin="LegacyJob")
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})
    job_set = await cluster.until(JOB_SET, "job", lambda found: not found["spec"]["suspend"])
    assert {**job_set["spec"], "suspend": True} == made["spec"]
    assert await events_about(cluster, "job") == []


async def test_a_job_from_before_snapshots_whose_runtime_is_gone(reference: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    _, _, made = await left_by_reference(cluster, train_job("job", cluster.namespace), with_config_map=False)
    await cluster.delete(TRAINING_RUNTIME, "rt")
    reference.resume()
    assert "'rt' does not exist" in await blocked(cluster, "RuntimeNotFound")
    assert await cluster.get(JOB_SET, "job") == made
