"""Summaries by the app's own model: its calls go out like any other, and are nobody's turns."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate

from ce_engine import (
    LlmRequest,
    MemoryStore,
    MessagePart,
    ModelUsageStage,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    SummaryConfig,
    create_context_engine,
)
from ce_integrations.langchain import LangChainLlmAdapter, install_ce
from ce_integrations.testing.wire import Wire


REQUEST = LlmRequest(
    [MessagePart(role=Role.SYSTEM, content="s"), MessagePart(role=Role.USER, content="u")]
)
CONFIG = RuntimeConfig(
    summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2),
    store=StoreConfig(deadline_s=20),
)


def is_for_a_summary(body: Any) -> bool:
    return "running summary" in str(body["messages"][0]["content"])


@pytest.mark.req("A-16", "E-06")
def test_the_app_s_governed_model_makes_them_and_its_calls_are_no_turns(
    chat: Any, call: Any
) -> None:
    def answer(body: Any) -> str:
        return "they counted to two" if is_for_a_summary(body) else "yes"

    with Wire(answer) as wire:
        model = chat(wire)
        engine = create_context_engine(
            MemoryStore(), llm_adapter=LangChainLlmAdapter(model), config=CONFIG
        )
        chain = ChatPromptTemplate.from_messages([("human", "{q}")]) | model | StrOutputParser()
        with install_ce(chain, engine=engine, session_id="s", history=True):
            for n in range(1, 5):
                call(chain, {"q": f"count {n}"})
                assert engine.sync.flush(20)
        scope = Scope(session_id="s")
        document = engine.loop.run(engine.store.get_session(scope))
        turns = engine.loop.run(engine.store.list_turns(scope))
        engine.sync.close()
        bodies = wire.bodies
    assert wire.refusals == []
    assert [is_for_a_summary(body) for body in bodies] == [False] * 3 + [True, False]
    assert document is not None
    assert document.session.summary is not None
    assert document.session.summary.content == "they counted to two"
    assert len(turns) == 4
    contents = [m.content for m in document.session.messages]
    assert contents == [text for n in range(1, 5) for text in (f"count {n}", "yes")]
    [usage] = [u for u in document.session.model_usage if u.stage is ModelUsageStage.SUMMARIZE]
    assert usage.total_tokens > 0
    assert "estimated" not in usage.params
    last = str(bodies[-1]["messages"])
    assert last.count("they counted to two") == 1
    assert [last.count(f"count {n}") for n in range(1, 5)] == [0, 0, 1, 1]


class Awaited(FakeListChatModel):
    """Can only be awaited."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = AIMessage(f"awaited {messages[-1].content}")
        return ChatResult(generations=[ChatGeneration(message=said)])


class Failing(FakeListChatModel):
    def _call(self, *args: Any, **kwargs: Any) -> str:
        raise ValueError("no")


async def test_models_of_both_kinds() -> None:
    plain = await LangChainLlmAdapter(FakeListChatModel(responses=["plain"])).generate(REQUEST)
    assert (plain.content, plain.total_tokens) == ("plain", 0)
    awaited = await LangChainLlmAdapter(Awaited(responses=[])).generate(REQUEST)
    assert awaited.content == "awaited u"


async def test_its_error_comes_through_and_who_is_cancelled_waits_no_more() -> None:
    with pytest.raises(ValueError, match="no"):
        await LangChainLlmAdapter(Failing(responses=[])).generate(REQUEST)
    slow = FakeListChatModel(responses=["late"], sleep=0.2)
    with anyio.move_on_after(0.01) as scope:
        await LangChainLlmAdapter(slow).generate(REQUEST)
    assert scope.cancelled_caught
