# SPDX-License-Identifier: Apache-2.0
"""One kind in the cache: its store, the reflector that fills it, and those who want to hear of changes.

Made by `Cache.informer`. Handlers are called in the reflector's task, one event after the other, and must not wait:
the usual handler works out a key and adds it to a queue. A handler that raises is logged and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from trainsnap_controller.cache.reflector import Reflector, ReflectorMetrics, Source
from trainsnap_controller.cache.store import CacheEvent, IndexFunction, Store
from trainsnap_controller.observe.clock import Clock, SystemClock

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource

Handler = Callable[[CacheEvent], None]

_log = structlog.stdlib.get_logger(__name__)


class Informer:
    """The cached objects of one resource."""

    def __init__(
        self,
        source: Source,
        resource: Resource,
        *,
        resync_seconds: float | None = None,
        clock: Clock | None = None,
        metrics: ReflectorMetrics | None = None,
        **reflector: Any,
    ) -> None:
        self.resource = resource
        self.store = Store(resource)
        self.synced = asyncio.Event()
        """Set once the first complete list is in the store and its objects have been reported."""
        self._handlers: list[Handler] = []
        self._resync_seconds = resync_seconds
        self._clock = clock or SystemClock()
        self._reflector = Reflector(
            source,
            resource,
            self.store,
            self._dispatch,
            self.synced.set,
            clock=self._clock,
            metrics=metrics,
            **reflector,
        )

    @property
    def healthy(self) -> bool:
        """Whether the store follows the cluster: a watch is up or was a moment ago."""
        return self._reflector.healthy

    @property
    def problem(self) -> str | None:
        """Why this kind is not synced or not followed, in one line; None while all is well."""
        if not self.synced.is_set():
            return self._reflector.problem or f"{self.resource.name}: is being listed"
        return self._reflector.problem

    def add_handler(self, handler: Handler) -> None:
        """Call a function for every change from now on, and first with ``added`` for all that is known."""
        self._handlers.append(handler)
        for entry in self.store.confirmed():
            self._call(handler, CacheEvent("added", None, entry))

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Make `Store.by_index` answer for ``name``. The function gives the values of an entry, and must not raise.

        Raises:
            ValueError: the name is taken.
        """
        self.store.add_index(name, function)

    def resync(self) -> None:
        """Report every object as updated without a change, so that what was missed outside the cache is looked at."""
        for entry in self.store.confirmed():
            self._dispatch(CacheEvent("updated", entry, entry))

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run(), name=f"reflector {self.resource.name}")
            if self._resync_seconds:
                tasks.create_task(self._resync_loop(self._resync_seconds), name=f"resync {self.resource.name}")

    async def _resync_loop(self, seconds: float) -> None:
        while True:
            await self._clock.sleep(seconds)
            self.resync()

    def _dispatch(self, event: CacheEvent) -> None:
        for handler in self._handlers:
            self._call(handler, event)

    def _call(self, handler: Handler, event: CacheEvent) -> None:
        try:
            handler(event)
        except Exception:
            _log.exception("event handler failed", resource=self.resource.name, object=str(event.key), type=event.type)
