# SPDX-License-Identifier: Apache-2.0
"""The operator has the rights that it needs and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainsnap_controller import rbac

JSON = dict[str, Any]
BASE = Path(__file__).resolve().parents[2] / "deploy" / "kustomize" / "base"
EVERYTHING = [*rbac.CLUSTER, *rbac.OPERATOR_NAMESPACE]


def test_secrets_and_configmaps_are_never_listed() -> None:
    for right in EVERYTHING:
        if right.group == "" and {"secrets", "configmaps"} & set(right.resources):
            assert not {"list", "watch", "deletecollection", "*"} & set(right.verbs), right


def test_nothing_is_granted_by_a_wildcard() -> None:
    for right in EVERYTHING:
        assert "*" not in [right.group, *right.resources, *right.verbs], right


def test_jobs_and_runtimes_are_never_deleted_or_created() -> None:
    ours = {"trainjobs", "trainingruntimes", "clustertrainingruntimes"}
    for right in EVERYTHING:
        if ours & set(right.resources):
            assert not {"create", "delete", "update"} & set(right.verbs), right


def test_owner_references_that_block_deletion_are_allowed_where_that_is_checked() -> None:
    """Without this right children are refused where OwnerReferencesPermissionEnforcement is on (OpenShift)."""
    (right,) = [right for right in rbac.CLUSTER if "trainjobs/finalizers" in right.resources]
    assert list(right.verbs) == ["update"]


def test_the_operator_cannot_break_the_glass() -> None:
    assert not any("break-glass" in right.verbs for right in EVERYTHING)


@pytest.mark.parametrize("right", EVERYTHING, ids=lambda right: "/".join([right.group, *right.resources]))
def test_every_right_says_why(right: rbac.Right) -> None:
    assert right.why


def test_nobody_is_bound_to_the_role_that_breaks_the_glass() -> None:
    objects: list[JSON] = list(yaml.safe_load_all((BASE / "rbac.yaml").read_text()))
    bound = {obj["roleRef"]["name"] for obj in objects if obj["kind"].endswith("Binding")}
    assert "trainsnap-break-glass" not in bound


def test_the_deployment_is_locked_down() -> None:
    pod: JSON = yaml.safe_load((BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
