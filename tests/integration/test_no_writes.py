# SPDX-License-Identifier: Apache-2.0
"""When nothing changed, nothing is written: not after a restart, not when jobs are looked at again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support.cluster import Cluster
from support.objects import condition, replicated_job, runtime, runtime_spec, train_job
from support.operator import Operator
from support.quiet import quiet, touched
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
EACH = 4
STATES = ("running", "paused", "resumed", "complete", "failed", "late", "blocked")
KINDS = (TRAIN_JOB, JOB_SET, TRAINING_RUNTIME_SNAPSHOT, TRAINING_RUNTIME)
READY = [{"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}]


def with_everything() -> JSON:
    """The spec of a runtime with fields that the API server writes otherwise than they were sent, or gives defaults."""
    spec = runtime_spec(
        torch=True,
        num_nodes=2,
        env=[
            {"name": "A", "value": ""},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}},
        ports=[{"containerPort": 8080}, {"containerPort": 8080, "protocol": "UDP"}],
        livenessProbe={"httpGet": {"port": 8080}},
    )
    job_set = spec["template"]["spec"]
    job_set["network"] = {"enableDNSHostnames": True}
    job_set["replicatedJobs"].insert(0, replicated_job("aside", image="acme/aside:1", trainer=False))
    job_set["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["tolerations"] = [{"key": "gpu"}]
    return spec


async def all_states(cluster: Cluster) -> list[str]:
    """Jobs in every state that a job can be in for long, several of each; returns their names."""
    names = {state: [f"{state}-{number}" for number in range(EACH)] for state in STATES}
    await cluster.create(runtime("rt", cluster.namespace, spec=with_everything()))
    for state, jobs in names.items():
        spec: JSON = {"trainer": {"numNodes": 2, "env": [{"name": "E", "value": "1"}]}}
        if state in ("paused", "resumed", "late"):
            spec["suspend"] = True
        if state == "late":
            spec["activeDeadlineSeconds"] = 1
        for name in jobs:
            if state == "blocked":
                await cluster.create(somebody_elses(name, cluster.namespace))
            await cluster.create(train_job(name, cluster.namespace, **spec))
    for state in STATES[:-2]:
        for name in names[state]:
            await cluster.until(JOB_SET, name)
    for name in [*names["resumed"], *names["late"]]:
        await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Suspended"))
        await cluster.patch(TRAIN_JOB, name, {"spec": {"suspend": False}})
        await cluster.until(TRAIN_JOB, name, lambda seen: seen["status"]["conditions"][0]["status"] == "False")
    # No JobSet controller runs here: we say what it would.
    for name in names["running"]:
        await job_set_says(cluster, name, {"replicatedJobsStatus": READY, "restarts": 0})
        await cluster.until(TRAIN_JOB, name, lambda seen: (seen.get("status") or {}).get("jobsStatus"))
    for state, kind, ours in (("complete", "Completed", "Complete"), ("failed", "Failed", "Failed")):
        for name in names[state]:
            await job_set_says(cluster, name, {"conditions": [finished(kind)]})
            await cluster.until(TRAIN_JOB, name, lambda seen, ours=ours: condition(seen, ours))  # type: ignore[misc]
    for name in names["late"]:
        await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Failed"))
        await cluster.until_gone(JOB_SET, name)
    for name in names["blocked"]:
        await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Blocked"))
    return [name for jobs in names.values() for name in jobs]


def somebody_elses(name: str, namespace: str) -> JSON:
    """A JobSet that stands in the way of a job of its name."""
    spec = {"replicatedJobs": [replicated_job("x", trainer=False)]}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": JOB_SET.api_version, "kind": JOB_SET.kind, "metadata": metadata, "spec": spec}


async def job_set_says(cluster: Cluster, name: str, status: JSON) -> None:
    """Write a JobSet's status as its controller would."""
    await cluster.patch(JOB_SET, name, {"status": status}, subresource="status")


def finished(kind: str) -> JSON:
    """A terminal condition of a JobSet."""
    time = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": "True", "reason": "Why", "message": "so", "lastTransitionTime": time}


async def versions(cluster: Cluster) -> dict[str, str]:
    """The resourceVersion of every object of the namespace that concerns us."""
    found = {}
    for kind in KINDS:
        for item in (await cluster.api.list(kind, cluster.namespace)).items:
            found[f"{kind.kind} {item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found


async def test_a_restart_and_a_second_look_write_nothing(
    operator: Operator, cluster: Cluster, local_plane: Plane
) -> None:
    names = await all_states(cluster)
    well = [name for name in names if not name.startswith("blocked")]
    await quiet(operator)
    before = await versions(cluster)
    kinds = Counter(key.partition(" ")[0] for key in before)
    assert kinds == {
        "TrainingRuntime": 1,
        "TrainJob": len(names),
        "TrainingRuntimeSnapshot": len(names) - EACH,  # Blocked jobs have none,
        "JobSet": len(names) - EACH,  # and late ones have no JobSet any more.
    }

    assert operator.stop() == 0
    already = written(local_plane, cluster)
    operator.start()
    await quiet(operator, after=len(well))
    assert await versions(cluster) == before
    assert operator.writes() == 0
    assert written(local_plane, cluster) == already

    await touched(operator, cluster, *well)
    seen = await versions(cluster)
    assert [key for key in before if seen[key] != before[key] and not key.startswith("TrainJob ")] == []
    assert operator.writes() == 0, "a look at a job that did not change but for a label"
    assert written(local_plane, cluster) == already

    # Somebody else's fields on our objects are his, and no reason to write.
    for name in names:
        if f"JobSet {name}" in before:
            await cluster.patch(JOB_SET, name, {"metadata": {"labels": {"theirs": "yes"}, "annotations": {"x": "y"}}})
    await touched(operator, cluster, *well)
    assert operator.writes() == 0
    assert written(local_plane, cluster) == already


def written(plane: Plane, cluster: Cluster) -> list[str]:
    """The operator's writes in the namespace as the API server has logged them, events apart.

    The log of a request is written before its answer.
    """
    return [
        f"{entry['verb']} {entry['objectRef']['resource']}/{entry['objectRef'].get('name')}"
        for entry in plane.audit()
        if entry["user"]["username"] == "system:serviceaccount:kubeflow-system:trainsnap"
        and entry["verb"] not in ("get", "list", "watch")
        and (entry.get("objectRef") or {}).get("namespace") == cluster.namespace
        and entry["objectRef"]["resource"] != "events"
    ]
