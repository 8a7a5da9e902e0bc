# SPDX-License-Identifier: Apache-2.0
"""Local checks and the API server find the same paths, on objects made wrong at random and on updates."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from support import mutations
from support.cluster import Cluster
from support.objects import runtime, train_job
from support.operator import Operator
from trainsnap_api import validate
from trainsnap_api.client.errors import ApiError, BadRequest, Conflict, Invalid, UnknownFields
from trainsnap_api.transport.resources import TRAIN_JOB, by_kind

pytestmark = [pytest.mark.anyio, pytest.mark.full]

JSON = dict[str, Any]
SAMPLES = 200
_UNNAMED = "<nil>"


async def servers_paths(cluster: Cluster, obj: JSON, *, replace: bool = False) -> tuple[str, set[str]]:
    """What the server says to a dry run: which kind of answer, and the paths in it."""
    resource = by_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    try:
        if replace:
            await cluster.api.replace(resource, obj, dry_run=True, field_validation="Strict")
        else:
            await cluster.api.create(resource, obj, dry_run=True)
    except BadRequest as error:
        return ("unknown", set(error.fields)) if isinstance(error, UnknownFields) else ("other", set())
    except Invalid as error:
        # For a number that does not fit its format the path stands in the message only.
        formats = [re.search(r"with format int\d+ in (\S+)$", cause.message) for cause in error.causes]
        named = {cause.field for cause in error.causes if cause.field not in ("", _UNNAMED)}
        return "invalid", named | {found[1] for found in formats if found}
    except Conflict:
        return "conflict", set()
    except ApiError:
        # A webhook or a policy, which come after the schema and its rules.
        return "other", set()
    return "ok", set()


def local_paths(obj: JSON, answer: str, **options: Any) -> set[str]:
    """The paths of the kind that the server tells of: it says nothing else as long as there are unknown fields."""
    problems = validate(obj, **options).problems
    unknown = {problem.field for problem in problems if problem.reason == "FieldUnknown"}
    return unknown if answer == "unknown" else {problem.field for problem in problems if problem.field}


@pytest.mark.parametrize("make", [mutations.trainjob, mutations.runtime])
async def test_wrong_objects(operator: Operator, cluster: Cluster, make: Any) -> None:
    answers: dict[str, int] = {}
    for seed in range(SAMPLES):
        obj = mutations.mutate(make("sample", cluster.namespace), Random(seed))
        answer, want = await servers_paths(cluster, obj)
        answers[answer] = answers.get(answer, 0) + 1
        assert local_paths(obj, answer) == want, (seed, obj)
    assert answers["invalid"] > SAMPLES // 4
    assert answers["unknown"] > SAMPLES // 10


BEFORE: JSON = {
    "trainer": {"image": "a", "args": ["a", "b"], "env": [{"name": "A", "value": "1"}, {"name": "B"}]},
    "activeDeadlineSeconds": 5,
    "suspend": True,
}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"suspend": False}, id="free to change"),
        pytest.param({"activeDeadlineSeconds": 6}, id="a frozen number"),
        pytest.param({"activeDeadlineSeconds": None}, id="a frozen number taken away"),
        pytest.param({"trainer": {**BEFORE["trainer"], "image": "b"}}, id="a frozen object"),
        pytest.param({"trainer": None}, id="a frozen object taken away"),
        pytest.param(
            {"trainer": {**BEFORE["trainer"], "env": [{"name": "B"}, {"name": "A", "value": "1"}]}}, id="order"
        ),
        pytest.param({"trainer": {**BEFORE["trainer"], "args": ["b", "a"]}}, id="order that matters"),
        pytest.param({"trainer": {**BEFORE["trainer"], "numProcPerNode": 0}}, id="frozen and wrong"),
        pytest.param({"initializer": {"model": {"storageUri": "no"}}}, id="new and wrong"),
    ],
)
async def test_updates(operator: Operator, cluster: Cluster, change: JSON) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    old = await cluster.create(train_job("job", cluster.namespace, **BEFORE))
    spec = {key: value for key, value in {**old["spec"], **change}.items() if value is not None}
    while True:
        new = {**await cluster.get(TRAIN_JOB, "job"), "spec": spec}
        answer, want = await servers_paths(cluster, new, replace=True)
        if answer != "conflict":  # the operator wrote the status meanwhile
            break
    assert answer in ("ok", "invalid")
    assert local_paths(new, answer, old=old) == want
