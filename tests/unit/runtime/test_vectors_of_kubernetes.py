# SPDX-License-Identifier: Apache-2.0
"""Merging and normal form against what Kubernetes' own libraries made of the same input.

The vectors were computed once, with ``strategicpatch.StrategicMergePatch`` of k8s.io/apimachinery v0.36.3 and by
reading and writing ``JobSetSpec`` of sigs.k8s.io/jobset v0.12.0; nulls and empty lists of required fields are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainsnap_controller.runtime import normalform
from trainsnap_controller.runtime._generated.merge_keys import MERGE_KEYS
from trainsnap_controller.runtime.merge import merge

JSON = dict[str, Any]


def vectors(name: str) -> list[JSON]:
    lines = (Path(__file__).parent / f"{name}_vectors.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("vector", vectors("merge"), ids=lambda _: "merge")
def test_merging(vector: JSON) -> None:
    assert merge(vector["base"], vector["patch"], MERGE_KEYS) == vector["want"]


@pytest.mark.parametrize("vector", vectors("normalform"), ids=lambda _: "spec")
def test_normal_form(vector: JSON) -> None:
    assert normalform.job_set_spec(vector["given"], "spec") == vector["want"]


@pytest.mark.parametrize("vector", vectors("normalform"), ids=lambda _: "spec")
def test_a_normal_form_is_its_own(vector: JSON) -> None:
    assert normalform.job_set_spec(vector["want"], "spec") == vector["want"]
