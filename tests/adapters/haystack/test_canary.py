"""What the redactor must catch, through every door that Haystack has: in no byte of the store, no log, no report."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.query import QueryExpander
from haystack.dataclasses import ChatMessage
from haystack.tools.tool import Tool

from ce_engine import ContextEngine
from ce_integrations.haystack import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.canary import CanaryTests, Places
from tests.adapters.haystack.conftest import MakeModel
from tests.canary.canaries import Canaries


@component
class Telling:
    """Its documents tell too much."""

    def __init__(self, canary: Canaries) -> None:
        self._canary = canary

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        c = self._canary
        meta = {"source": c("source"), c("metadata key"): c("metadata")}
        return {"documents": [Document(c("document id"), c("document"), meta=meta, score=0.5)]}


def tool(canary: Canaries) -> Tool:
    def send(to: str) -> str:
        if to == "nobody":
            raise ValueError(canary("tool error"))
        return canary("tool result")

    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    return Tool("send", canary("tool description"), schema, send)


def parts(model: Any, other: Any, helper: Any, canary: Canaries) -> tuple[Agent, Pipeline]:
    agent = Agent(chat_generator=model, tools=[tool(canary)], system_prompt=canary("system"))
    template = [
        ChatMessage.from_system(canary("prompt")),
        ChatMessage.from_user("{% for each in documents %}{{each.content}}{% endfor %}{{query}}"),
    ]
    pipeline = Pipeline()
    pipeline.add_component("expander", QueryExpander(chat_generator=helper))
    pipeline.add_component("telling", Telling(canary))
    pipeline.add_component("prompt", ChatPromptBuilder(template=template))
    pipeline.add_component("llm", other)
    pipeline.connect("telling.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    return agent, pipeline


def talk(agent: Agent, pipeline: Pipeline, canary: Canaries) -> None:
    """An agent with three tool rounds of which two fail, and a pipeline that streams."""
    asked = ChatMessage.from_user(canary("question"), meta={canary("meta key"): canary("meta")})
    context = {"session_id": "s", canary("context key"): canary("context")}
    agent.run(messages=[asked], hook_context=context)
    query = canary("query")
    told = {name: {"query": query} for name in ("expander", "telling", "prompt")}
    pipeline.run({**told, "llm": {"streaming_callback": lambda _: None}})


class TestCanaries(CanaryTests):
    @pytest.mark.req("B-02")
    def test_no_canary_is_left(
        self, model: MakeModel, engine: ContextEngine, canary: Canaries, places: Places
    ) -> None:
        script = [
            tool_calls([("send", {"to": canary("tool args")})]),
            tool_calls([("send", {"to": "nobody"}), ("nothing", {"to": canary("tool args")})]),
            *(text(canary("answer")) for _ in range(3)),
        ]
        with Wire(script) as wire:
            agent, pipeline = parts(model(wire), model(wire), model(wire), canary)
            with (
                install_ce(agent, engine=engine) as installation,
                install_ce(pipeline, engine=engine, session_id="s"),
            ):
                talk(agent, pipeline, canary)
                assert installation.flush()
            assert len(wire.requests) == len(script)
        places.judge(canary, installation.last_report("s"))
