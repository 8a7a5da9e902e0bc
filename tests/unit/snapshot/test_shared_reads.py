# SPDX-License-Identifier: Apache-2.0
"""Shared reads: few requests for many, never an answer that is older than the question."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trainsnap_api.transport import NotFound, Resource
from trainsnap_api.transport.resources import CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME
from trainsnap_controller.snapshot.reads import SharedReads

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


class Server:
    """Answers with what is stored when the request arrives, but only once it is let go."""

    def __init__(self) -> None:
        self.stored: JSON | None = {"version": 1}
        self.requests = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        self.requests += 1
        seen = self.stored
        await self.hold.wait()
        if seen is None:
            raise NotFound("no such object")
        return seen


async def turn() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_many_at_once_are_two_requests() -> None:
    server = Server()
    server.hold.clear()
    reads = SharedReads(server)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reads.get(TRAINING_RUNTIME, "rt", "team")) for _ in range(100)]
        await turn()
        server.hold.set()
    assert [task.result() for task in tasks] == [{"version": 1}] * 100
    assert server.requests == 2


async def test_one_after_the_other_are_requests_of_their_own() -> None:
    server = Server()
    reads = SharedReads(server)
    for version in (1, 2, 3):
        server.stored = {"version": version}
        assert await reads.get(TRAINING_RUNTIME, "rt", "team") == {"version": version}
    assert server.requests == 3


async def test_an_answer_is_never_older_than_the_question() -> None:
    server = Server()
    server.stored = None
    server.hold.clear()
    reads = SharedReads(server)
    async with asyncio.TaskGroup() as tasks:
        early = tasks.create_task(_missing(reads))
        await turn()
        server.stored = {"version": 2}
        late = [tasks.create_task(reads.get(TRAINING_RUNTIME, "rt", "team")) for _ in range(5)]
        await turn()
        server.hold.set()
    assert early.result() is True
    assert [task.result() for task in late] == [{"version": 2}] * 5
    assert server.requests == 2


async def _missing(reads: SharedReads) -> bool:
    try:
        await reads.get(TRAINING_RUNTIME, "rt", "team")
    except NotFound:
        return True
    return False


@pytest.mark.parametrize("cancelled", [0, 1], ids=["the one that is under way", "the one that is next"])
async def test_a_leader_that_gives_up_leaves_the_others_in_good_hands(cancelled: int) -> None:
    server = Server()
    server.hold.clear()
    reads = SharedReads(server)
    tasks = []
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            tasks.append(group.create_task(reads.get(TRAINING_RUNTIME, "rt", "team")))
            await turn()
        tasks[cancelled].cancel()
        await turn()
        server.hold.set()
    assert [task.result() for task in tasks if not task.cancelled()] == [{"version": 1}] * 3


async def test_objects_are_told_apart() -> None:
    server = Server()
    server.hold.clear()
    reads = SharedReads(server)
    async with asyncio.TaskGroup() as tasks:
        for resource, namespace in ((TRAINING_RUNTIME, "a"), (TRAINING_RUNTIME, "b"), (CLUSTER_TRAINING_RUNTIME, None)):
            tasks.create_task(reads.get(resource, "rt", namespace))
        await turn()
        assert server.requests == 3
        server.hold.set()


async def test_nothing_is_kept() -> None:
    reads = SharedReads(Server())
    await asyncio.gather(*(reads.get(TRAINING_RUNTIME, "rt", "team") for _ in range(10)))
    assert (reads._sent, reads._next) == ({}, {})
