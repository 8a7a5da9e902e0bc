# SPDX-License-Identifier: Apache-2.0
"""Which change of which object wakes which TrainJob.

Handlers run in the reflector's task and only put keys on the queue; deciding is the reconciler's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from trainsnap_api.transport import Resource
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller.cache import Cache, CacheEvent, Entry, Key
from trainsnap_controller.queue import WorkQueue
from trainsnap_controller.reconcile.gather import LastWords, owner_name
from trainsnap_controller.runtime import status

JSON = dict[str, Any]

BY_RUNTIME: Final = "runtime"
"""Index of TrainJobs by the runtime that they name: ``Kind/namespace/name``, the namespace empty for cluster kinds."""


def runtime_key(kind: str, namespace: str, name: str) -> str:
    """The index value of a runtime."""
    return f"{kind}/{namespace}/{name}"


def _runtime_of(entry: Entry) -> Iterable[str]:
    reference = entry.object().get("spec", {}).get("runtimeRef", {})
    kind = reference.get("kind", "")
    namespace = "" if kind == CLUSTER_TRAINING_RUNTIME.kind else entry.namespace
    return [runtime_key(kind, namespace, reference.get("name", ""))]


def connect(cache: Cache, queue: WorkQueue[Key], last_words: LastWords) -> None:
    """Register the index and every handler of the TrainJob controller."""
    jobs = cache.informer(TRAIN_JOB)
    jobs.add_index(BY_RUNTIME, _runtime_of)
    jobs.add_handler(lambda event: queue.add(event.key))
    cache.informer(JOB_SET).add_handler(lambda event: _job_set(event, queue, last_words))
    # A snapshot's owner reference may have been taken off; its name always says whose it is.
    snapshots = cache.informer(TRAINING_RUNTIME_SNAPSHOT)
    snapshots.add_handler(lambda event: queue.add(event.key))
    for resource in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME):
        cache.informer(resource).add_handler(_runtime(cache, queue, resource))


def _job_set(event: CacheEvent, queue: WorkQueue[Key], last_words: LastWords) -> None:
    owner = owner_name(event.entry)
    # Also by its own name: a foreign JobSet in the way of a job may have gone.
    for name in {event.key.name, owner or event.key.name}:
        queue.add(Key(event.key.namespace, name))
    if event.type == "deleted" and owner is not None:
        state = event.entry.object()
        if any(status.is_true(state.get("status"), kind) for kind in ("Completed", "Failed")):
            last_words.keep(Key(event.key.namespace, owner), state)


def _runtime(cache: Cache, queue: WorkQueue[Key], resource: Resource) -> Callable[[CacheEvent], None]:
    """Jobs that wait for a runtime are woken by any change of it; those that have their snapshot are not concerned."""
    jobs, snapshots = cache.informer(TRAIN_JOB).store, cache.informer(TRAINING_RUNTIME_SNAPSHOT).store

    def handle(event: CacheEvent) -> None:
        if event.old is not None and event.new is not None and event.old.generation == event.new.generation:
            return
        for job in jobs.by_index(BY_RUNTIME, runtime_key(resource.kind, event.key.namespace, event.key.name)):
            if snapshots.get(job.namespace, job.name) is None:
                queue.add(job.key)

    return handle
