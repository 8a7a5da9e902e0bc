# SPDX-License-Identifier: Apache-2.0
"""A source of lists and watches that plays a script: what a reflector sees when a server misbehaves.

For protocol faults only; what a healthy API server does is tested against a real one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from trainsnap_api.transport.resources import Resource

    JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    items: list[msgspec.Raw]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Event:
    type: str
    raw: bytes


def obj(name: str, version: int | str, *, namespace: str | None = "ns", uid: str | None = None, **fields: Any) -> JSON:
    """A ConfigMap-like object. Its uid is made from its name unless given."""
    metadata: JSON = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata.update(fields.pop("metadata", {}))
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, **fields}


def page(version: int | str, *objects: JSON) -> Page:
    return Page([msgspec.Raw(msgspec.json.encode(o)) for o in objects], str(version))


def event(type: str, document: JSON) -> Event:
    return Event(type, msgspec.json.encode(document))


def bookmark(version: int | str) -> Event:
    return event("BOOKMARK", {"kind": "JobSet", "metadata": {"resourceVersion": str(version)}})


STAY = "stay"
"""In a watch's script: nothing comes any more, and the watch stays open."""


@dataclass
class ScriptedSource:
    """Answers lists and watches from two scripts, in order.

    An exception in a script is raised there (as the first step of a watch: the watch is refused); a callable is called
    (to move a clock, say). When a script is used up, lists repeat its last entry and watches stay open.
    """

    lists: list[Any]
    watches: list[list[Any]] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)
    """The versions that watches were opened at."""
    listed: int = 0
    opened: int = 0
    closed: int = 0
    _pushed: deque[Any] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def push(self, *events: Any) -> None:
        """Let the open watch deliver more."""
        self._pushed.extend(events)
        self._wake.set()

    async def pages(self, resource: Resource, namespace: str | None = None, **_: Any) -> AsyncIterator[Page]:
        script = self.lists[min(self.listed, len(self.lists) - 1)]
        self.listed += 1
        for step in script if isinstance(script, list) else [script]:
            await asyncio.sleep(0)
            if isinstance(step, Exception):
                raise step
            yield step

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        on_open: Callable[[], None] | None = None,
        **_: Any,
    ) -> AsyncIterator[Event]:
        script = self.watches[self.opened] if self.opened < len(self.watches) else [STAY]
        self.opened += 1
        self.watched.append(resource_version)
        try:
            for number, step in enumerate(script):
                await asyncio.sleep(0)
                if on_open is not None and not (number == 0 and isinstance(step, Exception)):
                    on_open()
                    on_open = None
                if isinstance(step, str):
                    async for pushed in self._more():
                        yield pushed
                elif isinstance(step, Exception):
                    raise step
                elif callable(step):
                    _run(step)
                else:
                    yield step
        finally:
            self.closed += 1

    async def _more(self) -> AsyncIterator[Event]:
        while True:
            while self._pushed:
                step = self._pushed.popleft()
                if isinstance(step, Exception):
                    raise step
                if step is None:
                    return
                yield step
            self._wake.clear()
            await self._wake.wait()


def _run(step: Callable[[], Any]) -> None:
    step()
