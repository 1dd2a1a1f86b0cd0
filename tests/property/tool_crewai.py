"""Random tool histories through the CrewAI adapter: its messages, plain dicts, and how its models are asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ce_engine.schema.report import Report
from ce_integrations.crewai import install_ce
from ce_integrations.testing.answers import Answer, Call
from ce_integrations.testing.contract_case import count
from tests.adapters.crewai.contract_apps import PlainApps
from tests.adapters.crewai.home import Home
from tests.property import tool_cases
from tests.property.tool_cases import CHINESE, ENGLISH, FAULTS, JSON, TOOL, WireCase


Message = dict[str, Any]

WORDS = [*ENGLISH, *CHINESE, *JSON[:5]]
ROOMY = 2
"""A list that costs less than the budget by this factor has room to spare."""


class Rig(tool_cases.Rig):
    def __init__(self) -> None:
        self.home = Home()
        super().__init__()
        self.apps = PlainApps()

    async def aclose(self) -> None:
        await self.apps.aclose()
        self.home.leave()


class Messages(tool_cases.Messages[Message]):
    """As an agent's executor writes them."""

    def words(self, most: int) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, most)))

    def long(self) -> str:
        lines = self.rng.choice((1, 1, 1, 3, 25))
        return self.said(lines) if self.chance(0.95) else ""

    def system(self) -> Message:
        return {"role": "system", "content": self.words(15)}

    def question(self) -> Message:
        marked = {"cache_breakpoint": True} if self.chance(0.2) else {}
        return {"role": "user", "content": f"{self.words(20)}?", **marked}

    def answer(self) -> Message:
        return {"role": "assistant", "content": self.words(40)}

    def asks(self) -> Message:
        calls = [
            {
                "id": f"call_{self.rng.randrange(10**9)}",
                "type": "function",
                "function": {"name": "lookup", "arguments": json.dumps({"q": self.words(4)})},
            }
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        content = self.words(8) if self.chance(0.2) else None
        return {"role": "assistant", "content": content, "tool_calls": calls}

    def results(self, asked: Message, ids: list[str]) -> list[Message]:
        self.spoil(ids)
        return [
            {"role": "tool", "tool_call_id": id_, "name": "lookup", "content": self.long()}
            for id_ in ids
        ]


@dataclass
class Case(WireCase[Message]):
    """A host with a model of its own."""

    install = staticmethod(install_ce)
    ways = ("call", "acall")

    rig: Rig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.copies = self.rng.choice((0.0, 0.0, 0.5, 1.0))
        self.tools = [TOOL] if self.make.chance(0.3) else []
        self.model = self.rig.apps.model(self.rig.wire)

    def messages(self) -> Messages:
        return Messages(self.rng, FAULTS if self.rng.random() < 0.7 else (), self.counts)

    async def ask(self, way: str, given: list[Message]) -> None:
        found = getattr(self.model, way)(given, **({"tools": self.tools} if self.tools else {}))
        if way == "acall":
            await found

    def as_answer(self, says: Message) -> Answer:
        calls = [Call("lookup", '{"q": "x"}', id_) for id_ in self.asked(says)]
        return Answer(content=says["content"] or None, calls=tuple(calls))

    def asked(self, message: Message) -> list[str]:
        return [call["id"] for call in message.get("tool_calls", ())]

    def answered(self, message: Message) -> list[str]:
        return [message["tool_call_id"]] if message["role"] == "tool" else []

    def person(self, message: Message) -> str | None:
        return self.heard(message["content"]) if message["role"] == "user" else None

    def heard(self, content: Any) -> str:
        return "".join((content or "").split())

    def has_room(self, given: Sequence[Message], budget: int, report: Report) -> bool:
        """By the tokens of the host's own list."""
        return count({"messages": list(given), "tools": self.tools}) * ROOMY < budget
