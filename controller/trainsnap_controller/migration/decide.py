# SPDX-License-Identifier: Apache-2.0
"""Decides what ``trainsnap migrate`` does about one job, and says why. Pure: facts in, a ``Step`` out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from trainsnap_controller.migration.facts import Facts
from trainsnap_controller.migration.handback import config_map_of
from trainsnap_controller.migration.legacy import judge
from trainsnap_controller.migration.sameness import captured_from, content_in, other_content, with_defaults
from trainsnap_controller.migration.yaml_go import Document, read
from trainsnap_controller.observe.text import listed
from trainsnap_controller.runtime import status
from trainsnap_controller.runtime.component import Write
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed
from trainsnap_controller.snapshot.capture import BUILT_IN_KINDS
from trainsnap_controller.snapshot.content import Content, content_of
from trainsnap_controller.snapshot.digest import beyond_defaults
from trainsnap_controller.snapshot.document import Origin, Whose, controlled_by, snapshot_of, whose

JSON = dict[str, Any]


class Result(StrEnum):
    """How it stands with one job."""

    TODO = "to do"
    DONE = "done"
    NOTHING = "nothing to do"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done about a job, or is done, or why not. ``document``: the object to write, if any."""

    result: Result
    detail: str
    document: JSON | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What decisions depend on beside the job: ``legacyBefore``, the time, and the operator's configuration."""

    before: datetime
    now: datetime
    opaque_kinds: Collection[str] = ()
    keep_annotations: Collection[str] = ()
    read: Callable[[str], Document] = read


def _nothing(detail: str) -> Step:
    return Step(Result.NOTHING, detail)


def left_alone(job: Job) -> Step | None:
    """Jobs that no operator builds anything for any more, or not this one."""
    if not job.managed_here:
        return _nothing(f"spec.managedBy is {job.managed_by}")
    if job.deleting:
        return _nothing("the job is being deleted")
    if status.finished(job.status):
        return _nothing("the job is finished; its ConfigMap goes with it")
    return None


def to_migrate(facts: Facts, rules: Rules) -> Step:
    """What ``plan`` and ``apply`` do about an unfinished job; ``document`` is the snapshot to create."""
    job, config_map = facts.job, facts.config_map
    if config_map is None:
        return _without_config_map(facts, rules)
    verdict = judge(config_map, job, job.runtime_ref, rules.read)
    why = newer(job, config_map, rules.before)
    if why is not None and facts.snapshot is None and controlled_by(config_map, job):
        return Step(
            Result.PROBLEM,
            f"its ConfigMap is not used, since {why}: trainsnap takes the live runtime. If the reference made it, "
            "move legacyBefore (--legacy-before) while trainsnap does not run",
            notes=verdict.notes,
        )
    if why is not None and (facts.snapshot is None or verdict.runtime is None):
        return _nothing(f"its ConfigMap does not count, since {why}")
    if verdict.runtime is None:
        return Step(Result.PROBLEM, f"the ConfigMap cannot be used: {verdict.problem}", notes=verdict.notes)
    if job.runtime_ref.key not in {*BUILT_IN_KINDS, *rules.opaque_kinds}:
        return Step(
            Result.PROBLEM, f"{job.runtime_ref.key} is not a kind that trainsnap is configured for", notes=verdict.notes
        )
    if facts.snapshot is not None:
        return _of_existing(facts, verdict.runtime)
    wanted = snapshot_of(
        job,
        verdict.runtime,
        origin=Origin.CONFIG_MAP,
        captured_at=rules.now,
        keep_annotations=rules.keep_annotations,
    )
    return Step(Result.TODO, "snapshot from the ConfigMap", wanted, verdict.notes)


def _without_config_map(facts: Facts, rules: Rules) -> Step:
    if facts.snapshot is not None:
        return _of_existing(facts, None)
    ref = facts.job.runtime_ref
    if ref.key not in {*BUILT_IN_KINDS, *rules.opaque_kinds}:
        return Step(Result.PROBLEM, f"{ref.key} is not a kind that trainsnap is configured for")
    if facts.runtime_gone:
        return Step(Result.PROBLEM, f"there is no ConfigMap, and {ref.kind} {ref.name} does not exist")
    return Step(Result.TODO, "by the operator: there is no ConfigMap, so it takes the live runtime at its first look")


def newer(job: Job, config_map: JSON, before: datetime) -> str | None:
    """Which of the two is not from before trainsnap; None when both are."""
    moment = f"not from before legacyBefore ({before:%Y-%m-%dT%H:%M:%SZ})"
    if job.created is None or job.created >= before:
        return f"the job is {moment}"
    if datetime.fromisoformat(config_map["metadata"]["creationTimestamp"]) >= before:
        return f"the ConfigMap is {moment}"
    return None


