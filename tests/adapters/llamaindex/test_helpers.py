"""What is asked beside the answer: recorded as helpers' calls, nothing put in, no row in the talk; and our own summaries."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import RouterQueryEngine, TransformQueryEngine
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool
from pydantic import BaseModel

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
from ce_integrations.llamaindex import LlamaIndexLlmAdapter, install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf


SCOPE = Scope(session_id="s")
SECRET_RULE = "Answer in verse."


def purposes(engine: Any) -> list[str]:
    assert engine.sync.flush()
    return [turn.purpose for turn in engine.loop.run(engine.store.list_turns(SCOPE))]


class Answer(BaseModel):
    """An answer in a form."""

    words: str


def reranking(llm: Any) -> Any:
    return shelf.query(llm, node_postprocessors=[LLMRerank(llm=llm, top_n=1)])


def routing(llm: Any) -> Any:
    tools = [
        QueryEngineTool.from_defaults(shelf.query(llm), name=name, description=name)
        for name in ("one", "two")
    ]
    return RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=llm), query_engine_tools=tools, llm=llm
    )


def transforming(llm: Any) -> Any:
    return TransformQueryEngine(shelf.query(llm), HyDEQueryTransform(llm=llm))


ASIDE = {
    reranking: "Doc: 1, Relevance: 9\nDoc: 2, Relevance: 7",
    routing: '[{"choice": 1, "reason": "it fits"}]',
    transforming: "A passage that may be.",
}


@pytest.mark.scenario(4)
@pytest.mark.parametrize("how", ["query", "aquery"])
@pytest.mark.parametrize("kind", list(ASIDE))
def test_what_is_asked_beside_a_query(
    kind: Any, how: str, model: Any, call: Any, engine: Any, stored: Any
) -> None:
    engine.sync.constraints.create(SCOPE, SECRET_RULE)
    with Wire([text(ASIDE[kind]), text("A line.")]) as wire:
        asked = kind(model(wire))
        with install_ce(asked, engine=engine, session_id="s"):
            assert "".join(call(asked, how, "What is a lane?")) == "A line."
        aside, answer = wire.bodies
    assert purposes(engine) == ["helper", "chat"]
    assert SECRET_RULE not in str(aside)
    assert SECRET_RULE in str(answer)
    assert [m.content for m in stored("s").session.messages if m.role == "assistant"] == ["A line."]


@pytest.mark.scenario(3)
def test_an_answer_that_is_put_in_another_form(
    model: Any, runner: Any, engine: Any, stored: Any
) -> None:
    script = [text("A line."), tool_calls([("Answer", {"words": "A line."})])]
    with Wire(script) as wire:
        agent = FunctionAgent(llm=model(wire), output_cls=Answer)
        with install_ce(agent, engine=engine):

            async def run() -> Any:
                return await agent.run("What is a lane?", memory=shelf.memory())

            result = runner.run(run(), context=copy_context())
        assert result.structured_response == {"words": "A line."}
        assert len(wire.requests) == 2
    assert purposes(engine) == ["chat", "helper"]
    assert [m.content for m in stored("s").session.messages] == ["What is a lane?", "A line."]


# The app's own model, for summaries


@pytest.mark.req("A-16", "E-06")
def test_the_app_s_own_model_sums_up_and_its_calls_are_no_turns(model: Any, call: Any) -> None:
    def answer(body: Any) -> str:
        first = str(body["messages"][0]["content"])
        return "they counted to two" if "running summary" in first else "yes"

    config = RuntimeConfig(
        summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2),
        store=StoreConfig(deadline_s=20),
    )
    with Wire(answer) as wire:
        llm = model(wire)
        engine = create_context_engine(
            MemoryStore(), llm_adapter=LlamaIndexLlmAdapter(llm), config=config
        )
        chat = shelf.simple(llm)
        with install_ce(chat, engine=engine):
            for n in range(1, 5):
                call(chat, "chat", f"count {n}")
                assert engine.sync.flush(20)
        assert purposes(engine) == ["chat"] * 4
        assert len(wire.requests) > 4
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    assert "they counted to two" in str(document.session.summary)
    stages = [usage.stage for usage in document.session.model_usage]
    assert stages.count(ModelUsageStage.SUMMARIZE) == len(wire.requests) - 4
    engine.sync.close()


async def test_the_model_is_asked_on_a_thread_of_its_own(model: Any) -> None:
    parts = [MessagePart(role=Role.SYSTEM, content="s"), MessagePart(role=Role.USER, content="u")]
    with Wire("摘要") as wire:
        found = await LlamaIndexLlmAdapter(model(wire)).generate(LlmRequest(parts))
        (body,) = wire.bodies
    assert [(m["role"], m["content"]) for m in body["messages"]] == [("system", "s"), ("user", "u")]
    assert (found.content, found.model) == ("摘要", "gpt-4")
    assert found.total_tokens == found.prompt_tokens + found.completion_tokens > 0
