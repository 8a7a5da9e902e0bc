# SPDX-License-Identifier: Apache-2.0
"""Reads the ConfigMaps of a namespace's jobs by a list that is walked along with the jobs, instead of one by one.

Used by ``facts``. A request for each would be a third of what a migrated job costs the API server. Both lists come in
the order of names, or nearly so (``a-b-SUFFIX`` stands before ``a-SUFFIX``), so that little has to be kept. This is
only for speed: what is not found here is asked for by name, and without the right to list all is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Protocol

import msgspec

from trainsnap_api.transport import RawPage, Resource, TransportError
from trainsnap_api.transport.resources import CONFIG_MAP
from trainsnap_controller.migration.legacy import SUFFIX

JSON = dict[str, Any]

PAGE: Final = 50
"""ConfigMaps in one answer. Each may have a mebibyte, and nothing says beforehand whose they are."""
MOST_KEPT: Final = 500
MOST_BYTES: Final = 4 << 20
"""ConfigMaps, and bytes of them, that are kept for jobs to come; beyond it the rest is asked for by name."""
WORTH: Final = 4
"""Of so many ConfigMaps at least one has to be a job's, or the namespace is full of others."""


class Api(Protocol):
    """The request that is needed."""

    def pages(
        self, resource: Resource, namespace: str | None = None, *, page_size: int, on_restart: Any
    ) -> AsyncIterator[RawPage]: ...


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


_decode_name = msgspec.json.Decoder(_Named).decode


class Walk:
    """The ConfigMaps of one namespace, each handed out once. Begin it after the list of jobs: so it is as new."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._pages: Any = api.pages(CONFIG_MAP, namespace, page_size=PAGE, on_restart=None)
        self._kept: dict[str, bytes] = {}
        self._expected: set[str] = set()
        self._upto = ""
        self._reached = ""
        self._open = True
        self._lock = asyncio.Lock()

    def expect(self, names: Iterable[str], *, upto: str) -> None:
        """Of the ConfigMaps up to a name only these will be asked for, besides those expected before: no others are
        kept, such as those of finished jobs."""
        self._expected |= {*names}
        self._upto = max(self._upto, upto)
        self._kept = {name: raw for name, raw in self._kept.items() if self._wanted(name)}

    def _wanted(self, name: str) -> bool:
        return name in self._expected or name > self._upto

    async def find(self, name: str) -> JSON | None:
        """The ConfigMap, when it is in the part of the list that was walked, which is up to this name."""
        async with self._lock:
            while self._open and self._reached < name and name not in self._kept:
                await self._go_on()
        self._expected.discard(name)
        raw = self._kept.pop(name, None)
        return None if raw is None else msgspec.json.decode(raw)

    async def _go_on(self) -> None:
        try:
            page: RawPage | None = await anext(self._pages, None)
        except TransportError:  # not allowed, or outlived by the job list: asking by name will say what it is
            page = None
        if page is None:
            self._open = False
            return
        useful = 0
        for raw in page.items:
            self._reached = _decode_name(raw).metadata.name
            if self._reached.endswith(SUFFIX):
                useful += 1
                if self._wanted(self._reached):
                    self._kept[self._reached] = bytes(raw)
        size = sum(len(raw) for raw in self._kept.values())
        if useful * WORTH < len(page.items) or len(self._kept) > MOST_KEPT or size > MOST_BYTES:
            await self._end()

    async def close(self) -> None:
        """Walk no further; what is kept stays."""
        async with self._lock:
            await self._end()

    async def _end(self) -> None:
        self._open = False
        await self._pages.aclose()


__all__ = ["Walk"]
