"""An app of one framework in a tool of another's agent: each call is its own framework's, and all are of one session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from haystack import Pipeline
from haystack.dataclasses import ChatMessage
from semantic_kernel.agents import ChatCompletionAgent

from ce_engine import ContextEngine, Scope
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce as install_on_autogen
from ce_integrations.haystack import install_ce as install_on_haystack
from ce_integrations.semantic_kernel import install_ce as install_on_semantic_kernel
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.contract_apps import Client
from tests.adapters.haystack.contract_apps import Model
from tests.adapters.semantic_kernel.contract_apps import Service


QUESTION = "什么是 lane?"
ANSWERS = [tool_calls([("look", {"question": QUESTION})]), text("一条线"), text("so")]


def in_haystack(wire: Wire, question: str, engine: ContextEngine) -> Iterator[Any]:
    pipeline = Pipeline()
    pipeline.add_component("model", Model(wire))
    yield install_on_haystack(pipeline, engine=engine)
    result = pipeline.run({"model": {"messages": [ChatMessage.from_user(question)]}})
    yield result["model"]["replies"][0].text


def in_semantic_kernel(wire: Wire, question: str, engine: ContextEngine) -> Iterator[Any]:
    agent = ChatCompletionAgent(service=Service(wire), name="inner")  # its service has no mark
    yield install_on_semantic_kernel(agent, engine=engine)

    async def ask() -> str:
        return str((await agent.get_response(question)).content)

    yield asyncio.run(ask())


@pytest.mark.parametrize("inner", [in_haystack, in_semantic_kernel])
def test_an_app_in_another_framework_s_tool_is_governed_as_its_own(
    engine: ContextEngine, inner: Any
) -> None:
    with Wire(ANSWERS) as wire:
        app = inner(wire, QUESTION, engine)

        def look(question: str) -> str:
            """Look something up."""
            return str(next(app))

        outer = AssistantAgent("outer", Client(wire), tools=[look], reflect_on_tool_use=True)
        installed = [next(app), install_on_autogen(outer, engine=engine)]
        with ce_session("s"):
            result = asyncio.run(outer.run(task="look"))
        for each in installed:
            assert each.flush()
            assert each.faults == ()
            each.uninstall()
        assert len(wire.bodies) == 3
    assert str(getattr(result.messages[-1], "content", "")) == "so"
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
    name = inner.__name__.removeprefix("in_")
    assert [turn.framework for turn in turns] == ["autogen", name, "autogen"]
    assert {turn.status for turn in turns} == {"committed"}
