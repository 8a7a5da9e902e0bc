# SPDX-License-Identifier: Apache-2.0
"""The work queue against a model of its promises, in every order of calls that hypothesis can think of."""

from __future__ import annotations

import asyncio

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.clock import FakeClock
from trainsnap_controller.queue import ItemBackoff, ShutDown, WorkQueue

KEYS = st.sampled_from(["a", "b", "c", "d"])
BASE, CAP = 0.005, 1.0


class QueueMachine(RuleBasedStateMachine):
    """The model: which keys are owed a run, which are in work, when delayed ones are due, how often each failed."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.queue: WorkQueue[str] = WorkQueue("test", clock=self.clock, backoff=ItemBackoff(BASE, CAP))
        self.owed: set[str] = set()
        self.working: set[str] = set()
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}
        self.waiting: list[asyncio.Task[str]] = []
        self.down = False

    def teardown(self) -> None:
        for task in self.waiting:
            task.cancel()
        self.run_loop()
        self.loop.close()

    def run_loop(self) -> None:
        async def turn() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    def collect(self) -> None:
        """What workers got: only keys that are owed, and that nobody works on."""
        self.run_loop()
        for task in [task for task in self.waiting if task.done()]:
            self.waiting.remove(task)
            if isinstance(task.exception(), ShutDown):
                assert self.down
                assert not self.owed - self.working, "shut down with keys left"
                continue
            key = task.result()
            assert key not in self.working, f"{key} is processed twice at once"
            assert key in self.owed, f"{key} was not due"
            self.owed.remove(key)
            self.working.add(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        if not self.down:
            self.owed.add(key)
        self.collect()

    @rule(key=KEYS, seconds=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 5.0]))
    def add_after(self, key: str, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.expect(key, seconds)
        self.collect()

    @rule(key=KEYS)
    def add_rate_limited(self, key: str) -> None:
        failures = self.failures.get(key, 0)
        self.queue.add_rate_limited(key)
        self.failures[key] = failures + 1
        self.expect(key, min(CAP, BASE * 2**failures))
        assert self.queue.failures(key) == failures + 1

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)
        assert self.queue.failures(key) == 0

    def expect(self, key: str, seconds: float) -> None:
        if self.down:
            return
        if seconds <= 0:
            self.owed.add(key)
        else:
            self.due[key] = min(self.due.get(key, float("inf")), self.clock.now() + seconds)

    @rule()
    @precondition(lambda self: len(self.waiting) < 3)
    def get(self) -> None:
        self.waiting.append(self.loop.create_task(self.queue.get()))
        self.collect()

    @rule(data=st.data())
    @precondition(lambda self: self.waiting)
    def cancel_get(self, data: st.DataObject) -> None:
        self.collect()
        if self.waiting:
            task = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
            task.cancel()
            self.collect()

    @rule(key=KEYS)
    @precondition(lambda self: self.waiting and not self.down)
    def wake_and_cancel(self, key: str) -> None:
        """A worker is cancelled after it was woken for a key and before it could take it."""
        self.queue.add(key)
        self.owed.add(key)
        # The one that has waited the longest is the one that was woken.
        self.waiting.pop(0).cancel()
        self.collect()

    @rule(data=st.data())
    @precondition(lambda self: self.working)
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.remove(key)
        self.queue.done(key)
        self.collect()

    @rule(seconds=st.sampled_from([0.001, 0.005, 0.3, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.tick(seconds)
        for key, due in list(self.due.items()):
            if due <= self.clock.now():
                del self.due[key]
                self.owed.add(key)
        self.collect()

    @rule()
    @precondition(lambda self: not self.down)
    def shut_down(self) -> None:
        self.queue.shut_down()
        self.down = True
        self.due.clear()
        self.collect()

    @invariant()
    def nothing_is_lost(self) -> None:
        """A key that is owed is in the queue, or will be when its present run is over; idle workers have it."""
        assert len(self.queue) == len(self.owed - self.working)
        assert not (self.waiting and self.owed - self.working), "a worker waits while there is work"

    @invariant()
    def delayed_keys_have_a_timer(self) -> None:
        if self.due:
            assert self.clock.next_due is not None
            assert self.clock.now() + self.clock.next_due <= min(self.due.values()) + 1e-9


# Without shrinking, which takes minutes for a machine with a loop of its own: longer than a test may take.
QueueMachine.TestCase.settings = settings(
    max_examples=250, stateful_step_count=40, deadline=None, phases=(Phase.reuse, Phase.generate)
)
TestQueueMachine = QueueMachine.TestCase
