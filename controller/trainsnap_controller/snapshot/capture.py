# SPDX-License-Identifier: Apache-2.0
"""Gets a job its snapshot: finds it, or takes it from the live runtime. The only part of this package with I/O.

A snapshot is created, never applied: of two reconciles that both miss it in their cache one gets 409 and reads what
the other stored. Called by the TrainJob reconciler; never touches the JobSet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from trainsnap_api.transport import (
    AlreadyExists,
    ApiError,
    Forbidden,
    NotFound,
    ObjectRefused,
    Resource,
)
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller import blocked as reasons
from trainsnap_controller import constants as c
from trainsnap_controller.blocked import Blocked, CacheBehind, namespace_ends
from trainsnap_controller.observe.text import listed
from trainsnap_controller.snapshot import reads
from trainsnap_controller.snapshot.digest import beyond_defaults, canonical_json, deeper_than
from trainsnap_controller.snapshot.document import (
    JSON,
    Origin,
    Owner,
    RuntimeRef,
    Whose,
    recorded,
    snapshot_of,
    whose,
)


class Api(Protocol):
    """The requests that capturing needs."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...
    async def create(
        self, resource: Resource, obj: JSON, *, field_validation: str, field_manager: str, dry_run: bool = False
    ) -> JSON: ...
    async def delete(self, resource: Resource, name: str, namespace: str | None = None, *, uid: str) -> None: ...
    async def merge_patch(
        self, resource: Resource, name: str, namespace: str | None, body: JSON, *, field_manager: str
    ) -> JSON: ...


class Legacy(Protocol):
    """What an operator before trainsnap left behind for its jobs, and may want to find again."""

    async def concerns(self, owner: Owner) -> bool:
        """Whether the job is from before trainsnap."""

    async def runtime_of(self, owner: Owner, ref: RuntimeRef) -> JSON | None:
        """The runtime object kept for the job. Raises ``Blocked`` when it is there and cannot be used."""

    async def captured(self, owner: Owner, snapshot: JSON) -> None:
        """Hears of the content of a snapshot before it is written."""


class NoLegacy:
    """Nothing was here before."""

    async def concerns(self, owner: Owner) -> bool:
        """No job is from before trainsnap."""
        del owner
        return False

    async def runtime_of(self, owner: Owner, ref: RuntimeRef) -> JSON | None:
        """Nothing is kept anywhere."""
        del owner, ref
        return None

    async def captured(self, owner: Owner, snapshot: JSON) -> None:
        """Nobody wants to know."""
        del owner, snapshot


Check = Callable[[JSON], Awaitable[None]]

MOST_LEVELS = 100
"""Of a runtime object. Our schemas end at 20; kinds that trainsnap does not know may have more. A thousand is more
than a cache can decode: one such snapshot would stop all others."""

