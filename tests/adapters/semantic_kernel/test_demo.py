"""The demo on Semantic Kernel: a long session of two agents, offline and over a strict provider, within the budget."""

from __future__ import annotations

import asyncio
from typing import Any

from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import (
    AuthorRole,
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    TextContent,
)

from ce_engine import EvidenceType
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.semantic_kernel.demo import DEMO
from ce_integrations.semantic_kernel.demo_model import OfflineService
from ce_integrations.testing.answers import Answer, Call, JsonObject
from tests.adapters.demos import PACKAGES, DemoTests, Run


class TestDemo(DemoTests):
    demo = DEMO

    @classmethod
    def answer(cls, body: JsonObject) -> Answer:
        model = OfflineService(QuotingModel(frozenset(PACKAGES)))
        settings = OpenAIChatPromptExecutionSettings()
        settings.tools = body.get("tools")
        history = ChatHistory(messages=[*map(message, body["messages"])])
        (said,) = asyncio.run(model._inner_get_chat_message_contents(history, settings))
        calls = [item for item in said.items if isinstance(item, FunctionCallContent)]
        if not calls:
            return Answer(content=said.content)
        return Answer(calls=tuple(Call(c.name or "", str(c.arguments), c.id) for c in calls))

    def test_each_of_the_two_has_its_lane(self, ran: Run) -> None:
        assert {turn.lane for turn in ran.turns} == {"agent", "reader"}
        said = [m for m in ran.document.session.messages if m.role == "assistant"]
        assert {m.author.id for m in said if m.author is not None} == {"agent", "reader"}

    def test_each_kind_of_evidence_is_there(self, ran: Run) -> None:
        kinds = {evidence.type for evidence in ran.document.evidences.values()}
        assert kinds == {EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC, EvidenceType.LLM_OUTPUT}


def message(said: dict[str, Any]) -> ChatMessageContent:
    """A message of a body as Semantic Kernel has it."""
    role, text = AuthorRole(said["role"]), said.get("content") or ""
    if role is AuthorRole.TOOL:
        result = FunctionResultContent(id=said["tool_call_id"], name="metadata-lookup", result=text)
        return ChatMessageContent(role=role, items=[result])
    calls: list[Any] = [
        FunctionCallContent(
            id=c["id"], name=c["function"]["name"], arguments=c["function"]["arguments"]
        )
        for c in said.get("tool_calls") or ()
    ]
    return ChatMessageContent(role=role, items=[*calls] or [TextContent(text=text)])
