# SPDX-License-Identifier: Apache-2.0
"""Kubernetes Events about objects: the table of reasons, and the recorder that sends them.

`EventRecorder.record` is called by reconcilers. It returns at once and never raises: an event is a courtesy, and no
reconcile waits for it or fails because of it. What is recorded goes into a bounded queue, is counted instead of
repeated when the same thing happens again (a *series*), is limited for each object, and is sent by `EventRecorder.run`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import structlog

from trainsnap_api.transport.errors import (
    AlreadyExists,
    ApiError,
    Disconnected,
    NotFound,
    ObjectRefused,
    TransportError,
)
from trainsnap_api.transport.resources import EVENT
from trainsnap_controller.observe.backoff import Backoff
from trainsnap_controller.observe.clock import Clock, SystemClock, micro_time
from trainsnap_controller.observe.text import event_note

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource

    JSON = dict[str, Any]

_log = structlog.stdlib.get_logger(__name__)

REPORTING_CONTROLLER: Final = "trainer-trainjob-controller"
"""The reference's name for the controller of TrainJobs."""


@dataclass(frozen=True, slots=True)
class EventReason:
    """One row of the table. ``action`` is what the controller was doing, ``meaning`` is for the documentation."""

    reason: str
    type: Literal["Normal", "Warning"]
    action: str
    meaning: str


RESOURCES_CREATION_FAILED: Final = EventReason(
    "TrainJobResourcesCreationFailed",
    "Warning",
    "Reconciling",
    "The objects of a TrainJob could not be built or applied; the note says why. As in the reference.",
)
JOB_SET_REBUILT: Final = EventReason(
    "JobSetRebuilt",
    "Warning",
    "Reconciling",
    "The JobSet of an unfinished TrainJob was gone and was made again from the snapshot: the training starts anew.",
)
JOB_SET_KEPT: Final = EventReason(
    "JobSetKept",
    "Warning",
    "Reconciling",
    "An existing JobSet differs from what would be built today in parts that JobSet has frozen; "
    "those stay as they are.",
)
LEGACY_JOB_DIFFERS: Final = EventReason(
    "LegacyJobDiffers",
    "Warning",
    "Reconciling",
    "A JobSet from before snapshots differs from what the live runtime would build; it stays as it is.",
)
LEGACY_CONFIG_MAP_IGNORED: Final = EventReason(
    "LegacyConfigMapIgnored",
    "Warning",
    "Reconciling",
    "A ConfigMap of the name under which the reference kept a job's runtime is neither used nor written; the note says "
    "why.",
)

EVENT_REASONS: Final = (
    RESOURCES_CREATION_FAILED,
    JOB_SET_REBUILT,
    JOB_SET_KEPT,
    LEGACY_JOB_DIFFERS,
    LEGACY_CONFIG_MAP_IGNORED,
)
"""The table, from which the documentation is generated."""


class EventClient(Protocol):
    """The part of the transport that the recorder needs."""

    async def create(self, resource: Resource, obj: JSON) -> JSON: ...
    async def merge_patch(self, resource: Resource, name: str, namespace: str | None, body: JSON) -> JSON: ...


