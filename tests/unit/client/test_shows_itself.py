# SPDX-License-Identifier: Apache-2.0
"""What objects show of themselves, their state, and that they can be copied, pickled and described."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from support.objects import runtime, train_job
from trainsnap_api import models
from trainsnap_api.client import ABSENT, Listing, Progress
from trainsnap_api.client.diff import changes
from trainsnap_api.client.values import Change, RuntimeDiff
from trainsnap_api.state import State, reason_of, state_of

KINDS = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime", "TrainingRuntimeSnapshot")
SNAPSHOT = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntimeSnapshot",
    "metadata": {"name": "job", "namespace": "team"},
    "source": {
        "kind": "TrainingRuntime",
        "name": "rt",
        "generation": 3,
        "origin": "Runtime",
        "digest": "sha256:" + 64 * "a",
    },
}


def job(*conditions: tuple[str, str], active: int = 0, **status: Any) -> models.TrainJob:
    found = [{"type": kind, "status": value, "message": f"about {kind}"} for kind, value in conditions]
    counts = [{"name": "node", "active": active, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}]
    document = train_job("job", "team", trainer={"numNodes": 2})
    return models.TrainJob.model_validate(
        {**document, "status": {"conditions": found, "jobsStatus": counts if active else [], **status}}
    )


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(job(), "Created", id="nothing reported"),
        pytest.param(models.TrainJob(), "Created", id="nothing at all"),
        pytest.param(job(active=2), "Running", id="pods are active"),
        pytest.param(job(("Suspended", "True")), "Suspended", id="paused"),
        pytest.param(job(("Suspended", "False"), active=1), "Running", id="resumed: the condition no longer holds"),
        pytest.param(job(("Suspended", "False")), "Created", id="resumed, no pod yet"),
        pytest.param(job(("Suspended", "False"), ("Complete", "True")), "Complete", id="done after a pause"),
        pytest.param(job(("Blocked", "True"), active=1), "Blocked", id="blocked while pods run"),
        pytest.param(job(("Blocked", "True"), ("Suspended", "True")), "Suspended", id="blocked and paused"),
        pytest.param(job(("Failed", "True"), ("Complete", "False")), "Failed", id="failed"),
    ],
)
def test_state(given: models.TrainJob, want: State) -> None:
    assert state_of(given) == want
    assert Progress.of(given).state == want


def test_reason_is_in_the_words_of_the_condition() -> None:
    assert reason_of(job(("Failed", "True"))) == "about Failed"
    assert reason_of(job(active=1)) == ""


def test_progress_tells_counts_and_percent() -> None:
    progress = Progress.of(job(active=2, trainerStatus={"progressPercentage": 40, "lastUpdatedTime": "x"}))
    assert str(progress) == "Running, 2 active, 40 %"
    assert str(Progress.of(job(("Failed", "True")))) == "Failed: about Failed"
    assert progress.same_as(Progress.of(job(active=2, trainerStatus={"progressPercentage": 40})))
    assert not progress.same_as(None)


@pytest.mark.parametrize(
    ("shown", "want"),
    [
        (job(active=1), "<TrainJob team/job: Running, 2 nodes, TrainingRuntime rt>"),
        (models.TrainJob(), "<TrainJob (no name): Created>"),
        (
            models.TrainJob(metadata=models.ObjectMeta(generate_name="a-")),
            "<TrainJob a-*: Created>",
        ),
        (
            models.TrainingRuntimeSnapshot.model_validate(SNAPSHOT),
            "<TrainingRuntimeSnapshot team/job: TrainingRuntime rt generation 3, Runtime, sha256:aaaaaaaaaaaa>",
        ),
        (
            models.TrainingRuntime.model_validate(runtime("rt", "team", torch=True)),
            "<TrainingRuntime team/rt: torch, 1 node, node>",
        ),
        (models.ClusterTrainingRuntime(), "<ClusterTrainingRuntime (no name)>"),
    ],
)
def test_one_line_for_terminals(shown: models.Kind, want: str) -> None:
    assert repr(shown) == str(shown) == want


def test_a_table_for_notebooks_escapes_what_users_wrote() -> None:
    evil = models.TrainJob.model_validate(train_job("<script>", "team", ref="a&b"))
    html = evil._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a&amp;b" in html
    assert models.TrainingRuntimeSnapshot.model_validate(SNAPSHOT)._repr_html_().startswith("<table><caption>Train")


@pytest.mark.parametrize("field", ["metadata", "spec", "status"])
@pytest.mark.parametrize("value", [{"name": "x", "conditions": [{"type": "Failed"}]}, [1], 5, "text"])
def test_fields_of_wrong_types_are_no_error(field: str, value: Any) -> None:
    """pydantic does not check assignments; a debugger or a log line must not fail because of one."""
    for shown in (models.TrainJob(), models.TrainingRuntime(), models.TrainingRuntimeSnapshot()):
        setattr(shown, field, value)
        assert repr(shown).startswith(f"<{type(shown).__name__} (")
        assert shown._repr_html_().startswith("<table>")


def test_a_reference_without_a_name_says_so() -> None:
    job = models.TrainJob(spec=models.TrainJobSpec(runtime_ref=models.RuntimeRef()))
    assert repr(job) == "<TrainJob (no name): Created, ClusterTrainingRuntime (no name)>"
    snapshot = models.TrainingRuntimeSnapshot(source=models.SnapshotSource())
    assert repr(snapshot) == "<TrainingRuntimeSnapshot (no name): (no kind) (no name)>"


def test_a_derived_class_shows_what_its_kind_does() -> None:
    class MyJob(models.TrainJob):
        pass

    class MyKind(models.Kind):
        metadata: models.ObjectMeta | None = None

    assert repr(MyJob.model_validate(train_job("job", "team"))).startswith("<MyJob team/job: Created, ")
    assert repr(MyKind(metadata=models.ObjectMeta(name="a"))) == "<MyKind a>"


def test_a_line_is_one_line_whatever_others_wrote() -> None:
    shown = job()
    assert shown.status is not None
    shown.status.conditions = [models.Condition(type="Failed", status="True", message="a\nb\x1b[31m" + "x" * 5000)]
    for text in (repr(shown), str(Progress.of(shown))):
        assert "a b [31mxxx" in text
        assert text.isprintable()
        assert len(text) < 400


def test_a_list_is_a_table_for_notebooks() -> None:
    assert "<caption>0 objects</caption>" in Listing()._repr_html_()
    shown = Listing([job(), job(("Failed", "True"))], "5")._repr_html_()
    assert "<caption>2 TrainJobs</caption><tr><th>Name</th><th>State</th><th>Reason</th><th>Nodes</th>" in shown
    assert "<td>team/job</td><td>Failed</td><td>about Failed</td><td>2 nodes</td>" in shown
    many = Listing([models.TrainingRuntime()] * 101)._repr_html_()
    assert "<caption>101 TrainingRuntimes, the first 100</caption>" in many
    assert many.count("<td>(no name)</td>") == 100


def test_nested_objects_show_what_was_set() -> None:
    assert repr(models.Container(name="c", newField=1)) == "Container(name='c', newField=1)"


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_copied_pickled_and_compared(kind: str) -> None:
    cls: type[models.Kind] = getattr(models, kind)
    document = {"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"newField": [1, {"d": None}]}}
    obj = cls.model_validate(document)
    for twin in (copy.deepcopy(obj), pickle.loads(pickle.dumps(obj)), obj.model_copy(deep=True)):
        assert twin == obj
        assert twin.dump() == document
    changed = copy.deepcopy(obj)
    changed.metadata.name = "z"  # type: ignore[attr-defined]
    assert obj.dump() == document
    assert changed != obj


def test_every_class_has_a_json_schema_that_says_what_its_fields_are() -> None:
    for name in models.__all__:
        cls = getattr(models, name)
        if isinstance(cls, type) and issubclass(cls, models.Model):
            json.dumps(cls.model_json_schema())
    schema = models.TrainingRuntime.model_json_schema()
    definitions = schema["$defs"]
    assert {"JobSetSpec", "PodSpec", "Container"} <= set(definitions)
    image = definitions["Container"]["properties"]["image"]
    assert image["description"] == "The image to run."
    assert {"type": "integer"} in definitions["HTTPGetAction"]["properties"]["port"]["anyOf"]


# The difference of two runtimes


def test_changes_name_list_entries_by_their_keys() -> None:
    old = runtime("rt", env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])["spec"]
    new = runtime("rt", num_nodes=3, env=[{"name": "NEW"}, {"name": "A", "value": "9"}, {"name": "B", "value": "2"}])[
        "spec"
    ]
    node = "spec.template.spec.replicatedJobs[node].template.spec.template.spec.containers[node]"
    assert changes(old, new) == (
        Change("spec.mlPolicy.numNodes", 1, 3),
        Change(f"{node}.env[A].value", "1", "9"),
        Change(f"{node}.env[NEW]", ABSENT, {"name": "NEW"}),
    )


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({"a": 1}, {"a": 1.0}, [Change("spec.a", 1, 1.0)]),
        ({"a": None}, {}, [Change("spec.a", None, ABSENT)]),
        (None, None, []),
        (None, {"a": 1}, [Change("spec", ABSENT, {"a": 1})]),
        ({"x": [1, 2]}, {"x": [1, 3, 4]}, [Change("spec.x[1]", 2, 3), Change("spec.x[2]", ABSENT, 4)]),
        ({"template": {"metadata": {"labels": {"a/b": "c"}}}}, {"template": {"metadata": {"labels": {}}}},
         [Change("spec.template.metadata.labels[a/b]", "c", ABSENT)]),
    ],
)  # fmt: skip
def test_changes_of_odd_values(old: Any, new: Any, want: list[Change]) -> None:
    assert list(changes(old, new)) == want


def test_an_order_that_matters_is_a_change() -> None:
    old = {"template": {"spec": {"replicatedJobs": [{"name": "a"}, {"name": "b"}]}}}
    new = {"template": {"spec": {"replicatedJobs": [{"name": "b"}, {"name": "a"}]}}}
    (change,) = changes(old, new)
    assert (change.path, change.old, change.new) == (
        "spec.template.spec.replicatedJobs (order)",
        ["a", "b"],
        ["b", "a"],
    )


def test_a_diff_shows_itself() -> None:
    diff = RuntimeDiff("job", "TrainingRuntime", "rt", "same", (Change("spec.a", 1, ABSENT),), 1, 2)
    assert str(diff) == "TrainingRuntime rt (same, generation 1 -> 2): 1 change\n  spec.a: 1 -> (absent)"
    assert "<td>spec.a</td><td>1</td><td>(absent)</td>" in diff._repr_html_()
    assert diff.changed
    assert RuntimeDiff("job", "K", "n", "deleted").changed
    assert str(RuntimeDiff("job", "K", "n", "deleted", generation=2)) == "K n (deleted, generation 2): not compared"
    assert not RuntimeDiff("job", "K", "n", "same").changed
    assert pickle.loads(pickle.dumps(diff)) == diff
