# SPDX-License-Identifier: Apache-2.0
"""The election against a Lease in memory that checks resourceVersions, on a clock that the tests move."""

from __future__ import annotations

import asyncio
import copy
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from support.clock import FakeClock, settle
from trainsnap_api.transport.errors import AlreadyExists, Conflict, Disconnected, NotFound
from trainsnap_controller.manager import LeaderElector, LeaseLostError, LeaseTimes
from trainsnap_controller.observe.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trainsnap_api.transport.resources import Resource

pytestmark = pytest.mark.anyio


class Leases:
    """One Lease with optimistic locking, and a switch that makes every request fail."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken: Exception | None = None
        self.requests: list[str] = []

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        self._request("get")
        if self.lease is None:
            raise NotFound("no lease")
        return copy.deepcopy(self.lease)

    async def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        self._request("create")
        if self.lease is not None:
            raise AlreadyExists("there")
        return self._store(obj)

    async def replace(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        self._request("replace")
        if self.lease is None:
            raise NotFound("no lease")
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("changed")
        return self._store(obj)

    def foreign(self, holder: str, **spec: Any) -> None:
        """Somebody else writes the Lease."""
        self._store({
            "metadata": {"name": "lease", "namespace": "ns"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 4,
                     "renewTime": f"renewal {self.version}", **spec},
        })  # fmt: skip

    def _request(self, verb: str) -> None:
        self.requests.append(verb)
        if self.broken is not None:
            raise self.broken

    def _store(self, obj: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)


class Candidate:
    def __init__(self, leases: Leases, identity: str = "me", times: LeaseTimes | None = None) -> None:
        self.leases = leases
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.elector = LeaderElector(
            leases,
            namespace="ns",
            name="lease",
            identity=identity,
            times=times,
            clock=self.clock,
            uniform=lambda low, _: low,
            metrics=self.metrics.leader(),
        )
        self.task: asyncio.Task[None] | None = None

    @property
    def status(self) -> float | None:
        return self.metrics.registry.get_sample_value("leader_election_master_status", {"name": "lease"})

    @property
    def failure(self) -> BaseException | None:
        assert self.task is not None
        return self.task.exception() if self.task.done() else None


@asynccontextmanager
async def candidate(leases: Leases, identity: str = "me", times: LeaseTimes | None = None) -> AsyncIterator[Candidate]:
    running = Candidate(leases, identity, times)
    running.task = asyncio.create_task(running.elector.run())
    await settle()
    try:
        yield running
    finally:
        running.task.cancel()
        await asyncio.wait([running.task])


async def test_a_lease_that_is_not_there_is_made_as_client_go_makes_it() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        assert c.elector.elected.is_set()
        assert c.elector.may_write()
        assert c.status == 1
        assert leases.lease is not None
        assert leases.lease["apiVersion"] == "coordination.k8s.io/v1"
        assert leases.spec == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
    assert c.status == 0


async def test_the_lease_never_says_less_than_its_holder_goes_by() -> None:
    leases = Leases()
    async with candidate(leases, times=LeaseTimes(lease_duration=2.4, renew_deadline=2.3, retry_period=0.5)) as c:
        assert c.elector.may_write()
        assert leases.spec["leaseDurationSeconds"] == 3


async def test_renewing_is_one_request_every_two_seconds_and_keeps_the_acquire_time() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        leases.requests.clear()
        await c.clock.advance(20.5)
        assert leases.requests == ["replace"] * 10
        assert leases.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert leases.spec["renewTime"] == "2026-01-01T00:00:20.000000Z"
        assert leases.spec["leaseTransitions"] == 0


async def test_a_foreign_holder_that_renews_is_respected_for_ever_and_named() -> None:
    leases = Leases()
    leases.foreign("reference-operator_1")
    with capture_logs() as logs:
        async with candidate(leases) as c:
            for _ in range(20):
                await c.clock.advance(10)
                leases.foreign("reference-operator_1")
            assert not c.elector.elected.is_set()
            assert not c.elector.may_write()
            health = c.elector.ready()
            assert health.ok
            assert "reference-operator_1" in health.detail
    assert len([line for line in logs if "reference-operator_1" in line["event"]]) == 1


async def test_a_lease_is_taken_over_its_duration_after_its_last_change_was_seen_whatever_its_times_say() -> None:
    leases = Leases()
    leases.foreign("other", renewTime="1999-01-01T00:00:00.000000Z", extra="kept")
    async with candidate(leases) as c:
        await c.clock.advance(14)
        assert not c.elector.elected.is_set()
        await c.clock.advance(4)
        assert c.elector.elected.is_set()
        assert leases.spec["holderIdentity"] == "me"
        assert leases.spec["leaseTransitions"] == 5
        assert leases.spec["extra"] == "kept"


async def test_a_lease_that_was_given_back_is_taken_at_once() -> None:
    leases = Leases()
    leases.foreign("", leaseDurationSeconds=1)
    async with candidate(leases) as c:
        assert c.elector.elected.is_set()


async def test_of_two_that_try_at_once_one_leads() -> None:
    leases = Leases()
    async with candidate(leases, "one") as one, candidate(leases, "two") as two:
        for _ in range(30):
            await one.clock.advance(2)
            await two.clock.advance(2)
        assert one.elector.elected.is_set()
        assert not two.elector.elected.is_set()


async def test_a_lease_that_cannot_be_renewed_is_lost_after_the_deadline_not_sooner() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        leases.broken = Disconnected("reset")
        await c.clock.advance(9.9)
        assert c.elector.may_write()
        assert c.failure is None
        await c.clock.advance(0.2)
        assert not c.elector.may_write()
        assert isinstance(c.failure, LeaseLostError)
        assert "could not be renewed for 10 s" in str(c.failure)


async def test_a_short_break_is_survived() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        leases.broken = Disconnected("reset")
        await c.clock.advance(7)
        leases.broken = None
        await c.clock.advance(60)
        assert c.failure is None
        assert c.elector.may_write()


async def test_a_lease_that_somebody_took_is_lost_at_once() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        leases.foreign("other")
        await c.clock.advance(2.1)
        assert isinstance(c.failure, LeaseLostError)
        assert "taken by other" in str(c.failure)
        assert leases.spec["holderIdentity"] == "other"


async def test_a_lease_that_somebody_had_meanwhile_is_not_taken_again() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        leases.foreign("")
        await c.clock.advance(30)
        assert isinstance(c.failure, LeaseLostError)


async def test_a_change_by_an_admin_does_not_cost_the_lease() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        assert leases.lease is not None
        leases.lease["metadata"]["labels"] = {"a": "b"}
        leases.lease["metadata"]["resourceVersion"] = "77"
        leases.version = 77
        await c.clock.advance(20)
        assert c.failure is None
        assert leases.lease["metadata"]["labels"] == {"a": "b"}


async def test_a_lease_that_was_deleted_is_made_again() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        leases.lease = None
        await c.clock.advance(4)
        assert c.failure is None
        assert leases.spec["holderIdentity"] == "me"


async def test_a_process_that_slept_may_not_write_even_before_its_timers_run() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        c.clock._now += 60
        assert not c.elector.may_write()


async def test_stopping_gives_the_lease_back_for_the_next_to_take_at_once() -> None:
    leases = Leases()
    async with candidate(leases, "first") as first:
        await first.elector.stop()
        assert not first.elector.may_write()
        assert leases.spec["holderIdentity"] == ""
        assert leases.spec["leaseDurationSeconds"] == 1
        await first.clock.advance(30)
        assert leases.spec["holderIdentity"] == ""
        async with candidate(leases, "second") as second:
            assert second.elector.elected.is_set()
            assert leases.spec["leaseTransitions"] == 1


async def test_stopping_before_leading_touches_nothing() -> None:
    leases = Leases()
    leases.foreign("other")
    async with candidate(leases) as c:
        leases.requests.clear()
        await c.elector.stop()
        assert leases.requests == []
        assert leases.spec["holderIdentity"] == "other"


async def test_liveness_fails_only_if_the_process_stays_long_after_its_lease() -> None:
    leases = Leases()
    async with candidate(leases) as c:
        c.clock._now += 30
        assert c.elector.live().ok
        c.clock._now += 30
        assert not c.elector.live().ok


@pytest.mark.parametrize(
    ("times", "want"),
    [
        pytest.param((15, 15, 2), "leaseDuration 15s", id="deadline as long as the lease"),
        pytest.param((15, 2, 2), "retryPeriod 2s", id="retry as long as the deadline"),
        pytest.param((0, 0, 0), "leaseDuration 0s", id="nothing set"),
    ],
)
def test_periods_that_cannot_work_are_refused(times: tuple[float, float, float], want: str) -> None:
    with pytest.raises(ValueError, match=want):
        LeaseTimes(lease_duration=times[0], renew_deadline=times[1], retry_period=times[2])
