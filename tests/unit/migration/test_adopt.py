# SPDX-License-Identifier: Apache-2.0
"""What the operator asks the API server for because of jobs from before, and what it does not ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from trainsnap_api.transport import AlreadyExists, Invalid, KindNotServed, NotFound, Resource
from trainsnap_controller.blocked import Blocked
from trainsnap_controller.migration.adopt import Legacy, Mode
from trainsnap_controller.migration.handback import config_map_of
from trainsnap_controller.migration.state import LegacyBefore
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.snapshot.document import Origin, snapshot_of

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
BEFORE = datetime(2026, 1, 5, tzinfo=UTC)


class Api:
    """One ConfigMap, or none; remembers what it was asked."""

    def __init__(self, config_map: JSON | None = None, *, refuses: bool = False) -> None:
        self.config_map, self.refuses = config_map, refuses
        self.asked: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        self.asked.append(f"get {name}")
        if self.config_map is None:
            raise NotFound(name)
        return self.config_map

    async def apply(self, resource: Resource, obj: JSON, *, field_manager: str) -> JSON:
        self.asked.append(f"apply {obj['metadata']['name']} {field_manager}")
        if self.refuses:
            raise Invalid("too long")
        return obj

    async def create(self, resource: Resource, obj: JSON, *, field_manager: str) -> JSON:
        self.asked.append("create")
        if self.refuses:
            self.config_map = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
            raise AlreadyExists("x")
        self.config_map = {**obj, "metadata": {**obj["metadata"], "creationTimestamp": "2026-01-02T00:00:00Z"}}
        return self.config_map


def job(created: datetime = BEFORE - timedelta(days=1)) -> Job:
    metadata = {"name": "job", "namespace": "ns", "uid": "u", "creationTimestamp": created.isoformat()}
    return Job.from_json({"metadata": metadata, "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "rt"}}})


def snapshot() -> JSON:
    runtime = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": "rt"}}
    return snapshot_of(job(), runtime, origin=Origin.RUNTIME, captured_at=BEFORE)


def legacy(api: Api, mode: Mode = Mode.KEEP) -> tuple[Legacy, list[str]]:
    ignored: list[str] = []

    async def before() -> datetime:
        return BEFORE

    return Legacy(api, before, lambda owner, note: ignored.append(note), mode), ignored


async def test_an_answer_that_is_not_about_the_configmap_is_not_its_absence() -> None:
    class Elsewhere(Api):
        async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
            raise KindNotServed("the server does not serve /x")

    found, _ = legacy(Elsewhere())
    with pytest.raises(KindNotServed):
        await found.runtime_of(job(), job().runtime_ref)


async def test_a_long_text_holds_up_nobody_else() -> None:
    """What takes a second to read is read beside the event loop, and once it was refused not again."""
    metadata = {**snapshot_config_map()["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
    text = "a: &a [" + "{}," * 30_000 + "]\nb: *a\nc: *a\n"
    found, _ = legacy(Api({"metadata": metadata, "data": {"runtime": text}}))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        for _ in range(2):
            before = turns
            with pytest.raises(Blocked, match="aliases stand for more than 50000 values"):
                await found.runtime_of(job(), job().runtime_ref)
            assert turns > before
        tasks.cancel_scope.cancel()
    assert len(found.read._known) == 1  # type: ignore[attr-defined]


def snapshot_config_map() -> JSON:
    written = config_map_of(snapshot(), job().owner_reference, None)
    assert written is not None
    return written


async def test_a_job_made_at_that_very_moment_is_a_new_one() -> None:
    found, _ = legacy(Api())
    assert await found.concerns(job())
    assert not await found.concerns(job(BEFORE))


@pytest.mark.parametrize(
    ("mode", "want"),
    [(Mode.KEEP, []), (Mode.IGNORE, []),
     (Mode.DUAL_WRITE, ["get job-runtime-snapshot", "apply job-runtime-snapshot trainer"])],
)  # fmt: skip
async def test_only_dual_write_writes(mode: Mode, want: list[str]) -> None:
    api = Api()
    await legacy(api, mode)[0].captured(job(), snapshot())
    assert api.asked == want


async def test_a_configmap_that_is_refused_blocks_nothing() -> None:
    found, ignored = legacy(Api(refuses=True), Mode.DUAL_WRITE)
    await found.captured(job(), snapshot())
    assert ignored == ["ConfigMap job-runtime-snapshot is not written: too long"]


async def test_the_moment_is_the_creation_of_its_object_and_asked_for_once() -> None:
    api = Api()
    before = LegacyBefore(api, "ns")
    assert [await before.moment() for _ in range(3)] == [datetime(2026, 1, 2, tzinfo=UTC)] * 3
    assert api.asked == ["get trainsnap-state", "create"]


async def test_an_object_that_another_replica_made_first_counts() -> None:
    api = Api(refuses=True)
    assert await LegacyBefore(api, "ns").moment() == datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_moment_that_cannot_be_read_changes_nothing() -> None:
    api = Api(
        {"metadata": {"creationTimestamp": "2026-01-02T00:00:00Z"}, "data": {"legacyBefore": "2026-01-03T00:00:00Z"}}
    )
    before = LegacyBefore(api, "ns")
    assert await before.moment() == datetime(2026, 1, 3, tzinfo=UTC)
    api.config_map = {"metadata": {"creationTimestamp": "2026-01-02T00:00:00Z"}, "data": {"legacyBefore": "soon"}}
    await before.look()
    assert await before.moment() == datetime(2026, 1, 3, tzinfo=UTC)


async def test_an_object_that_was_deleted_is_made_again_with_what_was_known() -> None:
    api = Api()
    before = LegacyBefore(api, "ns")
    await before.moment()
    api.config_map = None
    await before.look()
    assert api.config_map is not None
    assert api.config_map["data"] == {"legacyBefore": "2026-01-02T00:00:00Z"}
