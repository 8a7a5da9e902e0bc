# SPDX-License-Identifier: Apache-2.0
"""The rules of runtimes, and what is only warned of: one set for both kinds, on creation and on update."""

from __future__ import annotations

from typing import Any

import pytest

from support.building import ANCESTOR, box, rjob, runtime
from support.samples import samples
from trainsnap_controller.runtime.blueprint import broken_rules, without_effect
from trainsnap_controller.webhooks import runtimes
from trainsnap_controller.webhooks.review import Answer, Review

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
REPLICAS = "spec.template.spec.replicatedJobs[{}].replicas"
CONTAINERS = "spec.template.spec.replicatedJobs[{}].template.spec.template.spec.containers"


def copies(count: int, **options: Any) -> JSON:
    return {**rjob(**options), "replicas": count}


RULES = [
    pytest.param(runtime(), [], id="as it should be"),
    pytest.param(runtime(copies(2)), [REPLICAS.format(0)], id="two copies of the trainer"),
    pytest.param(runtime(copies(0)), [REPLICAS.format(0)], id="no copy of the trainer"),
    pytest.param(runtime(copies(3, ancestor=None)), [], id="copies of a helper"),
    pytest.param(runtime(copies(3, ancestor="whatever")), [], id="copies of a step that means nothing"),
    pytest.param(runtime(rjob("node", box("main"))), [CONTAINERS.format(0)], id="no container called node"),
    pytest.param(
        runtime(rjob("node", box("side"), initContainers=[box("node")])), [CONTAINERS.format(0)], id="an init container"
    ),
    pytest.param(runtime(rjob("node", box("side"), box("node"))), [], id="the second container"),
    pytest.param(
        runtime(rjob("d", box("node"), ancestor="dataset-initializer"), rjob()), [CONTAINERS.format(0)], id="dataset"
    ),
    pytest.param(
        runtime(rjob(), rjob("m", box("dataset-initializer"), ancestor="model-initializer")),
        [CONTAINERS.format(1)],
        id="model",
    ),
    pytest.param(
        runtime(rjob("m", box("model-initializer"), ancestor="model-initializer")), [], id="model as it should"
    ),
    pytest.param(
        runtime(copies(2), rjob("b", box("x"))), [REPLICAS.format(0), CONTAINERS.format(1)], id="two jobs, two rules"
    ),
    pytest.param({}, [], id="nothing"),
    pytest.param({"template": {}}, [], id="no spec"),
    pytest.param({"template": {"spec": {"replicatedJobs": []}}}, [], id="no jobs"),
    pytest.param({"template": {"spec": {"replicatedJobs": [{"name": "a"}]}}}, [], id="a job without a template"),
]


async def review(spec: JSON, operation: str = "CREATE", kind: str = "TrainingRuntime", **labels: str) -> Answer:
    obj = {"metadata": {"name": "rt", "labels": labels}, "spec": spec}
    return await runtimes.review(Review("u", kind, operation, obj, {} if operation == "UPDATE" else None))


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
@pytest.mark.parametrize(("spec", "want"), RULES)
async def test_rules(spec: JSON, want: list[str], operation: str, kind: str) -> None:
    answer = await review(spec, operation, kind)
    assert [error.path for error in broken_rules(spec)] == want
    assert answer.allowed is (not want)
    assert all(path in answer.message for path in want)


async def test_messages_name_the_value_and_what_would_be_accepted() -> None:
    assert (await review(runtime(copies(2)))).message == (
        "spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: must be 1, since the label "
        "trainer.kubeflow.org/trainjob-ancestor-step says 'trainer'; spec.mlPolicy.numNodes makes it more nodes"
    )
    assert (await review(runtime(rjob("node", box("main"), box("log"))))).message == (
        "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers: Invalid value: "
        '["main","log"]: must contain a container named \'node\', since the label '
        "trainer.kubeflow.org/trainjob-ancestor-step says 'trainer'"
    )


SUPPORT = "trainer.kubeflow.org/support"
WARNED = [
    ("ClusterTrainingRuntime", "CREATE", "deprecated", True),
    ("ClusterTrainingRuntime", "UPDATE", "deprecated", False),
    ("ClusterTrainingRuntime", "CREATE", "phasing-out", False),
    ("TrainingRuntime", "CREATE", "deprecated", False),
]


