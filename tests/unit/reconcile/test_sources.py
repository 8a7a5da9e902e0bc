# SPDX-License-Identifier: Apache-2.0
"""What is kept of JobSets that ended and vanished, also in a process that stands by and reconciles nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.clock import settle
from support.scripted import ScriptedSource, event, obj, page
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, Resource
from trainsnap_controller.cache import Cache, Key
from trainsnap_controller.reconcile.gather import LastWords
from trainsnap_controller.reconcile.sources import observe

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
JOB = Key("ns", "job")


class ByKind:
    """A script for each kind; kinds without one have no objects."""

    def __init__(self) -> None:
        self.scripts = {resource: ScriptedSource([page(1)]) for resource in (TRAIN_JOB, JOB_SET)}
        self.empty = ScriptedSource([page(1)])

    def pages(self, resource: Resource, *args: Any, **scope: Any) -> Any:
        return self.scripts.get(resource, self.empty).pages(resource, *args, **scope)

    def watch(self, resource: Resource, *args: Any, **scope: Any) -> Any:
        return self.scripts.get(resource, self.empty).watch(resource, *args, **scope)


@asynccontextmanager
async def standing_by() -> AsyncIterator[tuple[ByKind, LastWords]]:
    """The sources of a process that is not the leader: events come in, nothing is reconciled."""
    source, words = ByKind(), LastWords()
    cache = Cache(source)
    observe(cache, words, [])
    running = asyncio.create_task(cache.run())
    await cache.wait_synced()
    await settle()
    try:
        yield source, words
    finally:
        running.cancel()
        await asyncio.wait([running])


def job(version: int, *, uid: str = "u1", done: bool = False) -> JSON:
    conditions = [{"type": "Complete", "status": "True"}] if done else []
    return obj("job", version, uid=uid, spec={}, status={"conditions": conditions})


def job_set(version: int, *, ended: bool = True) -> JSON:
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "job", "uid": "u1",
             "controller": True}  # fmt: skip
    conditions = [{"type": "Completed", "status": "True"}] if ended else []
    return obj("job", version, metadata={"ownerReferences": [owner]}, status={"conditions": conditions})


ENDED = [(JOB_SET, "ADDED", job_set(3)), (JOB_SET, "DELETED", job_set(4))]


@pytest.mark.parametrize(
    ("events", "want"),
    [
        pytest.param([(TRAIN_JOB, "ADDED", job(2)), *ENDED], True, id="not recorded by anybody yet"),
        pytest.param(ENDED, False, id="the TrainJob is gone already"),
        pytest.param([(TRAIN_JOB, "ADDED", job(2, uid="u2")), *ENDED], False, id="of an earlier TrainJob"),
        pytest.param([(TRAIN_JOB, "ADDED", job(2, done=True)), *ENDED], False, id="recorded before it vanished"),
        pytest.param(
            [(TRAIN_JOB, "ADDED", job(2)), *ENDED, (TRAIN_JOB, "MODIFIED", job(5))], True, id="still not recorded"
        ),
        pytest.param(
            [(TRAIN_JOB, "ADDED", job(2)), *ENDED, (TRAIN_JOB, "MODIFIED", job(5, done=True))],
            False,
            id="recorded by the leader",
        ),
        pytest.param(
            [(TRAIN_JOB, "ADDED", job(2)), *ENDED, (TRAIN_JOB, "DELETED", job(5))], False, id="the TrainJob goes later"
        ),
        pytest.param(
            [(TRAIN_JOB, "ADDED", job(2)), (JOB_SET, "ADDED", job_set(3, ended=False)),
             (JOB_SET, "DELETED", job_set(4, ended=False))],
            False,
            id="it had not ended",
        ),
    ],
)  # fmt: skip
async def test_last_words_are_kept_only_while_they_can_matter(
    events: Sequence[tuple[Resource, str, JSON]], want: bool
) -> None:
    async with standing_by() as (source, words):
        for resource, kind, document in events:
            source.scripts[resource].push(event(kind, document))
            await settle()
        assert (JOB in words) is want
