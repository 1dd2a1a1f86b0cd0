"""A chat app of several sessions that knows nothing of us, and a model that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing
from contextvars import copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from ce_integrations import ce_session


WAYS = ("invoke", "ainvoke", "stream", "astream", "broken off", "abroken off")
PIECES = 4
HEARD = 2
"""Pieces after which an app breaks a stream off."""
SESSIONS = 3


def _nothing() -> None:
    pass


class Teller(BaseChatModel):
    """Answers from what it is sent, without any wait; `meanwhile` runs in the middle of each answer."""

    meanwhile: Callable[[], None] = _nothing
    sent: list[list[str]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "teller"

    def _answer(self, messages: Sequence[BaseMessage]) -> str:
        texts = [str(message.content) for message in messages]
        self.sent.append(texts)
        return f"{len(texts)} messages came, and the last one says {texts[-1]}"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text = self._answer(messages)
        self.meanwhile()
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> Iterator[ChatGenerationChunk]:
        text = self._answer(messages)
        size = -(-len(text) // PIECES)
        for start in range(0, len(text), size):
            self.meanwhile()
            yield ChatGenerationChunk(message=AIMessageChunk(content=text[start : start + size]))

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in self._stream(messages):
            yield piece


@dataclass(frozen=True)
class Call:
    """One question of the app: in which session, and how the model is called."""

    number: int
    session: str
    way: str

    @property
    def question(self) -> str:
        return f"question {self.number} of {self.session}?"


def script(random: Random, calls: int) -> list[Call]:
    """What the app is going to ask."""
    return [
        Call(n, f"s{random.randrange(SESSIONS)}", random.choice(WAYS)) for n in range(1, calls + 1)
    ]


@dataclass
class App:
    """Keeps the history of its sessions and resends it; `logs` is all that was ever said in them.

    Of a stream that it breaks off, the app keeps nothing.
    """

    model: Teller
    said: dict[str, list[BaseMessage]] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)

    def ask(self, call: Call, runner: asyncio.Runner) -> None:
        said = self.said.setdefault(call.session, [])
        said.append(HumanMessage(call.question))
        with ce_session(call.session):
            if call.way in ("ainvoke", "astream", "abroken off"):
                # a runner has a context of its own, in which no session is named
                answer = runner.run(self._aasked(call.way, said), context=copy_context())
            else:
                answer = self._asked(call.way, said)
        if "broken" not in call.way:
            said.append(AIMessage(answer))
        self.logs.setdefault(call.session, []).extend([call.question, answer])
        self.answers.append(answer)

    def _asked(self, way: str, said: list[BaseMessage]) -> str:
        if way == "invoke":
            return str(self.model.invoke(said).content)
        pieces: list[str] = []
        with closing(cast("Any", self.model.stream(said))) as stream:
            for piece in stream:
                pieces.append(piece.content)
                if way == "broken off" and len(pieces) == HEARD:
                    break
        return "".join(pieces)

    async def _aasked(self, way: str, said: list[BaseMessage]) -> str:
        if way == "ainvoke":
            return str((await self.model.ainvoke(said)).content)
        pieces: list[str] = []
        async with aclosing(cast("Any", self.model.astream(said))) as stream:
            async for piece in stream:
                pieces.append(piece.content)
                if way == "abroken off" and len(pieces) == HEARD:
                    break
        return "".join(pieces)


def bare(calls: Sequence[Call]) -> App:
    """The same app without us."""
    app = App(Teller())
    with asyncio.Runner() as runner:
        for call in calls:
            app.ask(call, runner)
    return app
