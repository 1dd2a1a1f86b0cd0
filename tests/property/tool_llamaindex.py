"""Random tool histories through the LlamaIndex adapter: its messages, and how its models are asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.llms.openai.utils import to_openai_message_dicts
from openai.types.chat import ChatCompletionMessageToolCall as OpenAICall

from ce_engine.schema.report import Report
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.answers import Answer, Call
from ce_integrations.testing.contract_case import count
from tests.adapters.llamaindex.contract_apps import AgentApps
from tests.property import tool_cases
from tests.property.tool_cases import CHINESE, ENGLISH, FAULTS, JSON, TOOL, WireCase


FORMS = ("blocks", "objects", "dicts", "both")
"""Where an assistant's message has its calls: in blocks, or as OpenAI's objects or their JSON, or twice."""

WORDS = [*ENGLISH, *CHINESE, *JSON[:5]]
ROOMY = 2
"""A list that costs less than the budget by this factor has room to spare."""


class Rig(tool_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self.apps = AgentApps()

    async def aclose(self) -> None:
        await self.apps.aclose()


@dataclass
class Messages(tool_cases.Messages[ChatMessage]):
    """Calls are in one of the `FORMS`; with the fault `direct`, what a tool gave is the answer, too."""

    form: str = ""
    """The same for all messages, if it is one."""

    def words(self, most: int) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, most)))

    def long(self) -> str:
        lines = self.rng.choice((1, 1, 1, 3, 25))
        return self.said(lines) if self.chance(0.95) else ""

    def system(self) -> ChatMessage:
        return ChatMessage(role="system", content=self.words(15))

    def question(self) -> ChatMessage:
        blocks = [TextBlock(text=f"{self.words(20)}?")]
        blocks += [TextBlock(text=f"{self.words(9)}?")] if self.chance(0.1) else []
        return ChatMessage(role="user", blocks=blocks)

    def answer(self) -> ChatMessage:
        return ChatMessage(role="assistant", content=self.words(40))

    def asks(self) -> ChatMessage:
        form = self.form or self.rng.choice(FORMS)
        calls = [
            (f"call_{self.rng.randrange(10**9)}", {"q": self.words(4)})
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        blocks: list[Any] = [TextBlock(text=self.words(8))] if self.chance(0.4) else []
        beside: dict[str, Any] = {}
        if form in ("blocks", "both"):
            blocks += (
                ToolCallBlock(tool_call_id=id_, tool_name="lookup", tool_kwargs=args)
                for id_, args in calls
            )
        if form != "blocks":
            told: list[Any] = [
                {
                    "id": id_,
                    "type": "function",
                    "function": {"name": "lookup", "arguments": json.dumps(args)},
                }
                for id_, args in calls
            ]
            beside["tool_calls"] = (
                told if form == "dicts" else [OpenAICall(**each) for each in told]
            )
        return ChatMessage(role="assistant", blocks=blocks, additional_kwargs=beside)

    def results(self, asked: ChatMessage, ids: list[str]) -> list[ChatMessage]:
        fault = self.spoil(ids)
        found = []
        for id_ in ids:
            beside = {"tool_call_id": id_}
            found.append(ChatMessage(role="tool", content=self.long(), additional_kwargs=beside))
        if fault == "direct":
            found.append(ChatMessage(role="assistant", content=self.words(5)))
        return found


@dataclass
class Case(WireCase[ChatMessage]):
    """A host with a model of its own."""

    install = staticmethod(install_ce)
    ways = ("chat", "achat", "stream_chat", "astream_chat")

    rig: Rig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.copies = self.rng.choice((0.0, 0.0, 0.5, 1.0))
        self.tools = [TOOL] if self.make.chance(0.3) else []
        self.model = self.rig.apps.model(self.rig.wire)

    def messages(self) -> Messages:
        faults = (*FAULTS, "direct") if self.rng.random() < 0.7 else ()
        return Messages(self.rng, faults, self.counts, self.rng.choice((*FORMS, "")))

    async def ask(self, way: str, given: list[ChatMessage]) -> None:
        found = getattr(self.model, way)(given, **({"tools": self.tools} if self.tools else {}))
        if way.startswith("a"):
            found = await found
        if way == "stream_chat":
            list(found)
        elif way == "astream_chat":
            async for _ in found:
                pass
            await asyncio.sleep(0)  # the client leaves a generator to be closed by the loop

    def as_answer(self, says: ChatMessage) -> Answer:
        calls = [Call("lookup", '{"q": "x"}', id_) for id_ in self.asked(says)]
        return Answer(content=says.content or None, calls=tuple(calls))

    def asked(self, message: ChatMessage) -> list[str]:
        blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
        if blocks:
            return [str(block.tool_call_id) for block in blocks]
        calls = message.additional_kwargs.get("tool_calls", ())
        return [call["id"] if isinstance(call, dict) else call.id for call in calls]

    def answered(self, message: ChatMessage) -> list[str]:
        return [message.additional_kwargs["tool_call_id"]] if message.role == "tool" else []

    def person(self, message: ChatMessage) -> str | None:
        return self.heard(message.content) if message.role == "user" else None

    def heard(self, content: Any) -> str:
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        return "".join("".join(part.get("text", "").split()) for part in parts)

    def has_room(self, given: Sequence[ChatMessage], budget: int, report: Report) -> bool:
        """By the tokens of the host's own list, as its integration sends it."""
        body = {"messages": to_openai_message_dicts(given), "tools": self.tools}
        cost = count(json.loads(json.dumps(body, default=lambda call: call.model_dump())))
        return cost * ROOMY < budget
