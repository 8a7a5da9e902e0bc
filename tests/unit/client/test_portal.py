# SPDX-License-Identifier: Apache-2.0
"""The loop behind the sync face: results, errors, callbacks, streams, interruption, closing, threads, running loops."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainsnap_api.client import TransportClosed
from trainsnap_api.client.portal import Portal


@pytest.fixture
def portal() -> Iterator[Portal]:
    made = Portal()
    yield made
    made.stop()


async def answer(value: int, *, fail: bool = False) -> int:
    await asyncio.sleep(0)
    if fail:
        raise LookupError(value)
    return value


class Numbers:
    """Counts from 0, and notes where it is and when it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.tasks: set[object] = set()

    async def count(self, end: int, *, pause: float = 0.0) -> AsyncGenerator[int, None]:
        try:
            for number in range(end):
                self.tasks.add(asyncio.current_task())
                async with asyncio.timeout(60):
                    await asyncio.sleep(pause)
                    yield number
        finally:
            self.closed.set()


def test_a_result_and_an_error_arrive(portal: Portal) -> None:
    assert portal.run(answer, 3) == 3
    with pytest.raises(LookupError, match="3"):
        portal.run(answer, 3, fail=True)


def test_it_works_under_a_running_loop(portal: Portal) -> None:
    """As in a notebook, where a loop runs in the very thread that calls."""

    async def cell() -> list[int]:
        return [portal.run(answer, 1), *portal.iterate(Numbers().count(2))]

    assert asyncio.run(cell()) == [1, 0, 1]


def test_callbacks_run_in_the_callers_thread_and_may_call_again(portal: Portal) -> None:
    seen: list[tuple[int, int, bool]] = []

    async def report(on_progress: object) -> str:
        for number in range(3):
            got = await on_progress(number)  # type: ignore[operator]
            assert got == number * 2
        return "done"

    def progress(number: int) -> int:
        seen.append((number, portal.run(answer, number), threading.current_thread() is here))
        return number * 2

    here = threading.current_thread()
    assert portal.run(report, on_progress=progress) == "done"
    assert seen == [(0, 0, True), (1, 1, True), (2, 2, True)]


def test_what_a_callback_raises_ends_the_call(portal: Portal) -> None:
    ended = threading.Event()

    async def report(on_progress: object) -> None:
        try:
            await on_progress()  # type: ignore[operator]
        finally:
            ended.set()

    def progress() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        portal.run(report, on_progress=progress)
    assert ended.wait(5), "what was awaited is cancelled"
    assert portal.run(answer, 1) == 1


def test_a_stream_is_run_by_one_task_and_ends(portal: Portal) -> None:
    numbers = Numbers()
    stream = portal.iterate(numbers.count(3))
    assert list(stream) == [0, 1, 2]
    assert list(stream) == []
    assert len(numbers.tasks) == 1
    assert numbers.closed.wait(5)


def test_a_stream_raises_what_the_generator_raises(portal: Portal) -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise LookupError("gone")

    stream = portal.iterate(failing())
    assert next(stream) == 1
    with pytest.raises(LookupError, match="gone"):
        next(stream)
    assert list(stream) == []


@pytest.mark.parametrize("way", ["close", "with", "forgotten", "portal"])
def test_a_stream_that_is_left_is_closed(portal: Portal, way: str) -> None:
    numbers = Numbers()
    stream = portal.iterate(numbers.count(1000))
    assert next(stream) == 0
    match way:
        case "close":
            stream.close()
            stream.close()
        case "with":
            with stream:
                assert next(stream) == 1
        case "forgotten":
            del stream
            gc.collect()
        case "portal":
            portal.stop()
    assert numbers.closed.wait(5)


def test_closing_wakes_the_thread_that_waits(portal: Portal) -> None:
    numbers = Numbers()
    stream = portal.iterate(numbers.count(2, pause=60))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(list, stream)
        while not numbers.tasks:
            time.sleep(0.01)
        stream.close()
        assert waiting.result(5) == []


@pytest.mark.parametrize("waits", [True, False], ids=["while it is waited for", "between two items"])
def test_a_stream_that_ends_with_the_client_does_not_end_as_if_it_were_complete(portal: Portal, waits: bool) -> None:
    numbers = Numbers()
    stream = portal.iterate(numbers.count(3, pause=60 if waits else 0))
    with ThreadPoolExecutor(1) as pool:
        if waits:
            waiting = pool.submit(next, stream)
            while not numbers.tasks:
                time.sleep(0.01)
        else:
            assert next(stream) == 0
        portal.stop()
        with pytest.raises(TransportClosed, match="closed meanwhile"):
            waiting.result(5) if waits else next(stream)
    assert list(stream) == []


def test_what_a_callback_gives_is_awaited_when_it_is_awaitable(portal: Portal) -> None:
    seen: list[int] = []

    async def report(on_progress: object) -> int:
        return await on_progress(1)  # type: ignore[operator, no-any-return]

    async def progress(number: int) -> int:
        seen.append(number)
        return number + 1

    assert portal.run(report, on_progress=progress) == 2
    assert seen == [1]


def test_a_call_that_runs_when_the_client_is_closed_says_so(portal: Portal) -> None:
    started = threading.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(portal.run, hang)
        assert started.wait(5)
        portal.stop()
        with pytest.raises(TransportClosed, match="closed meanwhile"):
            waiting.result(5)
    with pytest.raises(TransportClosed, match="is closed"):
        portal.run(answer, 1)
    portal.stop()


def test_clean_up_is_awaited_and_the_thread_ends() -> None:
    portal = Portal()
    cleaned: list[bool] = []

    async def clean() -> None:
        cleaned.append(True)

    portal.at_stop(clean)
    portal.stop()
    assert cleaned == [True]
    assert not portal._thread.is_alive()


def test_a_forgotten_portal_ends_its_thread() -> None:
    portal = Portal()
    thread = portal._thread
    del portal
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_many_threads_share_one(portal: Portal) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: portal.run(answer, n), range(100))) == list(range(100))


def test_its_own_thread_cannot_wait_for_itself(portal: Portal) -> None:
    async def inside() -> int:
        return portal.run(answer, 1)

    with pytest.raises(RuntimeError, match="own thread"):
        portal.run(inside)


def test_a_fork_is_told_to_connect_again() -> None:
    program = (
        "import os, sys\n"
        "from trainsnap_api.client.portal import Portal\n"
        "async def numbers():\n"
        "    while True:\n"
        "        yield 1\n"
        "portal = Portal()\n"
        "stream = portal.iterate(numbers())\n"
        "next(stream)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (lambda: portal.run(None), lambda: next(stream)):\n"
        "        try:\n"
        "            use()\n"
        "        except RuntimeError as error:\n"
        "            print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout == "the client was made before a fork; connect again in the child process\n" * 2


def test_a_program_that_closes_nothing_ends_in_silence() -> None:
    program = (
        "from trainsnap_api import Client\n"
        "config = {'current-context': 'c', 'contexts': [{'name': 'c', 'context': {'cluster': 'x', 'user': 'u'}}],\n"
        "          'clusters': [{'name': 'x', 'cluster': {'server': 'http://127.0.0.1:9'}}],\n"
        "          'users': [{'name': 'u', 'user': {}}]}\n"
        "client = Client.connect(kubeconfig=config)\n"
        "stream = client.jobs.watch()\n"
        "print(client.namespace)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "default", "")
