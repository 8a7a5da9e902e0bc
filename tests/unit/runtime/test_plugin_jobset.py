# SPDX-License-Identifier: Apache-2.0
"""The JobSet: when it is written, initializers, overrides, metadata, and the rules of updates."""

from __future__ import annotations

from typing import Any

import pytest

from support.building import (
    box,
    container,
    documents,
    env,
    job,
    job_set,
    observed,
    patch,
    plan,
    pod_patch,
    rjob,
    rjobs,
    rules,
    runtime,
)
from trainsnap_api.transport.resources import JOB_SET
from trainsnap_controller.runtime.errors import BuildError

JSON = dict[str, Any]


def live(*, suspend: bool | None = None, **status: Any) -> JSON:
    spec = {} if suspend is None else {"suspend": suspend}
    return {"metadata": {"name": "alpha", "namespace": "team"}, "spec": spec, "status": status}


WRITTEN = [
    pytest.param(None, False, True, id="absent"),
    pytest.param(None, True, True, id="absent, job paused"),
    pytest.param(live(suspend=False), False, False, id="running, job runs: left alone"),
    pytest.param(live(), None, False, id="no word about suspend on either side counts as running"),
    pytest.param(live(suspend=False), True, True, id="running, job paused: pauses"),
    pytest.param(live(suspend=True), False, True, id="paused, job runs: resumes"),
    pytest.param(live(suspend=True), True, True, id="paused, job paused: kept fresh"),
]


@pytest.mark.parametrize(("existing", "suspend", "want"), WRITTEN)
def test_when_it_is_written(existing: JSON | None, suspend: bool | None, want: bool) -> None:
    a_job = job(suspend=suspend) if suspend is not None else job()
    seen = observed((JOB_SET, existing)) if existing else None
    assert ("JobSet/alpha" in documents(a_job, runtime(), seen)) is want


