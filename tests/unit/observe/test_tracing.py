# SPDX-License-Identifier: Apache-2.0
"""Spans: of reconciles, of the requests inside them, and of nothing while nobody asked."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from trainsnap_controller.observe.tracing import ENDPOINTS, Tracing, from_environment


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Tracing:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Tracing(provider.get_tracer("test"))


def test_a_request_is_inside_the_reconcile_that_made_it(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    with tracing.reconcile("c", "ns", "job", "id-1") as ended:
        tracing.request("GET", "/apis/x/{name}", 200, 0.25)
        tracing.request("PATCH", "/apis/x/{name}", 409, 0.5)
        ended("success")
    get, patch, whole = spans.get_finished_spans()
    assert whole.name == "reconcile c"
    assert dict(whole.attributes or {}) == {
        "controller": "c",
        "k8s.namespace.name": "ns",
        "name": "job",
        "reconcile_id": "id-1",
        "result": "success",
    }
    assert [get.name, patch.name] == ["GET /apis/x/{name}", "PATCH /apis/x/{name}"]
    assert [span.parent and span.parent.span_id for span in (get, patch)] == [whole.context.span_id] * 2
    assert [span.status.is_ok for span in (get, patch, whole)] == [True, False, True]
    assert get.end_time is not None
    assert get.start_time is not None
    assert get.end_time - get.start_time == 250_000_000


def test_a_failed_reconcile_is_an_error(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    with tracing.reconcile("c", None, "job", "id") as ended:
        ended("error")
    assert [span.status.is_ok for span in spans.get_finished_spans()] == [False]


def test_requests_of_nobody_make_no_spans(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    tracing.request("PUT", "/apis/coordination.k8s.io/v1/leases", 200, 0.1)
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize(
    "environ",
    [{}, {ENDPOINTS[0]: ""}, {ENDPOINTS[0]: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "True"}],
    ids=["nothing", "empty", "disabled"],
)
def test_without_an_endpoint_nothing_is_recorded(environ: dict[str, str]) -> None:
    tracing = from_environment(environ)
    with tracing.reconcile("c", "ns", "job", "id"):
        assert not trace.get_current_span().is_recording()
    tracing.close()


def test_an_endpoint_without_the_extra_is_said_and_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kw: Any) -> Any:
        if name.startswith("opentelemetry.exporter"):
            raise ImportError(name)
        return real(name, *args, **kw)

    monkeypatch.setattr(builtins, "__import__", missing)
    with capture_logs() as logs:
        from_environment({ENDPOINTS[0]: "http://127.0.0.1:1"})
    assert [line["event"] for line in logs] == ["no spans are sent: trainsnap is installed without its extra 'tracing'"]
