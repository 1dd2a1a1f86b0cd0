"""Beside OpenInference and Langfuse in one process: they lose no span, none of theirs changes its parent (A-31)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import count
from typing import Any

import pytest


LIBRARIES = "langfuse, openinference-instrumentation-langchain and langchain (`tox -e tracers`)"
langfuse = pytest.importorskip("langfuse", reason=f"needs {LIBRARIES}")
openinference = pytest.importorskip(
    "openinference.instrumentation.langchain", reason=f"needs {LIBRARIES}"
)
pytest.importorskip("langchain_openai", reason=f"needs {LIBRARIES}")

from langchain.agents import create_agent
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langfuse.langchain import CallbackHandler
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from ce_engine import BudgetConfig, OpenTelemetry, RuntimeConfig, create_context_engine
from ce_integrations.langchain import install_ce
from ce_integrations.testing.answers import Answer, Call, text
from ce_integrations.testing.wire import Wire


OURS = "ce_engine"
QUESTIONS = ["灯塔项目由哪个小组负责？" * 20, "And then? " * 40, "继续。" * 40]
TIGHT = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0))
NOBODY = "http://127.0.0.1:9/v1"
keys = count()


class Tracers:
    """OpenInference and Langfuse on one provider, and what each of them exports."""

    def __init__(self) -> None:
        self.all, self.langfuse_spans = InMemorySpanExporter(), InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.all))
        self.langfuse = langfuse.Langfuse(
            public_key=f"pk-{next(keys)}",
            secret_key="sk-none",
            base_url="http://127.0.0.1:9",
            tracer_provider=self.provider,
            span_exporter=self.langfuse_spans,
            should_export_span=not_ours,
        )
        self.instrumentor = openinference.LangChainInstrumentor()
        self.instrumentor.instrument(tracer_provider=self.provider)

    def close(self) -> None:
        self.instrumentor.uninstrument()
        self.langfuse.shutdown()

    def spans(self) -> list[ReadableSpan]:
        return list(self.all.get_finished_spans())


def not_ours(span: ReadableSpan) -> bool:
    """The filter of docs/telemetry.md."""
    scope = span.instrumentation_scope
    return bool(langfuse.is_default_export_span(span)) and (scope is None or scope.name != OURS)


def is_ours(span: ReadableSpan) -> bool:
    return span.instrumentation_scope is not None and span.instrumentation_scope.name == OURS


def tree(spans: list[ReadableSpan]) -> Counter[tuple[str, ...]]:
    """Each span's names from the root to it, and how it ended, however many there are of it."""
    by_id = {span.context.span_id: span for span in spans}

    def path(span: ReadableSpan) -> tuple[str, ...]:
        if span.parent is None:
            return (span.name,)
        assert span.parent.span_id in by_id, f"the parent of {span.name} was never exported"
        return (*path(by_id[span.parent.span_id]), span.name)

    return Counter((*path(span), span.status.status_code.name) for span in spans)


def model(url: str) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4", base_url=url, api_key=SecretStr("none"), max_retries=0)


def chain(url: str) -> Any:
    return ChatPromptTemplate.from_messages([("human", "{q}")]) | model(url) | StrOutputParser()


Job = Callable[[Any, dict[str, Any]], None]


def invoked(app: Any, config: dict[str, Any]) -> None:
    for question in QUESTIONS:
        app.invoke({"q": question}, config)


def streamed(app: Any, config: dict[str, Any]) -> None:
    for question in QUESTIONS:
        assert "".join(app.stream({"q": question}, config))


def awaited(app: Any, config: dict[str, Any]) -> None:
    async def ask() -> None:
        await asyncio.gather(*(app.ainvoke({"q": question}, config) for question in QUESTIONS))
        async for _ in app.astream({"q": "once more"}, config):
            pass

    asyncio.run(ask())


def in_threads(app: Any, config: dict[str, Any]) -> None:
    with ThreadPoolExecutor(3) as pool:
        waiting = [
            pool.submit(copy_context().run, app.invoke, {"q": question}, config)
            for question in QUESTIONS
        ]
        for each in waiting:
            each.result()


def refused(app: Any, config: dict[str, Any]) -> None:
    """The model cannot be reached: the app gets its exception, and spans tell of it."""
    with pytest.raises(Exception, match=r"(?i)connection|error"):
        app.invoke({"q": "Hello?"}, config)


@pytest.fixture
def tracers() -> Iterator[Callable[[], Tracers]]:
    made: list[Tracers] = []

    def make() -> Tracers:
        if made:
            made[-1].close()
        made.append(Tracers())
        return made[-1]

    yield make
    made[-1].close()


def traced(
    made: Tracers, make_app: Callable[[str], Any], job: Job, *, install: bool, handler: bool
) -> int:
    """Run the job under an observation of Langfuse's, and answer how many calls went out."""
    script = [text(f"第{n}个答复。") for n in range(8)]
    if make_app is agent:
        script = [Answer(calls=(Call("look_up", '{"word": "灯塔"}'),)), text("港口组。")]
    engine = create_context_engine(
        "memory://", config=TIGHT, telemetry=OpenTelemetry(tracer_provider=made.provider)
    )
    with Wire(script) as wire:
        app = make_app(NOBODY if job is refused else wire.base_url)
        installation = install_ce(app, engine=engine, session_id="s") if install else None
        config: dict[str, Any] = (
            {"callbacks": [CallbackHandler(public_key=made.langfuse._resources.public_key)]}
            if handler
            else {}
        )
        with made.langfuse.start_as_current_observation(name="request"):
            job(app, config)
        if installation is not None:
            installation.flush()
            installation.uninstall()
        engine.sync.close()
        made.langfuse.flush()
        return len(wire.requests)


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a lighthouse"


def agent(url: str) -> Any:
    return create_agent(model(url), [look_up])


def asked_agent(app: Any, config: dict[str, Any]) -> None:
    app.invoke({"messages": [("user", "什么是灯塔？")]}, config)


CASES = [
    (chain, invoked),
    (chain, streamed),
    (chain, awaited),
    (chain, in_threads),
    (chain, refused),
    (agent, asked_agent),
]


@pytest.mark.req("A-31")
@pytest.mark.parametrize("handler", [False, True], ids=["", "with Langfuse's handler"])
@pytest.mark.parametrize(("make_app", "job"), CASES, ids=lambda each: each.__name__)
def test_their_spans_are_the_same_with_us(
    make_app: Callable[[str], Any],
    job: Job,
    handler: bool,
    tracers: Callable[[], Tracers],
) -> None:
    bare = tracers()
    traced(bare, make_app, job, install=False, handler=handler)
    ours = tracers()
    calls_out = traced(ours, make_app, job, install=True, handler=handler)
    theirs = [span for span in ours.spans() if not is_ours(span)]
    assert tree(theirs) == tree(bare.spans())
    assert len({span.context.trace_id for span in ours.spans()}) == len(
        {span.context.trace_id for span in bare.spans()}
    )
    exported = [ours.langfuse_spans, bare.langfuse_spans]
    sent, before = ([*each.get_finished_spans()] for each in exported)
    assert tree(sent) == tree(before)
    mine = [span for span in ours.spans() if is_ours(span)]
    names = Counter(span.name for span in mine)
    if job is not refused:
        assert names["ce.prepare"] == names["ce.commit"] == calls_out > 0
    tree(ours.spans())  # every parent is there
    assert all(span.parent is not None for span in mine), "a trace of its own"
    taken = {span.name for span in mine if langfuse.is_default_export_span(span)}
    assert {"ce.prepare", "ce.commit"} <= taken, "docs/telemetry.md says that Langfuse takes them"
