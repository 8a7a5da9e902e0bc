# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps by a list that is walked along with the jobs: the same as by name, with fewer requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_api.transport import Expired, Forbidden, NotFound, RawPage, Resource, TransportError
from trainsnap_controller.migration import bulk
from trainsnap_controller.migration.decide import left_alone
from trainsnap_controller.migration.facts import ENOUGH, MOST_WALKS, PAGE, Gatherer
from trainsnap_controller.migration.legacy import SUFFIX

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
Key = tuple[str, str]


class Api:
    """Jobs and ConfigMaps by namespace and name, listed in the order of the API server; what was asked is counted."""

    def __init__(
        self,
        jobs: set[Key],
        config_maps: set[Key],
        *,
        breaks: dict[int, TransportError] | None = None,
        finished: set[Key] | None = None,
        size: int = 0,
    ):
        self._objects = {"TrainJob": sorted(jobs), "ConfigMap": sorted(config_maps), "TrainingRuntimeSnapshot": []}
        self._finished, self._size = finished or set(), size
        self._breaks = breaks or {}
        self.asked: Counter[str] = Counter()
        self.open = 0

    async def pages(
        self, resource: Resource, namespace: str | None = None, *, page_size: int, on_restart: Any
    ) -> AsyncIterator[RawPage]:
        keys = [key for key in self._objects[resource.kind] if namespace in (None, key[0])]
        self.open += 1
        try:
            for number, start in enumerate(range(0, max(len(keys), 1), page_size)):
                await asyncio.sleep(0)
                self.asked[f"{resource.kind} pages"] += 1
                if resource.kind == "ConfigMap" and number in self._breaks:
                    raise self._breaks[number]
                yield RawPage([self._raw(resource, key) for key in keys[start : start + page_size]], "1", None)
        finally:
            self.open -= 1

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        await asyncio.sleep(0)
        self.asked[f"{resource.kind} by name"] += 1
        if (namespace, name) not in self._objects[resource.kind]:
            raise NotFound("no", status=404)
        found: JSON = msgspec.json.decode(self._raw(resource, (str(namespace), name)))
        return found

    def _raw(self, resource: Resource, key: Key) -> msgspec.Raw:
        obj: JSON = {"metadata": {"namespace": key[0], "name": key[1]}}
        if resource.kind == "ConfigMap":
            obj["data"] = {"runtime": "x" * self._size}
        elif key in self._finished:
            obj["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        return msgspec.Raw(msgspec.json.encode(obj))


async def gathered(api: Api) -> dict[Key, Key | None]:
    """The ConfigMap that every job is said to have; all jobs of a page at once, as the command does it."""
    gather = Gatherer(api, None, concerns=lambda job: left_alone(job) is None)
    found: dict[Key, Key | None] = {}

    async def one(job: Any) -> None:
        if left_alone(job) is not None:
            return
        config_map = (await gather.of(job, snapshot=lambda _: False)).config_map
        meta = None if config_map is None else config_map["metadata"]
        found[job.namespace, job.name] = None if meta is None else (meta["namespace"], meta["name"])

    async for page in gather.pages():
        await asyncio.gather(*map(one, page.jobs))
    await gather.close()
    assert api.open == 0, "every list is closed"
    return found


def named(count: int, namespace: str = "ns") -> set[Key]:
    return {(namespace, f"job-{number:05}") for number in range(count)}


def config_maps_of(jobs: set[Key]) -> set[Key]:
    return {(namespace, name + SUFFIX) for namespace, name in jobs}


def right(jobs: set[Key], config_maps: set[Key]) -> dict[Key, Key | None]:
    return {
        (namespace, name): (namespace, name + SUFFIX) if (namespace, name + SUFFIX) in config_maps else None
        for namespace, name in jobs
    }


NAMES = st.text("ab-.r", min_size=1, max_size=4)
KEYS = st.sets(st.tuples(st.sampled_from(["n", "n-m"]), NAMES), max_size=60)


@given(KEYS, st.sets(NAMES, max_size=30), st.sets(NAMES, max_size=9))
async def test_it_finds_what_asking_by_name_finds(jobs: set[Key], without: set[str], others: set[str]) -> None:
    config_maps = {key for key in config_maps_of(jobs) if key[1].removesuffix(SUFFIX) not in without}
    config_maps |= {("n", name) for name in others}
    assert await gathered(Api(jobs, config_maps)) == right(jobs, config_maps)


async def test_many_jobs_cost_a_list_and_no_request_each() -> None:
    jobs = named(1000)
    api = Api(jobs, config_maps_of(jobs))
    assert await gathered(api) == right(jobs, config_maps_of(jobs))
    assert api.asked == {"TrainJob pages": 1000 // PAGE, "ConfigMap pages": 1000 // bulk.PAGE}


async def test_few_jobs_are_not_worth_a_list() -> None:
    jobs = named(ENOUGH - 1) | named(ENOUGH - 1, "other")
    api = Api(jobs, config_maps_of(jobs))
    assert await gathered(api) == right(jobs, config_maps_of(jobs))
    assert api.asked == {"TrainJob pages": 1, "ConfigMap by name": 2 * (ENOUGH - 1)}


@pytest.mark.parametrize("failure", [Forbidden("no", status=403), Expired("too old", status=410)], ids=["403", "410"])
@pytest.mark.parametrize("page", [0, 1])
async def test_a_list_that_is_refused_or_ends_early_is_no_failure(failure: TransportError, page: int) -> None:
    jobs = named(200)
    api = Api(jobs, config_maps_of(jobs), breaks={page: failure})
    assert await gathered(api) == right(jobs, config_maps_of(jobs))
    assert api.asked["ConfigMap pages"] == page + 1, "it is not tried again"
    assert api.asked["ConfigMap by name"] == 200 - page * bulk.PAGE


async def test_a_namespace_full_of_other_configmaps_is_not_read_whole() -> None:
    jobs = named(20)
    others = {("ns", f"a-{number}") for number in range(5000)}
    api = Api(jobs, config_maps_of(jobs) | others)
    assert await gathered(api) == right(jobs, config_maps_of(jobs))
    assert api.asked == {"TrainJob pages": 1, "ConfigMap pages": 1, "ConfigMap by name": 20}


async def test_what_is_kept_for_later_is_bounded() -> None:
    """A job ``a`` comes first, and its ConfigMap after those of all jobs whose names begin with ``a-`` and a letter
    before r: the walk to it would keep them all."""
    jobs = {("ns", "a")} | {("ns", f"a-{number:05}") for number in range(2000)}
    api = Api(jobs, config_maps_of(jobs))
    assert await gathered(api) == right(jobs, config_maps_of(jobs))
    assert api.asked["ConfigMap pages"] == bulk.MOST_KEPT // bulk.PAGE + 1


async def test_configmaps_of_finished_jobs_are_not_kept() -> None:
    jobs = named(3000)
    running = {key for key in jobs if key[1].endswith("7")}
    api = Api(jobs, config_maps_of(jobs), finished=jobs - running)
    assert await gathered(api) == right(running, config_maps_of(jobs))
    assert api.asked == {"TrainJob pages": 3000 // PAGE, "ConfigMap pages": 3000 // bulk.PAGE}


async def test_few_large_ones_are_kept() -> None:
    jobs = {("ns", "a")} | {("ns", f"a-{number:05}") for number in range(300)}
    api = Api(jobs, config_maps_of(jobs), size=bulk.MOST_BYTES // 40)
    assert await gathered(api) == right(jobs, config_maps_of(jobs))
    assert api.asked["ConfigMap pages"] == 1, "more than may be kept, so the rest is asked for by name"


async def test_the_number_of_namespaces_is_bounded_too() -> None:
    jobs = {key for number in range(3 * MOST_WALKS) for key in named(ENOUGH, f"ns-{number:03}")}
    api = Api(jobs, config_maps_of(jobs))
    assert await gathered(api) == right(jobs, config_maps_of(jobs))
    assert api.asked["ConfigMap pages"] == 3 * MOST_WALKS
