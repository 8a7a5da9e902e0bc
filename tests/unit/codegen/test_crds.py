# SPDX-License-Identifier: Apache-2.0
"""The generated CRDs: what the API server would refuse, sizes, and what kinds must have in common."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import yaml

from trainsnap_codegen.crd import SIZE_LIMIT, check_structural
from trainsnap_codegen.layout import Layout, SchemaError, read_yaml
from trainsnap_codegen.sources import load, walk

JSON = dict[str, Any]

LAYOUT = Layout()
KINDS = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime", "TrainingRuntimeSnapshot")
WITH_RUNTIME_SPEC = KINDS[1:]


@functools.cache
def crds() -> dict[str, JSON]:
    """The CRDs as they are checked in, by kind."""
    found = [read_yaml(path) for path in sorted((LAYOUT.root / "crds").glob("trainer*.yaml"))]
    return {crd["spec"]["names"]["kind"]: crd for crd in found}


def schema(kind: str) -> JSON:
    (version,) = crds()[kind]["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def test_there_is_one_crd_for_each_kind_and_the_kustomization_lists_them() -> None:
    assert set(crds()) == set(KINDS)
    listed = read_yaml(LAYOUT.root / "crds" / "kustomization.yaml")["resources"]
    assert sorted(listed) == sorted(
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml" for crd in crds().values()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_crd_fits_the_annotation_of_a_client_side_apply(kind: str) -> None:
    assert len(json.dumps(crds()[kind], separators=(",", ":")).encode()) < SIZE_LIMIT


def test_runtimes_and_snapshot_have_the_same_spec_byte_for_byte() -> None:
    specs = {json.dumps(schema(kind)["properties"]["spec"]) for kind in WITH_RUNTIME_SPEC}
    assert len(specs) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_structural(kind: str) -> None:
    check_structural(kind, schema(kind))


@pytest.mark.parametrize(
    ("broken", "want"),
    [
        pytest.param({"type": "object", "properties": {"a": {}}}, "a: has no type", id="a node without type"),
        pytest.param(
            {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
            "both properties and additionalProperties",
            id="a map that is an object",
        ),
        pytest.param({"type": "array"}, "a list without items", id="a list without items"),
        pytest.param({"type": "object", "required": ["a"]}, "does not have: a", id="a required field that is missing"),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "the key name must be required or have a default",
            id="an optional key of a map list",
        ),
    ],
)
def test_what_the_server_would_refuse_is_refused_before(broken: JSON, want: str) -> None:
    with pytest.raises(SchemaError, match=want):
        check_structural("X", broken)


@pytest.mark.parametrize("kind", KINDS)
def test_every_description_is_one_of_ours(kind: str) -> None:
    sources = load(LAYOUT)
    ours: set[str] = set()
    for name in sources.own:
        ours |= {node["description"] for _, node in walk(sources.definitions[name]) if "description" in node}
    found = {node["description"] for _, node in walk(schema(kind)) if "description" in node}
    assert found
    assert found <= ours


def test_defaults_never_switch_a_parent_on() -> None:
    """A default of `{}` would materialize in every object that lacks the field."""
    for kind in KINDS:
        assert [path for path, node in walk(schema(kind)) if isinstance(node.get("default"), dict | list)] == []


def test_names_scopes_and_subresources() -> None:
    found = {
        kind: (
            crd["spec"]["scope"],
            crd["spec"]["names"].get("shortNames"),
            crd["spec"]["names"]["categories"],
            crd["spec"]["versions"][0].get("subresources"),
        )
        for kind, crd in crds().items()
    }
    assert found == {
        "TrainJob": ("Namespaced", None, ["trainer"], {"status": {}}),
        "TrainingRuntime": ("Namespaced", None, ["trainer"], None),
        "ClusterTrainingRuntime": ("Cluster", None, ["trainer"], None),
        "TrainingRuntimeSnapshot": ("Namespaced", ["trsnap"], ["trainer"], None),
    }


def test_columns() -> None:
    def columns(kind: str) -> list[tuple[str, str, int]]:
        rows = crds()[kind]["spec"]["versions"][0].get("additionalPrinterColumns", [])
        return [(row["name"], row["jsonPath"], row.get("priority", 0)) for row in rows]

    assert columns("TrainJob") == [
        ("State", '.status.conditions[?(@.status=="True")].type', 0),
        ("Age", ".metadata.creationTimestamp", 0),
    ]
    assert columns("TrainingRuntimeSnapshot") == [
        ("Kind", ".source.kind", 0),
        ("Runtime", ".source.name", 0),
        ("Generation", ".source.generation", 0),
        ("Origin", ".source.origin", 0),
        ("Age", ".metadata.creationTimestamp", 0),
        ("Digest", ".source.digest", 1),
    ]
    assert columns("TrainingRuntime") == columns("ClusterTrainingRuntime") == []


def test_snapshot_rules_are_at_the_root_and_guard_removal() -> None:
    rules = schema("TrainingRuntimeSnapshot")["x-kubernetes-validations"]
    for name in ("source", "spec", "opaque"):
        assert any(f"has(self.{name}) == has(oldSelf.{name})" in rule["rule"] for rule in rules)
    assert rules[0]["rule"] == "!(has(self.spec) && has(self.opaque))"


def test_what_an_opaque_snapshot_holds_has_no_type() -> None:
    """Directly under an object that preserves unknown fields, CEL equality misses a renamed key."""
    opaque = schema("TrainingRuntimeSnapshot")["properties"]["opaque"]
    assert "type" not in opaque["properties"]["spec"]
    assert "x-kubernetes-preserve-unknown-fields" not in opaque


def test_wire_facts_of_the_api() -> None:
    """A sample of defaults, limits and keys that other clients of this API rely on."""
    nodes = {kind: dict(walk(schema(kind))) for kind in KINDS}
    job, runtime = nodes["TrainJob"], nodes["TrainingRuntime"]
    patch = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
    assert job["spec.runtimeRef.kind"]["default"] == "ClusterTrainingRuntime"
    assert job["spec.managedBy"]["default"] == "trainer.kubeflow.org/trainjob-controller"
    assert job[f"{patch}.containers[].volumeMounts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert "fileKeyRef" in job["spec.trainer.env[].valueFrom"]["properties"]
    assert job["status.conditions"]["maxItems"] == 8
    assert set(job[f"{patch}"]["properties"]) == {
        "serviceAccountName",
        "volumes",
        "initContainers",
        "containers",
        "imagePullSecrets",
        "securityContext",
        "nodeSelector",
        "affinity",
        "tolerations",
        "schedulingGates",
        "terminationGracePeriodSeconds",
    }
    assert runtime["spec.mlPolicy.mpi.mpiImplementation"]["enum"] == ["OpenMPI", ""]
    assert "minimum" not in runtime["spec.mlPolicy.numNodes"]
    assert runtime["spec.template.spec.replicatedJobs[].replicas"]["default"] == 1
    for path, node in runtime.items():
        if path.endswith(".metadata"):
            assert set(node["properties"]) == {"annotations", "finalizers", "labels", "name", "namespace"}


def test_yaml_reads_the_same_without_our_loader() -> None:
    """No bare word that another YAML reader takes for a boolean or a date."""
    for path in (LAYOUT.root / "crds").glob("*.yaml"):
        assert yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader) == read_yaml(path)
