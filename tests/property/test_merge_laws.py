# SPDX-License-Identifier: Apache-2.0
"""Laws of the strategic merge: nothing is lost, the patch wins, merging twice changes nothing more."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainsnap_controller.runtime._generated.merge_keys import MERGE_KEYS
from trainsnap_controller.runtime.merge import merge

JSON = dict[str, Any]
NAMES = "abcdef"


def keyed(value: st.SearchStrategy[JSON]) -> st.SearchStrategy[list[JSON]]:
    """A list of elements with different names."""
    return st.dictionaries(st.sampled_from(NAMES), value, max_size=5).map(
        lambda items: [{"name": name, **item} for name, item in items.items()]
    )


SOURCES: tuple[JSON, ...] = ({"value": "1"}, {"value": "2"}, {"valueFrom": {"fieldRef": {"fieldPath": "x"}}})
sources = st.sampled_from(SOURCES)
maps = st.dictionaries(st.sampled_from(("x", "y", "$patch")), st.sampled_from(("1", "2")), max_size=3)
containers = keyed(st.fixed_dictionaries({}, optional={"env": keyed(sources)}))
pods = st.fixed_dictionaries(
    {}, optional={"containers": containers, "nodeSelector": maps, "tolerations": keyed(st.just({}))}
)


def wrapped(pod: JSON) -> JSON:
    return {"replicatedJobs": [{"name": "n", "template": {"spec": {"template": {"spec": pod}}}}]}


def merged(base: JSON, patch: JSON) -> JSON:
    result: JSON = merge(wrapped(base), wrapped(patch), MERGE_KEYS)
    pod: JSON = result["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod


def names(items: list[JSON] | None) -> list[str]:
    return [item["name"] for item in items or []]


@given(pods, pods)
def test_every_name_is_there_once_and_inputs_are_left_alone(base: JSON, patch: JSON) -> None:
    before = copy.deepcopy((base, patch))
    got = merged(base, patch)
    found = names(got.get("containers"))
    assert sorted(found) == sorted({*names(base.get("containers")), *names(patch.get("containers"))})
    assert (base, patch) == before


@given(pods, pods)
def test_the_patch_wins(base: JSON, patch: JSON) -> None:
    got = merged(base, patch)
    for key, value in patch.get("nodeSelector", {}).items():
        assert got["nodeSelector"][key] == value
    if "tolerations" in patch:
        assert got["tolerations"] == patch["tolerations"]
    after = {item["name"]: item for item in got.get("containers", [])}
    for container in patch.get("containers", []):
        variables = {item["name"]: item for item in after[container["name"]].get("env", [])}
        assert all(variables[item["name"]] == item for item in container.get("env", []))


@given(pods, pods)
def test_merging_the_same_again_changes_no_content(base: JSON, patch: JSON) -> None:
    once = merged(base, patch)
    assert sorted(map(repr, merged(once, patch).get("containers", []))) == sorted(map(repr, once.get("containers", [])))


@given(pods)
def test_merging_nothing_changes_nothing(base: JSON) -> None:
    assert merged(base, {}) == base
    assert merged(base, base) == base


@given(pods, pods)
def test_elements_of_the_patch_keep_its_order(base: JSON, patch: JSON) -> None:
    wanted = names(patch.get("containers"))
    got = [name for name in names(merged(base, patch).get("containers")) if name in wanted]
    assert got == wanted


@given(pods, pods)
def test_a_variable_has_one_source(base: JSON, patch: JSON) -> None:
    for container in merged(base, patch).get("containers", []):
        for variable in container.get("env", []):
            assert len({"value", "valueFrom"} & set(variable)) == 1
