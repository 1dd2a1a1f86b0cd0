"""In every framework the engine's spans stand under the app's own, and say the same of the same job."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ce_engine import BudgetConfig, OpenTelemetry, create_context_engine
from ce_engine.testing.faults import SwitchStore
from ce_integrations.testing.answers import text
from ce_integrations.testing.framework_apps import FrameworkApps
from ce_integrations.testing.side_by_side import PATIENT, SideBySide
from ce_integrations.testing.wire import Wire
from tests.parity.scenario import BUDGET, FACT, FRAMEWORKS, apps_of, installed


HERE = [name for name in FRAMEWORKS if installed(name)]
QUESTIONS = [FACT, "Go on. 继续。", "And then? 然后呢？"]


class Watched(SideBySide):
    """One test's engine, which tells OpenTelemetry of its work."""

    def __init__(self, apps: FrameworkApps) -> None:
        super().__init__(apps)
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("the app")
        self.engine.sync.close()
        self.engine = create_context_engine(
            SwitchStore(), config=PATIENT, telemetry=OpenTelemetry(tracer_provider=provider)
        )
        self.store = self.engine.store  # type: ignore[assignment]  # it is one

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.mark.req("A-31")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("way", ["sync", "async", "stream", "astream"])
def test_spans_stand_under_the_app_s_own(framework: str, way: str) -> None:
    if framework not in HERE:
        pytest.skip(f"{framework} is not installed")
    apps = apps_of(framework)[0]()
    ways = apps.adapter.capabilities.ways
    if way not in ways:
        pytest.skip(f"{framework} has no such way")
    script = [text(f"第{n}个答复。{'岸' * 300}") for n in range(len(QUESTIONS))]
    with Watched(apps) as trial, Wire(script) as wire:
        drive = trial.asking(QUESTIONS, next(each for each in ways if each == way))
        budget = BudgetConfig(max_input_tokens=BUDGET // 2, reserved_reply_tokens=0)
        with trial.tracer.start_as_current_span("request") as request:
            trial.installed(wire, apps.make_target(wire), drive, budget=budget)
            assert trace.get_current_span() is request, "something was attached"
        prepares, commits = trial.spans("ce.prepare"), trial.spans("ce.commit")
        assert len(prepares) == len(commits) == len(wire.requests) == len(trial.turns())
        context = request.get_span_context()
        for span in (*prepares, *commits):
            assert span.parent is not None, "a trace of its own"
            assert span.parent.span_id == context.span_id
            assert span.context.trace_id == context.trace_id
        name = apps.adapter.name
        assert {span.attributes["ce.framework"] for span in prepares if span.attributes} == {name}
        used = [turn.report["token_used"] for turn in trial.turns()]
        assert [s.attributes["ce.tokens.used"] for s in prepares if s.attributes] == used
        found = {s.attributes["ce.turn.status"] for s in commits if s.attributes}
        assert found == {"committed"}
        written = " ".join(span.to_json() for span in trial.exporter.get_finished_spans())
        assert "灯塔" not in written
        assert "答复" not in written
