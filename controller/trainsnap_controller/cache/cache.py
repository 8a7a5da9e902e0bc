# SPDX-License-Identifier: Apache-2.0
"""All kinds that the operator reads without asking the API server each time.

Made once at start; every controller asks it for the informers it needs before it is run. It reads only; the one way
in besides the watch is `Store.observe_write`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from trainsnap_controller.cache.informer import Informer
from trainsnap_controller.observe.clock import Clock, SystemClock

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource
    from trainsnap_controller.cache.reflector import ReflectorMetrics, Source

_log = structlog.stdlib.get_logger(__name__)


class Cache:
    """One informer per resource over one connection to the API server.

    Args:
        source: where lists and watches come from: the transport.
        metrics: counts lists, watches and events.
        clock: the time; a test may bring its own.
        resync_seconds: how often handlers see every object again though nothing changed; None for never.
        reflector: passed on to every `Reflector`.
    """

    def __init__(
        self,
        source: Source,
        *,
        metrics: ReflectorMetrics | None = None,
        clock: Clock | None = None,
        resync_seconds: float | None = None,
        **reflector: Any,
    ) -> None:
        self._source = source
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._resync_seconds = resync_seconds
        self._reflector = reflector
        self._informers: dict[Resource, Informer] = {}
        self._scopes: dict[Resource, dict[str, str | None]] = {}
        self._running = False

    @property
    def informers(self) -> tuple[Informer, ...]:
        return tuple(self._informers.values())

    def informer(self, resource: Resource, **scope: str | None) -> Informer:
        """The informer of a resource; the first call makes it, and may limit it to a part of the objects.

        Args:
            resource: the kind.
            scope: ``namespace``, ``label_selector``, ``field_selector``.

        Raises:
            RuntimeError: the cache runs already and does not have the resource.
            ValueError: the resource is there with another scope.
        """
        informer = self._informers.get(resource)
        if informer is None:
            if self._running:
                raise RuntimeError(f"{resource.name}: informers are made before the cache runs")
            self._scopes[resource] = scope
            informer = self._informers[resource] = Informer(
                self._source,
                resource,
                resync_seconds=self._resync_seconds,
                clock=self._clock,
                metrics=self._metrics,
                **{**self._reflector, **scope},
            )
        if scope and scope != self._scopes[resource]:
            raise ValueError(f"{resource.name}: is cached with scope {self._scopes[resource]}, not {scope}")
        return informer

    async def run(self) -> None:
        """Follow all resources until cancelled."""
        self._running = True
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers:
                tasks.create_task(informer.run(), name=f"informer {informer.resource.name}")

    async def wait_synced(self) -> None:
        """Return when every informer has its first list. A kind that is not installed keeps this waiting."""
        for informer in self.informers:
            await informer.synced.wait()
        _log.info("caches are in sync", objects=sum(len(informer.store) for informer in self.informers))

    @property
    def synced(self) -> bool:
        return all(informer.synced.is_set() for informer in self.informers)

    def problems(self) -> list[str]:
        """One line for each kind that is not synced or not followed; empty while all is well. For readiness."""
        return [problem for informer in self.informers if (problem := informer.problem) is not None]
