# SPDX-License-Identifier: Apache-2.0
"""From a JobSet's status to the TrainJob's, and the deadline. Pure: the time is an argument.

The reconciler calls ``decide`` once per round and writes what comes back where it differs from what is there.
Conditions of others are kept, none but Suspended is ever set to False, and a finished job stays finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trainsnap_controller.runtime.job import Job

JSON = dict[str, Any]

SUSPENDED: Final = "Suspended"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"

_MIRRORED: Final = (("Completed", COMPLETE), ("Failed", FAILED))
_COUNTS: Final = ("ready", "succeeded", "failed", "active", "suspended")
_AT_ONCE: Final = timedelta(seconds=1)
"""What a deadline that has passed between two looks at the clock is waited for."""


@dataclass(frozen=True, slots=True)
class StatusDecision:
    """What to do about a job's status.

    ``status`` is the whole wanted status object; ``requeue_after`` says when the deadline must be looked at again.
    ``delete_job_set``: the job ran out of time and its JobSet still exists.
    """

    status: JSON
    changed: bool
    requeue_after: timedelta | None = None
    delete_job_set: bool = False


def decide(job: Job, job_set: JSON | None, now: datetime) -> StatusDecision:
    """The job's status after this look at its JobSet (None: there is none, or none that was seen finishing).

    ``job_set`` must belong to the job; ``now`` must be aware of its time zone.
    """
    before = job.status or {}
    conditions = _suspension(job, before.get("conditions") or [], now)
    status = {**before, "conditions": conditions}
    if job_set is not None:
        status = _mirrored(job, status, job_set, now)
    status, requeue_after = _deadline(job, status, now)
    if not status["conditions"]:
        del status["conditions"]
    stuck = job_set is not None and ran_out_of_time(status) and not _deleting(job_set)
    return StatusDecision(status, status != _without_empty(before), requeue_after, stuck)


def finished(status: Mapping[str, Any] | None) -> bool:
    """Whether the job is over: Complete or Failed is True."""
    return any(is_true(status, name) for name in (COMPLETE, FAILED))


def ran_out_of_time(status: Mapping[str, Any] | None) -> bool:
    """Whether the job was failed by its deadline."""
    failed = condition(status, FAILED)
    return failed is not None and failed["status"] == "True" and failed.get("reason") == DEADLINE_EXCEEDED


def is_true(status: Mapping[str, Any] | None, kind: str) -> bool:
    """Whether a condition is there and True."""
    found = condition(status, kind)
    return found is not None and found.get("status") == "True"


def condition(status: Mapping[str, Any] | None, kind: str) -> JSON | None:
    """The condition of that type, or None."""
    conditions = (status or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == kind), None)


def with_condition(conditions: Sequence[JSON], wanted: JSON, now: datetime) -> list[JSON]:
    """The list with one condition set, by Kubernetes' rule.

    A new type goes to the end. The transition time moves only with ``status``; it is the time that ``wanted`` carries,
    else now. Everything else of ``wanted`` is taken over.
    """
    result = list(conditions)
    index = next((i for i, item in enumerate(result) if item.get("type") == wanted["type"]), None)
    moved = wanted.get("lastTransitionTime") or timestamp(now)
    if index is None:
        result.append({**wanted, "lastTransitionTime": moved})
        return result
    old = result[index]
    if old.get("status") == wanted["status"]:
        moved = old.get("lastTransitionTime") or moved
    result[index] = {**wanted, "lastTransitionTime": moved}
    return result


def without_condition(conditions: Sequence[JSON], kind: str) -> list[JSON]:
    """The list without the condition of that type."""
    return [item for item in conditions if item.get("type") != kind]


def timestamp(moment: datetime) -> str:
    """A time as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _suspension(job: Job, conditions: Sequence[JSON], now: datetime) -> list[JSON]:
    """Suspended follows the spec; a job that was never paused has no such condition."""
    if job.suspended:
        return _set(job, conditions, SUSPENDED, "True", "Suspended", "TrainJob is suspended", now)
    if is_true({"conditions": conditions}, SUSPENDED):
        return _set(job, conditions, SUSPENDED, "False", "Resumed", "TrainJob is resumed", now)
    return list(conditions)


def _mirrored(job: Job, status: JSON, job_set: JSON, now: datetime) -> JSON:
    """Counts and terminal conditions of the JobSet, as they are; a Failed by deadline keeps its words."""
    source = job_set.get("status") or {}
    conditions = status["conditions"]
    for theirs, ours in _MIRRORED:
        found = condition(source, theirs)
        if found is None or found.get("status") != "True" or (ours == FAILED and ran_out_of_time(status)):
            continue
        wanted = {
            "type": ours,
            "status": "True",
            "reason": found.get("reason", ""),
            "message": found.get("message", ""),
            **_generation(job),
        }
        if found.get("lastTransitionTime"):
            wanted["lastTransitionTime"] = found["lastTransitionTime"]
        conditions = with_condition(conditions, wanted, now)
    result = {key: value for key, value in status.items() if key != "jobsStatus"}
    result["conditions"] = conditions
    if jobs := source.get("replicatedJobsStatus"):
        result["jobsStatus"] = [{"name": item["name"], **{k: item.get(k, 0) for k in _COUNTS}} for item in jobs]
    return result


def _deadline(job: Job, status: JSON, now: datetime) -> tuple[JSON, timedelta | None]:
    """Fails a job that ran too long; the clock starts at creation, or at the last resume, and stops while paused."""
    seconds = job.active_deadline_seconds
    if not seconds or finished(status) or job.suspended or not job.managed_here or job.created is None:
        return status, None
    start = job.created
    suspended = condition(status, SUSPENDED)
    if suspended is not None and suspended["status"] == "False":
        start = datetime.fromisoformat(suspended["lastTransitionTime"])
    left = start - now + timedelta(seconds=min(seconds, _LONGEST))
    if left < timedelta(0):
        text = "TrainJob exceeded its active deadline"
        conditions = _set(job, status["conditions"], FAILED, "True", DEADLINE_EXCEEDED, text, now)
        return {**status, "conditions": conditions}, None
    return status, max(left, _AT_ONCE)


_LONGEST: Final = 100 * 365 * 24 * 3600
"""Seconds beyond which a deadline is as good as none; the schema admits numbers that no clock can hold."""


def _set(
    job: Job, conditions: Sequence[JSON], kind: str, status: str, reason: str, message: str, now: datetime
) -> list[JSON]:
    wanted = {"type": kind, "status": status, "reason": reason, "message": message, **_generation(job)}
    return with_condition(conditions, wanted, now)


def _generation(job: Job) -> JSON:
    return {} if job.generation is None else {"observedGeneration": job.generation}


def _deleting(obj: JSON) -> bool:
    return (obj.get("metadata") or {}).get("deletionTimestamp") is not None


def _without_empty(status: JSON) -> JSON:
    return {key: value for key, value in status.items() if key != "conditions" or value}
