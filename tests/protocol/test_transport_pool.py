# SPDX-License-Identifier: Apache-2.0
"""Connections of a transport: one pool from the first use on, bounded, and whole after cancellations and faults."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from support.loopback import Waits, connected, pair
from support.misbehaving import after, reply, reset, serving, silence, stream
from trainsnap_api.transport import Disconnected, RetryPolicy, TimedOut, Transport
from trainsnap_api.transport.resources import TRAIN_JOB

pytestmark = pytest.mark.anyio


async def test_concurrent_first_use_builds_one_pool() -> None:
    async with pair() as (server, transport):
        gate = asyncio.Event()
        server.then(*[after(gate, reply({}))] * 10, reply({}))
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(transport.server_version())
            await server.wait_for(10)
            gate.set()
        assert server.connections == 10
        for _ in range(20):
            await transport.server_version()
        assert server.connections == 10, "the connections of the first calls are all kept and used again"
    async with asyncio.timeout(5):
        await server.wait_for_open(0)


async def test_no_more_requests_in_flight_than_allowed() -> None:
    async with pair(max_concurrent_requests=3) as (server, transport):
        running, most = 0, 0

        async def count(exchange: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            await reply({})(exchange)

        server.then(count)
        await asyncio.gather(*(transport.server_version() for _ in range(12)))
        assert most == 3
        assert server.connections <= 3


async def test_repeated_cancellation_leaks_no_slot_and_breaks_no_other_request() -> None:
    async with pair(max_concurrent_requests=4, request_timeout=5) as (server, transport):

        async def slow(exchange: Any) -> None:
            await asyncio.sleep(0.01)
            await reply({"ok": exchange.seen.path})(exchange)

        server.then(slow)
        for round_ in range(15):
            tasks = [asyncio.ensure_future(transport.request("GET", f"/r{round_}/{i}")) for i in range(12)]
            await asyncio.sleep(0.002 * (round_ % 8))
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for i, result in enumerate(results):
                if not isinstance(result, asyncio.CancelledError):
                    assert not isinstance(result, BaseException), result
                    assert result.json() == {"ok": f"/r{round_}/{i}"}, "no answer reaches the wrong request"
            assert sum(isinstance(r, asyncio.CancelledError) for r in results) <= 6
        async with asyncio.timeout(5):
            await asyncio.gather(*(transport.server_version() for _ in range(8)))
        assert server.open_connections <= 4


async def test_slots_come_back_after_every_kind_of_failure() -> None:
    quick: dict[str, Any] = {"max_concurrent_requests": 1, "request_timeout": 0.05, "retry": RetryPolicy(attempts=1)}
    async with pair(**quick) as (server, transport):
        server.then(reset, silence, reset, silence, reply({"ok": 1}))
        for want in (Disconnected, TimedOut, Disconnected, TimedOut):
            with pytest.raises(want):
                await transport.server_version()
        assert await transport.server_version() == {"ok": 1}


async def test_a_request_that_waits_for_a_retry_holds_no_slot() -> None:
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def sleep(_: float) -> None:
        waiting.set()
        await go_on.wait()

    async with pair(max_concurrent_requests=1, sleep=sleep) as (server, transport):
        server.then(reset, reply({}))
        async with asyncio.TaskGroup() as group:
            group.create_task(transport.server_version())
            await waiting.wait()
            async with asyncio.timeout(5):
                await transport.server_version()
            go_on.set()


async def test_closing_ends_running_requests_and_can_be_repeated() -> None:
    async with pair(sleep=Waits()) as (server, transport):
        server.then(silence)
        task = asyncio.ensure_future(transport.request("POST", "/x", body={}))
        await server.wait_for(1)
        await transport.aclose()
        await transport.aclose()
        async with asyncio.timeout(5):
            with pytest.raises(Disconnected):
                await task


async def test_nothing_is_left_open() -> None:
    """Warnings are errors in the tests: a session or socket that is collected while open fails this one."""
    async with serving() as server:
        server.then(reply({}))
        server.on(TRAIN_JOB.path(), stream(end=silence))
        for _ in range(3):
            async with connected(server) as transport:
                await transport.server_version()
                opened = asyncio.Event()
                watch = transport.watch(TRAIN_JOB, resource_version="1", on_open=opened.set)
                task = asyncio.ensure_future(anext(watch))
                await opened.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await server.wait_for_open(0)
    gc.collect()


async def test_two_transports_share_nothing() -> None:
    async with serving() as server, connected(server, token="a") as first, connected(server, token="b") as second:
        server.then(reply({}))
        await first.server_version()
        await first.aclose()
        await second.server_version()
        assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer a", "Bearer b"]
        assert isinstance(second, Transport)
