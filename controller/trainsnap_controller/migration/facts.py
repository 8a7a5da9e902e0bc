# SPDX-License-Identifier: Apache-2.0
"""Gathers what ``trainsnap migrate`` decides on: the only reading part of the command.

Jobs are read page by page, their snapshots by name, and their ConfigMaps by name or, where many jobs share a namespace
and the caller has the right to list, in ``bulk``: so memory does not grow with the cluster. Nothing is written here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from trainsnap_api.transport import Forbidden, KindNotServed, RawPage, Resource
from trainsnap_api.transport.resources import CONFIG_MAP, DEPLOYMENT, LEASE, TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_controller import constants as c
from trainsnap_controller.migration.bulk import Walk
from trainsnap_controller.migration.legacy import name_of
from trainsnap_controller.migration.lookup import find
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.snapshot.capture import BUILT_IN_KINDS

JSON = dict[str, Any]

PAGE: Final = 100
ENOUGH: Final = 10
"""Jobs of a namespace in one page for which it pays to list the ConfigMaps there."""
MOST_WALKS: Final = 3 * PAGE // ENOUGH
"""Namespaces that are walked at once: those of the pages that are worked on, and of the one that is read ahead."""
MOST_RUNTIMES: Final = 1000
"""Of which it is known whether they exist."""
REFERENCE_DEPLOYMENT: Final = "kubeflow-trainer-controller-manager"
REFERENCE_HOLDER: Final = "controller-manager"
"""In the name of every pod of the reference, whatever its release is called; never in one of ours."""
STALE_SECONDS: Final = 300.0


class Api(Protocol):
    """The requests that gathering needs."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...
    def pages(
        self, resource: Resource, namespace: str | None = None, *, page_size: int, on_restart: Any
    ) -> AsyncIterator[RawPage]: ...


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, and how many more there are, as far as the API server says."""

    jobs: tuple[Job, ...]
    remaining: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is of one job. ``runtime_gone``: it has neither, and the runtime that it names does not exist."""

    job: Job
    config_map: JSON | None = None
    snapshot: JSON | None = None
    runtime_gone: bool = False


async def jobs(api: Api, namespace: str | None) -> AsyncGenerator[Page, None]:
    """Every TrainJob of a namespace, or of all, each once and in order. Yields nothing where the kind is not served."""
    last = seen = ""

    def restarted() -> None:
        """A list that outlives its token is started again; what was seen of it is skipped then."""
        nonlocal seen
        seen = last

    pages: Any = api.pages(TRAIN_JOB, namespace, page_size=PAGE, on_restart=restarted)
    try:
        async with aclosing(pages) as stream:
            async for page in stream:
                found = [Job.from_json(msgspec.json.decode(item)) for item in page.items]
                new = tuple(job for job in found if _key(job) > seen)
                if new:
                    last = _key(new[-1])
                    yield Page(new, page.remaining or 0)
    except KindNotServed:
        if last:  # not an answer about the list that has begun: jobs would be passed over
            raise


def _key(job: Job) -> str:
    """The order in which the API server lists."""
    return f"{job.namespace}/{job.name}"


class Gatherer:
    """Reads the jobs of a namespace, or of all, and what there is of each."""

    def __init__(self, api: Api, namespace: str | None, concerns: Callable[[Job], bool] = lambda job: True) -> None:
        """``concerns``: of which jobs the ConfigMap will be asked for."""
        self._api, self._namespace, self._concerns = api, namespace, concerns
        self._walks: OrderedDict[str, Walk] = OrderedDict()
        self._runtimes: OrderedDict[tuple[Resource, str | None, str], bool] = OrderedDict()

    async def pages(self) -> AsyncGenerator[Page, None]:
        """Every job, each once."""
        async with aclosing(jobs(self._api, self._namespace)) as stream:
            async for page in stream:
                await self._walk_along(page)
                yield page

    async def close(self) -> None:
        """End the lists that are still read."""
        while self._walks:
            await self._walks.popitem()[1].close()

    async def of(
        self, job: Job, *, snapshot: Callable[[JSON], bool] = lambda config_map: True, runtime: bool = False
    ) -> Facts:
        """The ConfigMap of a job, and its snapshot, unless ``snapshot`` says of the ConfigMap that it is enough.
        ``runtime``: with neither, whether the runtime that it names exists."""
        config_map = await self._config_map(name_of(job.name), job.namespace)
        if config_map is not None and not snapshot(config_map):
            return Facts(job, config_map)
        found = await find(self._api, TRAINING_RUNTIME_SNAPSHOT, job.name, job.namespace)
        asked = runtime and config_map is None and found is None
        return Facts(job, config_map, found, runtime_gone=asked and await self._runtime_is_gone(job))

    async def _walk_along(self, page: Page) -> None:
        """Begin a walk in every namespace that has enough of the page's jobs, and end the oldest of too many."""
        asked_for: dict[str, list[str]] = {}
        for job in page.jobs:
            if self._concerns(job):
                asked_for.setdefault(job.namespace, []).append(name_of(job.name))
        for namespace, names in asked_for.items():
            if len(names) >= ENOUGH and namespace not in self._walks:
                self._walks[namespace] = Walk(self._api, namespace)
        for namespace, walk in self._walks.items():
            last = next((name_of(job.name) for job in reversed(page.jobs) if job.namespace == namespace), "")
            walk.expect(asked_for.get(namespace, ()), upto=last)
        while len(self._walks) > MOST_WALKS:
            await self._walks.popitem(last=False)[1].close()

    async def _runtime_is_gone(self, job: Job) -> bool:
        """Whether the runtime of a job does not exist. Other kinds, and what we may not read, are taken to be there."""
        resource = BUILT_IN_KINDS.get(job.runtime_ref.key)
        if resource is None:
            return False
        key = (resource, job.namespace if resource.namespaced else None, job.runtime_ref.name)
        if key not in self._runtimes:
            try:
                self._runtimes[key] = await find(self._api, resource, key[2], key[1]) is None
            except Forbidden:
                self._runtimes[key] = False
            if len(self._runtimes) > MOST_RUNTIMES:
                self._runtimes.popitem(last=False)
        return self._runtimes.get(key, False)

    async def _config_map(self, name: str, namespace: str) -> JSON | None:
        walk = self._walks.get(namespace)
        found = None if walk is None else await walk.find(name)
        return found if found is not None else await find(self._api, CONFIG_MAP, name, namespace)


async def rivals(api: Api, now: datetime, namespace: str = c.NAMESPACE) -> list[str]:
    """What shows that the reference may still be running: one line each. Its Lease name is ours as well."""
    found = []
    try:
        deployment = await find(api, DEPLOYMENT, REFERENCE_DEPLOYMENT, namespace)
        lease = await find(api, LEASE, c.LEASE_NAME, namespace)
    except Forbidden as error:
        return [f"you may not look: {error.message}"]
    if deployment is not None and (deployment.get("spec") or {}).get("replicas", 1) > 0:
        ready = (deployment.get("status") or {}).get("readyReplicas", 0)
        found.append(f"Deployment {namespace}/{REFERENCE_DEPLOYMENT} exists ({ready} pods ready); scale it to 0")
    spec = (lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if REFERENCE_HOLDER in holder and not _stale(spec.get("renewTime"), now):
        found.append(f"Lease {namespace}/{c.LEASE_NAME} is held by {holder}")
    return found


def _stale(renewed: str | None, now: datetime) -> bool:
    """Whether a Lease was given up without a word; long enough ago that no clock is that wrong."""
    return renewed is not None and (now - datetime.fromisoformat(renewed)).total_seconds() > STALE_SECONDS
