"""LangChain in `overhead.py`: a chain of prompt, model and parser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from overhead_talk import ANSWER, ANSWERS_AFTER_S, App, bare, clocks, since, texts

from ce_integrations.langchain import install_ce


__all__ = ["APP", "MODES", "VARIANTS", "install_ce"]


class Chain(App):
    """Its talk is a variable of the prompt, its session in the call's config."""

    def __init__(self, messages: int) -> None:
        prompt = ChatPromptTemplate.from_messages(
            [("system", "You are a travel agent."), MessagesPlaceholder("talk"), ("human", "{q}")]
        )
        model = FakeListChatModel(responses=[ANSWER], sleep=ANSWERS_AFTER_S)
        super().__init__(prompt | model | StrOutputParser(), messages)
        self.talk: list[BaseMessage] = []

    def given(self) -> tuple[dict[str, Any], Any]:
        if self.begins:
            kinds = (HumanMessage, AIMessage)
            self.talk = [kinds[n % 2](text) for n, text in enumerate(texts(self.messages))]
        question, session = self.asked()
        return {"talk": self.talk, "q": question}, {"configurable": {"thread_id": session}}

    def heard(self, given: dict[str, Any], answer: str) -> None:
        if self.messages:
            self.talk = [*self.talk, HumanMessage(given["q"]), AIMessage(answer)]

    def invoke(self) -> list[float]:
        given, config = self.given()
        start = clocks()
        answer = self.target.invoke(given, config)
        took = since(start)
        self.heard(given, answer)
        return took

    async def ainvoke(self) -> list[float]:
        given, config = self.given()
        start = clocks()
        answer = await self.target.ainvoke(given, config)
        took = since(start)
        self.heard(given, answer)
        return took


class NoOp(BaseCallbackHandler):
    """Hears everything and does nothing."""


@contextmanager
def no_op(app: App) -> Iterator[None]:
    app.target = app.target.with_config(callbacks=[NoOp()])
    yield


@contextmanager
def open_inference(_: App | None = None) -> Iterator[None]:
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    yield
    LangChainInstrumentor().uninstrument()
    assert spans.get_finished_spans()


APP, MODES = Chain, ("invoke", "ainvoke")
VARIANTS = {"bare": bare, "no_op": no_op, "open_inference": open_inference}
