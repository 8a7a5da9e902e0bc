# SPDX-License-Identifier: Apache-2.0
"""A watch of the client goes on over a restart of the API server. Not on the full plane: its controllers would need
half a minute to find their way back, and other tests wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from support.cluster import Cluster
from support.objects import runtime, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api import AsyncClient
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]


@pytest.fixture
async def client(plane: Target, namespace: str) -> AsyncIterator[AsyncClient]:
    async with await AsyncClient.connect(kubeconfig=str(plane.kubeconfig), namespace=namespace, probe=True) as made:
        yield made


async def test_a_watch_over_a_restart_of_the_server(
    operator: Operator, client: AsyncClient, cluster: Cluster, local_plane: Plane
) -> None:
    seen: list[tuple[str, str | None]] = []
    count = 6
    await client.apply(runtime("rt", cluster.namespace))

    async def follow() -> None:
        async with aclosing(client.jobs.watch()) as events:
            async for event in events:
                metadata = event.object.metadata
                if event.type == "ADDED" and metadata:
                    seen.append((event.type, metadata.name))
                if len(seen) == count:
                    return

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(follow())
        for number in range(count):
            if number == 3:
                await asyncio.to_thread(local_plane.restart, "kube-apiserver", grace=1.0)
            await cluster.create(train_job(f"job-{number}", cluster.namespace, suspend=True))
    assert seen == [("ADDED", f"job-{number}") for number in range(count)]
