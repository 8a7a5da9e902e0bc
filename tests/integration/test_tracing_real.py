# SPDX-License-Identifier: Apache-2.0
"""The operator sends spans to a collector when the standard variables of OpenTelemetry name one, and stops in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.cluster import Cluster
from support.objects import runtime, train_job
from support.operator import STOP_SECONDS, Operator
from trainsnap_api.transport.resources import JOB_SET

pytestmark = [pytest.mark.anyio, pytest.mark.api]


class Collector:
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.url = ""


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportTraceServiceRequest()
            sent.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            collector.spans += [s for of in sent.resource_spans for scope in of.scope_spans for s in scope.spans]
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def tracing_to(operator: Operator, url: str) -> Iterator[None]:
    """The operator, started anew with that endpoint. What is in the block has to stop it."""
    assert operator.stop() == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        operator.start()
        yield
    assert not operator.running


async def test_reconciles_and_their_requests_reach_the_collector(operator: Operator, cluster: Cluster) -> None:
    with collecting() as collector, tracing_to(operator, collector.url):
        await cluster.create(runtime("rt", cluster.namespace))
        await cluster.create(train_job("job", cluster.namespace))
        await cluster.until(JOB_SET, "job")
        assert operator.stop() == 0
    whole = [span for span in collector.spans if span.name == "reconcile trainjob_controller"]
    ours = {
        span.span_id
        for span in whole
        if any(a.key == "k8s.namespace.name" and a.value.string_value == cluster.namespace for a in span.attributes)
    }
    inside = [span.name for span in collector.spans if span.parent_span_id in ours]
    assert [name for name in inside if name.startswith("POST ") and name.endswith("/trainingruntimesnapshots")]
    assert [name for name in inside if name.startswith("PATCH ") and name.endswith("/jobsets/{name}")]


async def test_a_collector_that_is_not_there_holds_up_nothing(operator: Operator, cluster: Cluster) -> None:
    with tracing_to(operator, "http://127.0.0.1:1"):
        await cluster.create(runtime("rt", cluster.namespace))
        await cluster.create(train_job("job", cluster.namespace))
        await cluster.until(JOB_SET, "job")
        started = time.monotonic()
        assert operator.stop() == 0
        assert time.monotonic() - started < STOP_SECONDS
