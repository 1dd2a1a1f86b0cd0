"""The demo on AutoGen: a long session of two agents, offline and over a strict provider, within the budget."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from ce_engine import EvidenceType
from ce_integrations.autogen.demo import DEMO
from ce_integrations.autogen.demo_model import OfflineClient
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.testing.answers import Answer, Call, JsonObject
from tests.adapters.demos import PACKAGES, DemoTests, Run


class TestDemo(DemoTests):
    demo = DEMO

    @classmethod
    def answer(cls, body: JsonObject) -> Answer:
        model = OfflineClient(QuotingModel(frozenset(PACKAGES)))
        tools = [tool["function"] for tool in body.get("tools", ())]
        said = asyncio.run(model.create([*map(message, body["messages"])], tools=tools))
        if isinstance(said.content, str):
            return Answer(content=said.content)
        return Answer(calls=tuple(Call(c.name, c.arguments, c.id) for c in said.content))

    def test_each_of_the_two_has_its_lane(self, ran: Run) -> None:
        assert {turn.lane for turn in ran.turns} == {"agent", "reader"}
        authors = {m.author.id for m in ran.document.session.messages if m.author is not None}
        assert {"user", "agent", "reader"} <= authors

    def test_each_kind_of_evidence_is_there(self, ran: Run) -> None:
        kinds = {evidence.type for evidence in ran.document.evidences.values()}
        assert kinds == {EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC, EvidenceType.LLM_OUTPUT}


def message(said: dict[str, Any]) -> LLMMessage:
    """A message of a body as AutoGen has it."""
    content = said.get("content") or ""
    if said["role"] == "system":
        return SystemMessage(content=content)
    if said["role"] == "user":
        return UserMessage(content=content, source="user")
    if said["role"] == "tool":
        result = FunctionExecutionResult(
            content=content, name="lookup", call_id=said["tool_call_id"], is_error=False
        )
        return FunctionExecutionResultMessage(content=[result])
    calls = [
        FunctionCall(call["id"], json.dumps(json.loads(call["function"]["arguments"])), "lookup")
        for call in said.get("tool_calls") or ()
    ]
    return AssistantMessage(content=calls or content, source="agent")
