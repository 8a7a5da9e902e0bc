# SPDX-License-Identifier: Apache-2.0
"""What the API server does to an object before it looks at it: drops nulls, fills in defaults. Pure.

On a private copy, for the checks only: models and what is sent never get a default here.
"""

from __future__ import annotations

import copy
from typing import Any

from trainsnap_api.validation.schema import Node, of


def prepared(node: Node, value: Any) -> Any:
    """The value with nulls of fields dropped and defaults filled in where their parent is there."""
    data = node.data
    if isinstance(value, list):
        item = node.items
        return [prepared(item, entry) for entry in value] if item else value
    if not isinstance(value, dict) or data.get("x-kubernetes-preserve-unknown-fields"):
        return value
    found = {}
    for key, entry in value.items():
        child = node.child(key)
        if entry is not None or child is None:
            found[key] = prepared(child, entry) if child else entry
    for key, schema in data.get("properties", {}).items():
        child = of(schema)
        if key not in found and "default" in child.data:
            found[key] = copy.deepcopy(child.data["default"])
    return found


def correlated(node: Node, old: Any, key: str | int, new_item: Any = None) -> Any:
    """The old value of a child, or None when the server could not tell which one it is either."""
    if isinstance(old, dict):
        return old.get(key)
    if isinstance(old, list) and node.data.get("x-kubernetes-list-type") == "map" and isinstance(new_item, dict):
        keys = node.list_keys
        wanted = [new_item.get(name) for name in keys]
        return next((i for i in old if isinstance(i, dict) and [i.get(n) for n in keys] == wanted), None)
    return None


def in_order(node: Node | None, value: Any) -> Any:
    """The value with lists that are sets or maps in one order: so compared, their order does not count."""
    if node is None:
        return value
    if isinstance(value, dict):
        return {key: in_order(node.child(key), entry) for key, entry in value.items()}
    if not isinstance(value, list):
        return value
    items = [in_order(node.items, entry) for entry in value]
    match node.data.get("x-kubernetes-list-type"):
        case "map":
            keys = node.list_keys
            return sorted(items, key=lambda i: [str(i.get(k)) for k in keys] if isinstance(i, dict) else [])
        case "set":
            return sorted(items, key=str)
    return items
