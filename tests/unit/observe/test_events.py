# SPDX-License-Identifier: Apache-2.0
"""The recorder: what is sent, what is counted instead, what is dropped; and that nobody ever waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from support.clock import FakeClock, settle
from trainsnap_api.transport.errors import (
    AlreadyExists,
    Disconnected,
    Forbidden,
    InternalError,
    NotFound,
    TooManyRequests,
)
from trainsnap_controller.observe.backoff import Backoff
from trainsnap_controller.observe.events import (
    EVENT_REASONS,
    JOB_SET_REBUILT,
    RESOURCES_CREATION_FAILED,
    EventRecorder,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trainsnap_api.transport.resources import Resource

    JSON = dict[str, Any]

pytestmark = pytest.mark.anyio

JOB: JSON = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "job", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "labels": {"a": "b"}},
    "spec": {},
}


class Server:
    def __init__(self) -> None:
        self.created: list[JSON] = []
        self.patched: list[tuple[str, JSON]] = []
        self.errors: list[Exception] = []
        self.calls = 0

    async def create(self, resource: Resource, obj: JSON) -> JSON:
        self._maybe_fail()
        self.created.append(obj)
        return obj

    async def merge_patch(self, resource: Resource, name: str, namespace: str | None, body: JSON) -> JSON:
        self._maybe_fail()
        self.patched.append((name, body))
        return body

    def _maybe_fail(self) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)


class Setup:
    def __init__(self, **options: Any) -> None:
        self.server = Server()
        self.clock = FakeClock()
        self.outcomes: Counter[str] = Counter()
        numbers = iter(range(100_000))
        self.recorder = EventRecorder(
            self.server,
            instance="pod-1",
            clock=self.clock,
            counted=lambda outcome: self.outcomes.update([outcome]),
            new_suffix=lambda: f"{next(numbers):x}",
            backoff=Backoff(0.5, 10.0, uniform=lambda _, high: high),
            **options,
        )

    def fail(self, note: str = "no", job: JSON = JOB) -> None:
        self.recorder.record(job, RESOURCES_CREATION_FAILED, note)


@asynccontextmanager
async def recording(**options: Any) -> AsyncIterator[Setup]:
    setup = Setup(**options)
    task = asyncio.create_task(setup.recorder.run())
    await settle()
    try:
        yield setup
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_an_event_as_it_is_sent() -> None:
    async with recording() as s:
        s.fail("100% of %s {x} failed")
        await settle()
        assert s.server.created == [
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "job.0", "namespace": "ns"},
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingController": "trainer-trainjob-controller",
                "reportingInstance": "pod-1",
                "action": "Reconciling",
                "reason": "TrainJobResourcesCreationFailed",
                "type": "Warning",
                "regarding": {
                    "apiVersion": "trainer.kubeflow.org/v1alpha1",
                    "kind": "TrainJob",
                    "namespace": "ns",
                    "name": "job",
                    "uid": "u1",
                    "resourceVersion": "7",
                },
                "note": "100% of %s {x} failed",
            }
        ]


async def test_what_happens_again_is_counted_on_the_first_event_and_rarely_sent() -> None:
    async with recording() as s:
        s.fail()
        await settle()
        for _ in range(200):
            s.fail()
            await s.clock.advance(1)
        assert len(s.server.created) == 1
        counts = [body["series"]["count"] for _, body in s.server.patched]
        assert counts[0] == 2
        assert 3 <= len(counts) <= 5
        assert counts == sorted(counts)
        assert {name for name, _ in s.server.patched} == {"job.0"}


async def test_repetitions_before_the_first_is_sent_are_one_event_with_a_count() -> None:
    setup = Setup()
    for _ in range(5):
        setup.fail()
    task = asyncio.create_task(setup.recorder.run())
    await settle()
    assert [event["series"]["count"] for event in setup.server.created] == [5]
    task.cancel()
    await asyncio.wait([task])


async def test_after_a_quiet_while_it_is_a_new_event() -> None:
    async with recording() as s:
        s.fail()
        await s.clock.advance(361)
        s.fail()
        await settle()
        assert [event["metadata"]["name"] for event in s.server.created] == ["job.0", "job.1"]


async def test_another_note_reason_or_object_is_another_event() -> None:
    other = {**JOB, "metadata": {**JOB["metadata"], "name": "other", "uid": "u2"}}
    async with recording() as s:
        s.fail("one")
        s.fail("two")
        s.fail("one", other)
        s.recorder.record(JOB, JOB_SET_REBUILT, "one", related={"apiVersion": "v1", "kind": "X", "name": "y"})
        await settle()
        assert len(s.server.created) == 4
        assert s.server.created[3]["related"] == {"apiVersion": "v1", "kind": "X", "name": "y"}


async def test_an_object_that_fails_in_ever_new_ways_is_limited_and_others_are_not() -> None:
    other = {**JOB, "metadata": {**JOB["metadata"], "name": "other", "uid": "u2"}}
    async with recording(burst=5, refill_seconds=300) as s:
        for number in range(50):
            s.fail(f"note {number}")
        s.fail("note", other)
        await settle()
        assert len(s.server.created) == 6
        assert s.outcomes["dropped_rate_limited"] == 45
        await s.clock.advance(301)
        s.fail("after a while")
        s.fail("and again")
        await settle()
        assert len(s.server.created) == 7


async def test_a_full_queue_drops_and_counts_and_does_not_block() -> None:
    setup = Setup(queue_size=10, burst=1000)
    for number in range(25):
        setup.fail(f"note {number}")
    assert setup.outcomes["dropped_queue_full"] == 15


async def test_notes_are_cut_to_what_the_api_server_takes() -> None:
    async with recording() as s:
        s.fail("x" * 5000)
        await settle()
        assert len(s.server.created[0]["note"]) == 1024


@pytest.mark.parametrize(
    ("errors", "want_created", "want_outcome"),
    [
        pytest.param([Disconnected("reset")], 1, "created", id="network, heals"),
        pytest.param([InternalError("etcd"), TooManyRequests("slow down")], 1, "created", id="server, heals"),
        pytest.param([InternalError("etcd")] * 3, 0, "dropped_refused", id="server, does not heal"),
        pytest.param([Forbidden("no right")], 0, "dropped_refused", id="no right"),
        pytest.param([NotFound("namespace is gone")], 0, "dropped_refused", id="namespace is gone"),
        pytest.param([Disconnected("reset"), AlreadyExists("there")], 0, None, id="the lost answer was a success"),
        pytest.param([ValueError("a bug")], 0, "dropped_refused", id="a bug"),
    ],
)
async def test_an_event_that_is_not_accepted_is_given_up_after_a_few_tries(
    errors: list[Exception], want_created: int, want_outcome: str | None
) -> None:
    async with recording() as s:
        s.server.errors = list(errors)
        with capture_logs():
            s.fail()
            await s.clock.advance(30)
        assert len(s.server.created) == want_created
        assert s.outcomes == (Counter({want_outcome: 1}) if want_outcome else Counter())
        s.recorder.record(JOB, JOB_SET_REBUILT, "the next one")
        await settle()
        assert s.server.created[-1]["note"] == "the next one"


async def test_a_counted_event_that_expired_on_the_server_is_made_anew() -> None:
    async with recording() as s:
        s.fail()
        await settle()
        s.server.errors = [NotFound("expired")]
        s.fail()
        await settle()
        assert [event["metadata"]["name"] for event in s.server.created] == ["job.0", "job.1"]
        assert s.server.created[1]["series"]["count"] == 2


async def test_recording_never_fails() -> None:
    setup = Setup()
    with capture_logs() as logs:
        setup.recorder.record({"kind": "no metadata"}, RESOURCES_CREATION_FAILED, "x")
    assert logs[0]["log_level"] == "error"


async def test_stop_sends_everything_and_ends_the_recorder() -> None:
    setup = Setup()
    running = asyncio.create_task(setup.recorder.run())
    setup.fail("one")
    setup.fail("two")
    await setup.recorder.stop()
    assert len(setup.server.created) == 2
    await running


async def test_stop_ends_an_idle_recorder_too() -> None:
    setup = Setup()
    running = asyncio.create_task(setup.recorder.run())
    await settle()
    await setup.recorder.stop()
    await running


async def test_memory_is_bounded() -> None:
    setup = Setup(queue_size=10)
    setup.recorder.OBJECTS = 50  # type: ignore[misc]
    for number in range(500):
        setup.fail("x", {**JOB, "metadata": {"name": f"j{number}", "namespace": "ns", "uid": str(number)}})
    assert len(setup.recorder._series) <= 50
    assert len(setup.recorder._buckets) <= 50


async def test_a_cluster_scoped_object_has_its_events_in_default() -> None:
    async with recording() as s:
        runtime = {"apiVersion": "v1", "kind": "ClusterTrainingRuntime", "metadata": {"name": "r", "uid": "u"}}
        s.fail("x", runtime)
        await settle()
        assert s.server.created[0]["metadata"]["namespace"] == "default"


def test_the_table_is_valid_and_explained() -> None:
    assert len({row.reason for row in EVENT_REASONS}) == len(EVENT_REASONS)
    for row in EVENT_REASONS:
        assert row.reason.isalnum()
        assert len(row.reason) <= 128
        assert 0 < len(row.action) <= 128
        assert row.meaning.endswith(".")


async def test_the_name_of_an_event_is_valid_wherever_that_of_its_object_is_cut() -> None:
    async with recording() as s:
        s.recorder.record({**JOB, "metadata": {**JOB["metadata"], "name": "a" * 228 + "-.b"}}, JOB_SET_REBUILT, "note")
        await settle()
    assert s.server.created[0]["metadata"]["name"].startswith("a" * 228 + ".")
