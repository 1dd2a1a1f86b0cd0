"""What telemetry adds to a turn: none, the API without a provider, and spans and metrics that are kept in memory.

    python benchmarks/telemetry.py [--turns 400] [--rounds 5]

Microseconds of the process's CPU a turn (prepare and commit by hand, in memory), the ways in turn in one run; the median of the rounds.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ce_engine import OpenTelemetry, Scope, Telemetry, create_context_engine
from ce_engine.testing.host import HostApp


def kept() -> OpenTelemetry:
    """Spans and metrics as an app exports them, in batches."""
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    return OpenTelemetry(tracers, MeterProvider(metric_readers=[InMemoryMetricReader()]))


WAYS = {"none": lambda: None, "no provider": OpenTelemetry, "batches in memory": kept}


def a_turn(telemetry: Telemetry | None, turns: int) -> float:
    """Microseconds of CPU."""
    engine = create_context_engine("memory://", telemetry=telemetry)
    for n in range(20):
        HostApp(engine, Scope(session_id=f"warm-{n}")).ask("Are you there?", "Yes.")
    began = process_time()
    for n in range(turns):
        HostApp(engine, Scope(session_id=f"s{n}")).ask("Are you there?", "Yes, I am.")
    engine.sync.flush()
    spent = process_time() - began
    engine.sync.close()
    return spent / turns * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    rounds = [
        {name: a_turn(make(), asked.turns) for name, make in WAYS.items()}
        for _ in range(asked.rounds)
    ]
    none = median(each["none"] for each in rounds)
    for name in WAYS:
        spent = median(each[name] for each in rounds)
        print(f"{name:20}{spent:8.0f} us a turn{spent - none:+8.0f}{spent / none:8.2f}")


if __name__ == "__main__":
    main()
