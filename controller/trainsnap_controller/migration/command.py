# SPDX-License-Identifier: Apache-2.0
"""The operations of ``trainsnap migrate``: pages of jobs in, each decided on and carried out, rows and sums out.

Called by the command line, and by tests, with connected clients. Reads with the rights of the caller; writes snapshots
and ConfigMaps with those of the operator, since the guard lets nobody else write snapshots.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from trainsnap_api.transport import AlreadyExists, ApiError, Disconnected, Forbidden, NotFound, Resource
from trainsnap_api.transport.resources import CONFIG_MAP, NAMESPACE
from trainsnap_controller import constants as c
from trainsnap_controller.migration import state
from trainsnap_controller.migration.act import Actor, Deleter, Writer, remove
from trainsnap_controller.migration.decide import (
    Result,
    Rules,
    Step,
    left_alone,
    newer,
    to_hand_back,
    to_migrate,
    verified,
)
from trainsnap_controller.migration.facts import Api as Reader
from trainsnap_controller.migration.facts import Gatherer, rivals
from trainsnap_controller.migration.journal import Journal, last_run, opened
from trainsnap_controller.migration.lookup import find
from trainsnap_controller.migration.report import Progress, Report, Sums
from trainsnap_controller.migration.several import in_order
from trainsnap_controller.migration.yaml_go import CachedReader, Document
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]

PARALLEL: Final = 16
ENOUGH_UNREACHED: Final = 4


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
    _finalizing: bool = False
    """Every check has held, and ConfigMaps are being deleted."""
    _unreached: int = 0
    """Jobs in a row for which no answer came."""

    async def run(self, operation: Operation) -> int:
        """Carry an operation out. Returns the exit code: 0, or 1 when there are problems. Raises ``MigrationError``."""
        await self._namespace_is_there()
        others = await rivals(self.caller, self.now())
        if others and operation is Operation.FINALIZE:
            raise MigrationError(f"the reference may still need the ConfigMaps: {'; '.join(others)}")
        stored = await self._stored_moment(operation)
        asked = self.options.legacy_before
        before = asked or stored or self.now()
        rules = Rules(before, self.now(), self.options.opaque_kinds, self.options.keep_annotations, self.read)
        facts = await self._facts(operation, before, assumed=asked is None and stored is None)
        facts += [f"the reference may still be running: {line}" for line in others]
        async with self._journaled(operation):
            if asked is not None and operation is Operation.APPLY:
                await self._move(asked)
            self.report.begin(operation, facts)
            try:
                await self._carry_out(operation, rules)
            except BaseException as error:
                with contextlib.suppress(OSError):  # of a report that nobody takes any more
                    self.report.end(self.sums, f"broken off: {_told(error)}")
                raise
            problems = self.sums.results[Result.PROBLEM]
            kept = operation is Operation.FINALIZE and problems and not self._finalizing
            self.report.end(self.sums, f"nothing was deleted, since {problems} checks failed" if kept else "")
        return 1 if problems else 0

    @contextlib.asynccontextmanager
    async def _journaled(self, operation: Operation) -> AsyncIterator[None]:
        """With the journal open, and what is done written there, for an operation that changes something."""
        path = self.options.journal
        if path is None or not operation.writes or self.options.dry_run:
            yield
            return
        with opened(path, await self._cluster(), self.now) as self._journal:
            self._journal.write("begun", operation=operation, namespace=self.options.namespace)
            yield
            sums = {result.name.lower(): self.sums.results[result] for result in Result}
            self._journal.write("ended", operation=operation, sums=sums)

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

    async def _facts(self, operation: Operation, before: datetime, *, assumed: bool) -> list[str]:
        """What the report begins with."""
        found = [f"legacyBefore: {before:%Y-%m-%dT%H:%M:%SZ}"]
        if assumed:
            found[0] += " (assumed: the cluster does not say, since trainsnap was never started, or you may not look)"
        if operation is Operation.STATUS and self.options.journal is not None and self.options.journal.exists():
            run = last_run(self.options.journal, await self._cluster())
            if run is not None:
                how = "ended" if run["event"] == "ended" else "begun and not ended"
                found.append(f"last run by the journal: {run['operation']}, {how} at {run['time']}")
        if self.operator is None and operation is Operation.PLAN:
            found.append(
                "contents are not tried on the API server: that takes trainsnap's CRDs, its ServiceAccount and its "
                "roles, and the right to create a token for it"
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
                self.sums, self._finalizing = Sums(), True
                await self._each(self._finalize)
        finally:
            self.progress.close()

    def _work(self, operation: Operation, rules: Rules) -> Work:
        """What is done about each job, but for finalizing."""
        actor = None
        if self.operator is not None and operation is not Operation.STATUS:
            actor = Actor(self.operator, dry_run=self.options.dry_run or not operation.writes)

        async def migrate(job: Job, gather: Gatherer) -> Step:
            def matters(config_map: JSON) -> bool:
                """Whether to look for the snapshot: one that is there is otherwise found by creating it."""
                writes = operation is Operation.APPLY and not self.options.dry_run
                return not writes or newer(job, config_map, rules.before) is not None

            step = to_migrate(await gather.of(job, snapshot=matters, runtime=True), rules)
            return step if step.document is None or actor is None else await actor.migrate(job, step)

        async def roll_back(job: Job, gather: Gatherer) -> Step:
            step = to_hand_back(await gather.of(job), self.read)
            return step if step.document is None or actor is None else await actor.hand_back(step)

        match operation:
            case Operation.VERIFY:
                return self._verify
            case Operation.ROLLBACK:
                return roll_back
            case _:
                return migrate

    async def _each(self, work: Work, *, problems_only: bool = False) -> None:
        """Work on every job, several at a time; rows come in the order of the jobs."""
        gatherer = Gatherer(self.caller, self.options.namespace, concerns=lambda job: left_alone(job) is None)

        async def one(job: Job) -> Step:
            return left_alone(job) or self._noted(job, await self._answered(work(job, gatherer)))

        def settled(job: Job, step: Step, remaining: int) -> None:
            self.sums.results[step.result] += 1
            if step.result is Result.PROBLEM or not problems_only:
                self.report.row(job, step)
            self.progress.show(self.sums.jobs, self.sums.jobs + remaining)

        try:
            await in_order(gatherer.pages(), one, settled, parallel=self.options.parallel)
        finally:
            await gatherer.close()

    def _noted(self, job: Job, step: Step) -> Step:
        """The step, after a line about it in the journal."""
        if self._journal is not None:
            result = step.result.name.lower()
            self._journal.write(
                "job", namespace=job.namespace, name=job.name, uid=job.uid, result=result, detail=step.detail
            )
        return step

    async def _answered(self, work: Awaitable[Step]) -> Step:
        """The step, or what the API server had against it. One job without an answer is a problem of that job; as many
        in a row as are worked on at once, four at least, and the server is gone: that ends the run."""
        try:
            step = await work
        except ApiError as error:
            step = Step(Result.PROBLEM, f"{error.method} {error.path}: {error.message}")
        except Disconnected as error:
            self._unreached += 1
            if self._unreached >= max(self.options.parallel, ENOUGH_UNREACHED):
                raise
            return Step(Result.PROBLEM, f"{error}; run it again")
        self._unreached = 0
        return step

    async def _verify(self, job: Job, gather: Gatherer) -> Step:
        return verified(await gather.of(job), self.framework, self.read)

    async def _finalize(self, job: Job, gather: Gatherer) -> Step:
        found = await gather.of(job)
        step = verified(found, self.framework, self.read)
        if step.result is not Result.DONE or found.config_map is None:
            return step
        return await remove(self.caller, step, found.config_map, dry_run=self.options.dry_run)

    async def _stored_moment(self, operation: Operation) -> datetime | None:
        """The ``legacyBefore`` of the cluster; None while it has none, or where a reading caller may not see it."""
        try:
            stored = await find(self.caller, CONFIG_MAP, c.STATE_NAME, c.NAMESPACE)
            return None if stored is None else state.parse(stored)
        except Forbidden:
            if operation.writes:
                raise
            return None
        except ValueError as error:
            if self.options.legacy_before is not None:
                return None
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


def _told(error: BaseException) -> str:
    """What happened, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "interrupted" if isinstance(error, asyncio.CancelledError | KeyboardInterrupt) else text


__all__ = ["Migration", "MigrationError", "Operation", "Options"]
