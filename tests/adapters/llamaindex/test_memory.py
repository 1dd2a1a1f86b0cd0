"""Memories: they hold what they held without us, and what they ask for themselves is a helper's call."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import (
    ChatMemoryBuffer,
    ChatSummaryMemoryBuffer,
    FactExtractionMemoryBlock,
    Memory,
)

from ce_engine import BudgetConfig, RuntimeConfig, Scope
from ce_integrations.testing.answers import text, tool_calls
from tests.adapters.llamaindex import shelf
from tests.adapters.llamaindex.releases import make_agent


pytestmark = pytest.mark.scenario(6)
TIGHT = RuntimeConfig(budget=BudgetConfig(max_input_tokens=700))
QUESTIONS = [f"page {n}? " + "many words " * 20 for n in range(6)]


def read(page: int) -> str:
    """Read a page."""
    return f"page {page}: 这里写着一些内容 " * 12


def memories(kind: str) -> Any:
    if kind == "Memory":
        return Memory.from_defaults(session_id="s", token_limit=1_000_000)
    return ChatMemoryBuffer.from_defaults(token_limit=1_000_000, chat_store_key="s")


SCRIPT = [
    each
    for n in range(6)
    for each in (tool_calls([("read", {"page": n})]), text(f"Page {n} it is."))
]


def shown(message: Any) -> tuple[Any, ...]:
    return message.role, message.content, message.additional_kwargs.get("tool_call_id")


@pytest.mark.parametrize("config", [None, TIGHT], ids=["room", "tight"])
@pytest.mark.parametrize("kind", ["Memory", "ChatMemoryBuffer"])
def test_a_memory_holds_what_it_held(
    kind: str, config: Any, twins: Any, model: Any, runner: Any, stored: Any
) -> None:
    def drive(agent: Any) -> Any:
        held = memories(kind)

        async def talk() -> list[Any]:
            for question in QUESTIONS:
                await agent.run(question, memory=held)
            found = [shown(message) for message in await held.aget_all()]
            await shelf.close(held)
            return found

        return runner.run(talk(), context=copy_context())

    found = twins(lambda wire: make_agent(model(wire), [read], "S"), drive, SCRIPT, config=config)
    assert found.results[0] == found.results[1]
    assert len(found.results[0]) == 4 * len(QUESTIONS)
    assert len(stored("s").session.messages) == 4 * len(QUESTIONS)
    assert (found.ours == found.plain) == (config is None)
    for body in found.bodies:
        assert body["messages"][-1]["role"] in ("user", "tool")
        assert any(
            QUESTIONS[n // 2] in str(m["content"]) for n in range(12) for m in body["messages"]
        )


def test_what_a_memory_sums_up_is_a_helper_s_call(
    twins: Any, model: Any, engine: Any, stored: Any
) -> None:
    def build(wire: Any) -> Any:
        llm = model(wire)
        held = ChatSummaryMemoryBuffer.from_defaults(llm=llm, token_limit=60, chat_store_key="s")
        return SimpleChatEngine.from_defaults(llm=llm, memory=held)

    found = twins(
        build, lambda chat: [str(chat.chat(question)) for question in QUESTIONS[:4]], "Fine."
    )
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    assert engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
    asked = [turn.purpose for turn in turns]
    assert asked.count("chat") == 4
    assert asked.count("helper") == len(found.ours) - 4 > 0
    assert [m.content for m in stored("s").session.messages if m.role == "user"] == QUESTIONS[:4]


@pytest.mark.needs("memory_blocks")
def test_facts_that_a_memory_extracts_are_helpers_calls(
    twins: Any, model: Any, runner: Any, engine: Any
) -> None:
    def build(wire: Any) -> Any:
        return make_agent(model(wire), [], "S")

    def drive(agent: Any) -> Any:
        (made,) = getattr(agent, "agents", {"": agent}).values()
        block = FactExtractionMemoryBlock(llm=made.llm, name="facts", max_facts=5)
        held = Memory.from_defaults(
            session_id="s",
            token_limit=120,
            chat_history_token_ratio=0.5,
            memory_blocks=[block],
            token_flush_size=40,
        )

        async def talk() -> list[str]:
            found = [str(await agent.run(question, memory=held)) for question in QUESTIONS[:4]]
            await shelf.close(held)
            return found

        return runner.run(talk(), context=copy_context())

    answer = "<facts><fact>It is fine.</fact></facts>"
    found = twins(build, drive, answer)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    assert engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
    asked = [turn.purpose for turn in turns]
    assert asked.count("chat") == 4
    assert asked.count("helper") == len(found.ours) - 4 > 0
