# SPDX-License-Identifier: Apache-2.0
"""The reconcile loop of TrainJobs. ``TrainJobReconciler.reconcile`` is its table of contents.

Gather (``gather``), decide (``runtime`` and ``status``, pure), act (``act``). The loop gets a key and never an event:
whatever happened, it brings the latest state of the cluster nearer to what the TrainJob asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from trainsnap_api.transport import TransportError
from trainsnap_api.transport.resources import JOB_SET
from trainsnap_controller import blocked as reasons
from trainsnap_controller.blocked import Blocked, CacheBehind
from trainsnap_controller.observe.text import condition_message
from trainsnap_controller.queue import Done, Key, RequeueAfter, Result, RetryableError
from trainsnap_controller.reconcile.act import Writer
from trainsnap_controller.reconcile.gather import Reader, Workload
from trainsnap_controller.runtime import status
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed
from trainsnap_controller.snapshot.capture import Snapshots
from trainsnap_controller.snapshot.document import Origin, record_of, recorded

JSON = dict[str, Any]

SLOW_RETRY_SECONDS: Final = 600.0
"""How often a job is looked at that only a change elsewhere can help: that change wakes it, this is the safety net."""


class Recorder(Protocol):
    """Events about a TrainJob."""

    def creation_failed(self, job: Job, error: Exception) -> None: ...
    def rebuilt(self, job: Job) -> None: ...
    def legacy_differs(self, job: Job, differences: tuple[str, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class TrainJobReconciler:
    """Reconciles one TrainJob at a time; the queue sees to it that no key is worked on twice at once."""

    reader: Reader
    snapshots: Snapshots
    framework: Framework
    writer: Writer
    recorder: Recorder
    now: Callable[[], datetime]
    wake: Callable[[Key, float], object]
    """Has a job looked at after so many seconds, besides whatever the queue is told in the end."""

    async def reconcile(self, key: Key) -> Result:
        """Bring one TrainJob nearer to what it asks for. Raises ``RetryableError`` for what is tried again."""
        job = self.reader.job(key)
        if job is None or not job.managed_here or job.deleting:
            self.reader.last_words.forget(key)
            return Done()
        workload = self.reader.workload(job)
        decision = status.decide(job, workload.last_seen, self.now())
        if decision.requeue_after is not None:
            # At once: whatever is in the way below (a fault, a request that hangs), the deadline is kept.
            self.wake(key, decision.requeue_after.total_seconds())
        failure = None
        if not status.finished(decision.status):
            failure = await self._advance(job, workload)
        wanted = self._with_blocked(job, decision.status, failure)
        if wanted != (job.status or {}):
            await self._retryable(self.writer.write_status(job, wanted))
        if status.finished(wanted):
            self.reader.last_words.forget(key)
        if decision.delete_job_set and workload.own is not None:
            await self._retryable(self.writer.delete_job_set(workload.own))
        return _result(failure, decision.requeue_after)

    async def _advance(self, job: Job, workload: Workload) -> Exception | None:
        """Make sure of snapshot and children. Returns what is in the way, after reporting it."""
        try:
            await self._build(job, workload)
            return None
        except CacheBehind as error:
            return error
        except Exception as error:
            failure = _blocked_by(error) if isinstance(error, BuildError) else error
            self.recorder.creation_failed(job, failure)
        if workload.own is not None:
            try:
                await self.writer.follow_suspend(job, workload.own)
            except (TransportError, CacheBehind) as error:
                return failure if isinstance(failure, Blocked) and failure.reason.retried else error
        return failure

    async def _build(self, job: Job, workload: Workload) -> None:
        if workload.problem is not None:
            raise workload.problem
        known = self.reader.snapshot(job.namespace, job.name) is not None
        if workload.own is None and (known or job.status):
            # Children that were there and are gone: perhaps because the job is too, and its watch is a moment behind.
            await self.snapshots.require_live(job)

        async def check(runtime: JSON) -> None:
            await self._check(job, workload, runtime)

        snapshot = await self.snapshots.obtain(job, job.runtime_ref, workload.own, check)
        if "opaque" in snapshot:
            return
        spec = snapshot.get("spec")
        observed = await self.reader.observe(job, workload, self.framework.needs(job, spec))
        plan = self.framework.build(job, spec, observed, annotations=record_of(snapshot).annotations())
        older = _from_before_snapshots(snapshot, workload)
        if older and not known:
            await self._compare(job, snapshot, observed, workload)
        # Patches of the job itself, such as those of a queue that admits it, are carried out on such a JobSet too.
        await self.writer.carry_out(job, plan, observed, leave=older and not job.runtime_patches)
        if known and workload.last_seen is None and (job.status or {}).get("jobsStatus"):
            self.recorder.rebuilt(job)

    async def _compare(self, job: Job, snapshot: JSON, observed: Observed, workload: Workload) -> None:
        """Tell where a JobSet from before snapshots is not what its snapshot builds, which was taken later."""
        assert workload.own is not None
        others = {need: found for need, found in observed.objects.items() if need.resource is not JOB_SET}
        built = self.framework.build(job, snapshot.get("spec"), Observed(others)).components[-1]
        changed = await self.writer.rehearse(built.document(), workload.own)
        if changed:
            self.recorder.legacy_differs(job, changed)

    async def _check(self, job: Job, workload: Workload, runtime: JSON) -> None:
        """Raise ``Blocked`` unless the job fits the runtime that its snapshot is about to be taken from."""
        spec = runtime.get("spec")
        observed = await self.reader.observe(job, workload, self.framework.needs(job, spec))
        broken = self.framework.validate_new(job, spec, observed)
        if broken:
            meta = runtime["metadata"]
            title = f"{runtime['kind']} {meta['name']} (generation {meta.get('generation')})"
            rules = "; ".join(str(error) for error in broken)
            raise Blocked(reasons.RUNTIME_INVALID, f"{title} does not fit this TrainJob: {rules}")

    def _with_blocked(self, job: Job, wanted: JSON, failure: Exception | None) -> JSON:
        """The status with the condition Blocked as it is to be: there while something known is in the way."""
        conditions = wanted.get("conditions") or []
        if isinstance(failure, Blocked):
            blocked = {
                "type": reasons.CONDITION,
                "status": "True",
                "reason": failure.reason.name,
                "message": condition_message(failure.message),
                "observedGeneration": job.generation,
            }
            conditions = status.with_condition(conditions, blocked, self.now())
        elif failure is None:
            conditions = status.without_condition(conditions, reasons.CONDITION)
        rest = {key: value for key, value in wanted.items() if key != "conditions"}
        return {**rest, "conditions": conditions} if conditions else rest

    @staticmethod
    async def _retryable(write: Any) -> None:
        try:
            await write
        except (TransportError, CacheBehind) as error:
            raise RetryableError(str(error)) from error


def _from_before_snapshots(snapshot: JSON, workload: Workload) -> bool:
    """Whether the JobSet was built before there were snapshots, from what the runtime said then: it stays as it is."""
    legacy: bool = snapshot["source"]["origin"] == Origin.LEGACY_JOB
    return legacy and workload.own is not None and recorded(workload.own) is None


def _blocked_by(error: BuildError) -> Blocked:
    return Blocked(reasons.BUILD_WAITS if error.retried else reasons.BUILD_FAILED, str(error))


def _result(failure: Exception | None, requeue_after: timedelta | None) -> Result:
    """What the queue is told: transient failures are retried with growing pauses, others wait for their cause."""
    seconds = None if requeue_after is None else requeue_after.total_seconds()
    match failure:
        case None:
            return Done() if seconds is None else RequeueAfter(seconds)
        case Blocked() if not failure.reason.retried:
            return RequeueAfter(SLOW_RETRY_SECONDS if seconds is None else min(seconds, SLOW_RETRY_SECONDS))
        case Blocked() | CacheBehind() | TransportError():
            raise RetryableError(str(failure)) from failure
        case _:
            raise failure
