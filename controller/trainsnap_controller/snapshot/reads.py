# SPDX-License-Identifier: Apache-2.0
"""Reads of the API server that many share: a burst of jobs on one runtime asks for it a few times, not once each.

Used by admission and by capture, each with one of its own. This is no cache. A read never joins a request that was
sent before it was asked for, so what it sees is as new as a read of one's own: while a request is under way, everybody
who comes waits for the next one, which is one for all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from trainsnap_api.transport import Resource, TransportError

JSON = dict[str, Any]
Key = tuple[Resource, str, str | None]


class Api(Protocol):
    """The one request that is needed."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...


@dataclass(slots=True, eq=False)
class _Request:
    """One request, before it is sent and while it is under way. ``found`` stays None when its leader was cancelled."""

    done: asyncio.Event = field(default_factory=asyncio.Event)
    found: JSON | TransportError | None = None


class SharedReads:
    """An ``Api`` over another one. What it answers is shared: read only."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._sent: dict[Key, _Request] = {}
        self._next: dict[Key, _Request] = {}

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        """The object as it is now. Raises what the transport raises."""
        key = (resource, name, namespace)
        while True:
            request = self._next.get(key)
            if request is None:
                request = self._next[key] = _Request()
                await self._lead(key, request)
            else:
                await request.done.wait()
            if isinstance(request.found, TransportError):
                raise request.found
            if request.found is not None:
                return request.found

    async def _lead(self, key: Key, request: _Request) -> None:
        """Send a request when the one before it is over. Whoever leads answers for all that wait."""
        try:
            if (before := self._sent.get(key)) is not None:
                await before.done.wait()
            del self._next[key]
            self._sent[key] = request
            try:
                request.found = await self._api.get(*key)
            except TransportError as error:
                request.found = error
        finally:
            for requests in (self._next, self._sent):
                if requests.get(key) is request:
                    del requests[key]
            request.done.set()
