# SPDX-License-Identifier: Apache-2.0
"""Strategic merge of a partial JobSet spec into a whole one, by a table of merge keys.

The table is generated from the schemas; ``_generated/merge_keys.py`` describes its nodes. Keys in maps of plain
values are only keys here: Kubernetes' directives (``$patch`` and its like) cannot be written in a typed patch, so
a label of that name is a label. Never changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

JSON = dict[str, Any]
Node = Mapping[str, Any]

_ENV_SOURCES: Final = ("value", "valueFrom")
_EXCLUSIVE: Final[Mapping[str, tuple[str, ...]]] = {
    "env": _ENV_SOURCES,
    "valueFrom": ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"),
}
"""Fields of which an object has one: a patch that names one takes the others away. Kubernetes' own rules keep both,
and the pod is refused for it. Volumes say the same by ``retain`` in the table."""


def merge(base: JSON, patch: JSON, node: Node) -> JSON:
    """``base`` with ``patch`` merged in; ``node`` describes both. New keys go behind the existing ones."""
    return _merge_object(base, patch, node, "")


def _merge_object(base: JSON, patch: JSON, node: Node, name: str) -> JSON:
    fields: Mapping[str, Node] = node.get("fields") or {}
    result = _without_rivals(base, patch, node, name)
    for key, value in patch.items():
        if key in result:
            result[key] = _merge_value(result[key], value, fields.get(key) or {}, key)
        else:
            result[key] = value
    return result


def _merge_value(base: Any, patch: Any, node: Node, name: str) -> Any:
    if isinstance(patch, list) and isinstance(base, list):
        match node.get("list"):
            case "merge":
                return _merge_list(base, patch, node, name)
            case "union":
                return _union(base, patch)
        return patch
    if isinstance(patch, dict) and isinstance(base, dict) and (node.get("map") or "fields" in node):
        return {**base, **patch} if node.get("map") else _merge_object(base, patch, node, name)
    return patch


def _without_rivals(base: JSON, patch: JSON, node: Node, name: str) -> JSON:
    """A copy of the base without what cannot stand beside the patch's fields."""
    if node.get("retain") and any(key != node["key"] for key in patch):
        return {key: value for key, value in base.items() if key in patch}
    rivals = _EXCLUSIVE.get(name, ())
    if any(key in patch for key in rivals):
        return {key: value for key, value in base.items() if key not in rivals or key in patch}
    return dict(base)


def _merge_list(base: list[JSON], patch: list[JSON], node: Node, name: str) -> list[JSON]:
    """Elements of one key are merged; then the order of Kubernetes' strategic merge."""
    key = node["key"]
    merged: dict[Any, JSON] = {}
    existing = {item.get(key): item for item in base}
    for item in patch:
        found = merged.get(item.get(key), existing.get(item.get(key)))
        merged[item.get(key)] = item if found is None else _merge_object(found, item, node, name)
    kept = [item for item in base if item.get(key) not in merged]
    return _ordered(kept, list(merged.values()), base, lambda item: item.get(key))


def _union(base: list[Any], patch: list[Any]) -> list[Any]:
    """Plain values, each once, in the same order as keyed elements."""
    patched = list(dict.fromkeys(patch))
    kept = [item for item in base if item not in patched]
    return _ordered(kept, patched, base, lambda item: item)


def _ordered(kept: list[Any], patched: list[Any], base: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Interleaves elements that the patch does not name with those that it does.

    An element of the first kind goes first only if the next of the second kind is in the base as well and stands
    behind it; so new elements jump to the front, and a patch can reorder.
    """
    places = {key(item): place for place, item in reversed(list(enumerate(base)))}
    result: list[Any] = []
    left, right = list(kept), list(patched)
    while left and right:
        place = places.get(key(right[0]))
        in_front = place is not None and places[key(left[0])] < place
        result.append(left.pop(0) if in_front else right.pop(0))
    return result + left + right
