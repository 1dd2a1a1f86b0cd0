"""The engine's work as spans and metrics of OpenTelemetry (A-31)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ce_engine.errors import MissingDependencyError
from ce_engine.ports.telemetry import CountName
from ce_engine.schema.operations import Attribute, Operation


if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


SCOPE = "ce_engine"

SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]

KEYS = ("ce.framework", "gen_ai.request.model", "ce.purpose")
"""Attributes of spans that metrics have, too: few values each."""


class OpenTelemetry:
    """A span for each operation, a child of whatever span is current where the app made its call, and metrics.

    Spans are made when an operation has ended, with its times: nothing is ever attached to a context. They are
    `ce.prepare` with `ce.recall` inside, `ce.commit` and `ce.summary`; attributes follow the conventions for
    generative AI where these have a name. Metrics are histograms `ce.operation.duration` (s), `ce.input.tokens`,
    `ce.input.untouched.tokens` (without us), `ce.input.cached_prefix.tokens`, `ce.input.cost`, and counters `ce.degradations`, `ce.redactions`,
    `ce.faults`, `ce.store.breaker_trips`. There is no content in any.

    Args:
        tracer_provider: by default the process's own; so is `meter_provider`.

    Raises:
        MissingDependencyError: the API of OpenTelemetry is not installed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingDependencyError(
                "OpenTelemetry(...) needs its API. Run: pip install 'ce-integrations[otel]'"
            ) from error
        self._trace: Any = trace
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._make_instruments(meter)

    def _make_instruments(self, meter: Any) -> None:
        tokens = partial(
            meter.create_histogram,
            unit="{token}",
            explicit_bucket_boundaries_advisory=[float(4**n) for n in range(1, 12)],
        )
        self._tokens = tokens(
            "ce.input.tokens", description="the input of a model call, as it was handed on"
        )
        self._untouched = tokens(
            "ce.input.untouched.tokens",
            description="what the input would have been without us, where that can be said",
        )
        self._prefix = tokens(
            "ce.input.cached_prefix.tokens",
            description="leading tokens equal to the last input of the same conversation",
        )
        self._cost = meter.create_histogram(
            "ce.input.cost",
            description="what an input cost, in the currency of the price table",
            explicit_bucket_boundaries_advisory=[10.0**n * k for n in range(-6, 1) for k in (1, 3)],
        )
        self._duration = meter.create_histogram(
            "ce.operation.duration",
            unit="s",
            description="how long the engine's own work took",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._degradations = meter.create_counter("ce.degradations")
        self._redactions = meter.create_counter("ce.redactions")
        self._counts = {
            "faults": meter.create_counter("ce.faults"),
            "breaker_trips": meter.create_counter("ce.store.breaker_trips"),
            "redactions": self._redactions,
        }

    def operation(self, operation: Operation) -> None:
        """Make its span, those of its parts, and the metrics."""
        self._make_span(operation, None)

    def count(self, name: CountName, attributes: Mapping[str, Attribute], amount: int = 1) -> None:
        """Add it."""
        self._counts[name].add(amount, dict(attributes))

    def _make_span(self, operation: Operation, around: Any) -> None:
        span = self._tracer.start_span(
            f"ce.{operation.name}",
            context=around,
            attributes=dict(operation.attributes),
            start_time=operation.started_ns,
        )
        context = self._trace.set_span_in_context(span, around)  # a value: nothing is attached
        for part in operation.parts:
            self._make_span(part, context)
        if operation.error:
            span.set_attribute("error.type", operation.error)
            span.set_status(self._trace.StatusCode.ERROR, operation.error)
        self._measure(operation, context)
        span.end(operation.ended_ns)

    def _measure(self, operation: Operation, context: Any) -> None:
        """Record the metrics in the span's context: exemplars lead back to it."""
        of = operation.attributes
        keys: dict[str, Any] = {key: of[key] for key in KEYS if key in of}
        failed = {"error.type": operation.error} if operation.error else {}
        attributes = {"ce.operation": operation.name, **keys, **failed}
        self._duration.record(operation.seconds, attributes, context=context)
        if isinstance(count := of.get("ce.redactions"), int) and count:
            self._redactions.add(count, keys, context=context)
        if operation.name != "prepare":
            return
        self._figure(self._tokens, of.get("ce.tokens.used"), keys, context)
        self._figure(self._untouched, of.get("ce.tokens.untouched"), keys, context)
        self._figure(self._prefix, of.get("ce.tokens.cached_prefix"), keys, context)
        currency = {"ce.cost.currency": of.get("ce.cost.currency", "")}
        self._figure(self._cost, of.get("ce.cost.input"), {**keys, **currency}, context)
        degradations = of.get("ce.degradations", ())
        for code in degradations if isinstance(degradations, tuple) else ():
            self._degradations.add(1, {**keys, "ce.code": code}, context=context)

    @staticmethod
    def _figure(histogram: Any, value: object, keys: dict[str, Any], context: Any) -> None:
        if isinstance(value, int | float):
            histogram.record(value, keys, context=context)
