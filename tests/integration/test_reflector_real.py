# SPDX-License-Identifier: Apache-2.0
"""The reflector against a real API server: gaps, restarts, lost history, and kinds that come and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.cluster import Cluster
from trainsnap_api.transport import NotFound, Transport
from trainsnap_api.transport.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, Resource
from trainsnap_controller.cache import CacheEvent, Informer
from trainsnap_controller.observe.backoff import Backoff
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]


class Gate:
    """The real transport, with a gate before each watch: what happens while it is shut happens between two watches."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = asyncio.Event()
        self.lists = 0
        self.watched: list[str] = []

    def pages(self, resource: Resource, namespace: str | None = None, **scope: Any) -> AsyncIterator[Any]:
        self.lists += 1
        return self._transport.pages(resource, namespace, **scope)

    async def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[Any]:
        self.waiting.set()
        await self.open.wait()
        self.waiting.clear()
        self.watched.append(options["resource_version"])
        async for event in self._transport.watch(resource, namespace, **options):
            yield event


class Follower:
    """An informer, and everything that its handler was told."""

    def __init__(self, transport: Transport, resource: Resource, namespace: str | None) -> None:
        self.gate = Gate(transport)
        self.events: list[CacheEvent] = []
        self.informer = Informer(
            self.gate, resource, namespace=namespace, backoff=Backoff(0.05, 0.5), missing_backoff=Backoff(0.05, 0.5)
        )
        self.informer.add_handler(self.events.append)

    def seen(self, name: str) -> list[str]:
        """What was told of one object: added, updated, deleted."""
        return [event.type for event in self.events if event.key.name == name]

    def value(self, name: str) -> str | None:
        for entry in self.informer.store:
            if entry.name == name:
                value: str = entry.object()["data"]["value"]
                return value
        return None


@asynccontextmanager
async def following(
    transport: Transport, resource: Resource, namespace: str | None = None, *, shut: bool = False
) -> AsyncIterator[Follower]:
    follower = Follower(transport, resource, namespace)
    if shut:
        follower.gate.open.clear()
    task = asyncio.create_task(follower.informer.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], object], what: str, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


