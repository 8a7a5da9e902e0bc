# SPDX-License-Identifier: Apache-2.0
"""What the query and the body of a write are made of. Pure; called by the verbs of ``transport.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource
    from trainsnap_api.transport.response import JSON


def write_params(field_validation: str | None, field_manager: str | None, dry_run: bool) -> dict[str, Any]:
    """The query of every write but a DELETE, which takes its options in the body."""
    return {
        "fieldManager": field_manager,
        "fieldValidation": field_validation,
        "dryRun": "All" if dry_run else None,
    }


def typed(resource: Resource, obj: JSON) -> JSON:
    """The object with its apiVersion and kind, which the server insists on."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def namespace_of(resource: Resource, obj: JSON) -> str | None:
    """Where the object goes; None for cluster kinds. Raises ValueError when it does not say."""
    namespace = (obj.get("metadata") or {}).get("namespace")
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.kind}: metadata.namespace is needed")
    return namespace if resource.namespaced else None


def name_of(obj: JSON) -> str:
    """What the object is called. Raises ValueError when it does not say."""
    name = (obj.get("metadata") or {}).get("name")
    if not isinstance(name, str):
        raise ValueError("metadata.name is needed")
    return name


def delete_options(
    *,
    preconditions: JSON,
    propagation: str | None,
    grace_period: int | None,
    dry_run: bool,
) -> JSON:
    """The body of a DELETE."""
    options: JSON = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions:
        options["preconditions"] = preconditions
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    if dry_run:
        # In the body: the server ignores the query of a DELETE that has one.
        options["dryRun"] = ["All"]
    return options
