# SPDX-License-Identifier: Apache-2.0
"""What the command decides about one job, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trainsnap_controller.migration.decide import Result, Rules, left_alone, to_hand_back, to_migrate, verified
from trainsnap_controller.migration.facts import Facts
from trainsnap_controller.migration.handback import yaml_text
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.registry import standard
from trainsnap_controller.snapshot.document import Origin, snapshot_of

JSON = dict[str, Any]
RULES = Rules(before=datetime(2026, 1, 5, tzinfo=UTC), now=datetime(2026, 1, 6, tzinfo=UTC))
OLD, LATER = "2026-01-04T23:59:59Z", "2026-01-05T00:00:00Z"


def spec(image: str = "acme/train:1") -> JSON:
    label = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    pod = {"containers": [{"name": "node", "image": image}]}
    node = {"name": "node", "groupName": "default", "replicas": 1,
            "template": {"metadata": {"labels": label}, "spec": {"template": {"spec": pod}}}}  # fmt: skip
    return {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}}


def job(
    *, created: str = OLD, kind: str = "TrainingRuntime", group: str = "trainer.kubeflow.org", **fields: Any
) -> Job:
    metadata = {
        "name": "job",
        "namespace": "ns",
        "uid": "u1",
        "creationTimestamp": created,
        **fields.pop("metadata", {}),
    }
    reference = {"apiGroup": group, "kind": kind, "name": "rt"}
    return Job.from_json({"metadata": metadata, "spec": {"runtimeRef": reference, **fields.pop("spec", {})}, **fields})


def runtime(view: Job, image: str = "acme/train:1") -> JSON:
    reference = view.runtime_ref
    return {"apiVersion": f"{reference.api_group}/v1alpha1", "kind": reference.kind, "metadata": {"name": "rt"},
            "spec": spec(image)}  # fmt: skip


def config_map(view: Job, *, created: str = OLD, uid: str = "u1", text: str | None = None) -> JSON:
    reference = {**view.owner_reference, "uid": uid}
    metadata = {"name": "job-runtime-snapshot", "namespace": "ns", "uid": "c1", "resourceVersion": "7",
                "creationTimestamp": created, "ownerReferences": [reference]}  # fmt: skip
    return {"metadata": metadata, "data": {"runtime": yaml_text(runtime(view)) if text is None else text}}


def snapshot(view: Job, image: str = "acme/train:1", **changes: Any) -> JSON:
    made = snapshot_of(view, runtime(view, image), origin=Origin.CONFIG_MAP, captured_at=RULES.now)
    return {**made, **changes}


@pytest.mark.parametrize(
    ("view", "want"),
    [
        pytest.param(job(), None, id="an unfinished job"),
        pytest.param(job(metadata={"deletionTimestamp": OLD}), "being deleted", id="a job being deleted"),
        pytest.param(job(spec={"managedBy": "kueue.x-k8s.io/multikueue"}), "managedBy", id="a job of another operator"),
        pytest.param(job(status={"conditions": [{"type": "Complete", "status": "True"}]}), "finished", id="finished"),
    ],
)
def test_jobs_that_are_left_alone(view: Job, want: str | None) -> None:
    found = left_alone(view)
    assert (found is None) == (want is None)
    assert found is None or (found.result is Result.NOTHING and want is not None and want in found.detail)


J = job()
SLURM = job(kind="SlurmRuntime", group="acme.org")


@pytest.mark.parametrize(
    ("facts", "result", "want"),
    [
        pytest.param(Facts(J, config_map(J)), Result.TODO, "snapshot from the ConfigMap", id="to be migrated"),
        pytest.param(Facts(J), Result.NOTHING, "no ConfigMap", id="nothing to migrate from"),
        pytest.param(Facts(J, None, snapshot(J)), Result.DONE, "origin ConfigMap", id="only a snapshot"),
        pytest.param(Facts(J, config_map(J), snapshot(J)), Result.DONE, "equal to the ConfigMap", id="migrated"),
        pytest.param(Facts(J, config_map(J), snapshot(J, "x")), Result.PROBLEM, "other content", id="other content"),
        pytest.param(
            Facts(J, config_map(J), snapshot(J, source={})), Result.PROBLEM, "not made by", id="a foreign one"
        ),
        pytest.param(Facts(job(created=LATER), config_map(J)), Result.NOTHING, "the job is not from", id="a later job"),
        pytest.param(
            Facts(J, config_map(J, created=LATER)), Result.NOTHING, "the ConfigMap is not from", id="a later ConfigMap"
        ),
        pytest.param(Facts(J, config_map(J, uid="u0")), Result.PROBLEM, "uid u0", id="an earlier job's"),
        pytest.param(Facts(J, config_map(J, text="{{")), Result.PROBLEM, "cannot be read", id="not YAML"),
        pytest.param(
            Facts(SLURM, config_map(SLURM)), Result.PROBLEM, "SlurmRuntime.acme.org is not", id="unknown kind"
        ),
    ],
)
def test_what_apply_does(facts: Facts, result: Result, want: str) -> None:
    step = to_migrate(facts, RULES)
    assert step.result is result
    assert want in step.detail
    assert (step.document is not None) == (result is Result.TODO)


def test_a_configured_kind_is_migrated_as_opaque() -> None:
    rules = Rules(before=RULES.before, now=RULES.now, opaque_kinds=["SlurmRuntime.acme.org"])
    step = to_migrate(Facts(SLURM, config_map(SLURM)), rules)
    assert step.document is not None
    assert step.document["opaque"] == {"spec": {"spec": spec()}}
    assert to_hand_back(Facts(SLURM, None, step.document)).result is Result.NOTHING


@pytest.mark.parametrize(
    ("facts", "result", "want"),
    [
        pytest.param(Facts(J, config_map(J), snapshot(J)), Result.DONE, "the same objects", id="equal"),
        pytest.param(Facts(J, None, snapshot(J)), Result.NOTHING, "no ConfigMap", id="nothing to compare"),
        pytest.param(Facts(J, config_map(J)), Result.PROBLEM, "no snapshot yet", id="not migrated"),
        pytest.param(Facts(J), Result.PROBLEM, "neither ConfigMap nor snapshot", id="neither"),
        pytest.param(
            Facts(J, config_map(J), snapshot(J, "x")),
            Result.PROBLEM,
            'template.spec.containers[0].image: was changed from "acme/train:1" to "x"',
            id="another image",
        ),
        pytest.param(Facts(J, config_map(J, text="a"), snapshot(J)), Result.PROBLEM, "cannot be used", id="broken"),
        pytest.param(Facts(J, config_map(J), snapshot(J, source={})), Result.PROBLEM, "not made by", id="foreign"),
    ],
)  # fmt: skip
def test_what_verify_finds(facts: Facts, result: Result, want: str) -> None:
    step = verified(facts, standard())
    assert step.result is result
    assert want in step.detail


@pytest.mark.parametrize(
    ("facts", "result", "want"),
    [
        pytest.param(Facts(J, None, snapshot(J)), Result.TODO, "ConfigMap from the snapshot", id="made since"),
        pytest.param(Facts(J, config_map(J), snapshot(J)), Result.DONE, "equal to the snapshot", id="still there"),
        pytest.param(
            Facts(J, config_map(J, text="{{"), snapshot(J)), Result.TODO, "over the one", id="its own, broken"
        ),
        pytest.param(Facts(J, config_map(J), snapshot(J, "x")), Result.TODO, "other content", id="its own, different"),
        pytest.param(Facts(J, config_map(J, uid="u9"), snapshot(J)), Result.PROBLEM, "somebody else", id="foreign"),
        pytest.param(Facts(J, config_map(J)), Result.DONE, "its ConfigMap is there", id="never migrated"),
        pytest.param(
            Facts(J, config_map(J, text="{{")), Result.PROBLEM, "no snapshot, and the ConfigMap", id="only a broken one"
        ),
        pytest.param(
            Facts(J, config_map(J, uid="u0")), Result.PROBLEM, "controlled by TrainJob job", id="only an earlier job's"
        ),
        pytest.param(Facts(J), Result.PROBLEM, "the reference will take the live runtime", id="neither"),
    ],
)
def test_what_rollback_does(facts: Facts, result: Result, want: str) -> None:
    step = to_hand_back(facts)
    assert step.result is result
    assert want in step.detail
    assert (step.document is not None) == (result is Result.TODO)
