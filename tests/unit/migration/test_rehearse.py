# SPDX-License-Identifier: Apache-2.0
"""Dry runs: one for every content that is only planned, one for every shape of what is written in a moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trainsnap_api.transport import Invalid, Resource, Unavailable
from trainsnap_controller.migration.rehearse import REMEMBERED, Rehearsals, shape_of

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


def snapshot(spec: Any, number: int = 0, **source: Any) -> JSON:
    made_for = {"trainJob": {"name": f"job-{number}", "uid": str(number)}, "capturedAt": "t", "digest": "d" * 64}
    return {"metadata": {"name": f"job-{number}"}, "source": {**made_for, **source}, "spec": spec}


class Api:
    """Answers after a moment. Refuses images called ``bad``, and prunes ``unknown``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[JSON] = []
        self.error = error

    async def create(self, resource: Resource, obj: JSON, **options: Any) -> JSON:
        assert (resource.kind, options["dry_run"], options["field_validation"]) == (
            "TrainingRuntimeSnapshot", True, "Strict",
        )  # fmt: skip
        self.asked.append(obj)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        if obj["spec"].get("image") == "bad":
            raise Invalid("spec.image: no", status=422)
        metadata = {**obj["metadata"], "name": obj["metadata"]["generateName"] + "x7k2q"}
        return {
            **obj,
            "metadata": metadata,
            "spec": {key: value for key, value in obj["spec"].items() if key != "unknown"},
            "status": {},
        }


@pytest.mark.parametrize(("by_shape", "want"), [pytest.param(True, 1, id="apply"), pytest.param(False, 3, id="plan")])
async def test_how_many_dry_runs(by_shape: bool, want: int) -> None:
    api = Api()
    rehearsals = Rehearsals(api, by_shape=by_shape)
    for number, image in enumerate(["a", "b", "a", "c"]):
        assert await rehearsals.problems(snapshot({"image": image}, number)) == []
    assert len(api.asked) == want
    assert all(obj["metadata"] == {"generateName": "rehearsal-"} for obj in api.asked), "under a name that is free"


async def test_a_value_that_is_refused_says_nothing_about_the_next_one_of_its_shape() -> None:
    api = Api()
    rehearsals = Rehearsals(api, by_shape=True)
    assert await rehearsals.problems(snapshot({"image": "bad"})) == ["spec.image: no"]
    assert await rehearsals.problems(snapshot({"image": "good"})) == []
    assert await rehearsals.problems(snapshot({"image": "better"})) == []
    assert len(api.asked) == 2


async def test_what_is_lost_is_found_for_every_content_of_the_shape() -> None:
    api = Api()
    rehearsals = Rehearsals(api, by_shape=True)
    for image in ("a", "b"):
        assert await rehearsals.problems(snapshot({"image": image, "unknown": 1})) == ["spec.unknown: was lost"]
    assert len(api.asked) == 2


async def test_the_same_content_is_tried_once_though_many_ask_at_once() -> None:
    api = Api()
    rehearsals = Rehearsals(api, by_shape=False)
    found = await asyncio.gather(*(rehearsals.problems(snapshot({"image": "bad"}, n)) for n in range(20)))
    assert found == [["spec.image: no"]] * 20
    assert len(api.asked) == 1


async def test_an_error_is_everybodys_and_is_not_remembered() -> None:
    api = Api(Unavailable("later", status=503))
    rehearsals = Rehearsals(api, by_shape=True)
    asked = [rehearsals.problems(snapshot({"image": "a"}, number)) for number in range(3)]
    assert [type(found) for found in await asyncio.gather(*asked, return_exceptions=True)] == [Unavailable] * 3
    api.error = None
    assert await rehearsals.problems(snapshot({"image": "a"})) == []


@pytest.mark.parametrize("by_shape", [True, False])
async def test_memory_is_bounded(by_shape: bool) -> None:
    api = Api()
    rehearsals = Rehearsals(api, by_shape=by_shape)
    for number in range(REMEMBERED + 10):
        await rehearsals.problems(snapshot({f"field-{number}": 1}))
    assert max(len(rehearsals._contents), len(rehearsals._shapes)) <= REMEMBERED


A = {"name": "a", "value": "1"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param({"a": "x", "b": 1}, {"a": "y", "b": 2}, True, id="other strings and numbers"),
        pytest.param([A], [A, {"name": "b", "value": "2"}], True, id="another number of items"),
        pytest.param([1, "a"], ["b", 2], True, id="another order of items"),
        pytest.param([A], [{"name": "a"}], False, id="an item without one of its fields"),
        pytest.param([A], [A, {"name": "b"}], False, id="one of the items without it"),
        pytest.param([], [1], False, id="an empty list"),
        pytest.param({}, {"a": 1}, False, id="an empty object"),
        pytest.param({"a": 1}, {"b": 1}, False, id="another key"),
        pytest.param({"a": 1}, {"a": "1"}, False, id="a number and a string: int-or-string"),
        pytest.param({"a": 1}, {"a": 1.5}, False, id="a whole number and another"),
        pytest.param({"a": 1}, {"a": True}, False, id="a number and a boolean"),
        pytest.param({"a": None}, {"a": ""}, False, id="null and an empty string"),
        pytest.param({"a": None}, {}, False, id="null and nothing"),
        pytest.param({"a": 1 << 63}, {"a": (1 << 63) + 1}, False, id="numbers that the server cannot keep"),
        pytest.param({"a's": {"b": 1}}, {"a": {"s{'b": 1}}, False, id="keys that look like something else"),
        pytest.param({"a": [{"b": []}]}, {"a": [{"b": {}}]}, False, id="a list and an object, deep inside"),
    ],
)
def test_shapes(one: Any, other: Any, same: bool) -> None:
    assert (shape_of(one) == shape_of(other)) is same
