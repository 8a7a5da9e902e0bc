# SPDX-License-Identifier: Apache-2.0
"""Several kinds in one cache: sync, readiness, and the rules of asking for informers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock, settle
from support.scripted import Page, ScriptedSource, obj, page
from trainsnap_api.transport.errors import KindNotServed
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, Resource
from trainsnap_controller.cache import Cache

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Kinds(ScriptedSource):
    """Serves every kind but one, until that is installed; remembers the scopes that were asked for."""

    def __init__(self, missing: Resource | None = None) -> None:
        super().__init__([])
        self.missing = missing
        self.scopes: dict[str, Any] = {}

    async def pages(self, resource: Resource, namespace: str | None = None, **scope: Any) -> AsyncIterator[Page]:
        self.scopes[resource.plural] = {"namespace": namespace, **scope}
        await asyncio.sleep(0)
        if resource is self.missing:
            raise KindNotServed("404")
        yield page(1, obj(resource.plural, 1))


async def test_synced_means_every_kind_and_the_missing_one_is_named() -> None:
    source, clock = Kinds(missing=JOB_SET), FakeClock()
    cache = Cache(source, clock=clock)
    cache.informer(TRAIN_JOB)
    cache.informer(JOB_SET)
    assert len(cache.problems()) == 2
    running = asyncio.create_task(cache.run())
    synced = asyncio.create_task(cache.wait_synced())
    await clock.advance(100)
    assert not synced.done()
    assert not cache.synced
    assert [problem.split(":")[0] for problem in cache.problems()] == ["jobsets.jobset.x-k8s.io"]
    source.missing = None
    await clock.advance(11)
    await synced
    assert cache.synced
    assert cache.problems() == []
    running.cancel()
    await asyncio.wait([running])


async def test_one_informer_for_each_kind_whoever_asks() -> None:
    cache = Cache(Kinds())
    assert cache.informer(JOB_SET) is cache.informer(JOB_SET)
    assert [informer.resource for informer in cache.informers] == [JOB_SET]


async def test_a_scope_is_passed_on_and_cannot_be_changed_by_the_next_who_asks() -> None:
    source = Kinds()
    cache = Cache(source, clock=FakeClock())
    cache.informer(JOB_SET, namespace="ns", label_selector="a=b")
    cache.informer(JOB_SET)
    with pytest.raises(ValueError, match="is cached with scope"):
        cache.informer(JOB_SET, namespace="other")
    running = asyncio.create_task(cache.run())
    await settle()
    assert source.scopes["jobsets"] == {"namespace": "ns", "label_selector": "a=b", "field_selector": None}
    with pytest.raises(RuntimeError, match="before the cache runs"):
        cache.informer(TRAIN_JOB)
    running.cancel()
    await asyncio.wait([running])
