# SPDX-License-Identifier: Apache-2.0
"""What the command decides about one job, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

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
        pytest.param(Facts(J), Result.TODO, "by the operator: there is no ConfigMap", id="from before snapshots"),
        pytest.param(
            Facts(J, runtime_gone=True), Result.PROBLEM, "TrainingRuntime rt does not exist", id="its runtime is gone"
        ),
        pytest.param(Facts(SLURM), Result.PROBLEM, "SlurmRuntime.acme.org is not", id="unknown kind, no ConfigMap"),
        pytest.param(Facts(J, None, snapshot(J)), Result.DONE, "origin ConfigMap", id="only a snapshot"),
        pytest.param(Facts(J, config_map(J), snapshot(J)), Result.DONE, "equal to the ConfigMap", id="migrated"),
        pytest.param(Facts(J, config_map(J), snapshot(J, "x")), Result.PROBLEM, "other content", id="other content"),
        pytest.param(
            Facts(J, config_map(J), snapshot(J, source={})), Result.PROBLEM, "not made by", id="a foreign one"
        ),
        pytest.param(Facts(job(created=LATER), config_map(J)), Result.PROBLEM, "the job is not from", id="a later job"),
        pytest.param(
            Facts(J, config_map(J, created=LATER)), Result.PROBLEM, "the ConfigMap is not from", id="a later ConfigMap"
        ),
        pytest.param(
            Facts(J, config_map(J, created=LATER, uid="u0")),
            Result.NOTHING,
            "does not count",
            id="a stranger's later one",
        ),
        pytest.param(
            Facts(J, config_map(J, created=LATER), snapshot(J)), Result.DONE, "equal to the", id="written beside it"
        ),
        pytest.param(
            Facts(J, config_map(J, created=LATER), snapshot(J, "x")),
            Result.PROBLEM,
            "other content than the ConfigMap",
            id="later than its snapshot, and other content",
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
    assert (step.document is not None) == (result is Result.TODO and facts.config_map is not None)


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
        pytest.param(Facts(J), Result.NOTHING, "neither ConfigMap nor snapshot", id="neither"),
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


CONTAINER = ("template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0)
POD, JOB = CONTAINER[:-2], CONTAINER[:6]
MORE = [
    pytest.param((*CONTAINER, "args"), ["--lr=99"], id="arguments"),
    pytest.param((*CONTAINER, "command"), ["sleep"], id="a command"),
    pytest.param((*CONTAINER, "env"), [{"name": "MODE", "value": "prod"}], id="variables"),
    pytest.param((*CONTAINER, "resources"), {"limits": {"cpu": "1"}}, id="resources"),
    pytest.param((*CONTAINER, "securityContext"), {"privileged": True}, id="privileges"),
    pytest.param((*POD, "hostNetwork"), True, id="the host's network"),
    pytest.param((*POD, "tolerations"), [{"operator": "Exists"}], id="tolerations"),
    pytest.param((*POD, "nodeSelector"), {"gpu": "yes"}, id="nodes"),
    pytest.param((*JOB, "backoffLimit"), 0, id="a zero that is not the default"),
    pytest.param(("mlPolicy", "torch"), {}, id="another framework"),
    pytest.param(("podGroupPolicy",), {"coscheduling": {}}, id="a gang"),
]


def with_more(place: tuple[Any, ...], value: Any) -> JSON:
    whole: Any = spec()
    holder = whole
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    return cast("JSON", whole)


@pytest.mark.parametrize("side", ["snapshot", "ConfigMap"])
@pytest.mark.parametrize(("place", "value"), MORE)
def test_more_on_one_side_is_not_equal_whichever_it_is(place: tuple[Any, ...], value: Any, side: str) -> None:
    """No server has looked at one for the other: nothing that is there in addition is a default."""
    more = {**runtime(J), "spec": with_more(place, value)}
    kept, written = (more, runtime(J)) if side == "snapshot" else (runtime(J), more)
    taken = snapshot_of(J, kept, origin=Origin.RUNTIME, captured_at=RULES.now)
    facts = Facts(J, config_map(J, text=yaml_text(written)), taken)
    for step in (to_migrate(facts, RULES), verified(facts, standard())):
        assert step.result is Result.PROBLEM
        assert str(place[-1]) in step.detail
    assert to_hand_back(facts).result is Result.TODO, "going back, it gets what it runs with"


def test_defaults_of_our_schema_on_one_side_are_no_difference() -> None:
    shorter = runtime(J)
    node = shorter["spec"]["template"]["spec"]["replicatedJobs"][0]
    assert (node.pop("replicas"), node.pop("groupName")) == (1, "default")
    facts = Facts(J, config_map(J, text=yaml_text(shorter)), snapshot(J))
    assert verified(facts, standard()).result is Result.DONE
    assert to_migrate(facts, RULES).result is Result.DONE
    assert to_hand_back(facts).result is Result.DONE


def test_a_default_that_a_newer_schema_shows_on_the_snapshot_is_no_difference() -> None:
    shown = snapshot(J)
    shown["spec"] = with_more((*POD, "appeared"), "by default")
    facts = Facts(J, config_map(J), shown)
    assert verified(facts, standard()).result is Result.DONE
    assert to_hand_back(facts).result is Result.DONE


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
