# SPDX-License-Identifier: Apache-2.0
"""The work queue in plain examples; every order of calls is in ``tests/property/test_queue_statemachine.py``."""

from __future__ import annotations

import asyncio

import pytest

from support.clock import FakeClock, settle
from trainsnap_controller.queue import ItemBackoff, Key, ShutDown, WorkQueue

pytestmark = pytest.mark.anyio


class Measures:
    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self.queue: object = None

    def attached(self, queue: object) -> None:
        self.queue = queue

    def added(self) -> None:
        self.calls.append(("added", 0))

    def retried(self) -> None:
        self.calls.append(("retried", 0))

    def waited(self, seconds: float) -> None:
        self.calls.append(("waited", seconds))

    def worked(self, seconds: float) -> None:
        self.calls.append(("worked", seconds))


def make(clock: FakeClock | None = None, **kwargs: object) -> WorkQueue[str]:
    return WorkQueue("test", clock=clock or FakeClock(), **kwargs)  # type: ignore[arg-type]


async def test_a_key_added_thrice_comes_once_and_in_order() -> None:
    queue = make()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_in_work_comes_again_once_afterwards() -> None:
    queue = make()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_the_earliest_of_several_delays_counts() -> None:
    clock = FakeClock()
    queue = make(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    await clock.advance(4.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(100)
    assert len(queue) == 0


async def test_failures_double_the_delay_up_to_the_cap_and_forget_starts_anew() -> None:
    backoff: ItemBackoff[str] = ItemBackoff(base=1.0, cap=10.0)
    assert [backoff.next("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.next("b") == 1
    backoff.forget("a")
    assert backoff.next("a") == 1
    for _ in range(3000):
        assert backoff.next("c") <= 10


async def test_the_default_backoff_is_that_of_controller_runtime() -> None:
    backoff: ItemBackoff[str] = ItemBackoff()
    delays = [backoff.next("a") for _ in range(30)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert max(delays) == 1000


async def test_shutting_down_hands_out_what_is_queued_and_drops_what_is_delayed() -> None:
    queue = make()
    queue.add("a")
    queue.add_after("b", 1)
    queue.shut_down()
    queue.add("c")
    assert await queue.get() == "a"
    with pytest.raises(ShutDown):
        await queue.get()


async def test_shutting_down_wakes_every_worker() -> None:
    queue = make()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.shut_down()
    got = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(each) for each in got] == [ShutDown] * 3


async def test_a_worker_that_is_cancelled_as_it_is_woken_passes_the_key_on() -> None:
    queue = make()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await settle()
    queue.add("a")
    first.cancel()
    await settle()
    assert first.cancelled()
    assert second.done()
    assert second.result() == "a"


async def test_drained_waits_for_the_key_in_work() -> None:
    queue = make()
    queue.add("a")
    queue.add("b")
    await queue.get()
    queue.shut_down(discard=True)
    drained = asyncio.create_task(queue.drained())
    await settle()
    assert not drained.done()
    queue.done("a")
    await drained


async def test_what_is_measured() -> None:
    clock, measures = FakeClock(), Measures()
    queue = make(clock, metrics=measures)
    assert measures.queue is queue
    queue.add("a")
    queue.add("a")
    clock.tick(3)
    await queue.get()
    clock.tick(2)
    assert queue.unfinished_seconds() == 2
    assert queue.longest_running_seconds() == 2
    queue.add_rate_limited("a")
    queue.done("a")
    assert measures.calls == [("added", 0), ("waited", 3), ("retried", 0), ("worked", 2)]
    assert queue.longest_running_seconds() == 0


async def test_a_key_that_is_not_in_work_cannot_be_done() -> None:
    with pytest.raises(KeyError):
        make().done("a")


async def test_on_the_real_clock_delays_are_kept() -> None:
    queue: WorkQueue[Key] = WorkQueue("real")
    loop = asyncio.get_running_loop()
    started = loop.time()
    queue.add_after(Key("ns", "late"), 0.05)
    queue.add_after(Key("ns", "soon"), 0.01)
    assert (await queue.get()).name == "soon"
    assert (await queue.get()).name == "late"
    assert 0.045 <= loop.time() - started < 5
