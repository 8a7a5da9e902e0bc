# SPDX-License-Identifier: Apache-2.0
"""The table of deviations: each row must fit the schemas that it changes, or the build fails."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainsnap_codegen.layout import Layout, SchemaError, read_yaml
from trainsnap_codegen.sources import Sources, apply_deviations, expand, load

JSON = dict[str, Any]

DEFINITIONS: dict[str, JSON] = {
    "Pod": {
        "type": "object",
        "properties": {
            "grace": {"type": "integer", "minimum": 0},
            "context": {"$ref": "Context"},
            "other": {"$ref": "Context"},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        },
    },
    "Context": {"type": "object", "properties": {"user": {"type": "integer"}}, "x-map": "atomic"},
}
WHY = {"why": "a reason", "since": "a version"}


def changed(*rows: JSON) -> dict[str, JSON]:
    definitions = copy.deepcopy(DEFINITIONS)
    apply_deviations(definitions, [{**row, **WHY} for row in rows])
    return definitions


def test_add_replace_and_remove() -> None:
    got = changed(
        {"at": "Pod.grace", "add": {"maximum": 9}},
        {"at": "Pod.grace", "replace": {"minimum": {"from": 0, "to": 1}}},
        {"at": "Pod.list[]", "remove": {"maxLength": 3}},
    )
    assert got["Pod"]["properties"]["grace"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert got["Pod"]["properties"]["list"]["items"] == {"type": "string"}


def test_a_change_of_a_reference_concerns_that_place_only() -> None:
    got = changed({"at": "Pod.context", "add": {"x-rule": "fixed"}})
    pod = expand(Sources(kinds=(), definitions=got), "Pod")["properties"]
    assert pod["context"] == {**DEFINITIONS["Context"], "x-rule": "fixed"}
    assert pod["other"] == DEFINITIONS["Context"]


@pytest.mark.parametrize(
    ("row", "want"),
    [
        pytest.param({"at": "Pod.gone", "add": {"a": 1}}, "no such place", id="the field is gone"),
        pytest.param({"at": "Gone", "add": {"a": 1}}, "no such place", id="the definition is gone"),
        pytest.param({"at": "Pod.grace[]", "add": {"a": 1}}, "no such place", id="it is not a list any more"),
        pytest.param({"at": "Pod.grace", "add": {"minimum": 5}}, "there already", id="what is added came upstream"),
        pytest.param({"at": "Pod.context", "add": {"x-map": 1}}, "there already", id="it is there behind a reference"),
        pytest.param(
            {"at": "Pod.grace", "replace": {"minimum": {"from": 7, "to": 1}}}, "is not 7 but 0", id="another old value"
        ),
        pytest.param({"at": "Pod.grace", "remove": {"maximum": 9}}, "is not 9 but None", id="what is removed is gone"),
        pytest.param({"at": "Pod.context", "remove": {"x-map": "atomic"}}, "belongs to Context", id="of a definition"),
        pytest.param({"at": "Pod.grace"}, "needs at, why, since", id="no change"),
        pytest.param({"at": "Pod.grace", "add": {"a": 1}, "remove": {}}, "needs at, why", id="two changes"),
    ],
)
def test_a_row_that_no_longer_fits_fails_the_build(row: JSON, want: str) -> None:
    with pytest.raises(SchemaError, match=want):
        changed(row)


def test_a_row_needs_a_reason() -> None:
    with pytest.raises(SchemaError, match="needs at, why, since"):
        apply_deviations(copy.deepcopy(DEFINITIONS), [{"at": "Pod.grace", "add": {"maximum": 9}}])


def test_every_row_of_the_table_is_seen_in_a_crd() -> None:
    """Each row changes what is generated: without it the sources load to something else."""
    layout = Layout()
    rows = read_yaml(layout.sources / "deviations.yaml")["rows"]
    sources = load(layout)
    for row in rows:
        name, *steps = str(row["at"]).split(".")
        node = expand(sources, name)
        for step in steps:
            node = node["properties"][step]
        assert all(node[key] == value for key, value in row["add"].items())
