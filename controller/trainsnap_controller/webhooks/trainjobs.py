# SPDX-License-Identifier: Apache-2.0
"""Judges TrainJobs: on creation by their live runtime, later by their own snapshot.

Asked by ``app``. The rules themselves are ``runtime.framework``'s; here is decided which of them apply, and what is
read for them, always from the API server: the runtime may be a moment old. Two reads a review at most, as a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainsnap_api.transport import NotFound, Resource, TransportError
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    JOB_SET,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller.runtime import patches, status
from trainsnap_controller.runtime.errors import FieldError, Kind
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed
from trainsnap_controller.snapshot.capture import BUILT_IN_KINDS
from trainsnap_controller.snapshot.reads import Api
from trainsnap_controller.webhooks.review import UNAVAILABLE, Answer, Review, refusal
from trainsnap_controller.webhooks.runtimes import POLICY_URL, deprecated

JSON = dict[str, Any]
_REF = "spec.runtimeRef"


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a job is judged by: the spec of its runtime or snapshot. ``known`` is False where only the rules that need
    no runtime apply; ``starts`` is True for a runtime that a new job starts from."""

    known: bool
    spec: JSON | None = None
    starts: bool = False
    warnings: tuple[str, ...] = ()


UNKNOWN = Blueprint(False)


@dataclass(frozen=True, slots=True)
class TrainJobs:
    """``opaque_kinds``: runtime kinds that other controllers build from, by ``Kind.group``."""

    api: Api
    framework: Framework
    opaque_kinds: Mapping[str, Resource]

    async def review(self, question: Review) -> Answer:
        """Judge a TrainJob that is created or changed."""
        job = Job.from_json(question.obj)
        old = None if question.old is None else Job.from_json(question.old)
        if not job.runtime_ref.name:
            # The schema lets a whole spec be missing, also on update; whatever is in spec is checked there.
            return refusal([FieldError(_REF, None, "must name the runtime to start from", Kind.REQUIRED)])
        try:
            found = await self._of_new(job) if old is None else await self._of_old(job)
            if isinstance(found, FieldError):
                return refusal([found])
            found = replace(found, starts=old is None)
            broken = await self._broken_rules(job, old, found)
            return refusal(broken, found.warnings)
        except TransportError as error:
            return Answer(f"{_REF}: the TrainJob cannot be checked now, try again: {error}", UNAVAILABLE)

    async def _broken_rules(self, job: Job, old: Job | None, blueprint: Blueprint) -> list[FieldError]:
        """The rules that the request breaks. An update answers only for what it makes wrong itself: what was wrong
        before (a rule that is new, a job that another operator let in) must not keep anybody from pausing it."""
        observed = await self._observe(job, old, blueprint)
        broken = self._check(job, blueprint, observed, old)
        if old is None or not broken:
            return broken
        before = {str(error) for error in self._check(old, blueprint, observed, None)}
        return [error for error in broken if str(error) not in before]

    def _check(self, job: Job, blueprint: Blueprint, observed: Observed, old: Job | None) -> list[FieldError]:
        if not blueprint.known:
            return list(self.framework.validate_alone(job, observed, old=old))
        if blueprint.starts:
            return list(self.framework.validate_new(job, blueprint.spec, observed))
        return list(self.framework.validate(job, blueprint.spec, observed, old=old))

    async def _of_new(self, job: Job) -> Blueprint | FieldError:
        """The live runtime that a new job names."""
        resource = BUILT_IN_KINDS.get(job.runtime_ref.key) or self.opaque_kinds.get(job.runtime_ref.key)
        if resource is None:
            known = ", ".join(sorted([*BUILT_IN_KINDS, *self.opaque_kinds]))
            rule = f"unsupported runtime: {job.runtime_ref.key}; kind and apiGroup must be those of one of {known}"
            return FieldError(_REF, _reference(job), rule)
        runtime = await self._runtime(resource, job)
        if runtime is None:
            return FieldError(_REF, _reference(job), await self._missing(resource, job))
        if job.runtime_ref.key not in BUILT_IN_KINDS:
            return UNKNOWN
        return Blueprint(
            True, runtime.get("spec"), warnings=_warnings(resource.kind, runtime["metadata"].get("labels"), job)
        )

    async def _of_old(self, job: Job) -> Blueprint:
        """The snapshot that an existing job runs on; before there is one, the live runtime."""
        snapshot = await self._find(TRAINING_RUNTIME_SNAPSHOT, job.name, job.namespace)
        source = (snapshot or {}).get("source") or {}
        if snapshot is not None and (source.get("trainJob") or {}).get("uid") == job.uid:
            warnings = _warnings(source.get("kind", ""), source.get("labels"), job)
            return UNKNOWN if "opaque" in snapshot else Blueprint(True, snapshot.get("spec"), warnings=warnings)
        if status.finished(job.status) or job.deleting or not job.managed_here:
            return UNKNOWN
        found = await self._of_new(job)
        if isinstance(found, FieldError):
            # The reference cannot be changed any more, so this update is not to blame.
            return Blueprint(False, warnings=(str(found),))
        return found

    async def _observe(self, job: Job, old: Job | None, blueprint: Blueprint) -> Observed:
        """What the rules want to see. Objects that only building looks at are not read."""
        spec = blueprint.spec if blueprint.known else None
        changes = old is not None and (old.suspended or job.suspended) and patches.differ(old, job)
        objects: dict[Need, JSON | None] = {}
        for need in self.framework.needs(job, spec):
            if need.resource is JOB_SET and changes:
                found = await self._find(need.resource, need.name, need.namespace)
                objects[need] = found if found is not None and _own(found, job) else None
            elif not need.child:
                objects[need] = await self._find(need.resource, need.name, need.namespace)
        return Observed(objects)

    async def _runtime(self, resource: Resource, job: Job) -> JSON | None:
        return await self._find(resource, job.runtime_ref.name, job.namespace if resource.namespaced else None)

    async def _missing(self, resource: Resource, job: Job) -> str:
        """The rule for a runtime that does not exist; says so when the other kind has one of that name."""
        where = f"in namespace {job.namespace!r}" if resource.namespaced else "in the cluster"
        rule = f"{resource.kind} {job.runtime_ref.name!r} does not exist {where}: create it before the TrainJob"
        other = TRAINING_RUNTIME if resource is CLUSTER_TRAINING_RUNTIME else CLUSTER_TRAINING_RUNTIME
        if job.runtime_ref.key in BUILT_IN_KINDS and await self._runtime(other, job) is not None:
            rule += f", or set {_REF}.kind to {other.kind}, of which there is one of this name"
        return rule

    async def _find(self, resource: Resource, name: str, namespace: str | None) -> JSON | None:
        try:
            return await self.api.get(resource, name, namespace)
        except NotFound:
            return None


def _warnings(kind: str, labels: JSON | None, job: Job) -> tuple[str, ...]:
    """Only runtimes of the cluster are deprecated by label: those of a namespace are its owners' business."""
    if kind != CLUSTER_TRAINING_RUNTIME.kind or not deprecated(labels):
        return ()
    name = job.runtime_ref.name
    return (f"{_REF}: ClusterTrainingRuntime {name!r} is deprecated and will be removed; see {POLICY_URL}",)


def _own(job_set: JSON, job: Job) -> bool:
    """Whether a JobSet of the job's name is the job's: the pods of another one say nothing about it."""
    owners = job_set["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner.get("uid") == job.uid for owner in owners)


def _reference(job: Job) -> JSON:
    ref = job.runtime_ref
    return {"name": ref.name, "apiGroup": ref.api_group, "kind": ref.kind}