BUILT_IN_KINDS: Mapping[str, Resource] = {
    f"{resource.kind}.{resource.group}": resource for resource in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME)
}


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Finds or takes the snapshot of a job.

    ``cached`` gives the snapshot of a (namespace, name) as the cache has it; ``remember`` puts one that was just
    written there, so that the next reconcile of the job sees it before the watch delivers it.
    """

    api: Api
    cached: Callable[[str, str], JSON | None]
    remember: Callable[[JSON], None]
    now: Callable[[], datetime]
    opaque_kinds: Mapping[str, Resource] = field(default_factory=dict)
    keep_annotations: Collection[str] = ()
    legacy: Legacy = field(default_factory=NoLegacy)
    runtimes: reads.Api | None = None
    """Reads the live runtimes; by default ``api`` does. What it answers was asked for after the call, and is shared."""

    async def obtain(self, owner: Owner, ref: RuntimeRef, jobset: JSON | None, check: Check) -> JSON:
        """The job's snapshot.

        ``jobset`` is the job's own live JobSet or None; ``check`` raises ``Blocked`` when the job does not fit a
        runtime object.

        Raises ``Blocked`` when the job cannot go on, ``CacheBehind`` when the cache is too old to decide, and the
        transport's errors for what a retry may heal.
        """
        found = self.cached(owner.namespace, owner.name)
        if found is None:
            return await self._take(owner, ref, jobset, check)
        if whose(found, owner) is Whose.OURS:
            return found
        return await self._settle(owner, ref, jobset, check)

    async def _take(self, owner: Owner, ref: RuntimeRef, jobset: JSON | None, check: Check) -> JSON:
        resource = self._kind(ref)
        runtime, origin = await self._blueprint(owner, ref, resource, jobset)
        if deeper_than(runtime, MOST_LEVELS):
            rule = f"{ref.kind} {ref.name} is nested more than {MOST_LEVELS} levels deep"
            raise Blocked(reasons.SNAPSHOT_REJECTED, rule)
        wanted = snapshot_of(
            owner, runtime, origin=origin, captured_at=self.now(), keep_annotations=self.keep_annotations
        )
        try:
            if origin is Origin.CONFIG_MAP:
                # Before anything looks into it: no schema has seen this content yet.
                await self._rehearse(ref, wanted)
            if jobset is None and ref.key in BUILT_IN_KINDS:
                # What other kinds mean, only their own controllers know.
                await check(runtime)
            if origin is not Origin.CONFIG_MAP:
                await self.legacy.captured(owner, wanted)
            stored = await self.api.create(
                TRAINING_RUNTIME_SNAPSHOT, wanted, field_validation="Strict", field_manager=c.FIELD_MANAGER
            )
        except AlreadyExists:
            return await self._settle(owner, ref, jobset, check)
        except (ObjectRefused, Forbidden) as error:
            if namespace_ends(error):
                raise CacheBehind(f"namespace {owner.namespace} is being deleted") from error
            raise _rejected(ref, origin, error) from error
        await self._verify(owner, ref, wanted, stored)
        self.remember(stored)
        return stored

    def _kind(self, ref: RuntimeRef) -> Resource:
        resource = BUILT_IN_KINDS.get(ref.key) or self.opaque_kinds.get(ref.key)
        if resource is None:
            raise Blocked(
                reasons.RUNTIME_NOT_SUPPORTED,
                f"unsupported runtime: {ref.key}; spec.runtimeRef must name one of "
                f"{', '.join(sorted([*BUILT_IN_KINDS, *self.opaque_kinds]))}",
            )
        return resource

    async def _blueprint(
        self, owner: Owner, ref: RuntimeRef, resource: Resource, jobset: JSON | None
    ) -> tuple[JSON, Origin]:
        """The runtime object to keep, and where it came from: what was kept for an older job before the live one."""
        older = await self.legacy.concerns(owner)
        if older and (kept := await self.legacy.runtime_of(owner, ref)) is not None:
            return kept, Origin.CONFIG_MAP
        recorded_in = None if jobset is None or (older and recorded(jobset) is None) else jobset
        runtime = await self._live_runtime(owner, ref, resource, recorded_in)
        return runtime, _origin(jobset, runtime, ref, older=older)

    async def _live_runtime(self, owner: Owner, ref: RuntimeRef, resource: Resource, jobset: JSON | None) -> JSON:
        try:
            return await (self.runtimes or self.api).get(
                resource, ref.name, owner.namespace if resource.namespaced else None
            )
        except NotFound as error:
            where = f"namespace {owner.namespace}" if resource.namespaced else "the cluster"
            missing = f"spec.runtimeRef: {ref.kind} {ref.name!r} does not exist in {where}"
            if jobset is not None:
                raise Blocked(reasons.SNAPSHOT_LOST, f"the snapshot is gone, and {missing}") from error
            raise Blocked(reasons.RUNTIME_NOT_FOUND, missing) from error

    async def _rehearse(self, ref: RuntimeRef, wanted: JSON) -> None:
        """Find out without writing whether the API server would store what an operator before trainsnap had kept."""
        answer = await self.api.create(
            TRAINING_RUNTIME_SNAPSHOT, wanted, field_validation="Strict", field_manager=c.FIELD_MANAGER, dry_run=True
        )
        found = differences(wanted, answer)
        if found:
            raise Blocked(reasons.LEGACY_INVALID, f"{_title(ref, Origin.CONFIG_MAP)} would change: {listed(found)}")

    async def _verify(self, owner: Owner, ref: RuntimeRef, wanted: JSON, stored: JSON) -> None:
        found = differences(wanted, stored)
        if not found:
            return
        await self._delete(owner, stored["metadata"]["uid"])
        raise Blocked(
            reasons.SNAPSHOT_REJECTED,
            f"the API server did not store {ref.kind} {ref.name} as it is; {found[0]}"
            + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
        )

    async def _settle(self, owner: Owner, ref: RuntimeRef, jobset: JSON | None, check: Check) -> JSON:
        """An object of the snapshot's name exists: decide on its live state, after making sure that the job is live."""
        try:
            live = await self.api.get(TRAINING_RUNTIME_SNAPSHOT, owner.name, owner.namespace)
        except NotFound:
            raise CacheBehind(f"snapshot {owner.namespace}/{owner.name} was removed just now") from None
        verdict = whose(live, owner)
        if verdict is not Whose.OURS:
            await self.require_live(owner)
        match verdict:
            case Whose.OURS:
                self.remember(live)
                return live
            case Whose.OURS_STRIPPED:
                return await self._own_again(owner, live)
            case Whose.LEFTOVER:
                await self._delete(owner, live["metadata"]["uid"])
                raise Blocked(
                    reasons.LEFTOVER, f"the snapshot of an earlier TrainJob {owner.name!r} is being removed first"
                )
            case Whose.FOREIGN:
                raise Blocked(
                    reasons.SNAPSHOT_CONFLICT,
                    f"TrainingRuntimeSnapshot {owner.name!r} exists and was not made for this TrainJob "
                    f"(metadata.uid {owner.uid}); it is neither used nor overwritten",
                )

    async def require_live(self, owner: Owner) -> None:
        """Raise ``CacheBehind`` unless the API server itself has this very job, and it is not being deleted."""
        try:
            job = await self.api.get(TRAIN_JOB, owner.name, owner.namespace)
        except NotFound:
            raise CacheBehind(f"TrainJob {owner.namespace}/{owner.name} is gone") from None
        if job["metadata"]["uid"] != owner.uid or "deletionTimestamp" in job["metadata"]:
            raise CacheBehind(f"TrainJob {owner.namespace}/{owner.name} was replaced or is being deleted")

    async def _own_again(self, owner: Owner, live: JSON) -> JSON:
        meta = live["metadata"]
        # One that does not control is replaced: the API server drops the second of two references to one owner.
        others = [reference for reference in meta.get("ownerReferences") or [] if reference["uid"] != owner.uid]
        body = {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "ownerReferences": [*others, owner.owner_reference],
            }
        }
        stored = await self.api.merge_patch(
            TRAINING_RUNTIME_SNAPSHOT, owner.name, owner.namespace, body, field_manager=c.FIELD_MANAGER
        )
        self.remember(stored)
        return stored

    async def _delete(self, owner: Owner, uid: str) -> None:
        try:
            await self.api.delete(TRAINING_RUNTIME_SNAPSHOT, owner.name, owner.namespace, uid=uid)
        except NotFound:
            return
        except ApiError as error:
            if error.status == 409:  # the UID precondition failed: another one is there by now
                raise CacheBehind(f"snapshot {owner.namespace}/{owner.name} was replaced meanwhile") from error
            raise


