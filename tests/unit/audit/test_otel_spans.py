"""What OpenTelemetry hears of the engine's work: spans with times, metrics with exemplars, and no content (A-31)."""

from __future__ import annotations

import json
import logging
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from packaging.version import Version
from prometheus_client import REGISTRY, generate_latest

from ce_engine import (
    BudgetConfig,
    ConfigError,
    ContextEngine,
    OpenTelemetry,
    RuntimeConfig,
    Scope,
    StoreConfig,
    ToolRun,
    Usage,
    create_context_engine,
)
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, tool_calls, user
from ce_engine.testing.scripted_llm import MockLlmAdapter


SCOPE = Scope(session_id="s")
PATIENT = StoreConfig(deadline_s=10)


class Heard:
    """Spans and metrics of one engine."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider(metric_readers=[self.reader])
        self.telemetry = OpenTelemetry(self.provider, meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def heard() -> Heard:
    return Heard()


def engine_of(heard: Heard, **components: Any) -> ContextEngine:
    components.setdefault("config", RuntimeConfig(store=PATIENT))
    return create_context_engine("memory://", telemetry=heard.telemetry, **components)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.req("A-31")
def test_a_call_is_a_span_of_its_preparation_and_one_of_its_record(heard: Heard) -> None:
    engine = engine_of(heard)
    host = HostApp(engine, SCOPE)
    usage = Usage(30, 12, 42, details={"cache_read": 20})
    prepared = host.prepare(user("Where is the invoice?"))
    host.commit(prepared, assistant("In folder seven."), usage)
    engine.sync.close()
    (prepare,), (commit,) = heard.spans("ce.prepare"), heard.spans("ce.commit")
    told = attributes(prepare)
    assert told["gen_ai.conversation.id"] == "s"
    assert told["ce.tokens.used"] == prepared.report.token_used > 0
    assert told["ce.messages.sent"] == 1
    assert told["ce.unchanged"] is True
    assert prepare.start_time is not None
    assert prepare.end_time is not None
    assert prepare.start_time <= prepare.end_time <= (commit.end_time or 0)
    told = attributes(commit)
    assert told["gen_ai.usage.input_tokens"] == 30
    assert told["gen_ai.usage.output_tokens"] == 12
    assert told["gen_ai.usage.cache_read.input_tokens"] == 20
    assert told["ce.turn.status"] == "committed"
    assert "invoice" not in prepare.to_json() + commit.to_json()
    assert "folder" not in prepare.to_json() + commit.to_json()


@pytest.mark.req("A-31")
def test_a_search_is_a_span_inside_its_preparation(heard: Heard) -> None:
    config = RuntimeConfig(
        store=PATIENT, budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0)
    )
    engine = engine_of(heard, config=config)
    host = HostApp(engine, SCOPE)
    host.ask("The lighthouse belongs to the harbour team.", "Noted.")
    for n in range(12):
        host.ask(f"Tell me of stone {n}.", f"Stone {n} is grey and old. " * 8)
    host.ask("Who does the lighthouse belong to?", "The harbour team.")
    engine.sync.close()
    prepare = heard.spans("ce.prepare")[-1]
    assert attributes(prepare)["ce.messages.dropped"] > 0
    inside = [s for s in heard.spans("ce.recall") if s.parent and s.parent == prepare.context]
    assert inside
    assert all(attributes(span)["ce.candidates"] > 0 for span in inside)
    assert all(attributes(span)["ce.embedder"] == "none" for span in inside)


@pytest.mark.req("A-31")
def test_a_summary_is_a_span_with_what_it_used(heard: Heard) -> None:
    llm = MockLlmAdapter()
    engine = engine_of(heard, llm_adapter=llm)
    host = HostApp(engine, SCOPE)
    for n in range(12):
        host.ask(f"Tell me of stone {n}.", f"Stone {n} is grey.")
    assert engine.sync.summarize("s") is not None
    engine.sync.close()
    spans = heard.spans("ce.summary")
    assert sum(attributes(span)["ce.own_calls"] for span in spans) == len(llm.requests) > 0
    assert all(attributes(span)["gen_ai.usage.input_tokens"] > 0 for span in spans)
    assert "stone" not in " ".join(span.to_json() for span in spans)


@pytest.mark.req("A-31")
def test_a_call_that_failed_says_so(heard: Heard) -> None:
    engine = engine_of(heard)
    host = HostApp(engine, SCOPE)
    prepared = host.prepare(user("Where is it?"))
    engine.loop.run(engine.fail(prepared.turn, "TimeoutError"))
    engine.sync.close()
    (commit,) = heard.spans("ce.commit")
    assert attributes(commit)["ce.turn.status"] == "failed"
    assert attributes(commit)["error.type"] == "TimeoutError"
    assert attributes(commit)["ce.framework"] == "by-hand"


@pytest.mark.req("A-31")
def test_what_is_no_code_of_a_failure_is_not_told(heard: Heard) -> None:
    """An app may hand over what its client said, question and all."""
    engine = engine_of(heard)
    host = HostApp(engine, SCOPE)
    for code in (
        "could not answer ann@example.com",
        "ann@example.com",
        "13912345678",
        "RATE_LIMIT",
    ):
        prepared = host.prepare(user("Where?"))
        engine.loop.run(engine.fail(prepared.turn, code, partial="Well, ann@example.com"))
    told = [dict(span.attributes or {})["error.type"] for span in heard.spans("ce.commit")]
    assert told[0] == "error"
    assert told[-1] == "RATE_LIMIT"
    shown = "".join(str((s.attributes, s.status)) for s in heard.exporter.get_finished_spans())
    assert "ann" not in shown
    assert "13912345678" not in shown
    engine.sync.close()


@pytest.mark.req("A-31")
@pytest.mark.parametrize(
    "name", ["ann＠example．com", "ann\u200b@example.com", "ann%40example.com"]
)
def test_a_disguised_address_is_a_digest_too(heard: Heard, name: str) -> None:
    engine = engine_of(heard)
    HostApp(engine, Scope(session_id=name, agent_id=name)).ask("Where?", "There.")
    engine.sync.close()
    assert "example" not in str([s.attributes for s in heard.exporter.get_finished_spans()])


@pytest.mark.req("A-31")
def test_metrics_have_few_keys_and_lead_back_to_a_span(heard: Heard) -> None:
    engine = engine_of(heard)
    host = HostApp(engine, SCOPE)
    asked = [
        host.ask("My number is 13800138000.", "Noted."),
        host.ask("What is it?", "13800138000"),
    ]
    engine.sync.close()
    points = heard.points()
    assert {"ce.operation.duration", "ce.input.tokens", "ce.redactions"} <= points.keys()
    tokens = points["ce.input.tokens"]
    assert sum(point.count for point in tokens) == 2
    assert sum(point.sum for point in tokens) == sum(each.report.token_used for each in asked)
    spans = {span.context.span_id for span in heard.spans("ce.prepare") if span.context}
    assert {x.span_id for point in tokens for x in point.exemplars} <= spans
    assert any(point.exemplars for point in tokens)
    keys = {key for found in points.values() for point in found for key in point.attributes}
    assert "gen_ai.conversation.id" not in keys


@pytest.mark.req("A-31")
def test_a_store_that_is_away_and_a_degradation_are_counted(heard: Heard) -> None:
    store = SwitchStore()
    config = RuntimeConfig(store=StoreConfig(deadline_s=10, breaker_s=0.2))
    engine = create_context_engine(store, config=config, telemetry=heard.telemetry)
    host = HostApp(engine, SCOPE)
    host.ask("One", "1")
    store.refuses = True
    host.ask("Two", "2")
    host.ask("Three", "3")
    points = heard.points()
    assert sum(point.value for point in points["ce.store.breaker_trips"]) >= 1
    codes = {point.attributes["ce.code"] for point in points["ce.degradations"]}
    assert "CONTEXT_STORE_UNAVAILABLE" in codes
    store.refuses = False
    engine.sync.close()


@pytest.mark.req("A-31")
def test_what_is_redacted_is_counted_wherever_it_comes_from(heard: Heard) -> None:
    engine = engine_of(heard)
    host = HostApp(engine, SCOPE)

    def counted() -> int:
        return sum(point.value for point in heard.points().get("ce.redactions", []))

    host.ask("Hello?", "Write to bob@example.com.")
    assert counted() == 1
    host.ask("And to carol@example.com?", "Yes.")
    assert counted() == 2
    prepared = host.prepare(user("Mail her."))
    host.commit(prepared, tool_calls(("call_0", "mail", {"to": "dan@example.com"})))
    asked = counted()
    assert asked > 2
    run = ToolRun("mail", {"to": "erin@example.com"}, "sent to frank@example.com", "r-1", "call_0")
    engine.post_tool_run(SCOPE, run, request_id="request-3", framework="by-hand")
    assert engine.sync.flush(20)
    assert counted() > asked
    assert attributes(heard.spans("ce.commit")[0])["ce.redactions"] == 1
    engine.sync.close()
    told = "".join(span.to_json() for span in heard.exporter.get_finished_spans())
    assert "example.com" not in told


@pytest.mark.req("A-31")
def test_telemetry_that_fails_costs_the_app_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def operation(self, operation: object) -> None:
            raise RuntimeError("the collector is on fire")

        def count(self, name: str, attributes: object) -> None:
            raise RuntimeError("the collector is on fire")

    engine = create_context_engine(
        "memory://", config=RuntimeConfig(store=PATIENT), telemetry=Broken()
    )
    host = HostApp(engine, SCOPE)
    with caplog.at_level(logging.WARNING, "ce_engine"):
        host.ask("One", "1")
        host.ask("Two", "2")
    assert [r.message for r in caplog.records] == [
        "telemetry failed (RuntimeError); it is reported once"
    ]
    stored = engine.sync.get_session("s")
    assert stored is not None
    assert len(stored.session.messages) == 4
    engine.sync.close()


@pytest.mark.req("A-31", "B-02")
def test_an_id_with_somebodys_address_is_a_digest_and_nothing_learns_of_it(heard: Heard) -> None:
    stored = []
    without = create_context_engine("memory://", config=RuntimeConfig(store=PATIENT))
    for engine in (without, engine_of(heard)):
        for session in ("anna@example.com", "customer-17"):
            host = HostApp(engine, Scope(session_id=session))
            host.ask("Write to ben@example.com.", "Written to ben@example.com.")
            host.ask("And to carl@example.com.", "Done.")
            document = engine.sync.get_session(session)
            assert document is not None
            stored.append([message.content for message in document.session.messages])
        engine.sync.close()
    assert stored[:2] == stored[2:], "placeholders have other numbers with telemetry"
    ids = [attributes(span)["gen_ai.conversation.id"] for span in heard.spans("ce.prepare")]
    assert ids[2:] == ["customer-17", "customer-17"]
    assert ids[0] == ids[1]
    assert "anna" not in str([attributes(span) for span in heard.exporter.get_finished_spans()])


def test_the_environment_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_TELEMETRY", "otel")
    engine = create_context_engine(f"sqlite:///{tmp_path}/ce.db")
    HostApp(engine, SCOPE).ask("One", "1")
    engine.sync.close()
    monkeypatch.setenv("CE_TELEMETRY", "graphite")
    with pytest.raises(ConfigError, match="known: otel"):
        create_context_engine("memory://")


DASHBOARD = Path(__file__).parents[3] / "examples" / "grafana" / "dashboard.json"


@pytest.mark.skipif(
    Version(version("opentelemetry-exporter-prometheus")) < Version("0.66b0"),
    reason="older exporters have other labels; `py` has the latest",
)
def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    meters = MeterProvider(metric_readers=[PrometheusMetricReader()])
    telemetry = OpenTelemetry(meter_provider=meters)
    store = SwitchStore()
    config = RuntimeConfig(store=StoreConfig(deadline_s=10, breaker_s=0.2))
    engine = create_context_engine(store, config=config, telemetry=telemetry)
    host = HostApp(engine, SCOPE)
    host.ask("One", "1", model_hint="gpt-4o")
    store.refuses = True
    host.ask("Two", "2", model_hint="gpt-4o")
    engine.post_fault("CONTEXT_X", "before_model", "langchain")
    exported = generate_latest(REGISTRY).decode()
    meters.shutdown()
    store.refuses = False
    engine.sync.close()
    there = set(re.findall(r"^(ce_\w+)[{ ]", exported, re.MULTILINE))
    labels = set(re.findall(r"(\w+)=\"", exported))
    board = DASHBOARD.read_text(encoding="utf-8")
    asked = [t["expr"] for panel in json.loads(board)["panels"] for t in panel["targets"]]
    assert asked
    for expression in asked:
        names = set(re.findall(r"\bce_\w+(?=[{\[])", expression))
        assert names, expression
        assert names <= there, names - there
        by = {
            each.strip()
            for found in re.findall(r"by \(([^)]*)\)", expression)
            for each in found.split(",")
        }
        assert by <= labels, by - labels
