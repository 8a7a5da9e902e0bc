# SPDX-License-Identifier: Apache-2.0
"""The digest is stable and strict; the comparison allows defaults and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from trainsnap_controller.snapshot.digest import beyond_defaults, canonical_json, deeper_than, digest


@pytest.mark.parametrize(
    ("one", "other", "want_equal"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="key order does not count"),
        pytest.param([1, 2], [2, 1], False, id="list order counts"),
        pytest.param({"a": 1}, {"a": "1"}, False, id="a number is not its text"),
        pytest.param({"a": None}, {}, False, id="null is not absence"),
        pytest.param({"a": {}}, {}, False, id="an empty map is not absence"),
        pytest.param({"a": True}, {"a": 1}, False, id="true is not one"),
        pytest.param(None, {}, False, id="no spec is not an empty one"),
    ],
)
def test_digest_tells_values_apart(one: Any, other: Any, want_equal: bool) -> None:
    assert (digest(one) == digest(other)) is want_equal


def test_canonical_json_is_utf8_without_spaces_and_escapes() -> None:
    assert canonical_json({"b": ["ü", 1], "a": "x\u0085y"}) == '{"a":"x\u0085y","b":["ü",1]}'.encode()


def test_digest_is_the_published_algorithm() -> None:
    # sha256 of the seven bytes {"a":1}, as sha256sum prints it: anybody can check a digest with standard tools.
    assert digest({"a": 1}) == "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


@pytest.mark.parametrize(
    ("sent", "stored", "want"),
    [
        pytest.param({"a": 1}, {"a": 1, "b": "default"}, [], id="an added field is a default"),
        pytest.param({"a": [{"n": 1}]}, {"a": [{"n": 1, "p": "TCP"}]}, [], id="also inside a list"),
        pytest.param({"a": None}, {}, [], id="the server drops null"),
        pytest.param({"spec": {"x": 1}}, {"spec": {}}, ["spec.x: was lost"], id="a pruned field"),
        pytest.param({"a": 1}, {"a": 2}, ["a: was changed from 1 to 2"], id="a changed value"),
        pytest.param({"a": 1}, {"a": True}, ["a: was changed from 1 to true"], id="a changed type"),
        pytest.param({"e": [1]}, {"e": [1, 2]}, ["e: has 2 items instead of 1"], id="an added list item"),
        pytest.param({"e": [1, 2]}, {"e": [2, 1]}, ["e[0]: was changed from 1 to 2", "e[1]: was changed from 2 to 1"],
                     id="another order"),
        pytest.param({"labels": {"a": "1"}}, {"labels": {"a": "1", "b": "2"}}, ["labels[b]: was added"],
                     id="a key in a map of the user's keys is no default"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 1, "nodeSelector": {"zone": "x"}}},
                     ["spec.nodeSelector: was added"], id="nor is such a map"),
        pytest.param({"spec": {}}, {"spec": {"labels": {}}}, [], id="but an empty one changes nothing"),
    ],
)  # fmt: skip
def test_beyond_defaults_names_what_is_more_than_a_default(sent: Any, stored: Any, want: list[str]) -> None:
    assert list(beyond_defaults(sent, stored)) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(1, 0, id="a plain value"),
        pytest.param({}, 1, id="an empty object"),
        pytest.param({"a": 1, "b": [1, {"c": 2}]}, 3, id="lists count"),
    ],
)
def test_levels_of_nesting(value: Any, want: int) -> None:
    assert deeper_than(value, want - 1) is (want > 0)
    assert not deeper_than(value, want)


def test_nesting_beyond_any_stack_is_measured() -> None:
    value: Any = 1
    for _ in range(50_000):
        value = [value]
    assert deeper_than(value, 100)
