# SPDX-License-Identifier: Apache-2.0
"""The reconcile loop of both runtime kinds: takes the reference's old finalizer off, and does nothing else.

Old releases of the reference held every runtime in use by a finalizer. Nothing takes it off any more once they are
gone, and such a runtime could never be deleted. Runtimes are not held by trainsnap: jobs have their snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from trainsnap_api.transport import NotFound, Resource, TransportError
from trainsnap_controller import constants as c
from trainsnap_controller.cache import Informer, Key
from trainsnap_controller.queue import Done, Result, RetryableError, WorkQueue

JSON = dict[str, Any]


class Api(Protocol):
    """The one request that is needed."""

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str | None, body: JSON, *, field_manager: str | None = None
    ) -> JSON: ...


def connect(runtimes: Informer, queue: WorkQueue[Key]) -> None:
    """Put every runtime that carries the finalizer on the queue."""
    runtimes.add_handler(
        lambda event: queue.add(event.key) if event.new is not None and _held(event.new.object()) else None
    )


@dataclass(frozen=True, slots=True)
class RuntimeReconciler:
    """Reconciles one kind of runtime."""

    resource: Resource
    cached: Callable[[Key], JSON | None]
    api: Api

    async def reconcile(self, key: Key) -> Result:
        """Take the finalizer off, all others kept. Raises ``RetryableError`` when the API server could not."""
        runtime = self.cached(key)
        if runtime is None or not _held(runtime):
            return Done()
        meta = runtime["metadata"]
        body = {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "finalizers": [x for x in meta["finalizers"] if x != c.RESOURCE_IN_USE_FINALIZER],
            }
        }
        namespace = meta.get("namespace")
        try:
            await self.api.merge_patch(self.resource, meta["name"], namespace, body, field_manager=c.FIELD_MANAGER)
        except NotFound:
            return Done()
        except TransportError as error:
            raise RetryableError(str(error)) from error
        return Done()


def _held(runtime: JSON) -> bool:
    return c.RESOURCE_IN_USE_FINALIZER in (runtime["metadata"].get("finalizers") or [])
