# SPDX-License-Identifier: Apache-2.0
"""Which jobs are looked at again when a RuntimeClass changes: paused ones that run on it, and no namesakes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.clock import settle
from support.scripted import ScriptedSource, event, obj, page
from trainsnap_api.transport.resources import RUNTIME_CLASS, TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT, Resource
from trainsnap_controller.cache import Cache, Key
from trainsnap_controller.queue import WorkQueue
from trainsnap_controller.reconcile.gather import LastWords
from trainsnap_controller.reconcile.sources import connect, observe
from trainsnap_controller.runtime.extension import Maps, Watch

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


class Scripts:
    """A script for each kind; kinds without one have no objects."""

    def __init__(self, lists: dict[Resource, ScriptedSource]) -> None:
        self._lists = lists
        self._empty = ScriptedSource([page(1)])

    def pages(self, resource: Resource, *args: Any, **scope: Any) -> Any:
        return self._lists.get(resource, self._empty).pages(resource, *args, **scope)

    def watch(self, resource: Resource, *args: Any, **scope: Any) -> Any:
        return self._lists.get(resource, self._empty).watch(resource, *args, **scope)


def job(name: str, *, namespace: str = "ns", paused: bool = True) -> JSON:
    return obj(name, 1, namespace=namespace, spec={"suspend": paused})


def snapshot(name: str, *classes: str | None, namespace: str = "ns") -> JSON:
    """Of a runtime with one replicated job for each class."""
    jobs = [
        {
            "name": f"j{index}",
            "template": {"spec": {"template": {"spec": {"runtimeClassName": found} if found else {}}}},
        }
        for index, found in enumerate(classes)
    ]
    return obj(name, 1, namespace=namespace, spec={"template": {"spec": {"replicatedJobs": jobs}}})


async def test_a_runtime_class_wakes_the_paused_jobs_that_run_on_it() -> None:
    classes = ScriptedSource([page(1)])
    jobs = [
        job("one"),
        job("other"),
        job("running", paused=False),
        job("late"),
        job("one", namespace="elsewhere"),
        job("no-snapshot"),
    ]
    snapshots = [
        snapshot("one", "kata"),
        snapshot("other", "gvisor", None),
        snapshot("running", "kata"),
        snapshot("late", None, "kata"),
        snapshot("one", None, namespace="elsewhere"),
    ]
    source = Scripts(
        {
            TRAIN_JOB: ScriptedSource([page(1, *jobs)]),
            TRAINING_RUNTIME_SNAPSHOT: ScriptedSource([page(1, *snapshots)]),
            RUNTIME_CLASS: classes,
        }
    )
    cache = Cache(source)
    queue = WorkQueue[Key]("test")
    watches = [Watch(RUNTIME_CLASS, Maps.SUSPENDED_BY_RUNTIME_CLASS)]
    observe(cache, LastWords(), watches)
    connect(cache, queue, watches)
    running = asyncio.ensure_future(cache.run())
    try:
        await cache.wait_synced()
        await settle()
        while len(queue):
            queue.done(await queue.get())
        classes.push(event("ADDED", obj("kata", 2, namespace=None)))
        await settle()
        woken = set()
        while len(queue):
            key = await queue.get()
            queue.done(key)
            woken.add(key)
        assert woken == {Key("ns", "one"), Key("ns", "late")}
    finally:
        running.cancel()
        await asyncio.wait([running])
