# SPDX-License-Identifier: Apache-2.0
"""The checks of a structural schema, with the paths and reasons of the API server (apiextensions validation). Pure.

Paths are ``spec.list[0].field`` and ``spec.map.key``. A value of the wrong type is not looked into any further.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trainsnap_api.validation.report import Problem, Reason
from trainsnap_api.validation.schema import Node
from trainsnap_api.validation.values import correlated

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_BITS = {"int32": 31, "int64": 63}


def unknown_fields(node: Node | None, value: Any, path: str = "") -> Iterator[str]:
    """Paths of fields that the schema does not have; nothing below ``metadata`` of the object itself is looked at."""
    if node is None or node.data.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(node.items, item, f"{path}[{index}]")
    elif isinstance(value, dict) and ("properties" in node.data or node.is_map or path):
        known = node.data.get("properties")
        for key, entry in value.items():
            where = f"{path}.{key}" if path else key
            if node.is_map or (known is not None and key in known):
                if where != "metadata":
                    yield from unknown_fields(node.child(key), entry, where)
            else:
                yield where


def problems(node: Node, value: Any, path: str = "", old: Any = None) -> Iterator[Problem]:
    """What the schema refuses. What is as it was in ``old`` is let pass, as the API server does on updates."""
    if old is not None and value == old:
        return
    wrong = _wrong_type(node, value)
    if wrong is not None:
        yield Problem(path, "FieldValueTypeInvalid", wrong)
        return
    yield from (Problem(path, reason, message) for reason, message in _limits(node, value))
    if isinstance(value, dict):
        yield from _object(node, value, path, old)
    elif isinstance(value, list):
        yield from _list(node, value, path, old)


def duplicates(node: Node, value: Any, path: str = "") -> Iterator[Problem]:
    """Entries of sets and keyed lists that are there twice; of each only the second one, however many follow."""
    if isinstance(value, dict):
        for key, entry in value.items():
            child = node.child(key)
            if child is not None:
                yield from duplicates(child, entry, f"{path}.{key}" if path else key)
    if not isinstance(value, list):
        return
    kind, item = node.data.get("x-kubernetes-list-type"), node.items
    if kind == "map" and not all(isinstance(entry, dict) for entry in value):
        kind = None  # the server then looks no further in this list
    seen: list[Any] = []
    told: list[Any] = []
    for index, entry in enumerate(value):
        where = f"{path}[{index}]"
        if kind in ("set", "map"):
            identity = entry
            if kind == "map":
                identity = {k: entry[k] for k in node.list_keys if k in entry}
            if identity in seen and identity not in told:
                told.append(identity)
                yield Problem(where, "FieldValueDuplicate", f"{identity!r} is there already")
            seen.append(identity)
        if item is not None:
            yield from duplicates(item, entry, where)


def _wrong_type(node: Node, value: Any) -> str | None:
    data = node.data
    if data.get("x-kubernetes-int-or-string"):
        whole = isinstance(value, float) and value.is_integer()
        fits = whole or (isinstance(value, int | str) and not isinstance(value, bool))
        return None if fits else f"must be a whole number or text, not {_named(value)}"
    kind = data.get("type")
    if kind is None or (value is None and data.get("nullable")):
        return None
    fits = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not fits and kind == "integer" and isinstance(value, float) and value.is_integer():
        fits = True
    return None if fits else f"must be of type {kind}, not {_named(value)}"


def _named(value: Any) -> str:
    return next((name for name, types in _TYPES.items() if type(value) in types), "null")


def _limits(node: Node, value: Any) -> Iterator[tuple[Reason, str]]:
    data = node.data
    if isinstance(value, str):
        yield from _text(data, value)
    elif isinstance(value, bool):
        pass
    elif isinstance(value, int | float):
        bits = _BITS.get(data.get("format", ""))
        if bits is not None and not -(2**bits) <= value < 2**bits:
            yield "FieldValueInvalid", f"must fit into {bits + 1} bits"
        if "minimum" in data and value < data["minimum"]:
            yield "FieldValueInvalid", f"must be at least {data['minimum']}"
        if "maximum" in data and value > data["maximum"]:
            yield "FieldValueInvalid", f"must be at most {data['maximum']}"
    elif isinstance(value, list):
        if len(value) > data.get("maxItems", len(value)):
            yield "FieldValueTooMany", f"must have at most {data['maxItems']} items, not {len(value)}"
        if len(value) < data.get("minItems", 0):
            yield "FieldValueInvalid", f"must have at least {data['minItems']} items"
    elif isinstance(value, dict) and len(value) < data.get("minProperties", 0):
        yield "FieldValueInvalid", f"must have at least {data['minProperties']} fields"
    if "enum" in data and value not in data["enum"]:
        yield "FieldValueNotSupported", f"{value!r} must be one of {', '.join(map(repr, data['enum']))}"


def _text(data: dict[str, Any], value: str) -> Iterator[tuple[Reason, str]]:
    if len(value) > data.get("maxLength", len(value)):
        yield "FieldValueTooLong", f"must have at most {data['maxLength']} characters"
    if len(value) < data.get("minLength", 0):
        yield "FieldValueInvalid", f"must have at least {data['minLength']} characters"
    if "pattern" in data and not re.search(_go_pattern(data["pattern"]), value):
        yield "FieldValueInvalid", f"{value!r} must match {data['pattern']}"
    if data.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
        yield "FieldValueInvalid", f"{value!r} must be a time such as 2030-01-31T12:00:00Z"


def _go_pattern(pattern: str) -> str:
    """RE2's ``$`` is the end of the text; Python's also matches before a last line end."""
    return pattern[:-1] + r"\Z" if pattern.endswith("$") and not pattern.endswith("\\$") else pattern


def _object(node: Node, value: dict[str, Any], path: str, old: Any) -> Iterator[Problem]:
    for name in node.data.get("required", ()):
        if name not in value:
            yield Problem(f"{path}.{name}" if path else name, "FieldValueRequired", "is required")
    for key, entry in value.items():
        child = node.child(key)
        if child is not None:
            yield from problems(child, entry, f"{path}.{key}" if path else key, correlated(node, old, key))


def _list(node: Node, value: list[Any], path: str, old: Any) -> Iterator[Problem]:
    item = node.items
    if item is None:
        return
    for index, entry in enumerate(value):
        yield from problems(item, entry, f"{path}[{index}]", correlated(node, old, index, entry))
