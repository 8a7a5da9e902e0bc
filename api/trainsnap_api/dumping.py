# SPDX-License-Identifier: Apache-2.0
"""Writes models as JSON data. Called by ``Model.dump``; gives what ``model_dump`` gives, or leaves the object to it.

Why. pydantic's serializer has to be built first, 60 ms for a runtime, and it has every object built that was not yet
(see ``trainsnap_api.lazy``). The data of those is at hand, and only has to be copied.

What is not plain JSON in the fields of generated classes is left to pydantic, which writes it or warns of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainsnap_api.base import JSON, Lazy, Model
from trainsnap_api.lazy import accepts, class_of, level_of, untouched

_SCALARS = frozenset({str, int, float, bool, type(None)})


class _NotPlainError(Exception):
    """Something that pydantic knows better how to write."""


def plain(value: Any) -> Any:
    """JSON data of what a caller put together from mappings, lists and models, in any mixture."""
    if isinstance(value, Model):
        return value.dump()
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def dumped(obj: Model) -> JSON | None:
    """The fields that were set, by API names. None when ``model_dump`` has to do it."""
    cls = type(obj)
    try:
        found = _object(obj, cls)
    except (_NotPlainError, RecursionError):
        return None
    return found if accepts(cls, found) else None


def _object(obj: Model, cls: type[Model]) -> JSON:
    if type(obj) is not cls:
        data = untouched(obj, cls)
        if data is None:
            raise _NotPlainError
        copied: JSON = _copy(data)
        return copied
    level = level_of(cls)
    values, given = obj.__dict__, obj.__pydantic_fields_set__
    found: JSON = {}
    # In the order of the fields, as pydantic does it.
    for name in [name for name in values if name in given]:
        if name not in level.keys:
            raise _NotPlainError
        value = values[name]
        if value is not None and name in level.inner:
            value = _objects(value, level.inner[name])
        elif type(value) not in _SCALARS:
            value = _copy(value)
        found[level.keys[name]] = value
    extra = obj.__pydantic_extra__
    return found | _copy(extra) if extra else found


def _objects(value: Any, inner: type[Model] | Lazy) -> Any:
    cls = class_of(inner)
    return [_object(one, cls) for one in value] if type(value) is list else _object(value, cls)


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {key: one if type(one) in _SCALARS else _copy(one) for key, one in value.items()}
    if kind is list:
        return [one if type(one) in _SCALARS else _copy(one) for one in value]
    if kind in _SCALARS:
        return value
    raise _NotPlainError
