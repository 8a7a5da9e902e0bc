# SPDX-License-Identifier: Apache-2.0
"""Nothing is written when nothing changed, and something is when it did."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainsnap_controller import constants as c
from trainsnap_controller.reconcile.compare import FROZEN, covers, stamped, up_to_date

JSON = dict[str, Any]


@pytest.mark.parametrize(
    ("live", "wanted", "want"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="more fields are defaults"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="a missing field"),
        pytest.param({"a": 1}, {"a": True}, False, id="true is not one"),
        pytest.param({"args": ["x", "y"]}, {"args": ["x"]}, False, id="a longer plain list"),
        pytest.param({"args": ["y", "x"]}, {"args": ["x", "y"]}, False, id="another order"),
        pytest.param({"env": [{"name": "F"}, {"name": "A"}]}, {"env": [{"name": "A"}]}, True,
                     id="an entry of another manager in a keyed list"),
        pytest.param({"env": [{"name": "B"}, {"name": "A"}]}, {"env": [{"name": "A"}, {"name": "B"}]}, False,
                     id="our entries in another order"),
        pytest.param({"ports": [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": "UDP"}]},
                     {"ports": [{"containerPort": 1}]}, True, id="a port's protocol is TCP by default"),
        pytest.param({"tolerations": [{"key": "a"}, {"key": "b"}]}, {"tolerations": [{"key": "a"}]}, False,
                     id="an atomic list has no foreign entries"),
        pytest.param({"x": None}, {"x": {}}, False, id="null is no map"),
    ],
)  # fmt: skip
def test_covers(live: Any, wanted: Any, want: bool) -> None:
    assert covers(live, wanted) is want


WANTED: JSON = {"metadata": {"name": "j", "annotations": {"a": "1"}}, "spec": {"x": 1}}


def test_what_was_applied_is_up_to_date() -> None:
    live = copy.deepcopy(stamped(WANTED))
    live["spec"]["default"] = True
    assert up_to_date(live, WANTED)
    assert live["metadata"]["annotations"]["a"] == "1"
    assert c.APPLIED_HASH not in WANTED["metadata"]["annotations"], "the wanted document itself is not changed"


def test_a_field_that_is_no_longer_wanted_is_seen() -> None:
    live = stamped({**WANTED, "spec": {"x": 1, "y": 2}})
    assert covers(live, WANTED)
    assert not up_to_date(live, WANTED)


def test_an_object_of_the_reference_is_left_alone_when_it_says_what_is_wanted() -> None:
    live = {"metadata": {"name": "j", "annotations": {"a": "1"}}, "spec": {"x": 1, "y": 2}}
    assert up_to_date(live, WANTED)
    assert not up_to_date({**live, "spec": {"x": 2}}, WANTED)


def test_kept_frozen_parts_are_remembered_by_a_mark() -> None:
    kept: JSON = {**WANTED, "spec": {"x": 0}}
    live = stamped(kept, of=WANTED, mark=FROZEN)
    assert not up_to_date(live, WANTED)
    assert up_to_date(live, WANTED, mark=FROZEN, document=kept)
    assert not up_to_date(live, {**WANTED, "spec": {"x": 3}}, mark=FROZEN, document=kept)
