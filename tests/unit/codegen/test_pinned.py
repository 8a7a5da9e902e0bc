# SPDX-License-Identifier: Apache-2.0
"""The pinned schemas: facts only, folded without loss, and equal to the Go modules where there is Go."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from trainsnap_codegen.gomodules import GoUnavailableError, locate
from trainsnap_codegen.layout import Layout, SchemaError, read_yaml
from trainsnap_codegen.pin import Fold, pinned_files, strip
from trainsnap_codegen.sources import Sources, expand, walk

JSON = dict[str, Any]

LAYOUT = Layout()


def test_pinned_files_hold_no_descriptions() -> None:
    def texts(node: Any) -> list[str]:
        if isinstance(node, list):
            return [text for item in node for text in texts(item)]
        if not isinstance(node, dict):
            return []
        here = [node["description"]] if isinstance(node.get("description"), str) else []
        return here + [text for value in node.values() for text in texts(value)]

    for path in (LAYOUT.pinned_jobset, LAYOUT.pinned_kubernetes):
        assert texts(read_yaml(path)) == []


def test_strip_keeps_a_property_that_is_called_description() -> None:
    schema = {"description": "text", "properties": {"description": {"type": "string", "description": "text"}}}
    assert strip(schema) == {"properties": {"description": {"type": "string"}}}


def test_pinned_files_are_those_of_the_go_modules() -> None:
    try:
        files = pinned_files(LAYOUT)
    except GoUnavailableError as reason:
        pytest.skip(str(reason))
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text


def test_folding_loses_nothing() -> None:
    """Written out again, the definitions are the spec of the JobSet CRD: 325 objects of 131 types."""
    try:
        module = locate(LAYOUT.root, "jobset", "sigs.k8s.io/jobset")
    except GoUnavailableError as reason:
        pytest.skip(str(reason))
    file = module.folder / "config" / "components" / "crd" / "bases" / "jobset.x-k8s.io_jobsets.yaml"
    crd = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    want = strip(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    definitions = read_yaml(LAYOUT.pinned_jobset)["definitions"]
    assert expand(Sources(kinds=(), definitions=definitions), "JobSetSpec") == want
    assert len([path for path, node in walk(want) if "properties" in node]) == 325


NAMES: JSON = {"anchors": {"spec.pod": "k8s.Pod"}, "jobset": {"": "Root"}, "differing": {}}
SWAGGER: JSON = {"k8s.Pod": {"properties": {"name": {}, "a": {"$ref": "#/definitions/k8s.Env"}}}, "k8s.Env": {}}


def crd_with(pod: JSON) -> JSON:
    spec = {"type": "object", "properties": {"pod": pod}}
    root = {"properties": {"spec": spec, "status": {"properties": {"conditions": {"type": "array"}}}}}
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}}


def test_an_object_gets_the_name_of_its_kubernetes_type() -> None:
    fold = Fold(SWAGGER, NAMES)
    fold.crd(crd_with({"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "string"}}}))
    assert set(fold.definitions) == {"Root", "Pod"}
    assert fold.definitions["Root"]["properties"]["pod"] == {"$ref": "Pod"}


def test_an_object_with_other_fields_than_its_type_needs_a_name_of_its_own() -> None:
    pod = {"type": "object", "properties": {"name": {"type": "string"}}}
    with pytest.raises(SchemaError, match=r"does not have the fields of k8s\.Pod"):
        Fold(SWAGGER, NAMES).crd(crd_with(pod))
    fold = Fold(SWAGGER, {**NAMES, "differing": {"k8s.Pod": "SmallPod"}})
    fold.crd(crd_with(pod))
    assert "SmallPod" in fold.definitions


def test_a_name_without_use_is_stale() -> None:
    pod = {"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "string"}}}
    with pytest.raises(SchemaError, match="no longer has: Gone"):
        Fold(SWAGGER, {**NAMES, "jobset": {"": "Root", "gone": "Gone"}}).crd(crd_with(pod))
    with pytest.raises(SchemaError, match="after all"):
        Fold(SWAGGER, {**NAMES, "differing": {"k8s.Pod": "SmallPod"}}).crd(crd_with(pod))
