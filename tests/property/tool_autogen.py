"""Random tool histories through the AutoGen adapter: its messages, and how its client is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from ce_engine.schema.report import Report
from ce_integrations.autogen import install_ce
from ce_integrations.testing.answers import Answer, Call
from tests.adapters.autogen.contract_apps import Client
from tests.property import tool_cases
from tests.property.tool_cases import FAULTS, WireCase


class Rig(tool_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self.client = Client(self.wire, multiple_system_messages=True)

    async def aclose(self) -> None:
        await self.client.close()


class Messages(tool_cases.Messages[LLMMessage]):
    """Results of one message's calls are in one message, but for the fault `apart`."""

    def long(self) -> str:
        return self.said(self.rng.choice((1, 1, 1, 3, 25)))

    def system(self) -> LLMMessage:
        return SystemMessage(content=self.words(15))

    def question(self) -> LLMMessage:
        source = self.rng.choice(("user", "user", "ann"))
        return UserMessage(content=f"{self.words(30)}?", source=source)

    def answer(self) -> LLMMessage:
        return AssistantMessage(content=self.words(40), source="helper")

    def asks(self) -> LLMMessage:
        calls = [
            FunctionCall(
                id=f"call_{self.rng.randrange(10**9)}",
                name="lookup",
                arguments=json.dumps({"q": self.words(4)}),
            )
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        thought = self.words(8) if self.chance(0.4) else None
        return AssistantMessage(content=calls, thought=thought, source="helper")

    def results(self, asked: LLMMessage, ids: list[str]) -> list[LLMMessage]:
        fault = self.spoil(ids)
        found = [
            FunctionExecutionResult(
                content=self.long(), name="lookup", call_id=id_, is_error=self.chance(0.1)
            )
            for id_ in ids
        ]
        parts = [[each] for each in found] if fault == "apart" else [found] if found else []
        return [FunctionExecutionResultMessage(content=part) for part in parts]


@dataclass
class Case(WireCase[LLMMessage]):
    """A host with a client; one of three hosts makes its list anew for every call."""

    install = staticmethod(install_ce)
    ways = ("create", "create_stream")

    rig: Rig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.copies = float(self.make.chance(0.3))
        self.model = self.rig.client

    def messages(self) -> Messages:
        faults = (*FAULTS, "apart") if self.rng.random() < 0.7 else ()
        return Messages(self.rng, faults, self.counts)

    def makes_anew(self) -> bool:
        return bool(self.copies)

    def speaks(self) -> bool:
        return False

    async def ask(self, way: str, given: list[LLMMessage]) -> None:
        if way == "create":
            await self.model.create(given)
        else:
            async for _ in self.model.create_stream(given):
                pass

    def as_answer(self, says: LLMMessage) -> Answer:
        if not isinstance(says, AssistantMessage) or isinstance(says.content, str):
            return Answer(content=str(says.content))
        calls = tuple(Call(call.name, call.arguments, call.id) for call in says.content)
        return Answer(content=says.thought, calls=calls)

    def asked(self, message: LLMMessage) -> list[str]:
        if not isinstance(message, AssistantMessage) or isinstance(message.content, str):
            return []
        return [call.id for call in message.content]

    def answered(self, message: LLMMessage) -> list[str]:
        if not isinstance(message, FunctionExecutionResultMessage):
            return []
        return [result.call_id for result in message.content]

    def person(self, message: LLMMessage) -> str | None:
        return str(message.content) if isinstance(message, UserMessage) else None

    def has_room(self, given: Sequence[LLMMessage], budget: int, report: Report) -> bool:
        return report.tokens_before <= budget
