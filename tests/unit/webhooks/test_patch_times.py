# SPDX-License-Identifier: Apache-2.0
"""The times of patches: who sets them, and that nothing else is touched."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trainsnap_controller.webhooks import times

JSON = dict[str, Any]
NOW = datetime(2026, 5, 4, 3, 2, 1, 999_999, tzinfo=UTC)
STAMP = "2026-05-04T03:02:01Z"
OLD, GIVEN = "2025-01-01T00:00:00Z", "2030-12-31T23:59:59Z"


def entry(manager: str = "a.io/x", time: str | None = None, **pod: Any) -> JSON:
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    made: JSON = {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    return made if time is None else {**made, "time": time}


def job(*entries: Any) -> JSON:
    return {"spec": {"runtimePatches": list(entries)}}


def add(index: int, value: str = STAMP) -> JSON:
    return {"op": "add", "path": f"/spec/runtimePatches/{index}/time", "value": value}


SELECTOR: Any = {"nodeSelector": {"a": "b"}}
TIMES = [
    pytest.param(job(entry()), None, [add(0)], id="D1 new job, no time"),
    pytest.param(job(entry(time=GIVEN)), None, [], id="D2 new job, a time of its own"),
    pytest.param(job(entry(), entry("b.io/y", GIVEN), entry("c.io/z")), None, [add(0), add(2)], id="several"),
    pytest.param(job(entry(time=GIVEN)), job(entry(time=OLD)), [add(0, OLD)], id="D3 unchanged: a new time is undone"),
    pytest.param(job(entry()), job(entry(time=OLD)), [add(0, OLD)], id="D3 unchanged: the old time comes back"),
    pytest.param(job(entry(time=OLD)), job(entry(time=OLD)), [], id="D3 unchanged: nothing to do"),
    pytest.param(job(entry()), job(entry()), [], id="D3 unchanged: no old time, none now"),
    pytest.param(
        job(entry(time=GIVEN)), job(entry()), [{"op": "remove", "path": "/spec/runtimePatches/0/time"}],
        id="D3 unchanged: no old time, so none is taken",
    ),
    pytest.param(job(entry(time=GIVEN, **SELECTOR)), job(entry(time=OLD)), [add(0)], id="D4 changed: now"),
    pytest.param(job(entry(time=STAMP, **SELECTOR)), job(entry(time=OLD)), [], id="D4 changed, and it is now already"),
    pytest.param(job(entry("n.io/n")), job(entry(time=OLD)), [add(0)], id="D5 a new manager"),
    pytest.param(job(entry("n.io/n", GIVEN)), job(entry(time=OLD)), [], id="D6 a new manager with a time"),
    pytest.param(
        job(entry("b.io/y", **SELECTOR), entry()), job(entry(time=OLD), entry("b.io/y", OLD)), [add(0), add(1, OLD)],
        id="another order: managers are looked up by name",
    ),
    pytest.param(job(), job(entry(time=OLD)), [], id="taken away"),
    pytest.param({"spec": {}}, None, [], id="no patches"),
    pytest.param(job(entry()), {"spec": {}}, [add(0)], id="the first patch of an old job"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "old", "want"), TIMES)
def test_which_times_are_set(obj: JSON, old: JSON | None, want: list[JSON]) -> None:
    assert times.patch(obj, old, NOW) == want


def volume(size: Any) -> JSON:
    return {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": size}}]}


SAME = [
    pytest.param(volume("1024Mi"), volume("1Gi"), id="a quantity respelled"),
    pytest.param({"nodeSelector": {}}, {}, id="empty and missing map"),
    pytest.param({"tolerations": []}, {}, id="empty and missing list"),
    pytest.param({"securityContext": {"runAsUser": 0}}, {"securityContext": {"runAsUser": 0}}, id="a zero that counts"),
]


@pytest.mark.parametrize(("new", "old"), SAME)
def test_what_counts_as_unchanged(new: JSON, old: JSON) -> None:
    assert times.patch(job(entry(**new)), job(entry(time=OLD, **old)), NOW) == [add(0, OLD)]


DIFFERENT = [
    pytest.param(volume("1Gi"), volume("2Gi"), id="a quantity"),
    pytest.param({"securityContext": {"runAsUser": 0}}, {}, id="a zero that counts"),
    pytest.param({"terminationGracePeriodSeconds": 0}, {}, id="no grace"),
    pytest.param(
        {"tolerations": [{"key": "a"}, {"key": "b"}]}, {"tolerations": [{"key": "b"}, {"key": "a"}]}, id="order"
    ),
]


@pytest.mark.parametrize(("new", "old"), DIFFERENT)
def test_what_counts_as_changed(new: JSON, old: JSON) -> None:
    assert times.patch(job(entry(**new)), job(entry(time=OLD, **old)), NOW) == [add(0)]


SHAPELESS: list[Any] = [None, "x", 7, [], ["x"], [None], {"a": 1}, [[{}]], [entry(), "x"]]


@pytest.mark.parametrize("entries", SHAPELESS, ids=repr)
def test_what_has_no_shape_is_left_for_the_schema(entries: Any) -> None:
    assert times.patch({"spec": {"runtimePatches": entries}}, None, NOW) == []
    assert times.patch({"spec": {"runtimePatches": entries}}, job(entry(time=OLD)), NOW) == []


@pytest.mark.parametrize("spec", [None, "x", 7, [], [{"runtimePatches": []}]], ids=repr)
def test_a_spec_without_shape(spec: Any) -> None:
    assert times.patch({"spec": spec}, None, NOW) == []


BROKEN: list[Any] = [
    {"manager": ["a.io/x"]},
    {"manager": None},
    {"manager": "a.io/x", "trainingRuntimeSpec": "x"},
    {"manager": "a.io/x", "trainingRuntimeSpec": {"template": []}},
    {"manager": "a.io/x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": {"name": "x"}}}}},
    {"manager": "a.io/x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": ["x"]}}}},
    {"manager": "a.io/x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"template": 1}]}}}},
]


@pytest.mark.parametrize("broken", BROKEN, ids=repr)
def test_an_entry_of_the_wrong_types_is_stamped_and_refused_later(broken: JSON) -> None:
    assert times.patch(job(broken), job(entry(time=OLD)), NOW) == [add(0)]
