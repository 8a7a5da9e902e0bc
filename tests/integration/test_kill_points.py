# SPDX-License-Identifier: Apache-2.0
"""The operator dies by SIGKILL at the worst moments; started again, it ends in the state of a job it had in peace."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.killpoint import Write, before
from support.objects import condition, image_of, runtime, runtime_spec, train_job
from support.operator import Operator
from support.plane import Target
from support.quiet import quiet
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
SNAPSHOT = Write(TRAINING_RUNTIME_SNAPSHOT, "CREATE")
CREATE = Write(JOB_SET, "CREATE")
UPDATE = Write(JOB_SET, "UPDATE")
DELETE = Write(JOB_SET, "DELETE")
STATUS = Write(TRAIN_JOB, "UPDATE", "status")


@pytest.fixture(autouse=True)
def _reachable(local_plane: Plane) -> None:
    """The API server has to reach a webhook on the loopback interface of this machine."""


async def end_state(cluster: Cluster, name: str) -> JSON:
    """All that the operator has written for a job, without names, uids and times."""
    job = await cluster.get(TRAIN_JOB, name)
    job_set, snapshot = await cluster.find(JOB_SET, name), await cluster.find(TRAINING_RUNTIME_SNAPSHOT, name)
    source = copy.deepcopy(snapshot["source"]) if snapshot else {}
    if snapshot:
        assert source.pop("trainJob") == {"name": name, "uid": job["metadata"]["uid"]}
        del source["capturedAt"]
    status = copy.deepcopy(job.get("status") or {})
    for item in status.get("conditions", []):
        del item["lastTransitionTime"]
    annotations = dict(job_set["metadata"].get("annotations", {})) if job_set else {}
    annotations.pop("snapshot.trainer.kubeflow.org/applied", None)  # It is over the whole document, names included.
    return {
        "snapshot": snapshot and snapshot.get("spec"),
        "source": source,
        "job set": job_set and job_set["spec"],
        "annotations": annotations,
        "status": status,
        "owned": [belongs_to(job, child) for child in (job_set, snapshot)],
    }


def belongs_to(job: JSON, child: JSON | None) -> bool:
    """Whether a child is there and has the job for its one owner."""
    return child is not None and [owner["uid"] for owner in child["metadata"]["ownerReferences"]] == [
        job["metadata"]["uid"]
    ]


async def settled(cluster: Cluster, name: str, *, suspend: bool) -> None:
    """Await that a job stands as its spec asks."""
    await cluster.until(JOB_SET, name, lambda seen: bool(seen["spec"].get("suspend")) is suspend)
    if suspend:
        await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Suspended"))


@pytest.mark.parametrize(
    ("write", "left"),
    [
        pytest.param(SNAPSHOT, [], id="before the snapshot"),
        pytest.param(CREATE, [TRAINING_RUNTIME_SNAPSHOT], id="between snapshot and JobSet"),
        pytest.param(STATUS, [TRAINING_RUNTIME_SNAPSHOT, JOB_SET], id="between JobSet and status"),
    ],
)
async def test_killed_while_a_job_starts(
    operator: Operator, cluster: Cluster, tmp_path: Path, write: Write, left: list[object]
) -> None:
    # A paused job, since a running one has nothing in its status until pods run.
    await cluster.create(runtime("rt", cluster.namespace, env=[{"name": "A", "value": "1"}]))
    await cluster.create(train_job("twin", cluster.namespace, suspend=True))
    await settled(cluster, "twin", suspend=True)
    async with before(write, cluster, operator.kill, folder=tmp_path) as point:
        await cluster.create(train_job("job", cluster.namespace, suspend=True))
        await point.until_reached()
        assert not operator.running
        assert len(point.requests) == 1
        there = [r for r in (TRAINING_RUNTIME_SNAPSHOT, JOB_SET) if await cluster.find(r, "job") is not None]
        assert there == left
        assert "status" not in await cluster.get(TRAIN_JOB, "job")
    operator.start()
    await settled(cluster, "job", suspend=True)
    await quiet(operator)
    assert await end_state(cluster, "job") == await end_state(cluster, "twin")


async def test_the_runtime_changes_between_death_and_birth(
    operator: Operator, cluster: Cluster, plane: Target, tmp_path: Path
) -> None:
    """Once the snapshot is stored it decides, even if nothing was built from it yet."""
    path = TRAINING_RUNTIME.path(cluster.namespace, "rt")
    edit = {"spec": runtime_spec(image="acme/train:new")}

    def edit_and_kill() -> None:
        # The operator still answers for its admission webhooks; dead, it would not.
        plane.client().request("PATCH", path, edit, content_type="application/merge-patch+json")
        operator.kill()

    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:old"))
    async with before(CREATE, cluster, edit_and_kill, folder=tmp_path) as point:
        await cluster.create(train_job("edited", cluster.namespace))
        await point.until_reached()
    assert image_of(await cluster.get(TRAINING_RUNTIME, "rt")) == "acme/train:new"
    snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "edited")
    operator.start()
    assert image_of(await cluster.until(JOB_SET, "edited")) == "acme/train:old"
    assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "edited") == snapshot


async def test_killed_while_a_job_is_resumed(operator: Operator, cluster: Cluster, tmp_path: Path) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    for name in ("twin", "job"):
        await cluster.create(train_job(name, cluster.namespace, suspend=True))
        await settled(cluster, name, suspend=True)
    resume = {"spec": {"suspend": False}}
    await cluster.patch(TRAIN_JOB, "twin", resume)
    await cluster.until(TRAIN_JOB, "twin", lambda seen: seen["status"]["conditions"][0]["status"] == "False")
    async with before(UPDATE, cluster, operator.kill, folder=tmp_path) as point:
        await cluster.patch(TRAIN_JOB, "job", resume)
        await point.until_reached()
    operator.start()
    await settled(cluster, "job", suspend=False)
    await cluster.until(TRAIN_JOB, "job", lambda seen: seen["status"]["conditions"][0]["status"] == "False")
    await quiet(operator)
    assert await end_state(cluster, "job") == await end_state(cluster, "twin")


def is_late(request: JSON) -> bool:
    """Of the status writes, the one that records the deadline; every deletion."""
    return request["operation"] == "DELETE" or condition(request["object"], "Failed") is not None


@pytest.mark.parametrize("write", [STATUS, DELETE], ids=["before it is recorded", "before the JobSet is deleted"])
async def test_killed_at_the_deadline(operator: Operator, cluster: Cluster, tmp_path: Path, write: Write) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    for name in ("twin", "job"):
        await cluster.create(train_job(name, cluster.namespace, suspend=True, activeDeadlineSeconds=1))
        await settled(cluster, name, suspend=True)
    await cluster.patch(TRAIN_JOB, "twin", {"spec": {"suspend": False}})
    await cluster.until(TRAIN_JOB, "twin", lambda seen: condition(seen, "Failed"))
    await cluster.until_gone(JOB_SET, "twin")
    async with before(write, cluster, operator.kill, folder=tmp_path, when=is_late) as point:
        await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})
        await point.until_reached()
        assert await cluster.find(JOB_SET, "job") is not None
    operator.start()
    await cluster.until_gone(JOB_SET, "job")
    await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Failed"))
    await quiet(operator)
    assert await end_state(cluster, "job") == await end_state(cluster, "twin")


async def test_a_refused_status_alone_heals(operator: Operator, cluster: Cluster, tmp_path: Path) -> None:
    """The same moment without the death: what was not stored is written once it may be."""
    await cluster.create(runtime("rt", cluster.namespace))
    async with before(STATUS, cluster, lambda: None, folder=tmp_path) as point:
        await cluster.create(train_job("job", cluster.namespace, suspend=True))
        await point.until_reached()
    await settled(cluster, "job", suspend=True)
