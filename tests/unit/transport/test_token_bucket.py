# SPDX-License-Identifier: Apache-2.0
"""The client-side rate limit, with a clock that stands still."""

from __future__ import annotations

import asyncio

import pytest

from support.clock import FakeClock, settle
from trainsnap_api.transport.limiter import TokenBucket

pytestmark = pytest.mark.anyio


def bucket(qps: float | None, burst: int | None, clock: FakeClock) -> TokenBucket:
    return TokenBucket(qps, burst, clock=clock.now, sleep=clock.sleep)


@pytest.mark.parametrize("qps", [None, 0, -1])
async def test_no_limit_never_waits(qps: float | None) -> None:
    clock = FakeClock()
    limiter = bucket(qps, None, clock)
    assert [await limiter.acquire() for _ in range(1000)] == [0.0] * 1000


@pytest.mark.parametrize(("burst", "want"), [(None, 1), (0, 1), (1, 1), (5, 5)])
async def test_the_burst_goes_at_once(burst: int | None, want: int) -> None:
    clock = FakeClock()
    limiter = bucket(10, burst, clock)
    for _ in range(want):
        assert await limiter.acquire() == 0
    waiting = asyncio.ensure_future(limiter.acquire())
    await settle()
    assert not waiting.done()
    await clock.advance(0.1)
    assert await waiting == pytest.approx(0.1)


async def test_the_long_run_is_qps_and_callers_are_served_in_order() -> None:
    clock = FakeClock()
    limiter = bucket(5, 2, clock)
    served: list[int] = []

    async def call(number: int) -> None:
        await limiter.acquire()
        served.append(number)

    tasks = [asyncio.ensure_future(call(number)) for number in range(12)]
    await settle()
    assert served == [0, 1]
    await clock.advance(1.0)
    assert served == list(range(7))
    await clock.advance(1.0)
    assert served == list(range(12))
    await asyncio.gather(*tasks)


async def test_an_idle_time_fills_the_bucket_no_further_than_the_burst() -> None:
    clock = FakeClock()
    limiter = bucket(1, 3, clock)
    clock.tick(1000)
    assert [await limiter.acquire() for _ in range(3)] == [0, 0, 0]
    waiting = asyncio.ensure_future(limiter.acquire())
    await clock.advance(1)
    assert await waiting == pytest.approx(1)


async def test_a_cancelled_caller_gives_its_token_back() -> None:
    clock = FakeClock()
    limiter = bucket(1, 1, clock)
    await limiter.acquire()
    tasks = [asyncio.ensure_future(limiter.acquire()) for _ in range(5)]
    await settle()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    waiting = asyncio.ensure_future(limiter.acquire())
    await clock.advance(1.0)
    assert await waiting == pytest.approx(1.0)


async def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    times = iter([100.0, 100.0, 50.0])
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    limiter = TokenBucket(1, 1, clock=lambda: next(times), sleep=sleep)
    await limiter.acquire()
    await limiter.acquire()
    assert slept == [1.0]
