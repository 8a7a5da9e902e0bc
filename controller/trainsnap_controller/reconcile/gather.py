# SPDX-License-Identifier: Apache-2.0
"""What the TrainJob reconciler knows of the cluster: the only reading part.

Kinds that are watched are read from the cache. Secrets and ConfigMaps are read from the API server by name, since the
operator has no right to list them; the objects in question are a job's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from trainsnap_api.transport import NotFound, Resource
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_controller import blocked as reasons
from trainsnap_controller import constants as c
from trainsnap_controller.blocked import Blocked
from trainsnap_controller.cache import Entry, Key, Store
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed
from trainsnap_controller.snapshot.document import controlled_by

JSON = dict[str, Any]


class Stores(Protocol):
    """The stores of the kinds that are watched; None for a kind that is not."""

    def store(self, resource: Resource) -> Store | None: ...


@dataclass(slots=True)
class LastWords:
    """The last state of JobSets that were finished when they were deleted, until their TrainJob has recorded it.

    Without this a JobSet that completes and is removed by its TTL within a moment would be built a second time. A
    process that stands by hears them too and reconciles nothing, so ``sources`` keeps and forgets by what is watched.
    """

    _states: dict[Key, JSON] = field(default_factory=dict)

    def __contains__(self, key: Key) -> bool:
        return key in self._states

    def keep(self, key: Key, job_set: JSON) -> None:
        """Remember a deleted JobSet's state."""
        self._states[key] = job_set

    def forget(self, key: Key) -> None:
        """The state was recorded, or the TrainJob is gone."""
        self._states.pop(key, None)

    def of(self, job: Job) -> JSON | None:
        """The state, if it is of this very job and not of an earlier one of its name."""
        state = self._states.get(Key(job.namespace, job.name))
        return state if state is not None and controlled_by(state, job) else None


@dataclass(frozen=True, slots=True)
class Workload:
    """The JobSet of the job's name. ``own`` is set when it is the job's, ``problem`` when it is somebody else's.

    ``gone`` is the last state of the job's own JobSet that was finished when it was deleted.
    """

    own: JSON | None = None
    gone: JSON | None = None
    problem: Blocked | None = None

    @property
    def last_seen(self) -> JSON | None:
        """The state that the job's status follows."""
        return self.own or self.gone


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads what a reconcile needs."""

    stores: Stores
    last_words: LastWords
    get: Callable[[Resource, str, str | None], Awaitable[JSON]]

    def job(self, key: Key) -> Job | None:
        """The TrainJob as the cache has it."""
        found = self._cached(TRAIN_JOB, *key)
        return None if found is None else Job.from_json(found)

    def snapshot(self, namespace: str, name: str) -> JSON | None:
        """The snapshot of a job as the cache has it."""
        return self._cached(TRAINING_RUNTIME_SNAPSHOT, namespace, name)

    def workload(self, job: Job) -> Workload:
        """The JobSet of the job's name, and whose it is."""
        found = self._cached(JOB_SET, job.namespace, job.name)
        if found is None:
            return Workload(gone=self.last_words.of(job))
        if controlled_by(found, job):
            return Workload(own=found)
        return Workload(problem=foreign(JOB_SET, found, job))

    async def observe(self, job: Job, workload: Workload, needs: Iterable[Need]) -> Observed:
        """The answers to what the plugins want to know. Raises ``Blocked`` for a child that is somebody else's."""
        objects: dict[Need, JSON | None] = {}
        for need in needs:
            if need.resource is JOB_SET:
                objects[need] = workload.own
                continue
            found = objects[need] = await self._read(need)
            if found is not None and need.child and not controlled_by(found, job):
                raise foreign(need.resource, found, job)
        return Observed(objects)

    async def _read(self, need: Need) -> JSON | None:
        if self.stores.store(need.resource) is not None:
            return self._cached(need.resource, need.namespace or "", need.name)
        try:
            return await self.get(need.resource, need.name, need.namespace)
        except NotFound:
            return None

    def _cached(self, resource: Resource, namespace: str, name: str) -> JSON | None:
        store = self.stores.store(resource)
        entry = store.get(namespace, name) if store is not None else None
        return None if entry is None else entry.object()


def owner_name(entry: Entry) -> str | None:
    """The name of the TrainJob that controls a cached object, whatever its UID; None when no TrainJob does."""
    owner = entry.controller
    if owner is None or owner.kind != "TrainJob" or owner.api_version.partition("/")[0] != c.GROUP:
        return None
    return owner.name


def foreign(resource: Resource, obj: Mapping[str, Any], job: Job) -> Blocked:
    """Why an existing object of a child's name cannot be used."""
    references = obj["metadata"].get("ownerReferences") or []
    owner = next((reference for reference in references if reference.get("controller")), None)
    title = f"{resource.kind} {job.namespace}/{obj['metadata']['name']}"
    if owner is not None and owner.get("kind") == "TrainJob" and owner.get("name") == job.name:
        return Blocked(
            reasons.LEFTOVER,
            f"{title} belongs to an earlier TrainJob of this name (uid {owner.get('uid')}) and is still there",
        )
    holder = "nobody" if owner is None else f"{owner.get('kind')} {owner.get('name')}"
    return Blocked(
        reasons.CHILD_CONFLICT,
        f"{title} exists and is controlled by {holder}, not by this TrainJob; it is neither used nor changed",
    )
