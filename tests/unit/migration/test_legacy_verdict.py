# SPDX-License-Identifier: Apache-2.0
"""Which ConfigMaps of the reference are usable for a job, and what is said about the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainsnap_controller.migration.legacy import Fault, judge
from trainsnap_controller.runtime.job import Job

JSON = dict[str, Any]
RECORDED = sorted((Path(__file__).parents[2] / "golden" / "legacy-configmaps").glob("*.json"))

MINIMAL = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata:
  name: rt
spec:
  mlPolicy: {numNodes: 2}
"""
SPEC = {"mlPolicy": {"numNodes": 2}}


def job(*, kind: str = "TrainingRuntime", group: str = "trainer.kubeflow.org", ref: str = "rt") -> Job:
    return Job.from_json(
        {
            "metadata": {"name": "job", "namespace": "ns", "uid": "uid-1"},
            "spec": {"runtimeRef": {"apiGroup": group, "kind": kind, "name": ref}},
        }
    )


def owner(uid: str = "uid-1", **changes: Any) -> JSON:
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "job", "uid": uid,
            "controller": True, **changes}  # fmt: skip


def config_map(text: str | None = MINIMAL, *, owners: list[JSON] | None = None, **fields: Any) -> JSON:
    data = {} if text is None else {"data": {"runtime": text}}
    metadata = {"name": "job-runtime-snapshot", "namespace": "ns", "ownerReferences": owners or [owner()]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **data, **fields}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_what_the_reference_wrote_is_usable_and_its_noise_is_dropped(path: Path) -> None:
    recorded = json.loads(path.read_text())
    name = recorded["configMap"]["metadata"]["ownerReferences"][0]["name"]
    uid = recorded["configMap"]["metadata"]["ownerReferences"][0]["uid"]
    runtime = recorded["runtime"]
    view = Job.from_json(
        {
            "metadata": {"name": name, "namespace": "legacy", "uid": uid},
            "spec": {"runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": runtime["kind"],
                                    "name": runtime["metadata"]["name"]}},
        }
    )  # fmt: skip
    verdict = judge(recorded["configMap"], view, view.runtime_ref)
    assert (verdict.problem, verdict.notes) == ("", ())
    assert verdict.runtime is not None
    assert set(verdict.runtime) == {"apiVersion", "kind", "metadata", "spec"}
    got = verdict.runtime["metadata"]
    assert (
        {"uid", "generation", "name"} <= set(got) <= {"uid", "generation", "name", "namespace", "labels", "annotations"}
    )
    assert "kubectl.kubernetes.io/last-applied-configuration" not in got.get("annotations", {})
    assert (got["uid"], got["generation"]) == (runtime["metadata"]["uid"], runtime["metadata"]["generation"])


def test_the_minimal_form_is_usable() -> None:
    verdict = judge(config_map(), job(), job().runtime_ref)
    assert verdict.runtime == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "rt"},
        "spec": SPEC,
    }


