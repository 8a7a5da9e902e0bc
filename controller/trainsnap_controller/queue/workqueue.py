# SPDX-License-Identifier: Apache-2.0
"""The queue of keys between event handlers and workers.

Filled by event handlers, emptied by the workers of one controller. Its promises, those of client-go's workqueue:

- a key is in the queue at most once, however often it is added;
- a key is processed by one worker at a time; added meanwhile, it is processed once more afterwards;
- a key that was added is never lost, unless the queue is shut down;
- delayed keys come when they are due, at the earliest time that was asked for.

All calls but `get` return at once. It belongs to one event loop and is not for threads.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from itertools import count
from typing import Generic, Protocol

from trainsnap_controller.observe.clock import Clock, SystemClock, Timer
from trainsnap_controller.queue.backoff import ItemBackoff, K


class Measured(Protocol):
    """What a queue tells of its present state."""

    def __len__(self) -> int: ...
    def unfinished_seconds(self) -> float: ...
    def longest_running_seconds(self) -> float: ...


class QueueMetrics(Protocol):
    """What is measured of a queue. `observe.metrics` has it under client-go's names."""

    def attached(self, queue: Measured) -> None:
        """The queue exists; what is asked of it when metrics are read."""

    def added(self) -> None: ...
    def retried(self) -> None: ...
    def waited(self, seconds: float) -> None:
        """How long a key was in the queue."""

    def worked(self, seconds: float) -> None:
        """How long a key was being processed."""


class NoQueueMetrics:
    """Measures nothing."""

    def attached(self, queue: Measured) -> None: ...
    def added(self) -> None: ...
    def retried(self) -> None: ...
    def waited(self, seconds: float) -> None: ...
    def worked(self, seconds: float) -> None: ...


class ShutDown(Exception):
    """The queue is shut down and empty."""


class WorkQueue(Generic[K]):
    """Deduplicating, delaying, rate-limited queue with one worker per key at a time.

    Args:
        name: for metrics and task names.
        clock: the time; a test may bring its own.
        backoff: how long failed keys wait.
        metrics: measures the queue.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        backoff: ItemBackoff[K] | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self.name = name
        self._clock = clock or SystemClock()
        self._backoff: ItemBackoff[K] = backoff or ItemBackoff()
        self._metrics = metrics or NoQueueMetrics()
        self._ready: deque[K] = deque()
        self._dirty: dict[K, float] = {}
        """Keys to process, and since when: those in ``_ready``, and those added while being processed."""
        self._processing: dict[K, float] = {}
        self._delayed: dict[K, float] = {}
        """When a delayed key is due. The heap may hold outdated entries of a key besides the one in here."""
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = count()
        self._timer: Timer | None = None
        self._timer_due = 0.0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._metrics.attached(self)

    def __len__(self) -> int:
        """Keys that wait for a worker; without delayed ones and those in work."""
        return len(self._ready)

    def add(self, key: K) -> None:
        """Have a key processed, once, soon."""
        if self._shut_down or key in self._dirty:
            return
        self._metrics.added()
        self._dirty[key] = self._clock.now()
        if key not in self._processing:
            self._enqueue(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have a key processed after so many seconds. Of several times, the earliest counts."""
        if self._shut_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.now() + seconds
        if due < self._delayed.get(key, float("inf")):
            self._delayed[key] = due
            heapq.heappush(self._heap, (due, next(self._sequence), key))
            self._set_timer()

    def add_rate_limited(self, key: K) -> None:
        """Have a key that failed processed again, later each time, until `forget`."""
        self._metrics.retried()
        self.add_after(key, self._backoff.next(key))

    def forget(self, key: K) -> None:
        """The key is well: its next failure is a first one. Does not take it out of the queue."""
        self._backoff.forget(key)

    def failures(self, key: K) -> int:
        """How often the key has failed in a row."""
        return self._backoff.failures(key)

    async def get(self) -> K:
        """The next key; it is the caller's until he calls `done`.

        Raises:
            ShutDown: the queue is shut down and nothing is left in it.
        """
        while not self._ready:
            if self._shut_down:
                raise ShutDown
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # Woken and cancelled at once: the wake-up is somebody else's now.
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise
        key = self._ready.popleft()
        now = self._clock.now()
        self._metrics.waited(now - self._dirty.pop(key))
        self._processing[key] = now
        self._idle.clear()
        return key

    def done(self, key: K) -> None:
        """The key's processing is over, well or not. If it was added meanwhile, it comes again.

        Raises:
            KeyError: the key is not being processed.
        """
        self._metrics.worked(self._clock.now() - self._processing.pop(key))
        if key in self._dirty:
            self._enqueue(key)
        elif not self._processing and not self._ready:
            self._idle.set()

    def shut_down(self, *, discard: bool = False) -> None:
        """Take nothing more. Delayed keys are dropped; queued ones are still handed out, unless they are discarded."""
        self._shut_down = True
        self._heap.clear()
        self._delayed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if discard:
            self._ready.clear()
            self._dirty.clear()
            if not self._processing:
                self._idle.set()
        while self._getters:
            self._wake()

    async def drained(self) -> None:
        """Return once nothing is queued or being processed."""
        await self._idle.wait()

    def unfinished_seconds(self) -> float:
        """Time spent so far on everything that is being processed."""
        now = self._clock.now()
        return sum(now - started for started in self._processing.values())

    def longest_running_seconds(self) -> float:
        """Time spent so far on what has been in work the longest."""
        return self._clock.now() - min(self._processing.values()) if self._processing else 0.0

    def _enqueue(self, key: K) -> None:
        self._ready.append(key)
        self._idle.clear()
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self) -> None:
        """One timer, for the key that is due first."""
        while self._heap and self._delayed.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        due = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.call_later(max(0.0, due - self._clock.now()), self._release_due)

    def _release_due(self) -> None:
        self._timer = None
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._delayed.get(key) == due:
                del self._delayed[key]
                self.add(key)
        self._set_timer()
