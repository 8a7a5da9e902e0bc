# SPDX-License-Identifier: Apache-2.0
"""JobSets that this release would build otherwise, as those of an older one are: they can be paused and resumed.

JobSet's admission freezes nearly everything of a JobSet. An operator that insists on the rest could never write such a
JobSet again, and its job would stand still for ever.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.cluster import Cluster
from support.history import events_about
from support.objects import condition, image_of, runtime, train_job
from support.operator import Operator
from support.pods import Pods, images
from support.quiet import quiet, touched
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB

pytestmark = [pytest.mark.anyio, pytest.mark.full]

JSON = dict[str, Any]
OLDER, NOW = "acme/train:built-otherwise", "acme/train:1"
STAMP = "snapshot.trainer.kubeflow.org/applied"


def built_otherwise(job_set: JSON) -> JSON:
    """A JobSet as an older release would have applied it: another image, one more variable, without our stamp."""
    meta = job_set["metadata"]
    annotations = {key: value for key, value in meta["annotations"].items() if key != STAMP}
    kept = {key: meta[key] for key in ("name", "namespace", "ownerReferences")}
    spec = copy.deepcopy(job_set["spec"])
    (container,) = template(spec)["spec"]["containers"]
    container["image"] = OLDER
    container["env"] = [*container.get("env", []), {"name": "AS_IT_WAS", "value": "1"}]
    return {
        **{k: job_set[k] for k in ("apiVersion", "kind")},
        "metadata": {**kept, "annotations": annotations},
        "spec": spec,
    }


def template(spec: JSON) -> JSON:
    """The pod template of a JobSet's first replicated job."""
    found: JSON = spec["replicatedJobs"][0]["template"]["spec"]["template"]
    return found


def frozen(job_set: JSON) -> JSON:
    """A JobSet's spec without what may change while it is suspended."""
    spec: JSON = copy.deepcopy(job_set["spec"])
    spec.pop("suspend", None)
    for owner, keys in (
        (template(spec).get("metadata", {}), ("labels", "annotations")),
        (template(spec)["spec"], ("nodeSelector", "tolerations", "schedulingGates")),
    ):
        for key in keys:
            owner.pop(key, None)
    if not template(spec).get("metadata"):
        template(spec).pop("metadata", None)
    return spec


async def replaced(operator: Operator, cluster: Cluster, *names: str) -> None:
    """While the operator is away, put JobSets in the place of its own that it would not build like that."""
    assert operator.stop() == 0
    found = [await cluster.get(JOB_SET, name) for name in names]
    for name in names:
        await cluster.delete(JOB_SET, name, propagation="Foreground")
    for name in names:
        await cluster.until_gone(JOB_SET, name)
    for job_set in found:
        await cluster.api.apply(JOB_SET, built_otherwise(job_set), field_manager="trainer")
    for name in names:
        # Else its controller's first words about it are written into the job's status whenever they come.
        await cluster.until(JOB_SET, name, taken_up)


def taken_up(job_set: JSON) -> bool:
    """Whether the controller of JobSets has made the job of a JobSet, and said so."""
    counts: JSON = ((job_set.get("status") or {}).get("replicatedJobsStatus") or [{}])[0]
    return bool(counts.get("suspended" if job_set["spec"].get("suspend") else "active"))


async def suspended(cluster: Cluster, name: str, value: bool, **spec: object) -> None:
    """Pause or resume a job; its JobSet follows."""
    await cluster.patch(TRAIN_JOB, name, {"spec": {"suspend": value, **spec}})
    await cluster.until(JOB_SET, name, lambda seen: seen["spec"]["suspend"] is value)


def patch(*, node: str, label: str) -> JSON:
    """A runtime patch over everything that JobSet lets change."""
    pod = {
        "metadata": {"labels": {"team": label}, "annotations": {"example.com/note": label}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"key": "reserved", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
    spec = {"template": {"spec": {"replicatedJobs": jobs}}}
    return {"manager": "queue.example.com/manager", "trainingRuntimeSpec": spec}


async def test_they_pause_and_resume_as_they_are(operator: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, image=NOW))
    await cluster.create(train_job("running", cluster.namespace, suspend=False))
    await cluster.create(train_job("paused", cluster.namespace, suspend=True))
    await pods.running("running")
    await cluster.until(JOB_SET, "paused")
    await replaced(operator, cluster, "running", "paused")
    before = {name: frozen(await cluster.get(JOB_SET, name)) for name in ("running", "paused")}
    await pods.running("running")
    operator.start()

    await suspended(cluster, "running", True)
    await pods.gone("running")
    for node, label in (("gpu-0", "one"), ("gpu-1", "two")):
        for name in ("running", "paused"):
            await suspended(cluster, name, False, runtimePatches=[patch(node=node, label=label)])
            (pod,) = await pods.running(name)
            assert images([pod]) == {OLDER}
            assert pod["spec"]["nodeName"] == node
            assert pod["metadata"]["labels"]["team"] == label
            assert pod["metadata"]["annotations"]["example.com/note"] == label
            assert any(toleration.get("key") == "reserved" for toleration in pod["spec"]["tolerations"])
            await suspended(cluster, name, True)
            await pods.gone(name)
    for name in ("running", "paused"):
        assert frozen(await cluster.get(JOB_SET, name)) == before[name]
        await suspended(cluster, name, False)
        await pods.running(name)
        await pods.finish(name)
        done = await cluster.until(TRAIN_JOB, name, lambda seen: condition(seen, "Complete"))
        assert [c["type"] for c in done["status"]["conditions"]] == ["Suspended", "Complete"], "never blocked"


async def test_the_difference_is_told_once_and_nothing_is_written_again(operator: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, image=NOW))
    await cluster.create(train_job("job", cluster.namespace, suspend=True))
    await cluster.until(JOB_SET, "job")
    await replaced(operator, cluster, "job")
    operator.start()
    kept = await cluster.until(JOB_SET, "job", lambda seen: STAMP in seen["metadata"].get("annotations", {}))
    assert image_of(kept) == OLDER
    await quiet(operator)
    writes = operator.writes()
    for _ in range(5):
        await touched(operator, cluster, "job")
    assert operator.writes() == writes, "a paused job"
    await suspended(cluster, "job", False)
    await pods.running("job")
    await cluster.until(TRAIN_JOB, "job", lambda seen: seen["status"]["jobsStatus"][0]["ready"] == 1)
    await quiet(operator)
    writes = operator.writes()
    for _ in range(5):
        await touched(operator, cluster, "job")
    assert operator.writes() == writes, "a running job"
    assert operator.stop() == 0
    operator.start()
    await quiet(operator, after=1)
    assert operator.writes() == 0, "after a restart"
    told = await events_about(cluster, "job")
    assert {reason for reason, _ in told} == {"JobSetKept"}
    assert all("containers[0].image" in note for _, note in told)