@pytest.mark.parametrize(
    ("given", "fault", "want"),
    [
        pytest.param(config_map(owners=[owner(controller=False)]), Fault.OWNER, "nobody controls it", id="no owner"),
        pytest.param(
            config_map(owners=[owner("uid-0")]), Fault.LEFTOVER, "TrainJob job (uid uid-0)", id="an earlier job's"
        ),
        pytest.param(
            config_map(owners=[owner("uid-9", kind="Pod", name="p")]), Fault.OWNER, "Pod p (uid uid-9)", id="another's"
        ),
        pytest.param(config_map(None), Fault.KEY, "data has no key 'runtime'", id="no data at all"),
        pytest.param(config_map(None, data={"x": "y"}), Fault.KEY, "no key 'runtime'", id="another key"),
        pytest.param(config_map(None, binaryData={"runtime": "e30="}), Fault.KEY, "binaryData has it", id="binary"),
        pytest.param(config_map("{{"), Fault.TEXT, "line ", id="not YAML"),
        pytest.param(config_map("- a"), Fault.TEXT, "must be an object", id="a list"),
        pytest.param(config_map(""), Fault.TEXT, "must be an object", id="nothing"),
        pytest.param(config_map("metadata: 5"), Fault.TEXT, "metadata: must be an object", id="metadata is a number"),
        pytest.param(config_map(MINIMAL.replace("rt", "other")), Fault.RUNTIME, "name other instead of rt", id="name"),
        pytest.param(
            config_map(MINIMAL.replace("kind: T", "kind: ClusterT")),
            Fault.RUNTIME,
            "kind ClusterTrainingRuntime instead of TrainingRuntime",
            id="kind",
        ),
        pytest.param(
            config_map(MINIMAL.replace("trainer.kubeflow.org/", "acme.org/")), Fault.RUNTIME, "group acme", id="group"
        ),
        pytest.param(config_map("spec: {}"), Fault.RUNTIME, "name <none> instead of rt", id="no type and no name"),
        pytest.param(config_map(MINIMAL + "extra: 1\n"), Fault.TEXT, "unknown field extra", id="an unknown field"),
        pytest.param(config_map(MINIMAL.replace("{numNodes: 2}", "x") .replace("spec:\n  mlPolicy: x", "spec: x")),
                     Fault.TEXT, "spec: must be an object", id="spec is a string"),
    ],
)  # fmt: skip
def test_unusable(given: JSON, fault: Fault, want: str) -> None:
    verdict = judge(given, job(), job().runtime_ref)
    assert (verdict.runtime, verdict.fault) == (None, fault)
    assert want in verdict.problem
    assert "\n" not in verdict.problem


@pytest.mark.parametrize(
    ("given", "note"),
    [
        pytest.param(config_map(owners=[owner("x", controller=False), owner()]), "1 more owners", id="two owners"),
        pytest.param(config_map(data={"runtime": MINIMAL, "z": ""}), "further keys are ignored: z", id="further keys"),
        pytest.param(config_map(binaryData={"b": ""}), "further keys are ignored: b", id="binary beside it"),
        pytest.param(config_map(MINIMAL + "---\n{"), "follows the first document", id="a second document"),
        pytest.param(config_map("kind: X\n" + MINIMAL), "'kind' is there twice", id="duplicate keys"),
        pytest.param(
            config_map(MINIMAL.replace("name: rt", "name: rt\n  generation: x")), "metadata.generation", id="generation"
        ),
        pytest.param(
            config_map(MINIMAL.replace("name: rt", "name: rt\n  labels: {a: 1, b: c}")), "metadata.labels", id="labels"
        ),
    ],
)
def test_tolerated_with_a_note(given: JSON, note: str) -> None:
    verdict = judge(given, job(), job().runtime_ref)
    assert verdict.runtime is not None
    assert verdict.runtime["spec"] == SPEC
    (got,) = verdict.notes
    assert note in got


def test_null_fields_of_a_typed_writer_are_absent_fields() -> None:
    text = MINIMAL + "  template: {metadata: {creationTimestamp: null, labels: {a: null}}, spec: {x: [null]}}\n"
    verdict = judge(config_map(text), job(), job().runtime_ref)
    assert verdict.runtime is not None
    assert verdict.runtime["spec"]["template"] == {"metadata": {"labels": {"a": None}}, "spec": {"x": [None]}}


def test_a_runtime_of_an_unknown_kind_is_kept_whole() -> None:
    text = "apiVersion: acme.org/v2\nkind: SlurmRuntime\nmetadata: {name: rt}\nspec: {a: null}\npartitions: [x]\n"
    view = job(kind="SlurmRuntime", group="acme.org")
    verdict = judge(config_map(text), view, view.runtime_ref)
    assert verdict.runtime is not None
    assert (verdict.runtime["spec"], verdict.runtime["partitions"]) == ({"a": None}, ["x"])
