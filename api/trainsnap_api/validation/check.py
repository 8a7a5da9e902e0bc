# SPDX-License-Identifier: Apache-2.0
"""Checks an object as the API server would, without one: names, schema, CEL rules. Needs no connection.

Called by users and SDKs before they send something. What passes may still be refused: by rules that need other objects
(they are named in the report), by rights, by quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainsnap_api.base import Kind
from trainsnap_api.dumping import plain
from trainsnap_api.validation import metadata, structure
from trainsnap_api.validation.report import BLOCKING, Problem, Report, Unchecked
from trainsnap_api.validation.rules import Evaluate, Rules, evaluator
from trainsnap_api.validation.schema import document, root
from trainsnap_api.validation.values import prepared

if TYPE_CHECKING:
    from trainsnap_api.validation.schema import JSON

SERVER_ONLY: dict[str, tuple[tuple[str, str], ...]] = {
    "TrainJob": (
        ("spec.runtimeRef", "the runtime exists, and the job fits it"),
        ("spec.runtimePatches", "patches change while the job is suspended only, and name jobs of the runtime"),
        ("metadata.name", "the names of the pods made from it are not too long"),
    ),
    "TrainingRuntime": (("spec", "the operator can build a job from it (admission webhook)"),),
    "ClusterTrainingRuntime": (("spec", "the operator can build a job from it (admission webhook)"),),
    "TrainingRuntimeSnapshot": (("", "only the operator writes snapshots (admission policy)"),),
}
"""Rules that need the cluster, by kind: path and rule."""

_WHY = "only the server can judge it"
_BLOCKED = "the server evaluates it once the other problems are gone"


def validate(
    obj: Kind | Mapping[str, Any], *, old: Kind | Mapping[str, Any] | None = None, evaluate: Evaluate | None = None
) -> Report:
    """What the API server would say to a create, or with ``old`` to an update, of this object.

    Takes a model or a plain object of one of the four kinds; ValueError for another kind. Problems have the server's
    paths; unknown fields (FieldUnknown) are reported beside the others, where the server stops at them.
    ``evaluate``: evaluates a CEL rule; None: by the extra ``validation`` when it is installed.
    """
    data = _plain(obj)
    kind = _kind(data, obj)
    before = _plain(old) if old is not None else None
    node, info = root(kind), document()["kinds"][kind]
    found = [Problem(path, "FieldUnknown", "is not known") for path in structure.unknown_fields(node, data)]
    found += metadata.problems(data.get("metadata"), namespaced=info["namespaced"], update=before is not None)
    value = _as_stored(node, data, info, before)
    earlier = _as_stored(node, before, info, before) if before is not None else None
    found += structure.problems(node, value, "", earlier)
    found += structure.duplicates(node, value)
    rules = Rules(evaluate or evaluator())
    blocked = any(problem.reason in BLOCKING for problem in found)
    if not blocked:
        rules.walk(node, value, "", earlier)
    named = [Unchecked(path, rule, _WHY) for path, rule in SERVER_ONLY[kind]]
    later = [Unchecked("", "CEL rules", _BLOCKED)] if blocked else []
    return Report((*found, *rules.problems), (*later, *rules.unchecked, *named))


def _plain(obj: Kind | Mapping[str, Any]) -> JSON:
    if not isinstance(obj, Kind | Mapping):
        raise TypeError(f"an object of the API or a mapping is needed, not {type(obj).__name__}")
    found: JSON = plain(obj)
    return found


def _kind(data: JSON, obj: object) -> str:
    kinds = document()["kinds"]
    kind = data.get("kind") or (type(obj).__name__ if isinstance(obj, Kind) else None)
    version = data.get("apiVersion") or document()["apiVersion"]
    if not isinstance(kind, str) or kind not in kinds or version != document()["apiVersion"]:
        raise ValueError(f"{version} {kind} is not known here; known are {', '.join(sorted(kinds))}")
    return kind


def _as_stored(node: Any, data: JSON, info: JSON, before: JSON | None) -> JSON:
    """The object as the server looks at it: unknown fields gone, defaults in; status is not set by a create."""
    value: JSON = _pruned(node, data)
    if info["status"]:
        value.pop("status", None)
        if before is not None and "status" in before:
            value["status"] = before["status"]
    metadata_part = value.get("metadata")
    if isinstance(metadata_part, dict) and (name := metadata.name_of(metadata_part)):
        value["metadata"] = {**metadata_part, "name": name}
    stored: JSON = prepared(node, value)
    return stored


def _pruned(node: Any, value: Any) -> Any:
    if node is None or node.data.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, list):
        return [_pruned(node.items, item) for item in value]
    if not isinstance(value, dict) or not ("properties" in node.data or node.is_map):
        return value
    known = node.data.get("properties", {})
    return {key: _pruned(node.child(key), entry) for key, entry in value.items() if node.is_map or key in known}
