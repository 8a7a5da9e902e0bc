# SPDX-License-Identifier: Apache-2.0
"""What integration and e2e tests do with a live API server: write as somebody, and await conditions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from trainsnap_api.transport import NotFound, Resource, Transport
from trainsnap_api.transport import resources as r

JSON = dict[str, Any]
T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T]], want: Callable[[T], object], *, what: str, seconds: float = 20.0
) -> T:
    """Look again and again until ``want`` holds, and return what was seen. Fails with what was last seen."""
    end = time.monotonic() + seconds
    while True:
        seen = await look()
        if want(seen):
            return seen
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}; last seen: {seen}"
        await anyio.sleep(0.05)


@dataclass(frozen=True)
class Cluster:
    """One user's view of the API server, in one namespace."""

    api: Transport
    namespace: str

    async def create(self, obj: JSON) -> JSON:
        """POST an object."""
        return await self.api.create(_resource(obj), obj)

    async def get(self, resource: Resource, name: str) -> JSON:
        """GET an object. Raises NotFound."""
        return await self.api.get(resource, name, self.namespace if resource.namespaced else None)

    async def find(self, resource: Resource, name: str) -> JSON | None:
        """GET an object, or None."""
        try:
            return await self.get(resource, name)
        except NotFound:
            return None

    async def patch(self, resource: Resource, name: str, body: JSON, **options: Any) -> JSON:
        """Merge patch."""
        return await self.api.merge_patch(
            resource, name, self.namespace if resource.namespaced else None, body, **options
        )

    async def delete(self, resource: Resource, name: str, **options: Any) -> None:
        """DELETE."""
        await self.api.delete(resource, name, self.namespace if resource.namespaced else None, **options)

    async def until(
        self, resource: Resource, name: str, want: Callable[[JSON], object] = bool, *, seconds: float = 20.0
    ) -> JSON:
        """Await that an object exists and is as wanted; returns it."""
        found = await eventually(
            lambda: self.find(resource, name),
            lambda seen: seen is not None and want(seen),
            what=f"{resource.kind} {name} as wanted",
            seconds=seconds,
        )
        assert found is not None
        return found

    async def until_gone(self, resource: Resource, name: str, *, seconds: float = 20.0) -> None:
        """Await that an object does not exist."""
        await eventually(
            lambda: self.find(resource, name), lambda seen: seen is None, what=f"{name} gone", seconds=seconds
        )

    async def events_of(self, name: str) -> list[JSON]:
        """The events about an object of the namespace."""
        found = await self.api.list(r.EVENT, self.namespace)
        return [event for event in found.items if event.get("regarding", {}).get("name") == name]


def _resource(obj: JSON) -> Resource:
    found = r.by_kind(obj["apiVersion"], obj["kind"])
    assert found is not None, f"{obj['apiVersion']} {obj['kind']} is not in the table"
    return found