def payload(snapshot: JSON) -> JSON:
    """What a snapshot says, without the metadata that the API server keeps with it."""
    return {key: snapshot[key] for key in ("source", "spec", "opaque") if key in snapshot}


def differences(wanted: JSON, stored: JSON) -> list[str]:
    """How the API server's answer differs from what was sent, by more than its defaults: one line for each place."""
    sent, found = payload(wanted), payload(stored)
    # The usual case, found out many times faster than by walking.
    if canonical_json(sent) == canonical_json(found):
        return []
    return list(beyond_defaults(sent, found))


def refused_fields(error: ApiError) -> list[str]:
    """What the API server says against an object: one line for each field, or its message."""
    # ``<nil>`` is its word for no field: it says that rules could not be checked because of the other causes.
    causes = [cause for cause in error.causes if cause.field and cause.field != "<nil>"]
    return [f"{cause.field}: {cause.message}" for cause in causes] or [error.message]


def _rejected(ref: RuntimeRef, origin: Origin, error: ApiError) -> Blocked:
    if origin is Origin.CONFIG_MAP and not isinstance(error, Forbidden):
        told = listed(refused_fields(error))
        return Blocked(reasons.LEGACY_INVALID, f"{_title(ref, origin)} is refused by the API server: {told}")
    return Blocked(
        reasons.SNAPSHOT_REJECTED, f"the API server refused the snapshot of {ref.kind} {ref.name}: {error.message}"
    )


def _title(ref: RuntimeRef, origin: Origin) -> str:
    return f"the snapshot of {ref.kind} {ref.name} from its {origin}"


def _origin(jobset: JSON | None, runtime: JSON, ref: RuntimeRef, *, older: bool) -> Origin:
    """Where the content comes from, given the JobSet that exists already. Raises when it would be another blueprint.

    ``older``: the job is from before trainsnap, whose JobSets carry no record.
    """
    if jobset is None:
        return Origin.RUNTIME
    record = recorded(jobset)
    if record is None and older:
        return Origin.LEGACY_JOB
    if record is None:
        raise Blocked(
            reasons.SNAPSHOT_LOST,
            "the snapshot is gone, and the JobSet does not say what it was built from; if "
            "an operator before trainsnap built it, move legacyBefore by trainsnap migrate apply --legacy-before now",
        )
    if record.matches(runtime):
        return Origin.RUNTIME
    meta = runtime["metadata"]
    raise Blocked(
        reasons.SNAPSHOT_LOST,
        f"the snapshot is gone, and {ref.kind} {ref.name} (uid {meta.get('uid')}, generation {meta.get('generation')}) "
        f"is not the one that the JobSet was built from (uid {record.uid}, generation {record.generation})",
    )


__all__ = [
    "BUILT_IN_KINDS",
    "Api",
    "Legacy",
    "RuntimeRef",
    "Snapshots",
    "differences",
    "refused_fields",
]
