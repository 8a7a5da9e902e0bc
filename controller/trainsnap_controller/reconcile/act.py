# SPDX-License-Identifier: Apache-2.0
"""Writes what was decided: the only writing part of the TrainJob reconciler.

Every child is server-side applied under the reference's field manager, and only when it would change something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from trainsnap_api.transport import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    KindNotServed,
    NotFound,
    ObjectRefused,
    Resource,
)
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB
from trainsnap_controller import blocked as reasons
from trainsnap_controller import constants as c
from trainsnap_controller.blocked import Blocked, CacheBehind, namespace_ends
from trainsnap_controller.reconcile.compare import FROZEN, by_reference, stamped, up_to_date
from trainsnap_controller.runtime.component import Component, Plan, Write
from trainsnap_controller.runtime.frozen import differences, keep_frozen
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed
from trainsnap_controller.snapshot.digest import beyond_defaults

JSON = dict[str, Any]
_log = structlog.stdlib.get_logger(__name__)


class Api(Protocol):
    """The requests that acting needs."""

    async def apply(
        self, resource: Resource, obj: JSON, *, field_manager: str, force: bool, dry_run: bool = False
    ) -> JSON: ...
    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: JSON,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> JSON: ...
    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Writer:
    """Carries plans out.

    ``remember`` shows an answer of the API server to the cache at once; ``kept`` hears of JobSets of which frozen
    parts had to stay as they are, with one line for each difference.
    """

    api: Api
    remember: Callable[[Resource, JSON], object]
    kept: Callable[[Job, tuple[str, ...]], object]

    async def carry_out(self, job: Job, plan: Plan, observed: Observed, *, leave: bool = False) -> None:
        """Write every component in order. The first failure ends it. Raises ``Blocked`` or the transport's errors.

        ``leave``: what the reference made stays as it is; only pausing and resuming go on.
        """
        for component in plan.components:
            live = observed.find(component.resource, component.namespace, component.name)
            if live is not None and component.write is Write.ONCE:
                continue
            try:
                if live is not None and leave and by_reference(live):
                    if component.resource is JOB_SET:
                        await self.follow_suspend(job, live)
                elif component.resource is JOB_SET and live is not None:
                    await self._update_job_set(job, component.document(), live)
                else:
                    await self._write(component, live)
            except KindNotServed as error:
                raise Blocked(
                    reasons.KIND_NOT_INSTALLED, f"{component.resource.name} is not installed in the cluster"
                ) from error
            except ApiError as error:
                if not lasting(error):
                    raise
                raise refusal(component.resource, component.name, error) from error

    async def _write(self, component: Component, live: JSON | None) -> None:
        document = component.document()
        if live is None or not up_to_date(live, document):
            await self._apply(component.resource, stamped(document), live)

    async def _update_job_set(self, job: Job, wanted: JSON, live: JSON) -> None:
        """Apply, or where JobSet refuses what it has frozen, apply the rest: pausing and resuming always work."""
        if up_to_date(live, wanted):
            return
        kept = keep_frozen(wanted, live)
        if up_to_date(live, wanted, mark=FROZEN, document=kept.document):
            return
        try:
            await self._apply(JOB_SET, stamped(wanted), live)
        except ApiError as error:
            if not lasting(error) or "immutable" not in error.message:
                raise
            await self._apply(JOB_SET, stamped(kept.document, of=wanted, mark=FROZEN), live)
            self.kept(job, kept.differences)

    async def _apply(self, resource: Resource, document: JSON, live: JSON | None) -> None:
        """Make an object where there is none, or change the very one that was looked at.

        Without its uid an apply makes an object that has just vanished anew (a JobSet that finished meanwhile, say),
        and takes over another one of its name; without a version it takes over one that has just appeared.
        """
        metadata = document["metadata"]
        condition = {"resourceVersion": c.NO_VERSION} if live is None else {"uid": live["metadata"]["uid"]}
        document = {**document, "metadata": {**metadata, **condition}}
        try:
            stored = await self.api.apply(resource, document, field_manager=c.FIELD_MANAGER, force=True)
        except (Conflict, Invalid) as error:
            if isinstance(error, Invalid) and not any(cause.field == "metadata.uid" for cause in error.causes):
                raise
            raise _changed(resource, metadata) from error
        self.remember(resource, stored)

    async def rehearse(self, document: JSON, live: JSON) -> tuple[str, ...]:
        """Where applying a document would change the spec of a live JobSet. No write.

        The API server is asked, since applying also takes away what was applied before and is not in the document.
        Where it refuses, since JobSet has frozen what would change, the places are those that the document has.
        """
        own = {**document, "spec": {**document["spec"], "suspend": bool(live["spec"].get("suspend"))}}
        try:
            answer = await self.api.apply(JOB_SET, own, field_manager=c.FIELD_MANAGER, force=True, dry_run=True)
        except (ObjectRefused, Forbidden):
            return differences(document, live)
        except ApiError as error:
            # A report is not worth a job that waits: there is no second look.
            _log.warning("a JobSet from before snapshots could not be compared", job_set=own["metadata"]["name"],
                         namespace=own["metadata"]["namespace"], error=str(error))  # fmt: skip
            return ()
        return tuple(beyond_defaults(live["spec"], answer["spec"], "spec", exact=True))

    async def follow_suspend(self, job: Job, job_set: JSON) -> None:
        """Pause or resume a JobSet that cannot be built anew, by this one field: nothing else of it moves.

        Raises ``CacheBehind`` when it is not as it was looked at any more.
        """
        if bool(job_set["spec"].get("suspend")) == job.suspended:
            return
        meta = job_set["metadata"]
        body = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
            "spec": {"suspend": job.suspended},
        }
        try:
            stored = await self.api.merge_patch(
                JOB_SET, meta["name"], meta["namespace"], body, field_manager=c.FIELD_MANAGER
            )
        except KindNotServed:
            raise
        except (Conflict, NotFound) as error:
            raise _changed(JOB_SET, meta) from error
        self.remember(JOB_SET, stored)

    async def write_status(self, job: Job, status: JSON) -> None:
        """Patch the fields of the status that are ours, on condition that nobody wrote the TrainJob since."""
        assert job.raw is not None
        before = job.status or {}
        changed = {key: status.get(key) for key in ("conditions", "jobsStatus") if before.get(key) != status.get(key)}
        # An empty status breaks the schema (minProperties), an absent one does not.
        body = {
            "metadata": {"resourceVersion": job.raw["metadata"]["resourceVersion"]},
            "status": changed if status else None,
        }
        stored = await self.api.merge_patch(
            TRAIN_JOB, job.name, job.namespace, body, subresource="status", field_manager=c.FIELD_MANAGER
        )
        self.remember(TRAIN_JOB, stored)

    async def delete_job_set(self, job_set: JSON) -> None:
        """Delete this very JobSet; one that is gone already is fine."""
        meta = job_set["metadata"]
        try:
            await self.api.delete(JOB_SET, meta["name"], meta["namespace"], uid=meta["uid"])
        except NotFound:
            return
        except Conflict as error:
            raise _changed(JOB_SET, meta) from error


def lasting(error: ApiError) -> bool:
    """Whether a write was refused for what is in it: only a change of the job or of the cluster can help."""
    # 405: the API server does not let its kind be written in this way.
    return isinstance(error, ObjectRefused | Forbidden | NotFound) or error.status == 405


def refusal(resource: Resource, name: str, error: ApiError) -> Exception:
    """What a refused write means for the job: the API server's words, or nothing while the namespace goes away."""
    if namespace_ends(error):
        return CacheBehind(f"the namespace of {resource.kind} {name} is being deleted")
    return Blocked(reasons.APPLY_FAILED, f"the API server refused {resource.kind} {name}: {error.message}")


def _changed(resource: Resource, metadata: JSON) -> CacheBehind:
    return CacheBehind(f"{resource.kind} {metadata['namespace']}/{metadata['name']} was changed or removed meanwhile")