def config_map(cluster: Cluster, name: str, value: str = "1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": cluster.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


async def test_what_happens_between_list_and_watch_is_seen(cluster: Cluster) -> None:
    for name in ("stays", "goes", "changes"):
        await cluster.create(config_map(cluster, name))
    async with following(cluster.api, CONFIG_MAP, cluster.namespace, shut=True) as f:
        await f.gate.waiting.wait()
        await cluster.api.delete(CONFIG_MAP, "goes", cluster.namespace)
        await cluster.patch(CONFIG_MAP, "changes", {"data": {"value": "2"}})
        await cluster.create(config_map(cluster, "comes"))
        f.gate.open.set()
        await until(lambda: f.seen("comes"), "the last change arrives")
        assert f.seen("stays") == ["added"]
        assert f.seen("goes") == ["added", "deleted"]
        assert f.seen("changes") == ["added", "updated"]
        assert f.value("changes") == "2"
        assert f.gate.lists == 1


async def test_entries_are_what_the_api_server_returns_less_managed_fields(cluster: Cluster) -> None:
    await cluster.create(config_map(cluster, "a"))
    async with following(cluster.api, CONFIG_MAP, cluster.namespace) as f:
        await f.informer.synced.wait()
        entry = f.informer.store.get(cluster.namespace, "a")
        assert entry is not None
        want = await cluster.get(CONFIG_MAP, "a")
        want["metadata"].pop("managedFields")
        assert entry.object() == want
        assert b"managedFields" not in entry.raw


async def test_our_own_write_is_there_at_once_and_told_once(cluster: Cluster) -> None:
    async with following(cluster.api, CONFIG_MAP, cluster.namespace) as f:
        await f.informer.synced.wait()
        for number in range(30):
            name = f"own-{number}"
            f.informer.store.observe_write(await cluster.create(config_map(cluster, name)))
            assert f.value(name) == "1"
            f.informer.store.observe_write(await cluster.patch(CONFIG_MAP, name, {"data": {"value": "2"}}))
            assert f.value(name) == "2"
        await cluster.create(config_map(cluster, "last"))
        await until(lambda: f.seen("last"), "the watch caught up")
        for number in range(30):
            assert f.seen(f"own-{number}") == ["added", "updated"]


async def test_an_answer_to_a_write_does_not_bring_back_what_was_deleted_since(cluster: Cluster) -> None:
    async with following(cluster.api, CONFIG_MAP, cluster.namespace) as f:
        await f.informer.synced.wait()
        answer = await cluster.create(config_map(cluster, "a"))
        await cluster.api.delete(CONFIG_MAP, "a", cluster.namespace)
        await until(lambda: f.seen("a") == ["added", "deleted"], "the deletion arrives")
        assert not f.informer.store.observe_write(answer)
        assert f.value("a") is None


async def test_a_restart_of_the_api_server_loses_and_repeats_nothing(cluster: Cluster, local_plane: Plane) -> None:
    await cluster.create(config_map(cluster, "before"))
    async with following(cluster.api, CONFIG_MAP, cluster.namespace) as f:
        await until(lambda: f.informer.healthy and f.gate.watched, "the watch is up")
        await asyncio.to_thread(local_plane.restart, "kube-apiserver")
        await asyncio.to_thread(local_plane.wait_ready, "kube-apiserver")
        await cluster.patch(CONFIG_MAP, "before", {"data": {"value": "2"}})
        await cluster.create(config_map(cluster, "after"))
        await until(lambda: f.seen("after"), "the watch goes on")
        assert f.seen("before") == ["added", "updated"]
        assert f.seen("after") == ["added"]
        assert f.informer.healthy


async def test_history_that_the_server_has_forgotten_is_made_up_by_a_list(cluster: Cluster, local_plane: Plane) -> None:
    for name in ("stays", "goes", "changes", "replaced"):
        await cluster.create(config_map(cluster, name))
    async with following(cluster.api, CONFIG_MAP, cluster.namespace) as f:
        await until(lambda: f.informer.healthy and f.gate.watched, "the watch is up")
        old = (await cluster.get(CONFIG_MAP, "replaced"))["metadata"]["uid"]
        f.gate.open.clear()
        await asyncio.to_thread(local_plane.restart, "kube-apiserver")
        await asyncio.to_thread(local_plane.wait_ready, "kube-apiserver")
        await f.gate.waiting.wait()
        for name in ("goes", "replaced"):
            await cluster.api.delete(CONFIG_MAP, name, cluster.namespace)
        await cluster.patch(CONFIG_MAP, "changes", {"data": {"value": "2"}})
        for name in ("comes", "replaced"):
            await cluster.create(config_map(cluster, name))
        # A server that has just started knows nothing of what was before, and answers 410.
        await asyncio.to_thread(local_plane.restart, "kube-apiserver")
        await asyncio.to_thread(local_plane.wait_ready, "kube-apiserver")
        f.gate.open.set()
        await until(lambda: f.seen("comes"), "the difference arrives")
        assert f.gate.lists == 2
        assert f.seen("stays") == ["added"]
        assert f.seen("changes") == ["added", "updated"]
        assert f.seen("comes") == ["added"]
        assert f.seen("goes") == ["added", "deleted"]
        assert f.seen("replaced") == ["added", "deleted", "added"]
        gone = next(e for e in f.events if e.type == "deleted" and e.key.name == "goes")
        assert gone.entry.object()["data"] == {"value": "1"}, "the last known state comes with the deletion"
        replaced = [e.entry.uid for e in f.events if e.key.name == "replaced"]
        assert replaced[0] == replaced[1] == old != replaced[2]


GROUP = "late.trainsnap.test"
LATE = Resource(GROUP, "v1", "Late", "lates")
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"lates.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "lates", "singular": "late", "kind": "Late"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


async def test_a_kind_that_is_installed_later_is_followed_from_then_on_and_missed_when_it_goes(
    cluster: Cluster,
) -> None:
    obj = {"apiVersion": f"{GROUP}/v1", "kind": "Late", "metadata": {"name": "a", "namespace": cluster.namespace}}
    async with following(cluster.api, LATE) as f:
        await until(lambda: "not serve" in (f.informer.problem or ""), "the missing kind is noticed")
        assert not f.informer.synced.is_set()
        await cluster.api.create(CUSTOM_RESOURCE_DEFINITION, CRD)
        try:
            await asyncio.wait_for(f.informer.synced.wait(), 30)
            await cluster.api.create(LATE, obj)
            await until(lambda: f.seen("a") == ["added"], "objects arrive")
            assert f.informer.problem is None
        finally:
            await cluster.api.delete(CUSTOM_RESOURCE_DEFINITION, CRD["metadata"]["name"])
        await until(lambda: f.seen("a") == ["added", "deleted"], "the objects go with their kind")
        with pytest.raises(NotFound):
            await cluster.api.get(LATE, "a", cluster.namespace)
