# SPDX-License-Identifier: Apache-2.0
"""Order of starting and stopping, failures of parts, and the time that stopping takes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.clock import settle
from trainsnap_controller.manager import ExpectedFailure, Group, LeaseLostError, Manager, Part

pytestmark = pytest.mark.anyio


class Diary:
    """Parts that write down what happens to them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def part(self, name: str, *, ready: bool = False, stop: bool = False) -> Part:
        ended = asyncio.Event()

        async def run() -> None:
            self.lines.append(f"{name} starts")
            try:
                await ended.wait()
            finally:
                self.lines.append(f"{name} ends")

        async def wait_ready() -> None:
            await asyncio.sleep(0)
            self.lines.append(f"{name} is ready")

        async def ask() -> None:
            self.lines.append(f"{name} is asked to end")
            ended.set()

        return Part(name, run, wait_ready if ready else None, ask if stop else None)


def manager(**options: Any) -> Manager:
    return Manager(signals=(), **options)


async def test_groups_start_in_order_and_stop_in_the_opposite_order() -> None:
    diary = Diary()

    def ready() -> None:
        diary.lines.append("READY")
        under_test.stop()

    under_test: Manager = manager(on_ready=ready)
    under_test.add(Group.CONTROLLERS, diary.part("controller", stop=True))
    under_test.add(Group.LEADER, diary.part("leader", ready=True))
    under_test.add(Group.CACHES, diary.part("cache", ready=True))
    under_test.add(Group.SERVICES, diary.part("events", stop=True))
    under_test.add(Group.SERVERS, diary.part("server", ready=True, stop=True))
    assert await under_test.run() == 0
    assert diary.lines == [
        "server starts",
        "server is ready",
        "cache starts",
        "cache is ready",
        "events starts",
        "leader starts",
        "leader is ready",
        "READY",
        "controller starts",
        "controller is asked to end",
        "controller ends",
        "leader ends",
        "events is asked to end",
        "events ends",
        "cache ends",
        "server is asked to end",
        "server ends",
    ]


async def test_a_group_that_does_not_get_ready_keeps_the_next_from_starting_and_can_be_stopped() -> None:
    diary = Diary()
    under_test = manager()
    under_test.add(Group.CACHES, Part("cache", asyncio.Event().wait, ready=asyncio.Event().wait))  # type: ignore[arg-type]
    under_test.add(Group.CONTROLLERS, diary.part("controller"))
    running = asyncio.create_task(under_test.run())
    await settle()
    assert diary.lines == []
    assert under_test.health.ready()["running"].detail == "starting"
    under_test.stop()
    assert await running == 0


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(ValueError("two\nlines"), "broken failed: ValueError: two lines; stopping", id="breaks"),
        pytest.param(
            ExceptionGroup("g", [OSError(5, "io")]), "broken failed: OSError: [Errno 5] io; stopping", id="in a group"
        ),
        pytest.param(None, "broken ended though it should run for as long as the process; stopping", id="returns"),
        pytest.param(
            asyncio.CancelledError(),
            "broken ended because something that it waited for was cancelled; stopping",
            id="cancelled from within",
        ),
    ],
)
async def test_a_part_that_ends_stops_the_process_with_an_error(error: BaseException | None, want: str) -> None:
    diary = Diary()
    go = asyncio.Event()

    async def breaks() -> None:
        await go.wait()
        if error is not None:
            raise error

    under_test = manager(on_ready=go.set)
    under_test.add(Group.SERVERS, diary.part("server"))
    under_test.add(Group.SERVICES, Part("broken", breaks))
    with capture_logs() as logs:
        assert await under_test.run() == 1
    assert [line["event"] for line in logs if line["log_level"] == "error"] == [want]
    assert diary.lines == ["server starts", "server ends"]


async def test_a_part_that_breaks_at_start_keeps_the_next_groups_from_starting() -> None:
    diary = Diary()

    async def breaks() -> None:
        raise ValueError("no")

    under_test = manager()
    under_test.add(Group.CACHES, Part("cache", breaks, ready=asyncio.Event().wait))
    under_test.add(Group.CONTROLLERS, diary.part("controller"))
    with capture_logs():
        assert await under_test.run() == 1
    assert diary.lines == []


