# SPDX-License-Identifier: Apache-2.0
"""Every metric of the operator, declared in one table, and the objects through which the parts count.

Where the meaning is equal the names are those of controller-runtime and client-go, so that dashboards made for the
reference go on working. The command line makes one `Metrics` for the process; parts get a small object each, with its
label values filled in once, since looking up labels costs four times as much as counting. Every combination of labels
that is known beforehand exists with zero from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import prometheus_client as prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trainsnap_api.transport.resources import Resource


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the table. ``values`` lists label values that are known beforehand, for the last labels."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0),
    *(40.0, 50.0, 60.0),
)
_QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
_WEBHOOK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUEUE: Final = ("name", "controller")

RECONCILE_TOTAL: Final = "controller_runtime_reconcile_total"
RECONCILE_ERRORS: Final = "controller_runtime_reconcile_errors_total"
RECONCILE_TERMINAL: Final = "controller_runtime_terminal_reconcile_errors_total"
RECONCILE_PANICS: Final = "controller_runtime_reconcile_panics_total"
RECONCILE_TIMEOUTS: Final = "controller_runtime_reconcile_timeouts_total"
RECONCILE_TIME: Final = "controller_runtime_reconcile_time_seconds"
MAX_RECONCILES: Final = "controller_runtime_max_concurrent_reconciles"
ACTIVE_WORKERS: Final = "controller_runtime_active_workers"
QUEUE_DEPTH: Final = "workqueue_depth"
QUEUE_ADDS: Final = "workqueue_adds_total"
QUEUE_WAITED: Final = "workqueue_queue_duration_seconds"
QUEUE_WORKED: Final = "workqueue_work_duration_seconds"
QUEUE_UNFINISHED: Final = "workqueue_unfinished_work_seconds"
QUEUE_LONGEST: Final = "workqueue_longest_running_processor_seconds"
QUEUE_RETRIES: Final = "workqueue_retries_total"
REST_REQUESTS: Final = "rest_client_requests_total"
LEADER_STATUS: Final = "leader_election_master_status"
CACHE_OBJECTS: Final = "trainsnap_cache_objects"
CACHE_FOLLOWED: Final = "trainsnap_cache_watch_up"
CACHE_LISTS: Final = "trainsnap_cache_lists_total"
CACHE_WATCHES: Final = "trainsnap_cache_watches_ended_total"
CACHE_EVENTS: Final = "trainsnap_cache_events_total"
EVENTS: Final = "trainsnap_events_total"
CERTIFICATE_READS: Final = "certwatcher_read_certificate_total"
CERTIFICATE_ERRORS: Final = "certwatcher_read_certificate_errors_total"
CERTIFICATE_EXPIRY: Final = "trainsnap_certificate_expiration_timestamp_seconds"
WEBHOOK_REQUESTS: Final = "controller_runtime_webhook_requests_total"
WEBHOOK_LATENCY: Final = "controller_runtime_webhook_latency_seconds"
WEBHOOK_IN_FLIGHT: Final = "controller_runtime_webhook_requests_in_flight"

METRICS: Final = (
    MetricSpec(
        RECONCILE_TOTAL,
        "counter",
        ("controller", "result"),
        "Reconciles by result.",
        ("success", "requeue_after", "error"),
    ),
    MetricSpec(RECONCILE_ERRORS, "counter", ("controller",), "Reconciles that failed, whatever the reason."),
    MetricSpec(RECONCILE_TERMINAL, "counter", ("controller",), "Reconciles that failed and are not tried again."),
    MetricSpec(RECONCILE_PANICS, "counter", ("controller",), "Reconciles that ended in an unexpected exception."),
    MetricSpec(RECONCILE_TIMEOUTS, "counter", ("controller",), "Reconciles that were cut off because of their length."),
    MetricSpec(
        RECONCILE_TIME, "histogram", ("controller",), "Seconds that a reconcile took.", buckets=_RECONCILE_BUCKETS
    ),
    MetricSpec(MAX_RECONCILES, "gauge", ("controller",), "Reconciles that may run at the same time."),
    MetricSpec(ACTIVE_WORKERS, "gauge", ("controller",), "Reconciles that run now."),
    MetricSpec(QUEUE_DEPTH, "gauge", _QUEUE, "Keys that wait for a worker."),
    MetricSpec(QUEUE_ADDS, "counter", _QUEUE, "Keys added, duplicates not counted."),
    MetricSpec(QUEUE_WAITED, "histogram", _QUEUE, "Seconds that a key waited for a worker.", buckets=_QUEUE_BUCKETS),
    MetricSpec(QUEUE_WORKED, "histogram", _QUEUE, "Seconds that a key was worked on.", buckets=_QUEUE_BUCKETS),
    MetricSpec(QUEUE_UNFINISHED, "gauge", _QUEUE, "Seconds spent so far on all keys in work; grows if one is stuck."),
    MetricSpec(QUEUE_LONGEST, "gauge", _QUEUE, "Seconds spent so far on the key that is in work the longest."),
    MetricSpec(QUEUE_RETRIES, "counter", _QUEUE, "Keys added again after a failure."),
    MetricSpec(
        REST_REQUESTS,
        "counter",
        ("code", "method", "host"),
        "Requests to the API server; code <error> when there was no answer.",
    ),
    MetricSpec(LEADER_STATUS, "gauge", ("name",), "1 while this process holds the lease, else 0."),
    MetricSpec(CACHE_OBJECTS, "gauge", ("resource",), "Objects in the cache."),
    MetricSpec(CACHE_FOLLOWED, "gauge", ("resource",), "1 while a watch is up, else 0; short gaps are normal."),
    MetricSpec(
        CACHE_LISTS,
        "counter",
        ("resource", "reason"),
        "Complete lists, by what made them necessary.",
        ("start", "expired", "undecodable object", "unavailable", "error"),
    ),
    MetricSpec(
        CACHE_WATCHES,
        "counter",
        ("resource", "outcome"),
        "Watches and lists that ended, by how.",
        ("ended", "disconnected", "expired", "undecodable object", "unavailable", "error"),
    ),
    MetricSpec(
        CACHE_EVENTS,
        "counter",
        ("resource", "type"),
        "Changes reported to handlers.",
        ("added", "updated", "deleted"),
    ),
    MetricSpec(
        EVENTS,
        "counter",
        ("outcome",),
        "Events recorded, by what became of them.",
        ("created", "counted", "dropped_queue_full", "dropped_rate_limited", "dropped_refused"),
    ),
    MetricSpec(CERTIFICATE_READS, "counter", (), "Times that the webhook certificate was read from where it is kept."),
    MetricSpec(CERTIFICATE_ERRORS, "counter", (), "Times that it could not be read, renewed or used."),
    MetricSpec(
        CERTIFICATE_EXPIRY,
        "gauge",
        ("certificate",),
        "When the certificate that is served, and the newest authority, end, in seconds since the epoch; 0: unknown.",
        ("serving", "authority"),
    ),
    MetricSpec(
        WEBHOOK_REQUESTS,
        "counter",
        ("webhook", "code"),
        "Admission requests by path and HTTP status; a refused object is a 200.",
        ("200", "400", "408", "413", "500"),
    ),
    MetricSpec(
        WEBHOOK_LATENCY,
        "histogram",
        ("webhook",),
        "Seconds that an admission request took.",
        buckets=_WEBHOOK_BUCKETS,
    ),
    MetricSpec(WEBHOOK_IN_FLIGHT, "gauge", ("webhook",), "Admission requests that are being answered."),
)
"""The table, from which the documentation is generated."""


class Metrics:
    """All metrics of one process, in a registry of its own.

    Args:
        registry: where they are registered; a fresh one by default.
        process: with memory, CPU and garbage collection of the process.
    """

    def __init__(self, registry: prometheus.CollectorRegistry | None = None, *, process: bool = False) -> None:
        # A second time series for each counter that says when it began: nobody asked for it.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry or prometheus.CollectorRegistry()
        self._specs = {spec.name: spec for spec in METRICS}
        self._metrics: dict[str, Any] = {spec.name: _make(spec, self.registry) for spec in METRICS}
        if process:
            prometheus.ProcessCollector(registry=self.registry)
            prometheus.PlatformCollector(registry=self.registry)
            prometheus.GCCollector(registry=self.registry)
        for value in self._specs[EVENTS].values:
            self.child(EVENTS, value)

    def child(self, name: str, *labels: str) -> Any:
        """A metric with its label values filled in: keep it. Exists with zero from now on.

        Raises:
            KeyError: not in the table.
            ValueError: not as many values as labels.
        """
        metric = self._metrics[name]
        return metric.labels(*labels) if labels else metric

    def children(self, name: str, *labels: str) -> dict[str, Any]:
        """The children for all known values of the last label."""
        return {value: self.child(name, *labels, value) for value in self._specs[name].values}

    def controller(self, name: str) -> _ControllerMetrics:
        """What a `manager.Controller` counts with."""
        return _ControllerMetrics(self, name)

    def queue(self, name: str) -> _QueueMetrics:
        """What a `queue.WorkQueue` counts with."""
        return _QueueMetrics(self, name)

    def cache(self) -> _CacheMetrics:
        """What a `cache.Cache` counts with."""
        return _CacheMetrics(self)

    def leader(self) -> _LeaderMetrics:
        """What a `manager.LeaderElector` shows its state with."""
        return _LeaderMetrics(self)

    def recorder(self) -> Callable[[str], None]:
        """What an `events.EventRecorder` counts with: called with the outcome of each event."""
        children = self.children(EVENTS)
        return lambda outcome: children[outcome].inc()

    def webhooks(self, names: Iterable[str]) -> _WebhookMetrics:
        """What the webhook server counts with, for the paths that it has."""
        return _WebhookMetrics(self, names)

    def webhooks_reached(self) -> list[str]:
        """The paths of the webhook server that have answered at least once."""
        samples = [sample for family in self._metrics[WEBHOOK_REQUESTS].collect() for sample in family.samples]
        return [s.labels["webhook"] for s in samples if s.labels["code"] == "200" and s.value]

    def certificates(self) -> _CertificateMetrics:
        """What a `webhooks.certs_manager.CertManager` counts with."""
        return _CertificateMetrics(self)

    def rest_client(self, host: str) -> Callable[[str, str, int, float], None]:
        """The hook of the transport: called with method, path, HTTP status (0 without an answer) and seconds."""
        children: dict[tuple[int, str], Any] = {}

        def count(method: str, path: str, status: int, seconds: float) -> None:
            child = children.get((status, method))
            if child is None:
                code = str(status) if status else "<error>"
                child = children[status, method] = self.child(REST_REQUESTS, code, method, host)
            child.inc()

        return count


class _ControllerMetrics:
    def __init__(self, metrics: Metrics, name: str) -> None:
        self._results = metrics.children(RECONCILE_TOTAL, name)
        self._errors = metrics.child(RECONCILE_ERRORS, name)
        self._time = metrics.child(RECONCILE_TIME, name)
        self._workers = metrics.child(MAX_RECONCILES, name)
        self._active = metrics.child(ACTIVE_WORKERS, name)
        self._failures = {
            "terminal": metrics.child(RECONCILE_TERMINAL, name),
            "panic": metrics.child(RECONCILE_PANICS, name),
            "timeout": metrics.child(RECONCILE_TIMEOUTS, name),
        }

    def started(self, workers: int) -> None:
        self._workers.set(workers)

    def busy(self, change: int) -> None:
        self._active.inc(change)

    def reconciled(self, result: str, seconds: float) -> None:
        self._results[result].inc()
        self._time.observe(seconds)
        if result == "error":
            self._errors.inc()

    def failed(self, kind: str) -> None:
        self._failures[kind].inc()


class _Measured(Protocol):
    def __len__(self) -> int: ...
    def unfinished_seconds(self) -> float: ...
    def longest_running_seconds(self) -> float: ...


class _QueueMetrics:
    def __init__(self, metrics: Metrics, name: str) -> None:
        self._depth = metrics.child(QUEUE_DEPTH, name, name)
        self._unfinished = metrics.child(QUEUE_UNFINISHED, name, name)
        self._longest = metrics.child(QUEUE_LONGEST, name, name)
        self.added = metrics.child(QUEUE_ADDS, name, name).inc
        self.retried = metrics.child(QUEUE_RETRIES, name, name).inc
        self.waited = metrics.child(QUEUE_WAITED, name, name).observe
        self.worked = metrics.child(QUEUE_WORKED, name, name).observe

    def attached(self, queue: _Measured) -> None:
        self._depth.set_function(queue.__len__)
        self._unfinished.set_function(queue.unfinished_seconds)
        self._longest.set_function(queue.longest_running_seconds)


class _CacheMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lists: dict[str, dict[str, Any]] = {}
        self._watches: dict[str, dict[str, Any]] = {}
        self._events: dict[str, dict[str, Any]] = {}

    def attached(self, resource: Resource, objects: Callable[[], int], followed: Callable[[], bool]) -> None:
        name = resource.name
        self._metrics.child(CACHE_OBJECTS, name).set_function(objects)
        self._metrics.child(CACHE_FOLLOWED, name).set_function(followed)
        self._lists[name] = self._metrics.children(CACHE_LISTS, name)
        self._watches[name] = self._metrics.children(CACHE_WATCHES, name)
        self._events[name] = self._metrics.children(CACHE_EVENTS, name)

    def listed(self, resource: Resource, reason: str) -> None:
        self._lists[resource.name][reason].inc()

    def watch_ended(self, resource: Resource, outcome: str) -> None:
        self._watches[resource.name][outcome].inc()

    def event(self, resource: Resource, type: str) -> None:
        self._events[resource.name][type].inc()


class _WebhookMetrics:
    def __init__(self, metrics: Metrics, names: Iterable[str]) -> None:
        self._requests = {name: metrics.children(WEBHOOK_REQUESTS, name) for name in names}
        self._latency = {name: metrics.child(WEBHOOK_LATENCY, name) for name in self._requests}
        self._in_flight = {name: metrics.child(WEBHOOK_IN_FLIGHT, name) for name in self._requests}

    def busy(self, name: str, change: int) -> None:
        self._in_flight[name].inc(change)

    def answered(self, name: str, code: int, seconds: float) -> None:
        self._requests[name][str(code)].inc()
        self._latency[name].observe(seconds)


class _LeaderMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def leading(self, name: str, leads: bool) -> None:
        self._metrics.child(LEADER_STATUS, name).set(1 if leads else 0)


class _CertificateMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self.read = metrics.child(CERTIFICATE_READS).inc
        self.failed = metrics.child(CERTIFICATE_ERRORS).inc
        self._expires = metrics.children(CERTIFICATE_EXPIRY)

    def expires(self, certificate: str, seconds: float) -> None:
        self._expires[certificate].set(seconds)


def _make(spec: MetricSpec, registry: prometheus.CollectorRegistry) -> Any:
    if spec.type == "histogram":
        return prometheus.Histogram(spec.name, spec.help, spec.labels, registry=registry, buckets=spec.buckets)
    kind = prometheus.Counter if spec.type == "counter" else prometheus.Gauge
    return kind(spec.name, spec.help, spec.labels, registry=registry)
