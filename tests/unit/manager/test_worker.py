# SPDX-License-Identifier: Apache-2.0
"""What becomes of a key after each outcome of a reconcile, and what is counted and logged."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from structlog.testing import capture_logs

from support.clock import FakeClock, settle
from trainsnap_api.transport.errors import Conflict, Disconnected
from trainsnap_controller.manager import Controller
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.queue import Done, Key, RequeueAfter, Result, RetryableError, TerminalError, WorkQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = pytest.mark.anyio

A = Key("ns", "a")


class Running:
    def __init__(self, reconcile: Callable[[Key], Awaitable[Result]], **options: Any) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.queue: WorkQueue[Key] = WorkQueue("c", clock=self.clock)
        self.controller = Controller(
            "c",
            self.queue,
            reconcile,
            clock=self.clock,
            metrics=self.metrics.controller("c"),
            new_id=lambda: "id-1",
            **options,
        )

    def count(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"controller": "c", **labels})


@asynccontextmanager
async def running(reconcile: Callable[[Key], Awaitable[Result]], **options: Any) -> AsyncIterator[Running]:
    under_test = Running(reconcile, **options)
    task = asyncio.create_task(under_test.controller.run())
    await settle()
    try:
        yield under_test
    finally:
        task.cancel()
        await asyncio.wait([task])


def answers(*outcomes: Result | BaseException) -> tuple[list[Key], Callable[[Key], Awaitable[Result]]]:
    """A reconciler that answers with each outcome in turn, then with Done; and the keys that it was asked for."""
    asked: list[Key] = []

    async def reconcile(key: Key) -> Result:
        outcome = outcomes[len(asked)] if len(asked) < len(outcomes) else Done()
        asked.append(key)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return asked, reconcile


async def test_done_leaves_the_key_alone_and_forgets_its_failures() -> None:
    asked, reconcile = answers(RetryableError("once"), Done())
    async with running(reconcile) as r:
        r.queue.add(A)
        await r.clock.advance(5)
        assert asked == [A, A]
        assert r.queue.failures(A) == 0
        assert r.count("controller_runtime_reconcile_total", result="success") == 1
        assert r.count("controller_runtime_reconcile_total", result="error") == 1


async def test_a_failure_comes_back_in_time_however_long_its_backoff_has_become() -> None:
    asked, reconcile = answers(*[RetryableError("blocked")] * 15, ValueError("a fault"))
    async with running(reconcile) as r:
        r.queue.add(A)
        for pause in range(15):
            await r.clock.advance(0.005 * 2**pause)
        assert len(asked) == 16
        r.queue.add_after(A, 10)
        await r.clock.advance(9)
        assert len(asked) == 16
        await r.clock.advance(1)
        assert len(asked) == 17


async def test_requeue_after_comes_back_when_it_is_due() -> None:
    asked, reconcile = answers(RequeueAfter(30))
    async with running(reconcile) as r:
        r.queue.add(A)
        await r.clock.advance(29)
        assert len(asked) == 1
        await r.clock.advance(2)
        assert len(asked) == 2
        assert r.count("controller_runtime_reconcile_total", result="requeue_after") == 1


@pytest.mark.parametrize(
    ("error", "want_retry", "want_counter", "want_level", "want_traceback"),
    [
        pytest.param(RetryableError("later"), True, None, "warning", False, id="understood, may pass"),
        pytest.param(Conflict("changed"), True, None, "warning", False, id="answer of the API server"),
        pytest.param(Disconnected("reset"), True, None, "warning", False, id="network"),
        pytest.param(
            TerminalError("never"), False, "controller_runtime_terminal_reconcile_errors_total", "error", False,
            id="cannot be helped",
        ),
        pytest.param(
            KeyError("oops"), True, "controller_runtime_reconcile_panics_total", "error", True, id="a bug of ours"
        ),
        pytest.param(
            asyncio.CancelledError(), True, "controller_runtime_reconcile_panics_total", "error", True,
            id="something inside was cancelled",
        ),
        pytest.param(
            ExceptionGroup("both", [RetryableError("x"), Conflict("y")]), True, None, "warning", False,
            id="a group of known errors",
        ),
        pytest.param(
            ExceptionGroup("both", [RetryableError("x"), KeyError("y")]), True,
            "controller_runtime_reconcile_panics_total", "error", True, id="a group with a bug in it",
        ),
        pytest.param(
            ExceptionGroup("both", [TerminalError("x"), TerminalError("y")]), False,
            "controller_runtime_terminal_reconcile_errors_total", "error", False, id="a group without hope",
        ),
        pytest.param(
            ExceptionGroup("both", [TerminalError("x"), RetryableError("y")]), True, None, "warning", False,
            id="a group with some hope",
        ),
    ],
)  # fmt: skip
async def test_errors(
    error: BaseException, want_retry: bool, want_counter: str | None, want_level: str, want_traceback: bool
) -> None:
    asked, reconcile = answers(error)
    with capture_logs() as logs:
        async with running(reconcile) as r:
            r.queue.add(A)
            await r.clock.advance(1)
    assert len(asked) == (2 if want_retry else 1)
    assert r.count("controller_runtime_reconcile_errors_total") == 1
    assert r.count("controller_runtime_reconcile_time_seconds_count") == len(asked)
    for counter in ("terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"):
        name = f"controller_runtime_{counter}_total"
        assert r.count(name) == (1 if name == want_counter else 0)
    assert [line["log_level"] for line in logs] == [want_level]
    assert bool(logs[0].get("exc_info")) == want_traceback
    assert "\n" not in logs[0]["error"]


async def test_retries_get_rarer() -> None:
    asked, reconcile = answers(*[RetryableError("no")] * 20)
    async with running(reconcile) as r:
        r.queue.add(A)
        await r.clock.advance(0.005 * 2**8)
        assert len(asked) == 9


async def test_an_answer_that_is_none_is_a_bug_and_tried_again() -> None:
    asked: list[Key] = []

    async def reconcile(key: Key) -> Any:
        asked.append(key)
        return None if len(asked) == 1 else Done()

    async with running(reconcile) as r:
        r.queue.add(A)
        await r.clock.advance(1)
        assert len(asked) == 2
        assert r.count("controller_runtime_reconcile_panics_total") == 1


async def test_a_reconcile_that_takes_too_long_is_cut_off_and_tried_again() -> None:
    asked: list[Key] = []
    cut_off = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        asked.append(key)
        if len(asked) == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cut_off.set()
                raise
        return Done()

    async with running(reconcile, timeout=0.02) as r:
        r.queue.add(A)
        await cut_off.wait()
        await r.clock.advance(1)
        assert len(asked) == 2
        assert r.count("controller_runtime_reconcile_timeouts_total") == 1
        assert r.count("controller_runtime_reconcile_panics_total") == 0


async def test_a_timeout_inside_the_reconciler_is_not_the_limit_of_the_reconcile() -> None:
    _, reconcile = answers(TimeoutError("something else"))
    async with running(reconcile) as r:
        r.queue.add(A)
        await r.clock.advance(1)
        assert r.count("controller_runtime_reconcile_timeouts_total") == 0


async def test_workers_share_the_keys_and_never_one_key() -> None:
    now: list[Key] = []
    most = 0
    release = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        nonlocal most
        assert key not in now
        now.append(key)
        most = max(most, len(now))
        await release.wait()
        now.remove(key)
        return Done()

    async with running(reconcile, workers=3) as r:
        for name in "abcde":
            r.queue.add(Key("ns", name))
        await settle()
        r.queue.add(Key("ns", "a"))
        await settle()
        assert most == 3
        assert r.count("controller_runtime_active_workers") == 3
        assert r.count("controller_runtime_max_concurrent_reconciles") == 3
        release.set()
        await settle()
        assert r.count("controller_runtime_reconcile_total", result="success") == 6
        assert r.count("controller_runtime_active_workers") == 0


async def test_stop_finishes_what_is_in_hand_and_begins_nothing_new() -> None:
    asked: list[str] = []
    release = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        asked.append(key.name)
        await release.wait()
        asked.append(f"{key.name} finished")
        return RequeueAfter(1)

    under_test = Running(reconcile)
    task = asyncio.create_task(under_test.controller.run())
    under_test.queue.add(A)
    under_test.queue.add(Key("ns", "b"))
    await settle()
    stopping = asyncio.create_task(under_test.controller.stop())
    await settle()
    assert not stopping.done()
    release.set()
    await stopping
    await task
    assert asked == ["a", "a finished"]


async def test_while_writing_is_not_allowed_keys_wait() -> None:
    allowed = False
    asked, reconcile = answers()
    async with running(reconcile, allowed=lambda: allowed) as r:
        r.queue.add(A)
        await r.clock.advance(5)
        assert asked == []
        allowed = True
        await r.clock.advance(2)
        assert asked == [A]


async def test_every_log_line_of_a_reconcile_says_which_one_it_is() -> None:
    seen: dict[str, Any] = {}

    async def reconcile(key: Key) -> Result:
        seen.update(structlog.contextvars.get_contextvars())
        return Done()

    async with running(reconcile) as r:
        r.queue.add(A)
        await settle()
    assert seen == {"controller": "c", "namespace": "ns", "name": "a", "reconcile_id": "id-1"}
    assert structlog.contextvars.get_contextvars() == {}


async def test_reconciles_that_never_wait_leave_room_for_other_tasks() -> None:
    done = 0
    turns: list[int] = []

    async def reconcile(key: Key) -> Result:
        nonlocal done
        done += 1
        return Done()

    async def other() -> None:
        while done < 1000:
            turns.append(done)
            await asyncio.sleep(0)

    under_test = Running(reconcile)
    for number in range(1000):
        under_test.queue.add(Key("ns", str(number)))
    task = asyncio.create_task(under_test.controller.run())
    await other()
    assert len(turns) > 500
    task.cancel()
    await asyncio.wait([task])
