# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings from the operator's table of rights, as the YAML of ``deploy/kustomize/base/rbac.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller import rbac
from trainsnap_controller.rbac import Right

JSON = dict[str, Any]
_API: Final = "rbac.authorization.k8s.io/v1"
_OPERATOR: Final = {"kind": "ServiceAccount", "name": c.SERVICE_ACCOUNT, "namespace": c.NAMESPACE}
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"


def objects() -> Iterator[JSON]:
    """Every role and binding, in the order in which they are written."""
    yield _role("ClusterRole", "trainsnap", rbac.CLUSTER)
    yield _binding("ClusterRoleBinding", "trainsnap", "ClusterRole", [_OPERATOR])
    yield _role("Role", "trainsnap", rbac.OPERATOR_NAMESPACE, namespace=c.NAMESPACE)
    yield _binding("RoleBinding", "trainsnap", "Role", [_OPERATOR], namespace=c.NAMESPACE)
    yield _role("ClusterRole", "trainsnap-view", rbac.VIEW, labels=_aggregated("view", "edit", "admin"))
    yield _role("ClusterRole", "trainsnap-edit", rbac.EDIT, labels=_aggregated("edit", "admin"))
    yield _role("ClusterRole", "trainsnap-catalogue", rbac.CATALOGUE)
    everybody = [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}]
    yield _binding("ClusterRoleBinding", "trainsnap-catalogue", "ClusterRole", everybody)
    yield _role("ClusterRole", "trainsnap-break-glass", rbac.BREAK_GLASS)


def _aggregated(*roles: str) -> JSON:
    return {_AGGREGATE + role: "true" for role in roles}


def _role(
    kind: str, name: str, rights: Sequence[Right], *, namespace: str | None = None, labels: JSON | None = None
) -> JSON:
    metadata: JSON = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "rules": [right.rule() for right in rights]}


def _binding(kind: str, name: str, role_kind: str, subjects: list[JSON], *, namespace: str | None = None) -> JSON:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "roleRef": role, "subjects": subjects}
