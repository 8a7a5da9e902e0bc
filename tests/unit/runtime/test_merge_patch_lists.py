# SPDX-License-Identifier: Apache-2.0
"""Strategic merge: which lists merge, by which key, and in which order the elements come out."""

from __future__ import annotations

from typing import Any

import pytest

from trainsnap_controller.runtime._generated.merge_keys import MERGE_KEYS
from trainsnap_controller.runtime.merge import merge

JSON = dict[str, Any]


def pods(base: JSON, patch: JSON) -> JSON:
    """The pod spec that comes out of merging two."""

    def wrapped(spec: JSON) -> JSON:
        return {"replicatedJobs": [{"name": "n", "template": {"spec": {"template": {"spec": spec}}}}]}

    merged = merge(wrapped(base), wrapped(patch), MERGE_KEYS)
    result: JSON = merged["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return result


def gates(text: str) -> list[JSON]:
    return [{"name": name} for name in text.split()]


ORDER = [
    ("a b c", "x", "x a b c"),
    ("a b", "a x", "a x b"),
    ("a b c", "b x", "a b x c"),
    ("a b c", "c a", "b c a"),
    ("a b", "b a", "b a"),
    ("", "a b", "a b"),
    ("a", "", "a"),
    ("a b c d", "d b", "a c d b"),
    ("a b c", "x b y", "x a b y c"),
]


@pytest.mark.parametrize(("base", "patch", "want"), ORDER, ids=[f"{a} + {b}" for a, b, _ in ORDER])
def test_order_of_elements(base: str, patch: str, want: str) -> None:
    got = pods({"schedulingGates": gates(base)}, {"schedulingGates": gates(patch)})
    assert [item["name"] for item in got["schedulingGates"]] == want.split()


def test_variables_merge_by_name_and_take_the_patch_source() -> None:
    base = {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"x": {}}}]}]}
    change = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "B", "value": "2"}]

    got = pods(base, {"containers": [{"name": "c", "env": change}]})["containers"][0]["env"]

    assert got == change


def test_a_reference_of_the_same_kind_is_merged_by_field() -> None:
    def one(reference: JSON) -> JSON:
        return {"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]}]}

    got = pods(one({"name": "s", "key": "k", "optional": True}), one({"name": "t", "key": "k"}))

    assert got == one({"name": "t", "key": "k", "optional": True})


def test_a_reference_of_another_kind_takes_the_place() -> None:
    def one(source: JSON) -> JSON:
        return {"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": source}]}]}

    change = one({"configMapKeyRef": {"name": "m", "key": "k"}})
    assert pods(one({"secretKeyRef": {"name": "s", "key": "k"}}), change) == change


def test_a_volume_has_one_source() -> None:
    base = {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}
    assert pods(base, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}) == {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    }
    assert pods(base, {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}) == {
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    }
    assert pods(base, {"volumes": [{"name": "v"}]}) == base


def test_mounts_merge_by_path() -> None:
    base = {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/a", "readOnly": True}]}]}
    patch = {"containers": [{"name": "c", "volumeMounts": [{"name": "w", "mountPath": "/a"}]}]}
    assert pods(base, patch)["containers"][0]["volumeMounts"] == [{"name": "w", "mountPath": "/a", "readOnly": True}]


def test_tolerations_and_lists_inside_affinity_are_replaced() -> None:
    base = {
        "tolerations": gates("a b"),
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": gates("a")}}
        },
    }
    patch = {
        "tolerations": gates("c"),
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": gates("p")}},
    }

    got = pods(base, patch)

    assert got["tolerations"] == gates("c")
    assert got["affinity"] == {**base["affinity"], **patch["affinity"]}  # type: ignore[dict-item]


def test_security_contexts_merge_by_field_and_their_lists_are_replaced() -> None:
    base = {"securityContext": {"runAsUser": 1, "supplementalGroups": [1, 2], "fsGroup": 7}}
    patch = {"securityContext": {"runAsUser": 0, "supplementalGroups": [3]}}
    assert pods(base, patch)["securityContext"] == {"runAsUser": 0, "supplementalGroups": [3], "fsGroup": 7}


@pytest.mark.parametrize("key", ["$patch", "$retainKeys", "$setElementOrder/env", "$deleteFromPrimitiveList/x"])
def test_words_of_kubernetes_patches_are_keys_like_any_other(key: str) -> None:
    got = pods({"nodeSelector": {"a": "1"}}, {"nodeSelector": {key: "delete"}})
    assert got["nodeSelector"] == {"a": "1", key: "delete"}


def test_finalizers_are_joined() -> None:
    def wrapped(names: list[str]) -> JSON:
        return {"replicatedJobs": [{"name": "n", "template": {"metadata": {"finalizers": names}}}]}

    got = merge(wrapped(["a/x", "a/y"]), wrapped(["a/y", "a/z"]), MERGE_KEYS)

    assert got["replicatedJobs"][0]["template"]["metadata"]["finalizers"] == ["a/x", "a/y", "a/z"]


def test_nothing_that_is_given_is_changed() -> None:
    base, patch = {"schedulingGates": gates("a b")}, {"schedulingGates": gates("b c"), "nodeSelector": {"x": "y"}}
    before = repr((base, patch))
    pods(base, patch)
    assert repr((base, patch)) == before
