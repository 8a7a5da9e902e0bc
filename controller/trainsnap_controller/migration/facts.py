# SPDX-License-Identifier: Apache-2.0
"""Gathers what ``trainsnap migrate`` decides on: the only reading part of the command.

Jobs are read page by page and their ConfigMaps and snapshots by name, so that memory does not grow with the cluster
and no right to list ConfigMaps is needed. Who has that right gets ConfigMaps out of the API server's memory, no older
than the page of jobs: a read past it waits for every write that storage is busy with. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from trainsnap_api.transport import (
    ApiError,
    Forbidden,
    KindNotServed,
    NotFound,
    RawPage,
    Resource,
    Response,
    ServerTimeout,
)
from trainsnap_api.transport.resources import CONFIG_MAP, DEPLOYMENT, LEASE, TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_controller import constants as c
from trainsnap_controller.migration.legacy import name_of
from trainsnap_controller.runtime.job import Job

JSON = dict[str, Any]

PAGE: Final = 100
REFERENCE_DEPLOYMENT: Final = "kubeflow-trainer-controller-manager"
REFERENCE_HOLDER: Final = "controller-manager"
"""In the name of every pod of the reference, whatever its release is called; never in one of ours."""
STALE_SECONDS: Final = 300.0


class Api(Protocol):
    """The requests that gathering needs."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...
    async def request(self, method: str, path: str, *, params: dict[str, str]) -> Response: ...
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
    """What there is of one job."""

    job: Job
    config_map: JSON | None = None
    snapshot: JSON | None = None


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
        return


def _key(job: Job) -> str:
    """The order in which the API server lists."""
    return f"{job.namespace}/{job.name}"


class Gatherer:
    """Reads the jobs of a namespace, or of all, and what there is of each."""

    def __init__(self, api: Api, namespace: str | None) -> None:
        self._api, self._namespace = api, namespace
        self._may_list = True
        self._since: str | None = None

    async def pages(self) -> AsyncGenerator[Page, None]:
        """Every job, each once."""
        async with aclosing(jobs(self._api, self._namespace)) as stream:
            async for page in stream:
                await self._look_how_far()
                yield page

    async def of(self, job: Job, *, snapshot: bool = True) -> Facts:
        """The ConfigMap of a job, and its snapshot unless that is not wanted."""
        return Facts(
            job,
            await self._config_map(name_of(job.name), job.namespace),
            await _find(self._api, TRAINING_RUNTIME_SNAPSHOT, job.name, job.namespace) if snapshot else None,
        )

    async def _look_how_far(self) -> None:
        """Note how far the ConfigMaps are: versions are comparable among objects of one kind only."""
        if not self._may_list:
            return
        one: Any = self._api.pages(CONFIG_MAP, self._namespace, page_size=1, on_restart=None)
        try:
            async with aclosing(one) as stream:
                self._since = (await anext(stream)).resource_version or None
        except Forbidden:
            self._may_list = False
        except ApiError:
            self._since = None  # it is only for speed

    async def _config_map(self, name: str, namespace: str) -> JSON | None:
        if self._since is not None:
            try:
                path = CONFIG_MAP.path(namespace, name)
                return (await self._api.request("GET", path, params={"resourceVersion": self._since})).json()
            except NotFound:
                return None
            except ServerTimeout:
                pass  # the API server that was asked has not heard of that version yet
        return await _find(self._api, CONFIG_MAP, name, namespace)


async def rivals(api: Api, now: datetime, namespace: str = c.NAMESPACE) -> list[str]:
    """What shows that the reference may still be running: one line each. Its Lease name is ours as well."""
    found = []
    deployment = await _find(api, DEPLOYMENT, REFERENCE_DEPLOYMENT, namespace)
    if deployment is not None and (deployment.get("spec") or {}).get("replicas", 1) > 0:
        ready = (deployment.get("status") or {}).get("readyReplicas", 0)
        found.append(f"Deployment {namespace}/{REFERENCE_DEPLOYMENT} exists ({ready} pods ready); scale it to 0")
    lease = await _find(api, LEASE, c.LEASE_NAME, namespace)
    spec = (lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if REFERENCE_HOLDER in holder and not _stale(spec.get("renewTime"), now):
        found.append(f"Lease {namespace}/{c.LEASE_NAME} is held by {holder}")
    return found


def _stale(renewed: str | None, now: datetime) -> bool:
    """Whether a Lease was given up without a word; long enough ago that no clock is that wrong."""
    return renewed is not None and (now - datetime.fromisoformat(renewed)).total_seconds() > STALE_SECONDS


async def _find(api: Api, resource: Resource, name: str, namespace: str) -> JSON | None:
    try:
        return await api.get(resource, name, namespace)
    except NotFound:
        return None
