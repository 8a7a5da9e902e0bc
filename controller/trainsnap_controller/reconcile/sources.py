# SPDX-License-Identifier: Apache-2.0
"""Which change of which object wakes which TrainJob.

Handlers run in the reflector's task and only put keys on the queue; deciding is the reconciler's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from trainsnap_api.transport import Resource
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller.cache import Cache, CacheEvent, Entry, Handler, Key, Store
from trainsnap_controller.queue import WorkQueue
from trainsnap_controller.reconcile.gather import LastWords, owner_name
from trainsnap_controller.runtime import status
from trainsnap_controller.runtime.extension import Maps, Watch
from trainsnap_controller.runtime.patches import pod_spec

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


BY_RUNTIME_CLASS: Final = "runtime-class"
"""Index of snapshots by the RuntimeClasses that their pod templates name."""


def _runtime_classes_of(entry: Entry) -> Iterable[str]:
    template = (entry.object().get("spec") or {}).get("template") or {}
    for job in (template.get("spec") or {}).get("replicatedJobs") or []:
        if name := pod_spec(job).get("runtimeClassName"):
            yield name


SUSPENDED: Final = "suspended"
"""Index of paused TrainJobs by namespace."""


def _paused(entry: Entry) -> bool:
    return entry.object().get("spec", {}).get("suspend") is True


def observe(cache: Cache, last_words: LastWords, watches: Iterable[Watch]) -> None:
    """Follow every kind that the TrainJob controller reads, in every replica; ``watches`` are what plugins ask for."""
    jobs = cache.informer(TRAIN_JOB)
    jobs.add_index(BY_RUNTIME, _runtime_of)
    jobs.add_index(SUSPENDED, lambda entry: [entry.namespace] if _paused(entry) else [])
    jobs.add_handler(lambda event: _forget_end(event, last_words))
    cache.informer(TRAINING_RUNTIME_SNAPSHOT).add_index(BY_RUNTIME_CLASS, _runtime_classes_of)
    cache.informer(JOB_SET).add_handler(lambda event: _remember_end(event, jobs.store, last_words))
    for resource in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME, *(watch.resource for watch in watches)):
        cache.informer(resource)


def connect(cache: Cache, queue: WorkQueue[Key], watches: Iterable[Watch]) -> None:
    """Let changes, and first all that is there, wake TrainJobs: when the controller starts, not in a replica that
    stands by, whose queue would grow with every object."""
    cache.informer(TRAIN_JOB).add_handler(lambda event: queue.add(event.key))
    # A snapshot's owner reference may have been taken off; its name always says whose it is.
    cache.informer(TRAINING_RUNTIME_SNAPSHOT).add_handler(lambda event: queue.add(event.key))
    for resource in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME):
        cache.informer(resource).add_handler(_runtime(cache, queue, resource))
    for watch in watches:
        cache.informer(watch.resource).add_handler(_HANDLERS[watch.maps](cache, queue))


def _remember_end(event: CacheEvent, jobs: Store, last_words: LastWords) -> None:
    """Keep the last state of a JobSet that was finished when it was deleted, while its TrainJob does not say so."""
    owner, name = event.entry.controller, owner_name(event.entry)
    if event.type != "deleted" or owner is None or name is None:
        return
    job = jobs.get(event.key.namespace, name)
    if job is None or job.uid != owner.uid or status.finished(job.object().get("status")):
        return
    state = event.entry.object()
    if any(status.is_true(state.get("status"), kind) for kind in ("Completed", "Failed")):
        last_words.keep(job.key, state)


def _forget_end(event: CacheEvent, last_words: LastWords) -> None:
    """Drop what is kept of a TrainJob that is gone or has recorded its end, whichever process recorded it."""
    if event.key in last_words and (event.new is None or status.finished(event.new.object().get("status"))):
        last_words.forget(event.key)


def _by_owner(cache: Cache, queue: WorkQueue[Key]) -> Handler:
    """The TrainJob that controls the object, and the one of its name: a foreign object in the way may have gone."""
    del cache

    def handle(event: CacheEvent) -> None:
        for name in {event.key.name, owner_name(event.entry) or event.key.name}:
            queue.add(Key(event.key.namespace, name))

    return handle


def _suspended_in_namespace(cache: Cache, queue: WorkQueue[Key]) -> Handler:
    """Every paused TrainJob of the object's namespace."""
    jobs = cache.informer(TRAIN_JOB).store

    def handle(event: CacheEvent) -> None:
        for job in jobs.by_index(SUSPENDED, event.key.namespace):
            queue.add(job.key)

    return handle


def _suspended_by_runtime_class(cache: Cache, queue: WorkQueue[Key]) -> Handler:
    """Paused TrainJobs whose snapshot names the RuntimeClass."""
    jobs, snapshots = cache.informer(TRAIN_JOB).store, cache.informer(TRAINING_RUNTIME_SNAPSHOT).store

    def handle(event: CacheEvent) -> None:
        for snapshot in snapshots.by_index(BY_RUNTIME_CLASS, event.key.name):
            job = jobs.get(*snapshot.key)
            if job is not None and _paused(job):
                queue.add(job.key)

    return handle


_HANDLERS: Final[Mapping[Maps, Callable[[Cache, WorkQueue[Key]], Handler]]] = {
    Maps.OWNER: _by_owner,
    Maps.SUSPENDED_IN_NAMESPACE: _suspended_in_namespace,
    Maps.SUSPENDED_BY_RUNTIME_CLASS: _suspended_by_runtime_class,
}


def _runtime(cache: Cache, queue: WorkQueue[Key], resource: Resource) -> Handler:
    """Jobs that wait for a runtime are woken by any change of it; those that have their snapshot are not concerned."""
    jobs, snapshots = cache.informer(TRAIN_JOB).store, cache.informer(TRAINING_RUNTIME_SNAPSHOT).store

    def handle(event: CacheEvent) -> None:
        if event.old is not None and event.new is not None and event.old.generation == event.new.generation:
            return
        for job in jobs.by_index(BY_RUNTIME, runtime_key(resource.kind, event.key.namespace, event.key.name)):
            if snapshots.get(job.namespace, job.name) is None:
                queue.add(job.key)

    return handle