def test_owner_metadata_and_suspend() -> None:
    spec = runtime(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}}, suspend=True)

    got = plan(job(), spec).components[-1].document()

    assert got["metadata"] == {
        "name": "alpha",
        "namespace": "team",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "ownerReferences": [
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "name": "alpha",
                "uid": "uid-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert got["spec"]["suspend"] is False


def test_annotations_of_the_caller_go_on_the_job_set() -> None:
    from trainsnap_controller.runtime.observed import Observed
    from trainsnap_controller.runtime.registry import standard

    built = standard().build(job(), runtime(metadata={"annotations": {"c": "d"}}), Observed(), annotations={"x/y": "z"})

    assert built.components[-1].document()["metadata"]["annotations"] == {"c": "d", "x/y": "z"}


def test_a_step_of_the_job_runs_once_and_a_helper_keeps_its_copies() -> None:
    jobs = [rjob("node"), rjob("ps", ancestor=None), rjob("zero", ancestor=None)]
    for item, replicas in zip(jobs, (1, 3, 0), strict=True):
        item["replicas"] = replicas
    got = rjobs(job(), runtime(*jobs))
    assert {name: item["replicas"] for name, item in got.items()} == {"node": 1, "ps": 3, "zero": 0}


def test_completions_follow_parallelism_everywhere() -> None:
    helper = rjob("helper", ancestor=None)
    helper["template"]["spec"] |= {"parallelism": 2, "completions": 10}
    got = rjobs(job({"numNodes": 4}), runtime(rjob(), helper, ml={"numNodes": 2}))
    counts = {name: (s["parallelism"], s["completions"]) for name, s in _job_specs(got).items()}
    assert counts == {"node": (4, 4), "helper": (2, 2)}


def _job_specs(items: dict[str, JSON]) -> dict[str, JSON]:
    return {name: item["template"]["spec"] for name, item in items.items()}


OVERRIDES: list[Any] = [
    pytest.param({}, {"image": "acme/train:1", "command": ["a"], "args": ["b"]}, id="nothing given"),
    pytest.param({"image": "x"}, {"image": "x", "command": ["a"], "args": ["b"]}, id="image"),
    pytest.param({"args": []}, {"image": "acme/train:1", "command": ["a"]}, id="an emptied list takes it away"),
    pytest.param(
        {"command": ["c", ""]}, {"image": "acme/train:1", "command": ["c", ""], "args": ["b"]}, id="a list as a whole"
    ),
]


@pytest.mark.parametrize(("trainer", "want"), OVERRIDES)
def test_overrides_of_the_trainer(trainer: JSON, want: JSON) -> None:
    spec = runtime(rjob("node", box(command=["a"], args=["b"]), box("side", command=["s"])))
    got = container(job(trainer), spec)
    assert {key: value for key, value in got.items() if key not in ("name", "resources")} == want
    assert container(job(trainer), spec, "side")["command"] == ["s"]


def initializers() -> list[JSON]:
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    data = rjob(
        "dataset-initializer",
        box(
            "dataset-initializer",
            env=[{"name": "STORAGE_URI", "value": "old"}, {"name": "B", "value": "1"}],
            envFrom=[{"configMapRef": {"name": "c"}}],
            volumeMounts=mounts,
        ),
        ancestor="dataset-initializer",
    )
    model = rjob(
        "model-initializer", box("model-initializer", volumeMounts=mounts), ancestor="model-initializer", volumes=[]
    )
    return [data, model]


def test_initializers() -> None:
    a_job = job(
        initializer={
            "dataset": {"storageUri": "s3://b/d", "env": [{"name": "A", "value": "2"}], "secretRef": {"name": "s"}},
            "model": {"env": [{"name": "STORAGE_URI", "value": "mine"}], "storageUri": ""},
        }
    )
    spec = runtime(*initializers(), rjob())

    data = container(a_job, spec, "dataset-initializer", "dataset-initializer")
    model = container(a_job, spec, "model-initializer", "model-initializer")

    assert env(data) == {"STORAGE_URI": "s3://b/d", "B": "1", "A": "2"}
    assert data["envFrom"] == [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]
    assert env(model) == {"STORAGE_URI": "mine"}
    assert rules(a_job, spec) == []


MISSING: list[Any] = [
    pytest.param([rjob()], "must have a replicated job named 'dataset-initializer'", id="job"),
    pytest.param(
        [rjob("dataset-initializer", ancestor=None)], "must have a container of the same name", id="container"
    ),
    pytest.param(
        [rjob("dataset-initializer", box("dataset-initializer"), ancestor=None)], "must mount a volume", id="mount"
    ),
]


@pytest.mark.parametrize(("jobs", "want"), MISSING)
def test_what_an_initializer_needs(jobs: list[JSON], want: str) -> None:
    (rule,) = rules(job(initializer={"dataset": {}}), runtime(*jobs))
    assert rule.startswith("spec.runtimeRef: Invalid value") and want in rule


def test_a_replicated_job_without_containers_is_named() -> None:
    empty = rjob("node")
    empty["template"]["spec"]["template"]["spec"]["containers"] = []
    with pytest.raises(BuildError, match=r"replicatedJobs\[node\].*containers: must have at least one container"):
        plan(job(), runtime(empty))
    assert "must have at least one container" in rules(job(), runtime(empty))[0]


@pytest.mark.parametrize("spec", [None, {}, {"mlPolicy": {}}, {"template": {"spec": {"replicatedJobs": []}}}], ids=str)
def test_a_runtime_without_jobs_gives_an_empty_job_set(spec: JSON | None) -> None:
    from trainsnap_controller.runtime.observed import Observed
    from trainsnap_controller.runtime.registry import standard

    (component,) = standard().build(job({"numNodes": 2}), spec, Observed()).components
    assert component.document()["spec"] == {"suspend": False}


CHANGE = [patch(pod_patch(nodeSelector={"a": "b"}))]
ACTIVE = live(suspend=True, replicatedJobsStatus=[{"name": "node", "active": 2}, {"name": "idle", "active": 0}])
UPDATES = [
    pytest.param(False, False, None, 1, id="running before and after"),
    pytest.param(True, True, None, 0, id="paused"),
    pytest.param(True, False, None, 0, id="paused before"),
    pytest.param(False, True, None, 0, id="paused after"),
    pytest.param(True, True, ACTIVE, 1, id="pods are still active"),
]


@pytest.mark.parametrize(("before", "after", "existing", "want"), UPDATES)
def test_when_patches_may_change(before: bool, after: bool, existing: JSON | None, want: int) -> None:
    seen = observed((JOB_SET, existing)) if existing else None
    old, new = job(suspend=before), job(suspend=after, runtimePatches=CHANGE)

    got = rules(new, runtime(), seen, old)

    assert len(got) == want
    assert all(rule.startswith("spec.runtimePatches: Forbidden: ") for rule in got)
    assert rules(new, runtime(), seen, new) == []


def test_everything_else_of_the_template_passes_through() -> None:
    extra: JSON = {
        "network": {"enableDNSHostnames": True, "subdomain": "mesh"},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["node"]},
        "ttlSecondsAfterFinished": 0,
        "managedBy": "kueue.x-k8s.io/multikueue",
    }
    got = job_set(job(), runtime(**extra))["spec"]
    assert {key: got[key] for key in extra} == extra
