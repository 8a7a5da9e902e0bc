# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry: one for each reconcile, and inside it one for each request to the API server.

Made by the command line. Nothing is recorded, at a few microseconds a reconcile, unless the standard variables of
OpenTelemetry say where spans go (``OTEL_EXPORTER_OTLP_ENDPOINT`` and its kin) and the extra ``tracing`` is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog
from opentelemetry import trace

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables that say where spans are sent, by HTTP with protobuf; without them nothing is."""
DISABLED: Final = "OTEL_SDK_DISABLED"
EXPORT_SECONDS: Final = 1.0
"""For one try to send, the last one at the stop included: a collector that hangs must not hold up the process."""

_log = structlog.stdlib.get_logger(__name__)


class Tracing:
    """Makes the spans of one process.

    Args:
        tracer: where they go; nowhere by default.
        close: sends what is left.
    """

    def __init__(self, tracer: trace.Tracer | None = None, close: Callable[[], None] = lambda: None) -> None:
        self._tracer = tracer or trace.NoOpTracer()
        self.close = close

    @contextmanager
    def reconcile(
        self, controller: str, namespace: str | None, name: str, reconcile_id: str
    ) -> Iterator[Callable[[str], None]]:
        """The span of one reconcile; yields what takes its result (success, requeue_after, error)."""
        attributes = {
            "controller": controller,
            "k8s.namespace.name": namespace or "",
            "name": name,
            "reconcile_id": reconcile_id,
        }
        with self._tracer.start_as_current_span(f"reconcile {controller}", attributes=attributes) as span:
            yield lambda result: _ended(span, result)

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """A hook of the transport: the span of a request, if it was made by a reconcile that is recorded. Others, such
        as renewals of the lease, would be traces of their own, one every other second."""
        if not trace.get_current_span().is_recording():
            return
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{method} {path}",
            kind=trace.SpanKind.CLIENT,
            start_time=end - round(seconds * 1e9),
            attributes={"http.request.method": method, "url.template": path, "http.response.status_code": status},
        )
        if not 200 <= status < 400:
            span.set_status(trace.StatusCode.ERROR)
        span.end(end)


def from_environment(environ: Mapping[str, str]) -> Tracing:
    """Tracing as the variables of OpenTelemetry ask for it. Whatever is wrong with them is logged and means none: they
    are often set for all pods of a cluster, and an operator must run."""
    if not any(environ.get(name) for name in ENDPOINTS) or environ.get(DISABLED, "").lower() == "true":
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("no spans are sent: trainsnap is installed without its extra 'tracing'")
        return Tracing()
    try:
        named = Resource({"service.name": "trainsnap"}).merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=named, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=EXPORT_SECONDS)))
    except Exception as error:
        _log.warning("no spans are sent: the OTEL_ variables cannot be used", error=str(error))
        return Tracing()
    _log.info("spans are sent", service=named.attributes.get("service.name"))
    return Tracing(provider.get_tracer("trainsnap"), provider.shutdown)


def _ended(span: trace.Span, result: str) -> None:
    span.set_attribute("result", result)
    if result == "error":
        span.set_status(trace.StatusCode.ERROR)
