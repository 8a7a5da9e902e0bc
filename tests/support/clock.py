# SPDX-License-Identifier: Apache-2.0
"""A clock that stands still until a test moves it. Implements `trainsnap_controller.observe.clock.Clock`.

`advance` runs what becomes due, in order, and lets the tasks that wake up run before time goes on. It never sleeps.
"""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Starts at 1,000 s on the monotonic clock and at 2026-01-01 on the wall clock."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._wall = datetime(2026, 1, 1, tzinfo=UTC)
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._sequence = count()
        self.slept: list[float] = []
        """Every duration that somebody slept, in order."""

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return self._wall + timedelta(seconds=self._now - 1000.0)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.call_later(seconds, wake)
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self._now + seconds, next(self._sequence), timer))
        return timer

    def tick(self, seconds: float) -> None:
        """Move time and run the callbacks that become due, without letting tasks run between."""
        self._run_until(self._now + seconds, limit=None)

    async def advance(self, seconds: float) -> None:
        """Move time step by step; tasks run after each step."""
        end = self._now + seconds
        await settle()
        while self._run_until(end, limit=1):
            await settle()

    @property
    def next_due(self) -> float | None:
        """Seconds until the next callback."""
        due = [when for when, _, timer in self._timers if not timer.cancelled]
        return min(due) - self._now if due else None

    def _run_until(self, end: float, limit: int | None) -> int:
        ran = 0
        while self._timers and self._timers[0][0] <= end and ran != limit:
            when, _, timer = heapq.heappop(self._timers)
            if timer.cancelled:
                continue
            self._now = max(self._now, when)
            timer.callback()
            ran += 1
        if ran != limit:
            self._now = end
        return ran


async def settle(rounds: int = 30) -> None:
    """Let every task that can run do so, until they wait for something outside."""
    for _ in range(rounds):
        await asyncio.sleep(0)
