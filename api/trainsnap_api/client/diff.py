# SPDX-License-Identifier: Apache-2.0
"""The difference between two specs of runtimes, by path. Pure.

Lists that the schema keys (containers, env, volumes) are matched by their keys, so that a new entry in front is one
change and not many; others by position. Two amounts of a resource that are written differently count as a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainsnap_api.client.values import ABSENT, Change
from trainsnap_api.validation.schema import Node, root

if TYPE_CHECKING:
    from collections.abc import Iterator


def changes(old: Any, new: Any, *, definition: str = "TrainingRuntimeSpec", path: str = "spec") -> tuple[Change, ...]:
    """Every place where ``old`` and ``new`` differ, in the order of the old one, then what is new."""
    left, right = (ABSENT if value is None else value for value in (old, new))
    return tuple(_compare(path, root(definition), left, right))


def _compare(path: str, node: Node | None, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            child = node.child(key) if node else None
            step = f"{path}.{key}" if node is None or not node.is_map else f"{path}[{key}]"
            yield from _compare(step, child, old.get(key, ABSENT), new.get(key, ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        keys = node.list_keys if node else ()
        item = node.items if node else None
        left, right = _by_key(old, keys), _by_key(new, keys)
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _compare(f"{path}[{key}]", item, left.get(key, ABSENT), right.get(key, ABSENT))
        common = [key for key in left if key in right]
        if keys and common != [key for key in right if key in left]:
            yield Change(f"{path} (order)", common, [key for key in right if key in left])
    elif type(old) is not type(new) or old != new:
        yield Change(path, old, new)


def _by_key(items: list[Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The items by the text of their key, or by position where they have none or it is not unique."""
    named = {",".join(str(item.get(key)) for key in keys): item for item in items if isinstance(item, dict)}
    if keys and len(named) == len(items):
        return named
    return {str(position): item for position, item in enumerate(items)}
