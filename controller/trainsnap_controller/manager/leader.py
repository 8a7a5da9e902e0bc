# SPDX-License-Identifier: Apache-2.0
"""Lets one replica at a time run its controllers, by a Lease as client-go uses it.

Run by the manager after the caches are in sync. Two processes that follow these rules never both write:

- Whether a foreign lease is over is decided by our own monotonic clock, from the moment when we saw it change; the
  times inside the Lease are written by other clocks and only shown.
- Our own lease counts from the moment *before* the request that renewed it was sent, and we stop ``renew_deadline``
  after that, sooner than anyone else may take over (``lease_duration``).
- `may_write` also says no when the process was asleep and its timers have not run yet.

The reference operator uses the same Lease by default: whoever of the two comes second waits.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from trainsnap_api.transport.errors import AlreadyExists, Conflict, NotFound, TransportError
from trainsnap_api.transport.resources import LEASE
from trainsnap_controller import constants as c
from trainsnap_controller.manager.health import Health
from trainsnap_controller.observe.clock import Clock, SystemClock, micro_time

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource

    JSON = dict[str, Any]

_log = structlog.stdlib.get_logger(__name__)


class LeaseLostError(Exception):
    """This process no longer leads: nothing may be written any more, and the process ends."""


class LeaseClient(Protocol):
    """The part of the transport that the election needs."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...
    async def create(self, resource: Resource, obj: JSON) -> JSON: ...
    async def replace(self, resource: Resource, obj: JSON) -> JSON: ...


class LeaderMetrics(Protocol):
    def leading(self, name: str, leads: bool) -> None: ...


