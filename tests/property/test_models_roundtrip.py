# SPDX-License-Identifier: Apache-2.0
"""What a model reads is what it dumps: for every field of every kind, and for generated objects.

Objects are made from the CRDs' schemas: any subset of fields, unknown fields at every level (also with names that
mean something in Python or to pydantic), null, empty text, empty objects and lists, and both forms of int-or-string.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.generated import KINDS, ODD_NAMES, ROOT, objects, schema_of
from trainsnap_api import models
from trainsnap_api.models import Model

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON = dict[str, Any]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def schema(kind: str) -> JSON:
    return schema_of(kind)


def roundtrip(kind: str, obj: JSON) -> None:
    """Both ways of reading give the object back, in value and type."""
    cls: type[Model] = getattr(models, kind)
    want = json.dumps(obj, sort_keys=True)
    assert json.dumps(cls.model_validate(obj).dump(), sort_keys=True) == want
    assert json.dumps(cls.model_validate_json(want).dump(), sort_keys=True) == want


# Every field, one at a time


def samples(node: JSON) -> list[Any]:
    """A few values of a leaf."""
    if node.get("x-kubernetes-int-or-string"):
        return [8080, "8080", "50%", 0, "", *([0.5, "1Gi"] if "pattern" in node else [])]
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return [{"a": [1, None]}, "text", 1, False, [], {}]
    plain: dict[str, list[Any]] = {
        "string": ["text", "", "2020-01-01T00:00:00Z", "true", "1", "null"],
        "integer": [0, 1, -1, 2**62],
        "boolean": [True, False],
        "object": [{}],
        "array": [[]],
    }
    return plain[node["type"]]


def leaves(node: JSON) -> Iterator[JSON]:
    """Objects that have one field each, for every field of the schema and each of its samples, and with null."""
    for key, child in node.get("properties", {}).items():
        yield {key: None}
        yield from ({key: value} for value in values(child))
    if isinstance(node.get("additionalProperties"), dict):
        yield from ({"a.b/c": value} for value in [None, *samples(node["additionalProperties"])])


def values(node: JSON) -> Iterator[Any]:
    yield from samples(node)
    if "items" in node:
        yield from ([value] for value in values(node["items"]))
    else:
        yield from leaves(node)


def test_every_field_of_a_kind_comes_back_as_it_was(kind: str, schema: JSON) -> None:
    count = 0
    for obj in leaves(schema):
        roundtrip(kind, obj)
        count += 1
    assert count > 1000


# Generated objects


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_generated_objects_come_back_as_they_were(name: str, data: st.DataObject) -> None:
    roundtrip(name, data.draw(objects(schema_of(name))))


# What is not the value itself


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_unknown_field_stays_whatever_its_name(name: str) -> None:
    spec: JSON = {"runtimeRef": {"name": "r", name: 1}, name: {"a": None}}
    roundtrip("TrainJob", {"spec": spec, name: [1]})


def test_null_beside_its_own_python_name() -> None:
    """pydantic alone would lose the null, and does when it reads the object itself."""
    both: JSON = {"managedBy": None, "managed_by": 1}
    assert models.TrainJobSpec.model_validate(both).dump() == both
    assert models.TrainJobSpec.model_validate_json(json.dumps(both)).dump() == both
    assert models.TrainJobSpec.model_validate(both, context={}).dump() == {"managed_by": 1}
    given = {"managedBy": "x", "managed_by": 1}
    assert models.TrainJobSpec.model_validate(given, context={}).dump() == given


def test_null_empty_and_absent_are_four_things() -> None:
    empty: tuple[Any, ...] = (None, "", {}, [])
    for value in empty:
        for obj in ({"spec": {"trainer": {"newField": value}}}, {"newField": value}):
            roundtrip("TrainJob", obj)
    specs: list[JSON] = [
        {"trainer": None},
        {"trainer": {}},
        {},
        {"trainer": {"image": ""}},
        {"trainer": {"image": None}},
    ]
    for spec in specs:
        roundtrip("TrainJob", {"spec": spec})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"suspend": "true"}, id="text for a boolean"),
        pytest.param({"suspend": 1}, id="a number for a boolean"),
        pytest.param({"activeDeadlineSeconds": "5"}, id="text for a number"),
        pytest.param({"activeDeadlineSeconds": True}, id="a boolean for a number"),
        pytest.param({"activeDeadlineSeconds": 1.5}, id="a fraction for a whole number"),
        pytest.param({"managedBy": 1}, id="a number for text"),
        pytest.param({"trainer": []}, id="a list for an object"),
        pytest.param({"trainer": {"resourcesPerNode": {"limits": {"cpu": True}}}}, id="a boolean for a quantity"),
    ],
)
def test_nothing_is_converted(spec: JSON) -> None:
    with pytest.raises(ValueError, match="Input should be"):
        models.TrainJob.model_validate({"spec": spec})


def test_a_model_built_by_hand_dumps_what_was_given_and_no_default() -> None:
    job = models.TrainJob(spec=models.TrainJobSpec(runtime_ref=models.RuntimeRef(name="r"), suspend=None))
    assert job.dump() == {"spec": {"runtimeRef": {"name": "r"}, "suspend": None}}
    assert job.spec is not None
    job.spec.managed_by = "x"
    assert job.dump()["spec"]["managedBy"] == "x"


def test_the_api_name_of_a_field_cannot_be_set_as_an_attribute() -> None:
    """It would stand beside the field as an unknown one, and which of both is dumped would be chance."""
    spec = models.TrainJobSpec()
    with pytest.raises(AttributeError, match="is called managed_by in Python"):
        spec.managedBy = "x"
    spec.newField = 1
    assert spec.dump() == {"newField": 1}


def test_every_field_is_constructed_by_either_name_and_dumped_by_the_api_name() -> None:
    for name in models.__all__:
        cls = getattr(models, name)
        if not (isinstance(cls, type) and issubclass(cls, Model)):
            continue
        for field, info in cls.model_fields.items():
            alias = info.alias or field
            assert cls(**{field: None}).dump() == cls(**{alias: None}).dump() == {alias: None}


def test_every_golden_input_comes_back_as_it_was() -> None:
    paths = sorted((ROOT / "tests" / "golden" / "cases").glob("*.yaml"))
    if not paths:
        pytest.skip("the golden cases are not here")
    count = 0
    for path in paths:
        for case in yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader):
            for step in case["steps"]:
                obj = step.get("create", {})
                if obj.get("kind") in KINDS:
                    roundtrip(obj["kind"], obj)
                    count += 1
    assert count > 100