def _of_existing(facts: Facts, runtime: JSON | None) -> Step:
    assert facts.snapshot is not None
    problem = not_ours(facts.snapshot, facts.job)
    if problem is not None:
        return Step(Result.PROBLEM, problem)
    origin = facts.snapshot["source"].get("origin")
    if runtime is None:
        return Step(Result.DONE, f"has its snapshot (origin {origin})")
    changed = other_content(facts.snapshot, content_of(runtime))
    if changed:
        return Step(Result.PROBLEM, f"its snapshot has other content than the ConfigMap: {listed(changed)}")
    return Step(Result.DONE, f"has its snapshot (origin {origin}), equal to the ConfigMap")


def not_ours(snapshot: JSON, job: Job) -> str | None:
    """Why the object of the snapshot's name is not the job's; None when it is."""
    verdict = whose(snapshot, job)
    if verdict is Whose.OURS or verdict is Whose.OURS_STRIPPED:
        return None
    return f"a TrainingRuntimeSnapshot of the job's name exists and is {verdict.value}"


def verified(facts: Facts, framework: Framework, read: Callable[[str], Document] = read) -> Step:
    """Whether ConfigMap and snapshot of an unfinished job build the same objects."""
    job = facts.job
    if facts.config_map is None and facts.snapshot is None:
        return _nothing("has neither ConfigMap nor snapshot; there is nothing to compare")
    if facts.snapshot is None:
        return Step(Result.PROBLEM, "has no snapshot yet")
    problem = not_ours(facts.snapshot, job)
    if problem is not None:
        return Step(Result.PROBLEM, problem)
    if facts.config_map is None:
        return _nothing("has no ConfigMap; there is nothing to compare")
    verdict = judge(facts.config_map, job, job.runtime_ref, read)
    if verdict.runtime is None:
        return Step(Result.PROBLEM, f"the ConfigMap cannot be used: {verdict.problem}", notes=verdict.notes)
    content = content_of(verdict.runtime)
    changed = other_content(facts.snapshot, content)
    if changed:
        return Step(
            Result.PROBLEM, f"its snapshot has other content than the ConfigMap: {listed(changed)}", notes=verdict.notes
        )
    if content.field == "spec":
        changed = _built_otherwise(job, content, facts.snapshot, framework)
    if changed:
        return Step(Result.PROBLEM, f"builds other objects from both: {listed(changed)}", notes=verdict.notes)
    return Step(Result.DONE, "builds the same objects from ConfigMap and snapshot", notes=verdict.notes)


def _built_otherwise(job: Job, content: Content, snapshot: JSON, framework: Framework) -> list[str]:
    """Where the objects differ. Defaults of a newer CRD are in the snapshot only, and so in what it builds."""
    exact = not captured_from(snapshot, content)
    before, after = (
        _built(job, with_defaults(one) if exact else one.value, framework) for one in (content, content_in(snapshot))
    )
    if isinstance(before, str) or isinstance(after, str):
        return [] if before == after else [f"{before if isinstance(before, str) else after}"]
    if len(before) != len(after):
        return [f"{len(before)} objects from the ConfigMap, {len(after)} from the snapshot"]
    pairs = zip(before, after, strict=True)
    return [line for one, other in pairs for line in beyond_defaults(one, other, one["kind"], exact=exact)]


def _built(job: Job, spec: JSON | None, framework: Framework) -> list[JSON] | str:
    """Everything that is built for the job, but for what is random by nature; or why it cannot be built."""
    try:
        plan = framework.build(job, spec, Observed())
    except BuildError as error:
        return str(error)
    return [component.document() for component in plan.components if component.write is not Write.ONCE]


def to_hand_back(facts: Facts, read: Callable[[str], Document] = read) -> Step:
    """What ``rollback`` does about an unfinished job; ``document`` is the ConfigMap to apply."""
    job = facts.job
    if facts.snapshot is None:
        if facts.config_map is None:
            return Step(Result.PROBLEM, "has neither snapshot nor ConfigMap; the reference will take the live runtime")
        verdict = judge(facts.config_map, job, job.runtime_ref, read)
        if verdict.runtime is None:
            return Step(Result.PROBLEM, f"has no snapshot, and the ConfigMap cannot be used: {verdict.problem}")
        return Step(Result.DONE, "has no snapshot; its ConfigMap is there")
    problem = not_ours(facts.snapshot, job)
    if problem is not None:
        return Step(Result.PROBLEM, problem)
    wanted = config_map_of(facts.snapshot, job.owner_reference, facts.config_map)
    if wanted is None:
        return _nothing(f"the reference does not know {job.runtime_ref.key}")
    if facts.config_map is None:
        return Step(Result.TODO, "ConfigMap from the snapshot", wanted)
    verdict = judge(facts.config_map, job, job.runtime_ref, read)
    if verdict.runtime is not None and not other_content(facts.snapshot, content_of(verdict.runtime)):
        return Step(Result.DONE, "has its ConfigMap, equal to the snapshot")
    if not controlled_by(facts.config_map, job):
        return Step(Result.PROBLEM, f"a ConfigMap {wanted['metadata']['name']} of somebody else is in the way")
    why = verdict.problem or "it has other content"
    return Step(Result.TODO, f"ConfigMap from the snapshot, over the one that is there: {why}", wanted)


__all__ = ["Result", "Rules", "Step", "left_alone", "newer", "to_hand_back", "to_migrate", "verified"]