class NoLeaderMetrics:
    """Measures nothing."""

    def leading(self, name: str, leads: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """Seconds; the defaults are the reference's.

    Raises:
        ValueError: not ``lease_duration > renew_deadline > retry_period * 1.2 > 0``.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * c.LEASE_JITTER > 0:
            raise ValueError(
                f"leader election: leaseDuration {self.lease_duration:g}s, renewDeadline {self.renew_deadline:g}s, "
                f"retryPeriod {self.retry_period:g}s: each must be longer than the next "
                f"(retryPeriod times {c.LEASE_JITTER})"
            )


class LeaderElector:
    """Takes the Lease, keeps it, gives it back.

    Args:
        client: reads and writes the Lease.
        namespace, name: of the Lease.
        identity: who we are; unique for each process.
        times: the periods of the election.
    """

    def __init__(
        self,
        client: LeaseClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        clock: Clock | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
        metrics: LeaderMetrics | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._times = times or LeaseTimes()
        self._clock = clock or SystemClock()
        self._uniform = uniform
        self._metrics = metrics or NoLeaderMetrics()
        self.elected = asyncio.Event()
        """Set once this process leads. It never leads twice."""
        self._lease: JSON | None = None
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._reported: str | None = None
        self._stopping = False
        self._lock = asyncio.Lock()
        self._metrics.leading(name, False)

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as we know; ``""`` for nobody."""
        return _spec(self._lease).get("holderIdentity") or ""

    def may_write(self) -> bool:
        """Whether this process leads at this very moment."""
        return self._renewed_at is not None and self._clock.now() - self._renewed_at < self._times.renew_deadline

    def ready(self) -> Health:
        """For readiness: a process that stands by is ready, and says for whom it stands by."""
        if self.may_write():
            return Health(True, f"leading as {self.identity}")
        return Health(True, f"standing by: lease {self._name} is held by {self.holder or 'nobody'}")

    def live(self) -> Health:
        """For liveness: fails if the lease ran out and the process is still there."""
        if self._renewed_at is None:
            return Health(True)
        overdue = self._clock.now() - self._renewed_at - self._times.lease_duration
        return Health(overdue < 20, f"lease not renewed, {overdue:.0f} s after its end" if overdue >= 20 else "")

    async def run(self) -> None:
        """Stand by until the Lease is free, take it, and keep it.

        Raises:
            LeaseLostError: it could not be kept.
        """
        _log.info("standing by for the lease", lease=self._name, identity=self.identity)
        while not await self._try():
            await self._clock.sleep(self._pause())
        _log.info("leading", lease=self._name, identity=self.identity)
        self._metrics.leading(self._name, True)
        self.elected.set()
        try:
            await self._keep()
        finally:
            self._renewed_at = None
            self._metrics.leading(self._name, False)

    async def stop(self) -> None:
        """Give the Lease back, so that the next process need not wait for its end. Call after the last write."""
        self._stopping = True
        async with self._lock:
            if self._renewed_at is None or self._lease is None:
                return
            self._renewed_at = None
            now = micro_time(self._clock.wall())
            spec = {
                **_spec(self._lease),
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "renewTime": now,
                "acquireTime": now,
            }
            try:
                await self._client.replace(LEASE, {**self._lease, "spec": spec})
                _log.info("lease given back", lease=self._name)
            except TransportError as error:
                _log.warning("lease could not be given back", lease=self._name, error=str(error))

    async def _keep(self) -> None:
        while not self._stopping:
            assert self._renewed_at is not None
            left = self._renewed_at + self._times.renew_deadline - self._clock.now()
            if left <= 0:
                raise LeaseLostError(
                    f"lease {self._name} could not be renewed for {self._times.renew_deadline:g} s: no longer leading"
                )
            await self._clock.sleep(min(left, self._times.retry_period))
            if self._stopping:
                break
            if not await self._try() and self.holder not in ("", self.identity):
                raise LeaseLostError(f"lease {self._name} was taken by {self.holder}: no longer leading")
        # Given back by `stop`: nothing to do but to wait for the manager.
        await asyncio.Event().wait()

    def _pause(self) -> float:
        return self._uniform(self._times.retry_period, self._times.retry_period * c.LEASE_JITTER)

    async def _try(self) -> bool:
        """One attempt to take or renew. False if somebody else holds it, or if it cannot be known."""
        async with self._lock:
            if self._stopping:
                return False
            started = self._clock.now()
            limit = self._times.renew_deadline
            if self._renewed_at is not None:
                limit = max(0.1, self._renewed_at + limit - started)
            try:
                async with asyncio.timeout(limit):
                    taken = await self._take_or_renew()
            except (TransportError, TimeoutError) as error:
                self._report(f"lease {self._name} cannot be read or written: {error or 'no answer in time'}", "warning")
                return False
            if taken:
                self._renewed_at = started
                self._reported = None
            return taken

    async def _take_or_renew(self) -> bool:
        if self._renewed_at is not None and self._lease is not None and self.holder == self.identity:
            # Ours, and unchanged as far as we know: one request. If it did change, the write is refused.
            try:
                self._observe(await self._client.replace(LEASE, self._renewed(self._lease)))
                return True
            except (Conflict, NotFound):
                pass
        try:
            lease = await self._client.get(LEASE, self._name, self._namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        holder = self.holder
        lasts = float(_spec(lease).get("leaseDurationSeconds") or 0)
        if holder not in ("", self.identity) and self._clock.now() < self._seen_at + lasts:
            self._report(f"lease {self._name} is held by {holder}: standing by", "info")
            return False
        if holder != self.identity and self._renewed_at is not None:
            # It was ours, and somebody has had it since. Taking it again would hide that both may have written.
            return False
        try:
            self._observe(await self._client.replace(LEASE, self._renewed(lease)))
        except Conflict:
            # Somebody was quicker. Who, the next read will tell.
            return False
        return True

    def _renewed(self, lease: JSON) -> JSON:
        """The Lease with us as holder from now on; fields that we do not know stay."""
        spec = _spec(lease)
        mine = spec.get("holderIdentity") == self.identity
        now = micro_time(self._clock.wall())
        wanted = {
            **spec,
            "holderIdentity": self.identity,
            # Never less than what we go by ourselves: others take over after this.
            "leaseDurationSeconds": math.ceil(self._times.lease_duration),
            "renewTime": now,
            "acquireTime": spec.get("acquireTime") if mine else now,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if mine else 1),
        }
        return {**lease, "spec": wanted}

    async def _create(self) -> bool:
        if self._renewed_at is not None:
            _log.warning("the lease was deleted by somebody; making it again", lease=self._name)
        lease = self._renewed({"apiVersion": LEASE.api_version, "kind": LEASE.kind,
                               "metadata": {"name": self._name, "namespace": self._namespace},
                               "spec": {"leaseTransitions": -1}})  # fmt: skip
        try:
            self._observe(await self._client.create(LEASE, lease))
        except AlreadyExists:
            return False
        return True

    def _observe(self, lease: JSON) -> None:
        """Remember the Lease, and when we saw it change: a foreign holder's time runs from then."""
        spec = _spec(lease)
        seen = tuple(spec.get(field) for field in ("holderIdentity", "renewTime", "acquireTime", "leaseTransitions"))
        if seen != self._seen:
            self._seen = seen
            self._seen_at = self._clock.now()
        self._lease = lease

    def _report(self, text: str, level: str) -> None:
        """Say something once, until it changes."""
        if text != self._reported:
            self._reported = text
            getattr(_log, level)(text)


def _spec(lease: JSON | None) -> JSON:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}