@dataclass(slots=True)
class _Series:
    """An event that may happen again: what was sent, and what was counted since."""

    event: JSON
    last: float
    count: int = 1
    created: bool = False
    queued: bool = True
    sent_count: int = 0
    sent_at: float = 0.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class EventRecorder:
    """Records events of events.k8s.io/v1.

    Args:
        client: sends them.
        instance: who reports, such as the Pod's name; at most 128 bytes are used.
        controller: ``reportingController``.
        counted: called with the outcome of each event, see the table of metrics.
        queue_size: events that wait to be sent; more are dropped and counted.
        burst, refill_seconds: an object may have ``burst`` different events at once, and one more each
            ``refill_seconds``. The values are client-go's.
        series_seconds: something that happens again within this time is counted on the first event.
        update_seconds: how often a count is sent at most.
    """

    OBJECTS: Final = 4096
    """Objects, and series, that are remembered at most; the one that was quiet the longest goes first."""

    def __init__(
        self,
        client: EventClient,
        *,
        instance: str,
        controller: str = REPORTING_CONTROLLER,
        counted: Callable[[str], None] = lambda outcome: None,
        queue_size: int = 1000,
        burst: int = 25,
        refill_seconds: float = 300.0,
        series_seconds: float = 360.0,
        update_seconds: float = 60.0,
        clock: Clock | None = None,
        new_suffix: Callable[[], str] = lambda: secrets.token_hex(8),
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._instance = instance.encode()[:128].decode("utf-8", "ignore")
        self._controller = controller
        self._counted = counted
        self._queue_size = queue_size
        self._burst = burst
        self._refill_seconds = refill_seconds
        self._series_seconds = series_seconds
        self._update_seconds = update_seconds
        self._clock = clock or SystemClock()
        self._new_suffix = new_suffix
        self._backoff = backoff or Backoff(base=0.5, cap=10.0)
        self._queue: deque[_Series] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def record(self, regarding: JSON, reason: EventReason, note: str, *, related: JSON | None = None) -> None:
        """Report something about an object. The note is text as it is (no format), cut to 1,024 bytes.

        Args:
            regarding: the object, or any JSON with its apiVersion, kind, name, namespace and uid in place.
            reason: a row of the table.
            note: what happened, for people.
            related: a second object that the event is about.
        """
        try:
            self._record(regarding, reason, event_note(note), related)
        except Exception:
            _log.exception("event could not be recorded", reason=reason.reason)

    async def run(self) -> None:
        """Send what is recorded, until `stop`, or until cancelled."""
        while True:
            while self._queue:
                await self._send(self._queue.popleft())
            self._idle.set()
            if self._stopping:
                return
            self._wake.clear()
            await self._wake.wait()

    async def stop(self) -> None:
        """Let `run` end, and return, once everything recorded has been sent. The manager bounds how long it waits."""
        self._stopping = True
        self._wake.set()
        await self._idle.wait()

    def _record(self, regarding: JSON, reason: EventReason, note: str, related: JSON | None) -> None:
        now = self._clock.now()
        about = _reference(regarding)
        key = (about.get("uid", ""), about.get("namespace", ""), about["name"], reason.type, reason.reason, note)
        series = self._series.get(key)
        if series is not None and now - series.last <= self._series_seconds:
            self._series.move_to_end(key)
            series.last = now
            series.count += 1
            if not series.queued and (series.sent_count == 1 or now - series.sent_at >= self._update_seconds):
                self._enqueue(series)
            return
        if not self._allowed("/".join(key[:3]), now):
            self._counted("dropped_rate_limited")
            return
        series = _Series(self._event(about, reason, note, related), now)
        self._series[key] = series
        _trim(self._series, self.OBJECTS)
        self._enqueue(series)

    def _allowed(self, owner: str, now: float) -> bool:
        bucket = self._buckets.setdefault(owner, _Bucket(self._burst, now))
        self._buckets.move_to_end(owner)
        _trim(self._buckets, self.OBJECTS)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) / self._refill_seconds)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _enqueue(self, series: _Series) -> None:
        if len(self._queue) >= self._queue_size:
            series.queued = False
            self._counted("dropped_queue_full")
            return
        series.queued = True
        self._queue.append(series)
        self._idle.clear()
        self._wake.set()

    def _event(self, about: JSON, reason: EventReason, note: str, related: JSON | None) -> JSON:
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "name": self._name(about),
                "namespace": about.get("namespace") or "default",
            },
            "eventTime": micro_time(self._clock.wall()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": reason.action,
            "reason": reason.reason,
            "type": reason.type,
            "regarding": about,
            "note": note,
        }
        if related is not None:
            event["related"] = _reference(related)
        return event

    def _name(self, about: JSON) -> str:
        # The name of an object can have 253 characters, and so can that of an event; none of its parts ends in a dash.
        return f"{about['name'][:230].rstrip('-.')}.{self._new_suffix()}"

    async def _send(self, series: _Series) -> None:
        """Send a new event, or the count of one that is known to the server; give up after a few failures."""
        series.queued = False
        self._backoff.reset()
        for last in (False, False, True):
            try:
                await self._send_once(series)
                return
            except AlreadyExists:
                # Our own first attempt, whose answer was lost.
                series.created = True
                return
            except NotFound as error:
                if not series.created:
                    self._refused(series, error)
                    return
                # It has expired on the server meanwhile: a new one, with a name of its own.
                series.created = False
                name = self._name(series.event["regarding"])
                series.event = {**series.event, "metadata": {**series.event["metadata"], "name": name}}
            except TransportError as error:
                if last or not _may_pass(error):
                    self._refused(series, error)
                    return
                await self._clock.sleep(self._backoff.next())
            except Exception:
                _log.exception("event could not be sent")
                self._counted("dropped_refused")
                return

    async def _send_once(self, series: _Series) -> None:
        meta, count = series.event["metadata"], series.count
        body: JSON = {}
        if count > 1:
            # A series of one is not valid.
            body["series"] = {"count": count, "lastObservedTime": micro_time(self._clock.wall())}
        if series.created:
            await self._client.merge_patch(EVENT, meta["name"], meta["namespace"], body)
            self._counted("counted")
        else:
            await self._client.create(EVENT, {**series.event, **body})
            series.created = True
            self._counted("created")
        series.sent_count, series.sent_at = count, self._clock.now()

    def _refused(self, series: _Series, error: TransportError) -> None:
        self._counted("dropped_refused")
        _log.info("event was not accepted", reason=series.event["reason"], error=str(error))


def _may_pass(error: TransportError) -> bool:
    """Whether another try may help."""
    return isinstance(error, Disconnected) or (
        isinstance(error, ApiError)
        and (error.status >= 500 or error.status == 429)
        and not isinstance(error, ObjectRefused)
    )


def _reference(obj: JSON) -> JSON:
    """An ObjectReference to an object; one that is a reference already stays what it is."""
    meta = obj.get("metadata", obj)
    fields = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": meta.get("namespace"),
        "name": meta["name"],
        "uid": meta.get("uid"),
        "resourceVersion": meta.get("resourceVersion"),
    }
    return {name: value for name, value in fields.items() if value}


def _trim(items: OrderedDict[Any, Any], size: int) -> None:
    while len(items) > size:
        items.popitem(last=False)
