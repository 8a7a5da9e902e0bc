# SPDX-License-Identifier: Apache-2.0
"""Carries out what was decided about one job: the only writing part of ``trainsnap migrate``.

Every write can be repeated: a snapshot is created and never replaced, a ConfigMap is applied, a deletion names the
very object. So a run that was killed anywhere is finished by running it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from trainsnap_api.transport import (
    AlreadyExists,
    ApiError,
    Conflict,
    Disconnected,
    Forbidden,
    InternalError,
    KindNotServed,
    NotFound,
    ObjectRefused,
    Resource,
    ServerTimeout,
)
from trainsnap_api.transport.resources import CONFIG_MAP, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_controller import constants as c
from trainsnap_controller.migration.decide import Result, Step, not_ours
from trainsnap_controller.migration.rehearse import Rehearsals
from trainsnap_controller.migration.sameness import content_in, other_content
from trainsnap_controller.observe.text import listed
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.snapshot.capture import differences, refused_fields

JSON = dict[str, Any]


class Deleter(Protocol):
    """The request that finalizing needs: with the caller's rights, since the operator may not delete ConfigMaps."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> None: ...


class Writer(Deleter, Protocol):
    """The requests that the rest needs: those of the operator's ServiceAccount."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...
    async def create(
        self, resource: Resource, obj: JSON, *, field_validation: str, field_manager: str, dry_run: bool = False
    ) -> JSON: ...
    async def apply(self, resource: Resource, obj: JSON, *, field_manager: str, dry_run: bool = False) -> JSON: ...


@dataclass(slots=True)
class Actor:
    """Writes as the operator. ``dry_run``: the API server is asked for everything, and stores nothing."""

    writer: Writer
    dry_run: bool = False
    _rehearsals: Rehearsals = field(init=False)

    def __post_init__(self) -> None:
        self._rehearsals = Rehearsals(self.writer, by_shape=not self.dry_run)

    async def migrate(self, job: Job, step: Step) -> Step:
        """Create the snapshot of a step, after a rehearsal of its content or of one of its shape."""
        assert step.document is not None
        wanted = step.document
        problems = await self._rehearsals.problems(wanted)
        if problems:
            return _not_as_it_is(step, problems)
        if self.dry_run:
            return replace(step, detail=f"{step.detail}; the API server would store it as it is")
        try:
            stored = await self.writer.create(
                TRAINING_RUNTIME_SNAPSHOT, wanted, field_validation="Strict", field_manager=c.FIELD_MANAGER
            )
        except (AlreadyExists, Disconnected, InternalError, ServerTimeout) as error:
            return await self._settled(job, step, error)
        except ObjectRefused as error:
            return _not_as_it_is(step, refused_fields(error))
        except (Forbidden, NotFound) as error:
            return _problem(step, f"refused: {error.message}")
        changed = differences(wanted, stored)
        if changed:
            meta = stored["metadata"]
            await self.writer.delete(TRAINING_RUNTIME_SNAPSHOT, meta["name"], meta["namespace"], uid=meta["uid"])
            return _problem(step, f"the API server did not store it as it is: {listed(changed)}")
        return replace(step, result=Result.DONE, detail="snapshot made from the ConfigMap")

    async def _settled(self, job: Job, step: Step, error: Exception) -> Step:
        """One is there already, or there was no clear answer: what is stored decides."""
        assert step.document is not None
        try:
            live = await self.writer.get(TRAINING_RUNTIME_SNAPSHOT, job.name, job.namespace)
        except NotFound:
            return _problem(step, f"not known whether it was written, run it again: {error}")
        problem = not_ours(live, job)
        if problem is not None:
            return _problem(step, problem)
        changed = other_content(live, content_in(step.document))
        if changed:
            return _problem(step, f"its snapshot has other content than the ConfigMap: {listed(changed)}")
        return replace(step, result=Result.DONE, detail="has its snapshot, equal to the ConfigMap")

    async def hand_back(self, step: Step) -> Step:
        """Apply the ConfigMap of a step under the reference's field manager."""
        assert step.document is not None
        try:
            await self.writer.apply(CONFIG_MAP, step.document, field_manager=c.FIELD_MANAGER, dry_run=self.dry_run)
        except Conflict as error:
            return _problem(step, f"its ConfigMap is not as it was a moment ago, run it again: {error.message}")
        except (ObjectRefused, Forbidden, NotFound) as error:
            return _problem(step, f"refused: {listed(refused_fields(error))}")
        if self.dry_run:
            return step
        return replace(step, result=Result.DONE, detail=f"written: {step.detail}")


async def remove(api: Deleter, step: Step, config_map: JSON, *, dry_run: bool) -> Step:
    """Delete a ConfigMap in exactly the state in which it was verified."""
    meta = config_map["metadata"]
    try:
        await api.delete(
            CONFIG_MAP,
            meta["name"],
            meta["namespace"],
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            dry_run=dry_run,
        )
    except KindNotServed:
        raise  # no answer about the object
    except NotFound:
        pass
    except ApiError as error:
        return _problem(step, f"its ConfigMap was not deleted: {error.message}")
    if dry_run:
        return replace(step, result=Result.TODO, detail="its ConfigMap would be deleted")
    return replace(step, result=Result.DONE, detail="its ConfigMap is deleted")


def _not_as_it_is(step: Step, fields: list[str]) -> Step:
    return _problem(step, f"the API server would not store it as it is: {listed(fields)}")


def _problem(step: Step, detail: str) -> Step:
    return replace(step, result=Result.PROBLEM, detail=detail)
