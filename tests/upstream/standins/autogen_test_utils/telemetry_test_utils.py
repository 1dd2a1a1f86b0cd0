"""Keeps the spans that AutoGen's runtime exports, for its own tests."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class MyTestExporter:
    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()

    def clear(self) -> None:
        self.spans.clear()

    def get_exported_spans(self) -> list[ReadableSpan]:
        return list(self.spans.get_finished_spans())


def get_test_tracer_provider(exporter: MyTestExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter.spans))
    return provider
