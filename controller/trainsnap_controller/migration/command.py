# SPDX-License-Identifier: Apache-2.0
"""The operations of ``trainsnap migrate``: pages of jobs in, each decided on and carried out, rows and sums out.

Called by the command line, and by tests, with connected clients. Reads with the rights of the caller; writes snapshots
and ConfigMaps with those of the operator, since the guard lets nobody else write snapshots.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from trainsnap_api.transport import AlreadyExists, ApiError, Forbidden, NotFound, Resource
from trainsnap_api.transport.resources import CONFIG_MAP, NAMESPACE
from trainsnap_controller import constants as c
from trainsnap_controller.migration import state
from trainsnap_controller.migration.act import Actor, Deleter, Writer, remove
from trainsnap_controller.migration.decide import Result, Rules, Step, left_alone, to_hand_back, to_migrate, verified
from trainsnap_controller.migration.facts import Api as Reader
from trainsnap_controller.migration.facts import Gatherer, Page, rivals
from trainsnap_controller.migration.journal import Journal, last_run, opened
from trainsnap_controller.migration.report import Progress, Report, Sums
from trainsnap_controller.migration.yaml_go import CachedReader, Document
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]

PARALLEL: Final = 16
AHEAD: Final = 4
"""How many times as many jobs are begun or waiting as are worked on: a slow one holds up its row, not the others."""


class Operation(StrEnum):
    """What the command is told to do."""

    PLAN = "plan"
    APPLY = "apply"
    VERIFY = "verify"
    FINALIZE = "finalize"
    ROLLBACK = "rollback"
    STATUS = "status"

    @property
    def writes(self) -> bool:
        """Whether it may change the cluster."""
        return self in (Operation.APPLY, Operation.FINALIZE, Operation.ROLLBACK)


Work = Callable[[Job, Gatherer], Awaitable[Step]]


class MigrationError(Exception):
    """The command cannot go on; one line that says what to do."""


class Caller(Reader, Deleter, Protocol):
    """The connection with the caller's own rights."""

    async def create(self, resource: Resource, obj: JSON, *, field_manager: str, dry_run: bool = False) -> JSON: ...
    async def merge_patch(
        self, resource: Resource, name: str, namespace: str | None, body: JSON, *, dry_run: bool = False
    ) -> JSON: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller chose. ``namespace`` None: all. ``legacy_before`` None: as the cluster has it."""

    namespace: str | None = None
    dry_run: bool = False
    parallel: int = PARALLEL
    legacy_before: datetime | None = None
    journal: Path | None = None
    opaque_kinds: Collection[str] = ()
    keep_annotations: Collection[str] = ()


@dataclass(slots=True, kw_only=True)
class Migration:
    """One run of the command. ``operator``: the connection as the operator's ServiceAccount; None: nothing is written
    and nothing rehearsed."""

    caller: Caller
    operator: Writer | None
    options: Options
    report: Report
    progress: Progress
    framework: Framework = field(default_factory=standard)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    read: Callable[[str], Document] = field(default_factory=CachedReader)
    sums: Sums = field(default_factory=Sums)
    _journal: Journal | None = None

    async def run(self, operation: Operation) -> int:
        """Carry an operation out. Returns the exit code: 0, or 1 when there are problems. Raises ``MigrationError``."""
        await self._namespace_is_there()
        before = await self._legacy_before(operation)
        rules = Rules(before, self.now(), self.options.opaque_kinds, self.options.keep_annotations, self.read)
        others = await rivals(self.caller, self.now())
        if others and operation is Operation.FINALIZE:
            raise MigrationError(f"the reference may still need the ConfigMaps: {'; '.join(others)}")
        self.report.begin(operation, self._facts(operation, before, others))
        path = self.options.journal
        if path is None or not operation.writes or self.options.dry_run:
            await self._carry_out(operation, rules)
        else:
            with opened(path, await self._cluster(), self.now) as self._journal:
                self._journal.write("begun", operation=operation, namespace=self.options.namespace)
                await self._carry_out(operation, rules)
                self._journal.write("ended", operation=operation, sums=dict(self.sums.results))
        self.report.end(self.sums)
        return 1 if self.sums.results[Result.PROBLEM] else 0

    async def _namespace_is_there(self) -> None:
        """Raise ``MigrationError`` for a namespace that does not exist, which would look like one without jobs."""
        name = self.options.namespace
        if name is None:
            return
        try:
            await self.caller.get(NAMESPACE, name)
        except NotFound as error:
            raise MigrationError(f"namespace {name!r} does not exist") from error
        except Forbidden:
            return

    def _facts(self, operation: Operation, before: datetime, others: list[str]) -> list[str]:
        found = [f"legacyBefore: {before:%Y-%m-%dT%H:%M:%SZ}"]
        found += [f"the reference may still be running: {line}" for line in others]
        if operation is Operation.STATUS and self.options.journal is not None:
            run = last_run(self.options.journal)
            if run is not None:
                how = "ended" if run["event"] == "ended" else "begun and not ended"
                found.append(f"last run by the journal: {run['operation']}, {how} at {run['time']}")
        if self.operator is None and operation is Operation.PLAN:
            found.append(
                "contents are not tried on the API server: that takes a token of the operator's ServiceAccount"
            )
        if self.options.dry_run and operation.writes:
            found.append("dry run: nothing is written")
        return found

    async def _carry_out(self, operation: Operation, rules: Rules) -> None:
        try:
            if operation is not Operation.FINALIZE:
                await self._each(self._work(operation, rules))
                return
            await self._each(self._verify, problems_only=True)
            if not self.sums.results[Result.PROBLEM]:
                self.sums = Sums()
                await self._each(self._finalize)
        finally:
            self.progress.close()

    def _work(self, operation: Operation, rules: Rules) -> Work:
        """What is done about each job, but for finalizing."""
        actor = None
        if self.operator is not None and operation is not Operation.STATUS:
            actor = Actor(self.operator, dry_run=self.options.dry_run or not operation.writes)

        async def migrate(job: Job, gather: Gatherer) -> Step:
            # A snapshot that is there already is found by creating it.
            known = operation is not Operation.APPLY or self.options.dry_run
            step = to_migrate(await gather.of(job, snapshot=known), rules)
            return step if step.document is None or actor is None else await actor.migrate(job, step)

        async def roll_back(job: Job, gather: Gatherer) -> Step:
            step = to_hand_back(await gather.of(job))
            return step if step.document is None or actor is None else await actor.hand_back(step)

        return {Operation.VERIFY: self._verify, Operation.ROLLBACK: roll_back}.get(operation, migrate)

    async def _each(self, work: Work, *, problems_only: bool = False) -> None:
        """Work on every job, several at a time; rows come in the order of the jobs."""
        limit = asyncio.Semaphore(self.options.parallel)
        gatherer = Gatherer(self.caller, self.options.namespace)

        async def one(job: Job) -> Step:
            async with limit:
                alone = left_alone(job)
                try:
                    step = alone if alone is not None else await work(job, gatherer)
                except ApiError as error:
                    step = Step(Result.PROBLEM, f"{error.method} {error.path}: {error.message}")
                if self._journal is not None and alone is None:
                    self._journal.write(
                        "job", namespace=job.namespace, name=job.name, uid=job.uid,
                        result=step.result.name.lower(), detail=step.detail,
                    )  # fmt: skip
                return step

        async def settle(job: Job, task: asyncio.Task[Step]) -> None:
            step = await task
            self.sums.results[step.result] += 1
            if step.result is Result.PROBLEM or not problems_only:
                self.report.row(job, step)
            self.progress.show(self.sums.jobs, total)

        total = 0
        waiting: deque[tuple[Job, asyncio.Task[Step]]] = deque()
        try:
            async with asyncio.TaskGroup() as tasks:
                async for page in _ahead(gatherer.pages()):
                    total = self.sums.jobs + len(waiting) + len(page.jobs) + page.remaining
                    for job in page.jobs:
                        waiting.append((job, tasks.create_task(one(job))))
                        if len(waiting) > AHEAD * self.options.parallel:
                            await settle(*waiting.popleft())
                while waiting:
                    await settle(*waiting.popleft())
        except ExceptionGroup as group:
            # One of them says it: the others are cancelled, or fail for the same reason.
            raise group.exceptions[0] from group
        finally:
            await gatherer.close()

    async def _verify(self, job: Job, gather: Gatherer) -> Step:
        return verified(await gather.of(job), self.framework, self.read)

    async def _finalize(self, job: Job, gather: Gatherer) -> Step:
        found = await gather.of(job)
        step = verified(found, self.framework, self.read)
        if step.result is not Result.DONE or found.config_map is None:
            return step
        return await remove(self.caller, step, found.config_map, dry_run=self.options.dry_run)

    async def _legacy_before(self, operation: Operation) -> datetime:
        """The moment that counts: as asked for, which ``apply`` also stores; else as the cluster has it; else now."""
        asked = self.options.legacy_before
        if asked is not None and operation is Operation.APPLY:
            await self._move(asked)
        if asked is not None:
            return asked
        try:
            return state.parse(await self.caller.get(CONFIG_MAP, c.STATE_NAME, c.NAMESPACE))
        except NotFound:
            return self.now()
        except ValueError as error:
            raise MigrationError(
                f"ConfigMap {c.NAMESPACE}/{c.STATE_NAME}: legacyBefore cannot be read: {error}"
            ) from error

    async def _move(self, moment: datetime) -> None:
        metadata = {"name": c.STATE_NAME, "namespace": c.NAMESPACE}
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **state.body(moment)}
        try:
            await self.caller.create(CONFIG_MAP, wanted, field_manager=c.FIELD_MANAGER, dry_run=self.options.dry_run)
        except AlreadyExists:
            await self.caller.merge_patch(
                CONFIG_MAP, c.STATE_NAME, c.NAMESPACE, state.body(moment), dry_run=self.options.dry_run
            )

    async def _cluster(self) -> str:
        """What tells this cluster from others."""
        try:
            uid: str = (await self.caller.get(NAMESPACE, "kube-system"))["metadata"]["uid"]
        except ApiError as error:
            raise MigrationError(f"cannot tell which cluster this is: {error.message}") from error
        return uid


async def _ahead(stream: AsyncGenerator[Page, None]) -> AsyncIterator[Page]:
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


def clock() -> float:
    """Seconds, for rates."""
    return time.monotonic()


__all__ = ["Migration", "MigrationError", "Operation", "Options", "clock"]
