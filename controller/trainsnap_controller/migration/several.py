# SPDX-License-Identifier: Apache-2.0
"""Works on many jobs, several at a time, and hands the results over in the order of the jobs. Used by ``command``."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from trainsnap_controller.migration.decide import Step
from trainsnap_controller.migration.facts import Page
from trainsnap_controller.runtime.job import Job

AHEAD: Final = 4
"""How many times as many jobs are begun or waiting as are worked on: a slow one holds up its row, not the others."""


async def in_order(
    pages: AsyncGenerator[Page, None],
    work: Callable[[Job], Awaitable[Step]],
    settled: Callable[[Job, Step, int], None],
    *,
    parallel: int,
) -> None:
    """Do ``work`` on every job, ``parallel`` at once. ``settled`` is told the job, its step, and how many jobs are to
    come as far as is known. The first failure ends it and is raised."""
    limit = asyncio.Semaphore(parallel)
    waiting: deque[tuple[Job, asyncio.Task[Step]]] = deque()
    remaining = 0

    async def one(job: Job) -> Step:
        async with limit:
            return await work(job)

    async def settle() -> None:
        job, task = waiting.popleft()
        settled(job, await task, len(waiting) + remaining)

    try:
        async with asyncio.TaskGroup() as tasks, aclosing(_ahead(pages)) as upcoming:
            async for page in upcoming:
                for number, job in enumerate(page.jobs, 1):
                    remaining = len(page.jobs) - number + page.remaining
                    waiting.append((job, tasks.create_task(one(job))))
                    if len(waiting) > AHEAD * parallel:
                        await settle()
            while waiting:
                await settle()
    except ExceptionGroup as group:
        # One of them says it: the others are cancelled, or fail for the same reason.
        raise group.exceptions[0] from group


async def _ahead(stream: AsyncGenerator[Page, None]) -> AsyncGenerator[Page, None]:
    """Pages, the next one being read while one is worked on."""
    upcoming = asyncio.ensure_future(anext(stream, None))
    try:
        while (page := await upcoming) is not None:
            upcoming = asyncio.ensure_future(anext(stream, None))
            yield page
    finally:
        upcoming.cancel()
        await asyncio.gather(upcoming, return_exceptions=True)
        await stream.aclose()
