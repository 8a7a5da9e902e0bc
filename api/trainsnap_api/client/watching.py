# SPDX-License-Identifier: Apache-2.0
"""A watch that goes on: over ends, broken connections, restarts of the server, and history that it has forgotten.

Used by ``AsyncKind.watch``. Every state of every object that the server tells is yielded once and in order. When the
server cannot tell what happened in between (410), the difference between what was known and a new list is yielded, with
origin ``relist``. Never yields bookmarks, never starts a task.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import msgspec

from trainsnap_api.base import Kind
from trainsnap_api.client.errors import NotUnderstood
from trainsnap_api.client.values import Event, Listing
from trainsnap_api.transport.errors import (
    ApiError,
    Disconnected,
    Expired,
    InternalError,
    MalformedResponse,
    ResponseTooLarge,
    ServerTimeout,
    TooManyRequests,
    TransportClosed,
    TransportError,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

    from trainsnap_api.transport import Resource, Transport, WatchEvent

T = TypeVar("T", bound=Kind)
Origin = Literal["list", "watch", "relist"]

SHORT_WATCH = 1.0
"""A watch that the server ends sooner than this many seconds is followed by a pause: no healthy server does that."""
ATTEMPTS_BEFORE_LIST = 4
"""Errors of the server in a row to watch from a version before it is given up for a new list."""
_BACKOFF_BASE, _BACKOFF_CAP = 0.25, 15.0


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identity(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Identity).decode
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Known:
    uid: str
    version: str
    raw: bytes


@dataclass(slots=True)
class Watching(Generic[T]):
    """One such watch. ``read`` makes the objects; ``since`` is where it starts: a list, a version, or None for now."""

    transport: Transport
    resource: Resource
    namespace: str | None
    read: Callable[[bytes], T]
    label_selector: str | None = None
    field_selector: str | None = None
    end: float | None = None
    """Time of ``clock`` at which it ends."""
    give_up_after: float | None = None
    """Seconds without an answer after which the last error is raised; None: never."""
    clock: Callable[[], float] = field(kw_only=True)
    sleep: Callable[[float], Awaitable[None]] = field(kw_only=True)
    random: Callable[[], float] = field(kw_only=True)
    _known: dict[_Key, _Known] = field(default_factory=dict, init=False)
    _complete: bool = field(default=True, init=False)
    """Whether ``_known`` is all there is. Not after a start from a bare version: then 410 cannot be healed."""
    _version: str | None = field(default=None, init=False)
    _origin: Origin = field(default="list", init=False)
    _failures: int = field(default=0, init=False)
    _contact: float = field(default=0.0, init=False)

    async def run(self, since: Listing[T] | str | None, dump: Callable[[T], bytes]) -> AsyncGenerator[Event[T], None]:
        """The events, until ``end``. Raises Expired for a bare version that is too old, and what waiting cannot heal:
        Unauthorized, Forbidden, KindNotServed, BadRequest."""
        self._start(since, dump)
        self._contact = self.clock()
        while not self._over():
            try:
                if self._version is None:
                    for event in await self._list():
                        yield event
                started = self.clock()
                async with aclosing(self._watch()) as stream:
                    async for event in stream:
                        yield event
                if self.clock() - started < SHORT_WATCH:
                    self._failures += 1
                    await self._pause(None)
            except Expired:
                if not self._complete:
                    raise
                self._version, self._origin = None, "relist"
                self._failures += 1
                await self._pause(None)
            except TransportError as error:
                self._failed(error)
                await self._pause(error)

    def _start(self, since: Listing[T] | str | None, dump: Callable[[T], bytes]) -> None:
        if isinstance(since, Listing):
            for obj in since:
                raw = dump(obj)
                key, known = _identify(raw)
                self._known[key] = known
            if not since.resource_version:
                raise ValueError("the listing has no resource_version to start from")
            self._version = since.resource_version
        elif since is not None:
            if not isinstance(since, str):
                # A slice or a sorted copy of a Listing is a plain list.
                raise TypeError(f"a Listing or a resourceVersion is needed to start from, not {type(since).__name__}")
            if not since.isdecimal():
                # The server answers 500, which is no reason to stop.
                raise ValueError(f"{since!r} is no resourceVersion to start from")
            self._version, self._complete = since, False

    async def _list(self) -> list[Event[T]]:
        listed: dict[_Key, _Known] = {}
        version = ""
        pages = self.transport.pages(
            self.resource,
            self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            on_restart=listed.clear,
        )
        async with aclosing(pages):
            async for page in pages:
                version = page.resource_version
                for raw in page.items:
                    key, known = _identify(bytes(raw))
                    listed[key] = known
        events = list(self._difference(listed))
        self._known, self._version = listed, version
        self._settled()
        return events

    def _difference(self, listed: dict[_Key, _Known]) -> Iterator[Event[T]]:
        for key, old in self._known.items():
            new = listed.get(key)
            if new is None or new.uid != old.uid:
                yield Event("DELETED", self.read(old.raw), self._origin)
        for key, new in listed.items():
            before = self._known.get(key)
            if before is None or before.uid != new.uid:
                yield Event("ADDED", self.read(new.raw), self._origin)
            elif before.version != new.version:
                yield Event("MODIFIED", self.read(new.raw), self._origin)

    async def _watch(self) -> AsyncGenerator[Event[T], None]:
        """One watch request, to its end or to ours."""
        left = None if self.end is None else self.end - self.clock()
        stream = self.transport.watch(
            self.resource,
            self.namespace,
            resource_version=self._version or "",
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            timeout_seconds=None if left is None else max(1, int(left) + 1),
            on_open=self._opened,
        )
        async with aclosing(stream):
            while (seen := await self._next(stream)) is not None:
                self._settled()
                if seen.type == "BOOKMARK":
                    self._version = _identify(seen.raw)[1].version
                    continue
                for event in self._take(seen):
                    yield event

    async def _next(self, stream: AsyncGenerator[WatchEvent, None]) -> WatchEvent | None:
        """The stream's next event; None at its end, or when our time is over."""
        left = None if self.end is None else max(0.0, self.end - self.clock())
        try:
            async with asyncio.timeout(left):
                return await anext(stream, None)
        except TimeoutError:
            return None

    def _take(self, seen: WatchEvent) -> Iterator[Event[T]]:
        key, new = _identify(seen.raw)
        before = self._known.get(key)
        self._version = new.version
        if before is not None and before.uid != new.uid:
            # The old one's end was not told: a server does tell it, a proxy that replays may not.
            yield Event("DELETED", self.read(self._known.pop(key).raw), "relist")
            before = None
        if seen.type == "DELETED":
            if before is not None or not self._complete:
                self._known.pop(key, None)
                yield Event("DELETED", self.read(new.raw))
            return
        if before is not None and before.version == new.version:
            return
        self._known[key] = new
        fresh = seen.type == "ADDED" or self._complete
        yield Event("ADDED" if before is None and fresh else "MODIFIED", self.read(new.raw))

    def _opened(self) -> None:
        self._contact = self.clock()

    def _settled(self) -> None:
        self._failures = 0
        self._contact = self.clock()

    def _failed(self, error: TransportError) -> None:
        """Counts a failure that waiting may heal; raises any other, and this one when it has lasted too long."""
        if not _transient(error):
            raise error
        if self.give_up_after is not None and self.clock() - self._contact >= self.give_up_after:
            raise error
        self._failures += 1
        again = isinstance(error, ApiError | MalformedResponse) and self._failures >= ATTEMPTS_BEFORE_LIST
        if again and self._complete and self._version is not None:
            self._version, self._origin = None, "relist"

    async def _pause(self, error: TransportError | None) -> None:
        wait = self.random() * min(_BACKOFF_CAP, _BACKOFF_BASE * 2.0 ** min(self._failures, 16))
        wait += getattr(error, "retry_after", None) or 0.0
        if self.end is not None:
            wait = min(wait, max(0.0, self.end - self.clock()))
        await self.sleep(wait)

    def _over(self) -> bool:
        return self.end is not None and self.clock() >= self.end


def _transient(error: TransportError) -> bool:
    match error:
        case TransportClosed() | ResponseTooLarge() | NotUnderstood():
            return False
        case Disconnected() | TooManyRequests() | ServerTimeout() | InternalError() | Unavailable():
            return True
    return False


def _identify(raw: bytes) -> tuple[_Key, _Known]:
    try:
        metadata = _decode(raw).metadata
    except msgspec.MsgspecError as error:
        raise MalformedResponse(f"an object of a watch is not readable: {error}") from error
    key = (metadata.namespace, metadata.name)
    return key, _Known(metadata.uid, metadata.resource_version, raw)
