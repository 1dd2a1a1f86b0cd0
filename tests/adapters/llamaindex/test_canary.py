"""What the redactor must catch, through every door that LlamaIndex has: in no byte of the store, no log, no report."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation.dispatcher import instrument_tags

from ce_engine import ContextEngine
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.canary import CanaryTests, Places
from tests.adapters.llamaindex import shelf
from tests.canary.canaries import Canaries


class Telling(BaseRetriever):
    """Its documents tell too much."""

    def __init__(self, canary: Canaries) -> None:
        super().__init__()
        self._canary = canary

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        c = self._canary
        metadata = {"source": c("source"), c("metadata key"): c("metadata")}
        node = TextNode(text=c("document"), id_=c("document id"), metadata=metadata)
        return [NodeWithScore(node=node, score=0.5)]


def tool(canary: Canaries) -> FunctionTool:
    def send(to: str) -> str:
        if to == "nobody":
            raise ValueError(canary("tool error"))
        return canary("tool result")

    return FunctionTool.from_defaults(send, description=canary("tool description"))


def parts(llm: Any, canary: Canaries) -> tuple[Any, Any]:
    agent = FunctionAgent(
        name="agent",
        description=canary("agent description"),
        llm=llm,
        tools=[tool(canary)],
        system_prompt=canary("system"),
    )
    chat = ContextChatEngine.from_defaults(
        retriever=Telling(canary), llm=llm, memory=shelf.memory(), system_prompt=canary("prompt")
    )
    return agent, chat


async def talk(agent: Any, chat: Any, llm: Any, canary: Canaries) -> None:
    """An agent with two tool rounds of which one fails, a chat engine, and a model by itself."""
    with instrument_tags({canary("tag key"): canary("tag"), "session_id": "s"}):
        await agent.run(canary("question"), memory=shelf.memory())
        await chat.achat(canary("query"))
        llm.complete(canary("completion"))
        given = {canary("message key"): canary("message extra")}
        asked = ChatMessage(role="user", content=canary("question"), additional_kwargs={})
        asked.additional_kwargs = {"reference": given}
        await llm.achat([ChatMessage(role="system", content=canary("system")), asked])


class TestCanaries(CanaryTests):
    @pytest.mark.req("B-02")
    def test_no_canary_is_left(
        self, model: Any, runner: Any, engine: ContextEngine, canary: Canaries, places: Places
    ) -> None:
        script = [
            tool_calls([("send", {"to": canary("tool args")})]),
            tool_calls([("send", {"to": "nobody"})]),
            *(text(canary("answer")) for _ in range(4)),
        ]
        with Wire(script, message_keys=["reference"]) as wire:
            llm = model(wire)
            agent, chat = parts(llm, canary)
            with install_ce(agent, engine=engine) as installation, install_ce(chat, engine=engine):
                runner.run(talk(agent, chat, llm, canary), context=copy_context())
                assert installation.flush()
            assert len(wire.requests) == len(script)
        places.judge(canary, installation.last_report("s"))
