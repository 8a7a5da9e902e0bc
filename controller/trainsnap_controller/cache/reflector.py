# SPDX-License-Identifier: Apache-2.0
"""Keeps a store equal to what the API server holds of one kind: list, then watch from the list's version, for ever.

Run by an `Informer`; reports every change once, in order, to one function. It survives whatever a server does:

- a watch that ends, normally or not, goes on from the last version seen, after a pause if it lived only shortly;
- a version that the server no longer has (410) means a new list, whose difference to the store is reported, deletions
  with the last known state;
- a kind that is not served, or that we may not read, is said once in the log, and tried again until it works;
- a server that answers nonsense is listed anew.

It never gives up, ends only when cancelled, and never reports an event twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec
import structlog

from trainsnap_api.transport.errors import (
    Disconnected,
    Expired,
    Forbidden,
    KindNotServed,
    TransportError,
    Unauthorized,
)
from trainsnap_controller.cache.entry import Entry, Key, UndecodableObjectError, decode_entry
from trainsnap_controller.observe.backoff import Backoff
from trainsnap_controller.observe.clock import Clock, SystemClock

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource
    from trainsnap_controller.cache.store import CacheEvent, Store

_log = structlog.stdlib.get_logger(__name__)
_T = TypeVar("_T")


class Page(Protocol):
    """Part of a list; every page carries the list's version."""

    @property
    def items(self) -> Sequence[msgspec.Raw]: ...
    @property
    def resource_version(self) -> str: ...


class WatchEvent(Protocol):
    """A line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object's JSON."""

    @property
    def type(self) -> str: ...
    @property
    def raw(self) -> bytes: ...


class Source(Protocol):
    """The part of the transport that a reflector needs."""

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> AsyncIterator[Page]: ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncIterator[WatchEvent]: ...


class ReflectorMetrics(Protocol):
    """What is counted of a reflector. `observe.metrics` has it in Prometheus form."""

    def attached(self, resource: Resource, objects: Callable[[], int], followed: Callable[[], bool]) -> None:
        """A store exists; ``objects`` tells its size, ``followed`` whether a watch is up at this moment."""

    def listed(self, resource: Resource, reason: str) -> None: ...
    def watch_ended(self, resource: Resource, outcome: str) -> None: ...
    def event(self, resource: Resource, type: str) -> None: ...


class NoMetrics:
    """Counts nothing."""

    def attached(self, resource: Resource, objects: Callable[[], int], followed: Callable[[], bool]) -> None: ...
    def listed(self, resource: Resource, reason: str) -> None: ...
    def watch_ended(self, resource: Resource, outcome: str) -> None: ...
    def event(self, resource: Resource, type: str) -> None: ...


class State(Enum):
    """What a reflector is doing, for readiness."""

    STARTING = "has not been listed yet"
    WATCHING = "watched"
    RECONNECTING = "watch lost"
    NOT_SERVED = "not served by the API server"
    DENIED = "not allowed"
    FAILING = "failing"