async def test_what_is_wrong_around_the_process_is_one_line() -> None:
    class Unreachable(ExpectedFailure):
        pass

    async def breaks() -> None:
        raise Unreachable("the API server does not reach us; give --host another address")

    under_test = manager()
    under_test.add(Group.SERVICES, Part("registration", breaks, ready=asyncio.Event().wait))
    with capture_logs() as logs:
        assert await under_test.run() == 1
    (error,) = [line for line in logs if line["log_level"] == "error"]
    assert error["event"] == "the API server does not reach us; give --host another address; stopping"
    assert error["exc_info"] is None, "no traceback"


async def test_losing_the_lease_stops_controllers_at_once_without_finishing() -> None:
    written: list[str] = []
    lost = asyncio.Event()

    async def lead() -> None:
        await lost.wait()
        raise LeaseLostError("lease l was taken by other: no longer leading")

    async def reconcile() -> None:
        lost.set()
        for _ in range(100):
            await asyncio.sleep(0)
        written.append("after the loss")

    async def finish() -> None:
        raise AssertionError("must not be asked to finish")

    under_test = manager()
    under_test.add(Group.LEADER, Part("leader election", lead))
    under_test.add(Group.CONTROLLERS, Part("controller", reconcile, stop=finish))
    with capture_logs() as logs:
        assert await under_test.run() == 1
    assert written == []
    assert [line["event"] for line in logs if line["log_level"] == "error"] == [
        "lease l was taken by other: no longer leading; stopping"
    ]


async def test_stopping_takes_no_longer_than_it_may_even_if_parts_hang() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    under_test: Manager = manager(stop_seconds=0.3, on_ready=lambda: under_test.stop())
    for group in Group:
        under_test.add(group, Part(f"part of {group.name}", hangs, stop=hangs))
    started = time.monotonic()
    with capture_logs():
        assert await under_test.run() == 0
    assert time.monotonic() - started < 3


async def test_the_second_signal_does_not_wait() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    def twice() -> None:
        under_test.stop()
        under_test.stop()

    under_test: Manager = manager(stop_seconds=600, on_ready=twice)
    under_test.add(Group.CONTROLLERS, Part("controller", hangs, stop=hangs))
    with capture_logs():
        assert await asyncio.wait_for(under_test.run(), 20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
async def test_a_signal_stops_the_process_in_order(number: signal.Signals) -> None:
    diary = Diary()
    under_test = Manager(on_ready=lambda: os.kill(os.getpid(), number))
    under_test.add(Group.CONTROLLERS, diary.part("controller", stop=True))
    with capture_logs():
        assert await under_test.run() == 0
    assert diary.lines[-2:] == ["controller is asked to end", "controller ends"]


async def test_a_closed_terminal_is_told_of_twice_and_hurries_nobody() -> None:
    ended = asyncio.Event()

    async def serve() -> None:
        await ended.wait()

    async def hear_of_it_again() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await settle()
        ended.set()

    under_test = Manager(on_ready=lambda: os.kill(os.getpid(), signal.SIGHUP))
    under_test.add(Group.SERVERS, Part("webhooks", serve, stop=hear_of_it_again))
    with capture_logs() as logs:
        assert await under_test.run() == 0
    assert ended.is_set(), "what it had to take out is taken out"
    assert [line["event"] for line in logs if "waiting" in line["event"]] == []


async def test_nohup_is_respected() -> None:
    saved = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        under_test = Manager(on_ready=lambda: os.kill(os.getpid(), signal.SIGHUP))
        running = asyncio.create_task(under_test.run())
        await settle()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert not running.done()
        under_test.stop()
        with capture_logs():
            assert await running == 0
    finally:
        signal.signal(signal.SIGHUP, saved)


async def test_cancelling_the_manager_ends_every_part() -> None:
    diary = Diary()
    ready = asyncio.Event()
    under_test = manager(on_ready=ready.set)
    under_test.add(Group.CACHES, diary.part("cache"))
    under_test.add(Group.CONTROLLERS, diary.part("controller"))
    running = asyncio.create_task(under_test.run())
    await ready.wait()
    await settle()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert sorted(diary.lines[-2:]) == ["cache ends", "controller ends"]


async def test_readiness_says_that_the_process_stops() -> None:
    seen: list[bool] = []

    async def look() -> None:
        seen.append(under_test.health.ready()["running"].ok)

    async def hangs() -> None:
        await asyncio.Event().wait()

    under_test: Manager = manager(on_ready=lambda: under_test.stop(), stop_seconds=0.1)
    under_test.add(Group.CONTROLLERS, Part("controller", hangs, stop=look))
    with capture_logs():
        await under_test.run()
    assert seen == [False]
