"""Over OTLP, as a collector gets it: spans with their parents, metrics with exemplars, and no content (A-31)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest


LIBRARIES = "opentelemetry-exporter-otlp-proto-http (`tox -e tracers`)"
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=f"needs {LIBRARIES}")

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ce_engine import (
    BudgetConfig,
    OpenTelemetry,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.testing.host import HostApp


TIGHT = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0))


class Collector:
    """A server on loopback that takes OTLP over HTTP and decodes it."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {"/v1/traces": [], "/v1/metrics": []}
        taken = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                taken[self.path].append(body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[Any]:
        requests = [ExportTraceServiceRequest.FromString(b) for b in self.bodies["/v1/traces"]]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        requests = [ExportMetricsServiceRequest.FromString(b) for b in self.bodies["/v1/metrics"]]
        return {
            metric.name: metric
            for request in requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.req("A-31")
def test_a_collector_gets_all_of_it(collector: Collector) -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    exporter = OTLPMetricExporter(f"{collector.url}/v1/metrics")
    meters = MeterProvider(metric_readers=[PeriodicExportingMetricReader(exporter, 3_600_000)])
    engine = create_context_engine(
        "memory://", config=TIGHT, telemetry=OpenTelemetry(tracers, meters)
    )
    host = HostApp(engine, Scope(session_id="s"))
    with tracers.get_tracer("the app").start_as_current_span("request"):
        for number in range(12):
            host.ask(f"灯塔 {number}? Write to a{number}@example.com.", f"港口 {number}. " * 40)
    engine.sync.close()
    tracers.shutdown()
    meters.shutdown()

    spans = collector.spans()
    [request] = [span for span in spans if span.name == "request"]
    by_name = {name: [s for s in spans if s.name == name] for name in ("ce.prepare", "ce.commit")}
    assert [len(found) for found in by_name.values()] == [12, 12]
    for span in (*by_name["ce.prepare"], *by_name["ce.commit"]):
        assert (span.parent_span_id, span.trace_id) == (request.span_id, request.trace_id)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    prepared = {span.span_id for span in by_name["ce.prepare"]}
    searches = [span for span in spans if span.name == "ce.recall"]
    assert searches
    assert {span.parent_span_id for span in searches} <= prepared

    metrics = collector.metrics()
    [tokens] = metrics["ce.input.tokens"].histogram.data_points
    assert tokens.count == 12
    assert {each.span_id for each in tokens.exemplars} <= prepared
    assert tokens.exemplars
    assert metrics["ce.redactions"].sum.is_monotonic
    assert sum(p.as_int for p in metrics["ce.redactions"].sum.data_points) >= 12
    assert {p.count for p in metrics["ce.operation.duration"].histogram.data_points} >= {12}
    everything = b"".join(body for bodies in collector.bodies.values() for body in bodies)
    assert not [word for word in ("灯塔", "港口", "example.com") if word.encode() in everything]