class Reflector:
    """List and watch of one resource into one store."""

    SHORT_WATCH = 5.0
    """A watch that ends sooner than this many seconds counts as a failure, however it ends: no server closes healthy
    watches that quickly, and one that does must not be asked without a pause."""

    EVENTS_PER_TURN = 100
    """Events taken from what has arrived already before other tasks get their turn."""

    ATTEMPTS_BEFORE_LIST = 4
    """Failures in a row to watch from a version before it is given up for a new list."""

    def __init__(
        self,
        source: Source,
        resource: Resource,
        store: Store,
        on_event: Callable[[CacheEvent], None],
        on_listed: Callable[[], None],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        missing_backoff: Backoff | None = None,
        stale_after: float = 60.0,
        metrics: ReflectorMetrics | None = None,
    ) -> None:
        self._source = source
        self._resource = resource
        self._store = store
        self._on_event = on_event
        self._on_listed = on_listed
        self._scope: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._clock = clock or SystemClock()
        # client-go waits up to 30 s. Nothing is reconciled meanwhile, and one operator's few lists harm no API server.
        self._backoff = backoff or Backoff(cap=10.0)
        self._missing_backoff = missing_backoff or Backoff(base=1.0, cap=10.0)
        self._stale_after = stale_after
        self._metrics = metrics or NoMetrics()
        self._version: str | None = None
        self._list_reason = "start"
        self._watch_failures = 0
        self._open = False
        self._contact: float | None = None
        self._complaint: tuple[str, str] | None = None
        self.state = State.STARTING
        self._metrics.attached(resource, store.__len__, lambda: self._open)

    @property
    def problem(self) -> str | None:
        """Why the store may be behind the cluster, in one line; None while all is well."""
        if self.healthy:
            return None
        return f"{self._resource.name}: {self._complaint[1] if self._complaint else self.state.value}"

    @property
    def healthy(self) -> bool:
        """Whether a watch is up, or was within the last ``stale_after`` seconds."""
        if self._open:
            return True
        return self._contact is not None and self._clock.now() - self._contact <= self._stale_after

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                delay = await self._watch(self._version or "")
            except UndecodableObjectError as error:
                delay = self._relist("undecodable object", str(error))
            except Expired as error:
                delay = self._relist("expired", str(error))
            except (KindNotServed, Forbidden, Unauthorized) as error:
                delay = self._unavailable(error)
            except TransportError as error:
                delay = self._failed(error)
            if delay > 0:
                await self._clock.sleep(delay)

    async def _list(self) -> None:
        entries: dict[Key, Entry] = {}
        version: str | None = None
        async with _closing(self._source.pages(self._resource, **self._scope)) as pages:
            async for page in pages:
                version = page.resource_version
                for raw in page.items:
                    entry = decode_entry(raw, self._resource)
                    known = self._store.known(entry.key)
                    same = (
                        known is not None
                        and known.resource_version == entry.resource_version
                        and known.uid == entry.uid
                    )
                    # Keep what is there already, so that a list of a big store does not double it.
                    entries[entry.key] = cast("Entry", known) if same else entry
        if version is None:
            raise UndecodableObjectError(f"{self._resource.name}: the list has no page")
        self._metrics.listed(self._resource, self._list_reason)
        events = self._store.replace_all(entries, version)
        self._version = version
        self._contact = self._clock.now()
        for event in events:
            self._report(event)
        self._recovered(len(entries))
        self._on_listed()

    async def _watch(self, version: str) -> float:
        """One watch, to its normal end. Returns how long to wait before the next one."""
        started = self._clock.now()
        try:
            stream = self._source.watch(self._resource, **self._scope, resource_version=version, on_open=self._opened)
            async with _closing(stream) as events:
                taken = 0
                async for event in events:
                    self._take(event)
                    taken += 1
                    if taken % self.EVENTS_PER_TURN == 0:
                        await asyncio.sleep(0)
                    if self._clock.now() - started >= self.SHORT_WATCH:
                        self._settled()
        finally:
            if self._open:
                self._contact = self._clock.now()
            self._open = False
            self.state = State.RECONNECTING
        self._metrics.watch_ended(self._resource, "ended")
        if self._clock.now() - started >= self.SHORT_WATCH:
            self._settled()
            return 0.0
        return self._backoff.next()

    def _opened(self) -> None:
        """The server accepted the watch."""
        self._open = True
        self.state = State.WATCHING

    def _take(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            self._version = _bookmark_version(event.raw, self._resource)
            self._store.advance(self._version)
        else:
            entry = decode_entry(event.raw, self._resource)
            changes = self._store.apply(entry, deleted=event.type == "DELETED")
            self._version = entry.resource_version
            for change in changes:
                self._report(change)
        self._watch_failures = 0
        self._recovered(len(self._store))

    def _report(self, event: CacheEvent) -> None:
        self._metrics.event(self._resource, event.type)
        self._on_event(event)

    def _relist(self, reason: str, message: str) -> float:
        self._version = None
        self._list_reason = reason
        self.state = State.RECONNECTING
        self._metrics.watch_ended(self._resource, reason)
        _log.info("listing again", resource=self._resource.name, why=message)
        return self._backoff.next()

    def _unavailable(self, error: TransportError) -> float:
        """The kind is not installed, or we may not read it: somebody has to act, so say it once and keep trying."""
        # What a watch may not, a list will tell in full; and nothing says that the version is still good afterwards.
        self._version = None
        self._list_reason = "unavailable"
        self._metrics.watch_ended(self._resource, "unavailable")
        if isinstance(error, KindNotServed):
            self.state = State.NOT_SERVED
            text = f"the API server does not serve {self._resource.name}: is its CustomResourceDefinition installed?"
        else:
            self.state = State.DENIED
            text = f"the API server refuses list and watch of {self._resource.name}: {error}"
        self._complain("unavailable", text)
        return self._missing_backoff.next()

    def _failed(self, error: TransportError) -> float:
        """The network or the server failed: go on from the last version, and give that up only after a few tries."""
        listing = self._version is None
        self.state = State.FAILING if listing else State.RECONNECTING
        self._metrics.watch_ended(self._resource, "disconnected" if isinstance(error, Disconnected) else "error")
        self._watch_failures += 1
        if not listing and not isinstance(error, Disconnected) and self._watch_failures >= self.ATTEMPTS_BEFORE_LIST:
            self._watch_failures = 0
            self._version = None
            self._list_reason = "error"
        if self._backoff.failures > 0 or listing:
            # The first break of a watch that was up is every-day life and heals at once.
            self._complain("failing", f"{'list' if listing else 'watch'} of {self._resource.name} failed: {error}")
        return max(self._backoff.next(), getattr(error, "retry_after", None) or 0.0)

    def _complain(self, kind: str, text: str) -> None:
        """Say a problem once, until it changes its kind or is over."""
        if self._complaint is None or self._complaint[0] != kind:
            _log.warning(f"{text}; trying again until it works", resource=self._resource.name)
        self._complaint = (kind, text)

    def _recovered(self, objects: int) -> None:
        if self._complaint is not None:
            self._complaint = None
            self._missing_backoff.reset()
            _log.info("following the resource again", resource=self._resource.name, objects=objects)

    def _settled(self) -> None:
        self._backoff.reset()
        self._watch_failures = 0


class _BookmarkMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMetadata


_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode


def _bookmark_version(raw: bytes, resource: Resource) -> str:
    # A bookmark is an object of the kind with a version and nothing else, not even a name.
    try:
        return _decode_bookmark(raw).metadata.resource_version
    except msgspec.MsgspecError as error:
        raise UndecodableObjectError(f"{resource.name}: bookmark cannot be read: {error}") from error


@asynccontextmanager
async def _closing(stream: AsyncIterator[_T]) -> AsyncIterator[AsyncIterator[_T]]:
    """Close a stream on the way out, so that its connection is free at once; not every iterator has a close."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
