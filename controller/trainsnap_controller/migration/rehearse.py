# SPDX-License-Identifier: Apache-2.0
"""Finds out by dry runs whether the API server would store snapshots as they are; called by ``act`` before it writes.

``plan`` tries every content. ``apply`` tries one of every shape, since it sends each content for good in a moment:
what a structural schema prunes, coerces or defaults depends on the shape alone, and whatever depends on values
(patterns, enums, bounds, CEL rules, duplicate keys of list maps) can only refuse a request, which then stores nothing
and names the same fields as a dry run. What else may change an object, such as a webhook of somebody else, may do so
for any content or name: the answer to every create is compared, whether its content was tried before or not.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from typing import Any, Final, Protocol

from trainsnap_api.transport import ObjectRefused, Resource
from trainsnap_api.transport.resources import TRAINING_RUNTIME_SNAPSHOT
from trainsnap_controller import constants as c
from trainsnap_controller.snapshot.capture import differences, payload, refused_fields
from trainsnap_controller.snapshot.digest import canonical_json

JSON = dict[str, Any]

REMEMBERED: Final = 2048
"""Contents and shapes of which it is known what the API server makes of them."""
_EXACT: Final = range(-(1 << 63), 1 << 63)
_TYPES: Final = {bool: "b", float: "f", type(None): "n"}
_OF_THE_JOB: Final = frozenset({"trainJob", "capturedAt"})


class Api(Protocol):
    """The one request that is needed."""

    async def create(
        self, resource: Resource, obj: JSON, *, field_validation: str, field_manager: str, dry_run: bool = False
    ) -> JSON: ...


class Rehearsals:
    """Asks the API server about each content, or about one of each shape, once."""

    def __init__(self, api: Api, *, by_shape: bool) -> None:
        self._api = api
        self._by_shape = by_shape
        self._shapes: OrderedDict[bytes, None] = OrderedDict()
        self._contents: OrderedDict[bytes, asyncio.Future[list[str]]] = OrderedDict()

    async def problems(self, wanted: JSON) -> list[str]:
        """What the API server would refuse, lose or change of a snapshot: one line each. Raises its other errors."""
        if not self._by_shape:
            return await self._tried(wanted)
        shape = hashlib.sha256(shape_of(payload(wanted)).encode()).digest()
        if shape in self._shapes:
            self._shapes.move_to_end(shape)
            return []
        found = await self._tried(wanted)
        if not found:
            # Only of good ones: what was refused may have been so for its values, and the next one be good.
            self._shapes[shape] = None
            if len(self._shapes) > REMEMBERED:
                self._shapes.popitem(last=False)
        return found

    async def _tried(self, wanted: JSON) -> list[str]:
        """The answer about a content; those who ask meanwhile wait for the same one."""
        content = payload(wanted)
        content["source"] = {key: value for key, value in content["source"].items() if key not in _OF_THE_JOB}
        key = hashlib.sha256(canonical_json(content)).digest()
        known = self._contents.get(key)
        if known is not None:
            self._contents.move_to_end(key)
            return await asyncio.shield(known)
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._contents[key] = future
        if len(self._contents) > REMEMBERED:
            self._contents.popitem(last=False)
        try:
            found = await self._try(wanted)
        except BaseException as error:
            self._contents.pop(key, None)
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()
            else:
                future.cancel()
            raise
        future.set_result(found)
        return found

    async def _try(self, wanted: JSON) -> list[str]:
        # Under a name that is free, so that a snapshot that is there already is no answer about the content.
        metadata = {key: value for key, value in wanted["metadata"].items() if key != "name"}
        metadata["generateName"] = "rehearsal-"
        try:
            answer = await self._api.create(
                TRAINING_RUNTIME_SNAPSHOT,
                {**wanted, "metadata": metadata},
                field_validation="Strict",
                field_manager=c.FIELD_MANAGER,
                dry_run=True,
            )
        except ObjectRefused as error:
            return refused_fields(error)
        return differences(wanted, answer)


def shape_of(value: Any) -> str:
    """What of a JSON value a structural schema can see without looking at values, as a text that stands for it.

    Objects by their keys, all of them, since a schema may know each; lists by the set of their items' shapes, since
    each item meets the same schema; the rest by its type. Null is one, and an integer beyond 64 bits stands for itself:
    the API server would make a float of it.
    """
    kind = type(value)
    if kind is str:
        return "s"
    if kind is dict:
        return "{" + ",".join([f"{key!r}{shape_of(item)}" for key, item in value.items()]) + "}"
    if kind is list:
        return "[" + ",".join(sorted({shape_of(item) for item in value})) + "]"
    if kind is int:
        return "i" if value in _EXACT else f"i{value}"
    return _TYPES[kind]


__all__ = ["Rehearsals", "shape_of"]
