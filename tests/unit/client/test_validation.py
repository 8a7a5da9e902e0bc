# SPDX-License-Identifier: Apache-2.0
"""Local checks: paths, reasons and rules, and what is left to the server. Agreement with it is tested on a real one."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import mutations
from support.objects import runtime, train_job
from trainsnap_api import TrainJob, ValidationFailed, validate
from trainsnap_api.models import ObjectMeta, RuntimeRef, TrainJobSpec
from trainsnap_api.validation import rules, schema
from trainsnap_codegen.crd import definition
from trainsnap_codegen.layout import Layout
from trainsnap_codegen.sources import load

JSON = dict[str, Any]
JOB = train_job("job", "ns")


def job(**spec: Any) -> JSON:
    return train_job("job", "ns", **spec)


def problems(obj: Any, **options: Any) -> list[tuple[str, str]]:
    return [(problem.field, problem.reason.removeprefix("Field")) for problem in validate(obj, **options).problems]


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(JOB, [], id="right"),
        pytest.param(TrainJob.model_validate(JOB), [], id="a model"),
        pytest.param(
            {"kind": "TrainJob", "metadata": {"generateName": "a-"}, "spec": {"runtimeRef": {"name": "r"}}},
            [],
            id="a generated name, no version",
        ),
        pytest.param(job(trainer={"numNodes": -1}), [("spec.trainer.numNodes", "ValueInvalid")], id="too small"),
        pytest.param(job(trainer={"numNodes": 2**31}), [("spec.trainer.numNodes", "ValueInvalid")], id="too large"),
        pytest.param(job(trainer={"numNodes": "1"}), [("spec.trainer.numNodes", "ValueTypeInvalid")], id="wrong type"),
        pytest.param(job(trainer={"numNodes": True}), [("spec.trainer.numNodes", "ValueTypeInvalid")], id="a boolean"),
        pytest.param(job(trainer={"image": None}), [], id="null is dropped"),
        pytest.param(job(trainer={"nodes": 1}), [("spec.trainer.nodes", "Unknown")], id="unknown field"),
        pytest.param({**JOB, "spec": {}}, [("spec.runtimeRef", "ValueRequired")], id="required"),
        pytest.param(
            job(trainer={"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}, {"name": "A"}]}),
            [("spec.trainer.env[2]", "ValueDuplicate")],
            id="the same key twice",
        ),
        pytest.param(job(trainer={"command": ["a"] * 129}), [("spec.trainer.command", "ValueTooMany")], id="too many"),
        pytest.param(job(trainer={"image": "i" * 501}), [("spec.trainer.image", "ValueTooLong")], id="too long"),
        pytest.param(
            job(trainer={"resourcesPerNode": {"limits": {"cpu": "1 core"}}}),
            [("spec.trainer.resourcesPerNode.limits.cpu", "ValueInvalid")],
            id="not a quantity",
        ),
        pytest.param(job(trainer={"numProcPerNode": 0}), [("spec.trainer.numProcPerNode", "ValueInvalid")], id="CEL"),
        pytest.param(job(managedBy="me"), [("spec.managedBy", "ValueInvalid")], id="CEL on a value"),
        pytest.param({**JOB, "metadata": {"name": "9job"}}, [("", "ValueInvalid")], id="CEL at the root"),
        pytest.param(
            {**JOB, "metadata": {"name": "A_b"}},
            [("metadata.name", "ValueInvalid"), ("", "ValueInvalid")],
            id="not a name",
        ),
        pytest.param({**JOB, "metadata": {}}, [("metadata.name", "ValueRequired")], id="no name"),
        pytest.param(
            {**JOB, "metadata": {"name": "a", "labels": {"a b": "c", "d": "e f"}}},
            [("metadata.labels", "ValueInvalid")] * 2,
            id="labels",
        ),
        pytest.param(
            {**JOB, "metadata": {"name": "a", "annotations": {"/x": "c", "y": "z" * 2**18}}},
            [("metadata.annotations", "ValueInvalid"), ("metadata.annotations", "ValueTooLong")],
            id="annotations",
        ),
        pytest.param(
            {**runtime("r"), "metadata": {"name": "r", "namespace": "ns"}},
            [("metadata.namespace", "ValueInvalid")],
            id="a namespace for a cluster kind",
        ),
        pytest.param(
            {**JOB, "metadata": {"name": "a", "namespace": "N S"}},
            [("metadata.namespace", "ValueInvalid")],
            id="not a namespace",
        ),
        pytest.param(
            {**JOB, "metadata": {"name": "a", "labels": {"version": 1}, "annotations": "b", "finalizers": [None]}},
            [
                ("metadata.labels.version", "ValueTypeInvalid"),
                ("metadata.annotations", "ValueTypeInvalid"),
                ("metadata.finalizers[0]", "ValueTypeInvalid"),
            ],
            id="wrong types in metadata",
        ),
        pytest.param(
            {**JOB, "metadata": {"name": "a", "lables": {}, "selfLink": "", "ownerReferences": [{"id": 1}]}},
            [("metadata.lables", "Unknown"), ("metadata.ownerReferences[0].id", "Unknown")],
            id="unknown fields in metadata",
        ),
        pytest.param({**JOB, "metadata": {"name": "a", "labels": {"b": None}}}, [], id="null labels are dropped"),
        pytest.param({**JOB, "metadata": []}, [("metadata", "ValueTypeInvalid")], id="metadata is no object"),
        pytest.param({"kind": "TrainJob", "spec": JOB["spec"]}, [("metadata.name", "ValueRequired")], id="no metadata"),
        pytest.param(
            {"kind": "TrainJob", "metadata": ObjectMeta(name="a"), "spec": {"runtimeRef": RuntimeRef(name="r")}},
            [],
            id="models in a mapping",
        ),
        pytest.param(
            runtime("r", "ns", spec={"mlPolicy": {"torch": {}, "mpi": {}}}),
            [("spec.mlPolicy", "ValueInvalid")],
            id="at most one policy",
        ),
        pytest.param(
            runtime("r", "ns", spec={"mlPolicy": {"mpi": {"mpiImplementation": "x"}}}),
            [("spec.mlPolicy.mpi.mpiImplementation", "ValueNotSupported")],
            id="not one of the values",
        ),
        pytest.param(
            runtime("r", "ns", spec={"template": {}}), [("spec.template", "ValueInvalid")], id="too few fields"
        ),
        pytest.param(
            {
                "kind": "TrainingRuntimeSnapshot",
                "metadata": {"name": "a"},
                "source": {"kind": "K", "name": "n", "capturedAt": "now", "digest": "md5:0"},
                "spec": {"mlPolicy": {}},
                "opaque": {"spec": {}},
            },
            [("source.capturedAt", "ValueInvalid"), ("source.digest", "ValueInvalid"), ("opaque", "ValueInvalid")],
            id="a rule that names another field",
        ),
    ],
)
def test_problems(obj: Any, want: list[tuple[str, str]]) -> None:
    assert problems(obj) == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(job(trainer={"image": "a"}), job(trainer={"image": "b"}), ["spec.trainer"], id="frozen"),
        pytest.param(job(suspend=False), job(suspend=True), [], id="free to change"),
        pytest.param(job(), job(trainer={"image": "b"}), [], id="new: nothing to compare with"),
        pytest.param(job(trainer={"image": "a"}), job(), [], id="gone: the rule went with it"),
        pytest.param(
            job(trainer={"env": [{"name": "A"}, {"name": "B"}]}),
            job(trainer={"env": [{"name": "B"}, {"name": "A"}]}),
            [],
            id="the order of a keyed list is no change",
        ),
        pytest.param(
            job(trainer={"args": ["a", "b"]}),
            job(trainer={"args": ["b", "a"]}),
            ["spec.trainer"],
            id="but of a list it is",
        ),
        pytest.param(
            job(trainer={"numNodes": -1}),
            job(trainer={"numNodes": -1}, suspend=True),
            [],
            id="wrong already, unchanged",
        ),
    ],
)
def test_updates(old: JSON, new: JSON, want: list[str]) -> None:
    assert [problem.field for problem in validate(new, old=old).problems] == want


def test_rules_that_only_the_server_can_judge_are_named() -> None:
    report = validate(JOB)
    assert report.ok
    assert ("spec.runtimeRef", "the runtime exists, and the job fits it") in [
        (item.field, item.rule) for item in report.unchecked
    ]
    report.raise_for_problems()


def test_after_a_wrong_type_rules_are_left_for_later_as_on_the_server() -> None:
    report = validate(job(trainer={"numNodes": "1", "numProcPerNode": 0}))
    assert [problem.field for problem in report.problems] == ["spec.trainer.numNodes"]
    assert (report.unchecked[0].rule, report.unchecked[0].why) == (
        "CEL rules",
        "the server evaluates it once the other problems are gone",
    )


def test_without_the_extra_rules_are_named_and_the_schema_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainsnap_api.validation import check

    monkeypatch.setattr(check, "evaluator", lambda: None)
    report = validate(job(trainer={"numNodes": -1, "numProcPerNode": 0}))
    assert [problem.field for problem in report.problems] == ["spec.trainer.numNodes"]
    left = {item.field: item.why for item in report.unchecked}
    assert left["spec.trainer.numProcPerNode"] == rules.NOT_INSTALLED


def test_a_rule_that_cannot_be_evaluated_here_is_left_to_the_server() -> None:
    def evaluate(text: str, _: JSON) -> bool:
        raise rules.CannotEvaluateError("no such function")

    report = validate(job(managedBy="me"), evaluate=evaluate)
    assert report.ok
    assert "left to the server: no such function" in [item.why for item in report.unchecked]


def test_a_failure_is_an_exception_that_says_where_and_why() -> None:
    with pytest.raises(ValidationFailed, match=r"spec\.trainer\.numNodes: must be at least 0") as failed:
        validate(job(trainer={"numNodes": -1})).raise_for_problems()
    assert not failed.value.report.ok
    assert pickle.loads(pickle.dumps(failed.value.report)) == failed.value.report


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        ({"kind": "Pod", "apiVersion": "v1"}, "v1 Pod is not known here"),
        ({**JOB, "apiVersion": "trainer.kubeflow.org/v2"}, "trainer.kubeflow.org/v2 TrainJob is not known here"),
        ({}, "trainer.kubeflow.org/v1alpha1 None is not known here"),
    ],
)
def test_an_unknown_kind_is_misuse(obj: JSON, want: str) -> None:
    with pytest.raises(ValueError, match=want):
        validate(obj)


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_it_never_fails_and_never_touches_the_object(random: Any) -> None:
    obj = mutations.mutate(random.choice((mutations.trainjob, mutations.runtime))("a", "ns"), random)
    before = copy.deepcopy(obj)
    validate(obj)
    validate(obj, old=mutations.trainjob("a", "ns") if obj["kind"] == "TrainJob" else mutations.runtime("a", "ns"))
    assert obj == before


def test_every_rule_of_the_schemas_compiles() -> None:
    evaluate = rules.evaluator()
    assert evaluate is not None, "the tests run with the extra"
    texts = {rule["rule"] for data in _nodes(schema.document()["definitions"]) for rule in schema.of(data).rules}
    assert len(texts) > 10
    for text in texts:
        try:
            evaluate(text, {"self": {}, "oldSelf": {}})
        except rules.CannotEvaluateError as reason:
            # Fields that are missing and values of no fitting type are the data's fault, not the rule's.
            words = ("No matching overloads", "Key not found", "no matching", "null")
            assert any(word in str(reason) for word in words), (text, str(reason))


def _nodes(value: Any) -> list[JSON]:
    found = []
    if isinstance(value, dict):
        if isinstance(value.get("x-kubernetes-validations"), list):
            found.append(value)
        found += [node for child in value.values() for node in _nodes(child)]
    elif isinstance(value, list):
        found += [node for child in value for node in _nodes(child)]
    return found


def test_the_shipped_schemas_are_those_of_the_crds() -> None:
    sources = load(Layout())
    for kind in sources.kinds:
        version = definition(sources, kind)["spec"]["versions"][0]
        assert _without_texts(_written_out(schema.root(kind.kind).data)) == _without_texts(
            version["schema"]["openAPIV3Schema"]
        )


def _written_out(data: Any) -> Any:
    if isinstance(data, list):
        return [_written_out(item) for item in data]
    if not isinstance(data, dict):
        return data
    if isinstance(data.get("$ref"), str):
        data = schema.of(data).data
    return {key: _written_out(value) for key, value in data.items()}


def _without_texts(node: Any, fields: bool = False) -> Any:
    if isinstance(node, list):
        return [_without_texts(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_texts(value, key == "properties" and not fields)
        for key, value in node.items()
        if fields or key != "description"
    }


@pytest.mark.parametrize("value", [None, {}, [], "", 0, 1.5, True, {1: 2}, [None], b"x", (1,), object()])
@pytest.mark.parametrize("place", ["kind", "apiVersion", "metadata", "spec", "labels", "annotations", "name"])
def test_no_value_is_too_odd_to_be_checked(place: str, value: Any) -> None:
    meta = place in ("labels", "annotations", "name")
    odd = {**JOB, "metadata": {**JOB["metadata"], place: value}} if meta else {**JOB, place: value}
    try:
        assert isinstance(validate(odd).ok, bool)
        assert isinstance(validate(JOB, old=odd).ok, bool)
    except ValueError as error:
        assert place in ("kind", "apiVersion"), error


@pytest.mark.parametrize("value", [None, [], "TrainJob", TrainJobSpec()])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=f"or a mapping is needed, not {type(value).__name__}"):
        validate(value)


def test_an_update_is_checked_for_types_of_metadata_too() -> None:
    new = {**JOB, "metadata": {**JOB["metadata"], "labels": {"a": 1}}}
    assert problems(new, old=JOB) == [("metadata.labels.a", "ValueTypeInvalid")]
