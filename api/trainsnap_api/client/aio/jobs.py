# SPDX-License-Identifier: Apache-2.0
"""TrainJobs: the verbs of every kind, and what people ask of a job. The sync twin is generated.

Which runtime a job runs with is answered from its snapshot. That the runtime is gone never makes a list or a get fail.
"""

# ruff: noqa: ASYNC109 - a limit for the whole call belongs to the interface, which has a sync twin

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from trainsnap_api.client.aio.kind import AsyncKind, Connection
from trainsnap_api.client.aio.runtimes import Runtimes
from trainsnap_api.client.errors import JobDeleted, JobEnded, JobFailed, NotFound, WaitTimedOut
from trainsnap_api.client.kinds import which
from trainsnap_api.client.values import EffectiveRuntime, Event, Listing, Progress
from trainsnap_api.models import TrainingRuntimeSnapshot, TrainJob, TrainJobStatus
from trainsnap_api.state import STATES, TERMINAL, State

if TYPE_CHECKING:
    from collections.abc import Mapping


class AsyncTrainJobs(AsyncKind[TrainJob]):
    """The TrainJobs of a cluster."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        super().__init__(connection, TrainJob, namespace)
        self._snapshots = AsyncKind(connection, TrainingRuntimeSnapshot, namespace)
        self._runtimes = Runtimes(connection, namespace)

    async def status(self, name: str, namespace: str | None = None, *, timeout: float | None = None) -> TrainJobStatus:
        """What the operator reports of a job; empty when nothing was reported yet."""
        return (await self.get(name, namespace, timeout=timeout)).status or TrainJobStatus()

    async def patch_status(
        self,
        name: str,
        status: TrainJobStatus | Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> TrainJob:
        """Merge patch of the status, for those who may report it (``patch`` of ``trainjobs/status``)."""
        return await self.patch(
            name, {"status": status}, namespace=namespace, subresource="status", dry_run=dry_run, timeout=timeout
        )

    async def suspend(
        self, job: TrainJob | str, namespace: str | None = None, *, dry_run: bool = False, timeout: float | None = None
    ) -> TrainJob:
        """Asks for a pause; its pods go, its snapshot stays. ``wait_for(job, "Suspended")`` awaits it. A TrainJob with
        a uid means that very one (else Invalid, for metadata.uid)."""
        return await self._set_suspend(True, job, namespace, dry_run, timeout)

    async def resume(
        self, job: TrainJob | str, namespace: str | None = None, *, dry_run: bool = False, timeout: float | None = None
    ) -> TrainJob:
        """Asks that a paused job goes on, with the runtime that it was started from. A TrainJob as for ``suspend``."""
        return await self._set_suspend(False, job, namespace, dry_run, timeout)

    async def follow(
        self,
        job: TrainJob | str,
        namespace: str | None = None,
        *,
        timeout: float | None = None,
        give_up_after: float | None = None,
    ) -> AsyncGenerator[Progress, None]:
        """How a job gets on: now, and whenever that changes; ends when the job is Complete or Failed.

        Raises NotFound when no job has that name, JobDeleted when it goes or is replaced, WaitTimedOut. A name means
        the job that has it now; a TrainJob with a uid means that very one. Needs the rights to get and watch jobs.
        """
        name, space, uid = which(job, namespace)
        clock = self._connection.clock
        end = None if timeout is None else clock() + timeout
        try:
            now = await self.get(name, space, timeout=timeout)
        except NotFound as error:
            if uid is None or isinstance(job, str):
                raise
            raise JobDeleted(f"TrainJob {name} was deleted", Progress.of(job)) from error
        last = Progress.of(now)
        if uid is not None and _uid(now) != uid:
            raise JobDeleted(f"TrainJob {name} was replaced by another one of its name", last)
        yield last
        if last.state in TERMINAL:
            return
        start = Listing([now], (now.metadata and now.metadata.resource_version) or "")
        left = None if end is None else max(0.0, end - clock())
        stream = self.watch(space, name=name, since=start, timeout=left, give_up_after=give_up_after)
        async with aclosing(stream):
            async for event in stream:
                progress = _progress(event, now, last)
                if progress.same_as(last):
                    continue
                last = progress
                yield progress
                if progress.state in TERMINAL:
                    return
        raise WaitTimedOut(f"TrainJob {name} is {last.state} after {timeout or 0:g} s", last)

    async def wait_for(
        self,
        job: TrainJob | str,
        *states: State,
        namespace: str | None = None,
        timeout: float | None = None,
        on_progress: Callable[[Progress], object] | None = None,
        give_up_after: float | None = None,
    ) -> TrainJob:
        """Awaits that a job is in one of ``states`` (none: Complete), and returns it.

        ``Running`` is satisfied by Complete: it has run. Raises JobFailed, or JobEnded, when the job ended otherwise;
        else as ``follow``. ``on_progress``: called with each change, and awaited when it gives an awaitable.
        """
        unknown = [str(state) for state in states if state not in STATES]
        if unknown:
            raise ValueError(f"not a state of a job: {', '.join(unknown)}; states are {', '.join(STATES)}")
        wanted: set[State] = set(states) or {"Complete"}
        if "Running" in wanted:
            wanted.add("Complete")
        stream = self.follow(job, namespace, timeout=timeout, give_up_after=give_up_after)
        async with aclosing(stream):
            async for progress in stream:
                if on_progress is not None:
                    answer = on_progress(progress)
                    if inspect.isawaitable(answer):
                        await answer
                if progress.state in wanted:
                    return progress.job
                last = progress
        kind = JobFailed if last.state == "Failed" else JobEnded
        name, _, _ = which(job, namespace)
        raise kind(f"TrainJob {name} is {last.state}" + (f": {last.reason}" if last.reason else ""), last)

    async def effective_runtime(
        self, job: TrainJob | str, namespace: str | None = None, *, timeout: float | None = None
    ) -> EffectiveRuntime:
        """What a job runs with: its snapshot; without one, the runtime that it would be started from now.

        A snapshot that was left by an earlier job of the same name is not taken for this one's. Raises NotFound for the
        job only.
        """
        async with self._within(timeout, "effective runtime"):
            if isinstance(job, str):
                job = await self.get(job, namespace)
            name, space, _ = which(job, namespace)
            try:
                snapshot = await self._snapshots.get(name, space)
            except NotFound:
                return await self._runtimes.live(job)
            return _effective(job, snapshot) or await self._runtimes.live(job)

    async def list_with_runtimes(
        self,
        namespace: str | None = None,
        *,
        all_namespaces: bool = False,
        label_selector: str | None = None,
        timeout: float | None = None,
    ) -> Sequence[tuple[TrainJob, EffectiveRuntime]]:
        """Jobs, each with what it runs with: one list of jobs, one of snapshots, and one read of each runtime that jobs
        without a snapshot name. A runtime that is gone, or may not be read, is ``missing``; it fails nothing."""
        async with self._within(timeout, "list with runtimes"):
            jobs = await self.list(namespace, all_namespaces=all_namespaces, label_selector=label_selector)
            # Snapshots do not carry the jobs' labels, so all of the namespace are read.
            snapshots = await self._snapshots.list(namespace, all_namespaces=all_namespaces)
            by_name = {_name(snapshot): snapshot for snapshot in snapshots}
            found: list[tuple[TrainJob, EffectiveRuntime]] = []
            with self._runtimes.remembering() as runtimes:
                for job in jobs:
                    snapshot = by_name.get(_name(job))
                    effective = _effective(job, snapshot) if snapshot else None
                    found.append((job, effective or await runtimes.live(job)))
            return found

    async def _set_suspend(
        self, value: bool, job: TrainJob | str, namespace: str | None, dry_run: bool, timeout: float | None
    ) -> TrainJob:
        name, space, uid = which(job, namespace)
        patch: dict[str, Any] = {"spec": {"suspend": value}}
        if uid is not None:
            patch["metadata"] = {"uid": uid}
        return await self.patch(name, patch, namespace=space, dry_run=dry_run, timeout=timeout)


def _uid(obj: TrainJob) -> str | None:
    return obj.metadata.uid if obj.metadata else None


def _name(obj: TrainJob | TrainingRuntimeSnapshot) -> tuple[str | None, str | None]:
    return (obj.metadata.namespace, obj.metadata.name) if obj.metadata else (None, None)


def _progress(event: Event[TrainJob], first: TrainJob, last: Progress) -> Progress:
    """What an event says of the job that is followed. Raises JobDeleted."""
    name = first.metadata.name if first.metadata else ""
    if event.type == "DELETED":
        end = Progress.of(event.object)
        if end.state in TERMINAL:
            return end
        raise JobDeleted(f"TrainJob {name} was deleted", end)
    if _uid(event.object) != _uid(first):
        raise JobDeleted(f"TrainJob {name} was replaced by another one of its name", last)
    return Progress.of(event.object)


def _effective(job: TrainJob, snapshot: TrainingRuntimeSnapshot) -> EffectiveRuntime | None:
    """What the snapshot says; None when it is not this job's."""
    source = snapshot.source
    if source is None or source.train_job is None or source.train_job.uid != _uid(job):
        return None
    origin: Literal["snapshot"] = "snapshot"
    return EffectiveRuntime(
        origin,
        source.kind or "",
        source.name or "",
        spec=snapshot.spec,
        opaque=snapshot.opaque.spec if snapshot.opaque else None,
        source=source,
        generation=source.generation,
    )
