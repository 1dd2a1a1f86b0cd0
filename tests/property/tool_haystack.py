"""Random tool histories through the Haystack adapter: its messages, and how its models are asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from haystack.dataclasses import ChatMessage, TextContent, ToolCall
from haystack.tools.from_function import create_tool_from_function

from ce_engine.schema.report import Report
from ce_integrations.haystack import install_ce
from ce_integrations.testing.answers import Answer, Call
from ce_integrations.testing.contract_case import count
from tests.adapters.haystack.contract_apps import AgentApps
from tests.property import tool_cases
from tests.property.tool_cases import CHINESE, ENGLISH, FAULTS, JSON, WireCase


WORDS = [*ENGLISH, *CHINESE, *JSON[:5]]
ROOMY = 2
"""A list that costs less than the budget by this factor has room to spare."""


def lookup(q: str) -> str:
    """Look something up."""
    return q


LOOKUP = create_tool_from_function(lookup)


class Rig(tool_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self.apps = AgentApps()

    async def aclose(self) -> None:
        await self.apps.aclose()


@dataclass
class Messages(tool_cases.Messages[ChatMessage]):
    """A result may say that its tool failed, be of several texts, or answer the call in a message of its own."""

    def words(self, most: int) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, most)))

    def long(self) -> str:
        lines = self.rng.choice((1, 1, 1, 3, 25))
        return self.said(lines) if self.chance(0.95) else ""

    def system(self) -> ChatMessage:
        return ChatMessage.from_system(self.words(15))

    def question(self) -> ChatMessage:
        if self.chance(0.1):
            texts = [f"{self.words(20)}?", f"{self.words(9)}?"]
            return ChatMessage.from_user(content_parts=texts)
        return ChatMessage.from_user(f"{self.words(20)}?")

    def answer(self) -> ChatMessage:
        return ChatMessage.from_assistant(self.words(40), meta={"finish_reason": "stop"})

    def asks(self) -> ChatMessage:
        calls = [
            ToolCall("lookup", {"q": self.words(4)}, id=f"call_{self.rng.randrange(10**9)}")
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        said = self.words(8) if self.chance(0.4) else None
        return ChatMessage.from_assistant(said, tool_calls=calls)

    def results(self, asked: ChatMessage, ids: list[str]) -> list[ChatMessage]:
        self.spoil(ids)
        found = []
        for id_ in ids:
            given: Any = self.long()
            if self.chance(0.1):
                given = [TextContent(given), TextContent(self.words(5))]
            origin = ToolCall("lookup", {}, id=id_)
            found.append(ChatMessage.from_tool(given, origin=origin, error=self.chance(0.1)))
        return found


@dataclass
class Case(WireCase[ChatMessage]):
    """A host with a model of its own."""

    install = staticmethod(install_ce)
    ways = ("run", "run_async", "streamed run", "streamed run_async")

    rig: Rig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.copies = self.rng.choice((0.0, 0.0, 0.5, 1.0))
        self.has_tools = self.make.chance(0.3)
        self.model = self.rig.apps.model(self.rig.wire)

    def messages(self) -> Messages:
        return Messages(self.rng, FAULTS if self.rng.random() < 0.7 else (), self.counts)

    async def ask(self, way: str, given: list[ChatMessage]) -> None:
        told: dict[str, Any] = {"tools": [LOOKUP]} if self.has_tools else {}
        if way.startswith("streamed"):
            told["streaming_callback"] = pushed if way.endswith("async") else heard
        found = getattr(self.model, way.rsplit(maxsplit=1)[-1])(given, **told)
        if way.endswith("async"):
            await found

    def as_answer(self, says: ChatMessage) -> Answer:
        calls = [Call("lookup", '{"q": "x"}', id_) for id_ in self.asked(says)]
        return Answer(content=says.text or None, calls=tuple(calls))

    def asked(self, message: ChatMessage) -> list[str]:
        return [str(call.id) for call in message.tool_calls]

    def answered(self, message: ChatMessage) -> list[str]:
        return [str(result.origin.id) for result in message.tool_call_results]

    def person(self, message: ChatMessage) -> str | None:
        return self.heard("".join(message.texts)) if message.is_from("user") else None

    def heard(self, content: Any) -> str:
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        return "".join("".join(part.get("text", "").split()) for part in parts)

    def has_room(self, given: Sequence[ChatMessage], budget: int, report: Report) -> bool:
        """By the tokens of the host's own list, as its client sends it."""
        tools = [{"type": "function", "function": LOOKUP.tool_spec}] if self.has_tools else []
        body = {"messages": [each.to_openai_dict_format() for each in given], "tools": tools}
        return count(json.loads(json.dumps(body))) * ROOMY < budget


def heard(_: Any) -> None:
    """An app's callback."""


async def pushed(_: Any) -> None:
    """The same, awaited."""