@pytest.mark.parametrize(("kind", "operation", "support", "want"), WARNED)
async def test_a_deprecated_runtime_is_warned_of_when_it_is_created(
    kind: str, operation: str, support: str, want: bool
) -> None:
    answer = await review(runtime(), operation, kind, **{SUPPORT: support})
    assert answer.allowed and bool(answer.warnings) is want
    assert not want or (
        "'rt' is labelled as deprecated" in answer.warnings[0] and runtimes.POLICY_URL in answer.warnings[0]
    )


def mpi(*jobs: JSON) -> JSON:
    return runtime(*jobs, ml={"mpi": {}})


UNLABELLED = "none has the label trainer.kubeflow.org/trainjob-ancestor-step: trainer"
NO_EFFECT = "neither the trainer section of a TrainJob nor spec.mlPolicy has an effect"
LAUNCHER, NODE = rjob("launcher"), rjob("node", ancestor=None)
ON_THE_PODS = rjob("node", ancestor=None)
ON_THE_PODS["template"]["spec"]["template"]["metadata"] = {"labels": {ANCESTOR: "trainer"}}
TARGETS = {"targets": [{"jobName": "node", "containerNames": ["side"]}]}
WITHOUT_EFFECT = [
    pytest.param(runtime(ml={"torch": {}}), [], id="as it should be"),
    pytest.param(runtime(NODE), [], id="no policy"),
    pytest.param(runtime(NODE, ml={"torch": {}}), [(UNLABELLED, NO_EFFECT)], id="torch without a trainer"),
    pytest.param(runtime(NODE, ml={"numNodes": 2}), [(UNLABELLED, NO_EFFECT)], id="nodes without a trainer"),
    pytest.param(runtime(NODE, ml={"jax": {}}), [(UNLABELLED, NO_EFFECT)], id="JAX without a trainer"),
    pytest.param(
        runtime(rjob("node", box("dataset-initializer"), ancestor="dataset-initializer"), ml={"xgboost": {}}),
        [(UNLABELLED, NO_EFFECT)],
        id="another step",
    ),
    pytest.param(runtime(ON_THE_PODS, ml={"torch": {}}), [(UNLABELLED, NO_EFFECT)], id="the label on the pods"),
    pytest.param(
        runtime(rjob("node", box("side"), ancestor=None), ml={"torch": {"envInjection": TARGETS}}),
        [(UNLABELLED, "except on its envInjection targets")],
        id="torch with targets",
    ),
    pytest.param(
        runtime(NODE, ml={"flux": {}}), [(UNLABELLED, "image, command and arguments")], id="flux without a trainer"
    ),
    pytest.param(mpi(NODE, LAUNCHER), [], id="MPI as it should be"),
    pytest.param(
        mpi(NODE, rjob("launcher", ancestor=None)), [(UNLABELLED, "image, command")], id="MPI without a trainer"
    ),
    pytest.param(mpi(rjob("node")), [("and there is no such 'launcher'",)], id="MPI without a launcher"),
    pytest.param(mpi(LAUNCHER), [("and there is no such 'node'",)], id="MPI without nodes"),
    pytest.param(
        mpi(rjob("node"), rjob("launcher", box("launcher"), ancestor=None)),
        [("and there is no such 'launcher'",)],
        id="a launcher whose container has another name",
    ),
    pytest.param({"mlPolicy": {"torch": {}}}, [(UNLABELLED,)], id="no template"),
]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
@pytest.mark.parametrize(("spec", "want"), WITHOUT_EFFECT)
async def test_a_policy_without_effect_is_warned_of(
    spec: JSON, want: list[tuple[str, ...]], operation: str, kind: str
) -> None:
    answer = await review(spec, operation, kind)
    assert answer.allowed
    assert len(answer.warnings) == len(want)
    for said, parts in zip(answer.warnings, want, strict=True):
        assert all(part in said for part in parts), said


def test_sample_runtimes_are_not_warned_of() -> None:
    assert {name: list(without_effect(sample["spec"])) for name, sample in samples().items()} == {
        name: [] for name in samples()
    }
