# SPDX-License-Identifier: Apache-2.0
"""The merge keys that runtime patches are merged by."""

from __future__ import annotations

from typing import Any

import pytest

from trainsnap_codegen.mergekeys import variable
from trainsnap_controller.runtime._generated.merge_keys import MERGE_KEYS

POD = ("replicatedJobs", "template", "spec", "template", "spec")


def rule(*path: str) -> dict[str, Any]:
    """The node at a path, without what it says about the fields below."""
    node: dict[str, Any] = MERGE_KEYS
    for step in path:
        node = node["fields"][step]
    return {key: value for key, value in node.items() if key != "fields"}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(
            ("replicatedJobs",), {"list": "merge", "key": "name"}, id="jobs by name, although no OpenAPI says so"
        ),
        pytest.param((*POD, "containers"), {"list": "merge", "key": "name"}, id="containers by name"),
        pytest.param((*POD, "containers", "env"), {"list": "merge", "key": "name"}, id="environment by name"),
        pytest.param(
            (*POD, "initContainers", "volumeMounts"),
            {"list": "merge", "key": "mountPath"},
            id="mounts by path, although the CRD's list is keyed by name",
        ),
        pytest.param(
            (*POD, "volumes"), {"list": "merge", "key": "name", "retain": True}, id="volumes keep what is named"
        ),
        pytest.param((*POD, "imagePullSecrets"), {"list": "merge", "key": "name"}, id="pull secrets by name"),
        pytest.param((*POD, "schedulingGates"), {"list": "merge", "key": "name"}, id="gates by name"),
        pytest.param((*POD, "tolerations"), {"list": "replace"}, id="tolerations as a whole"),
        pytest.param((*POD, "nodeSelector"), {"map": True}, id="a node selector by key"),
        pytest.param((*POD[:-1], "metadata", "finalizers"), {"list": "union"}, id="finalizers are united"),
        pytest.param((*POD[:-1], "metadata", "labels"), {"map": True}, id="labels by key"),
        pytest.param((*POD, "securityContext", "supplementalGroups"), {"list": "replace"}, id="inner lists as a whole"),
        pytest.param((*POD, "securityContext"), {}, id="a security context field by field"),
        pytest.param(
            (*POD, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
            {"list": "replace"},
            id="selector terms as a whole",
        ),
    ],
)
def test_how_a_field_is_merged(path: tuple[str, ...], want: dict[str, Any]) -> None:
    assert rule(*path) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [("PodSpecPatch", "_POD_SPEC_PATCH"), ("CSIVolumeSource", "_CSI_VOLUME_SOURCE"), ("RBDVolume", "_RBD_VOLUME")],
)
def test_constant_names(name: str, want: str) -> None:
    assert variable(name) == want
