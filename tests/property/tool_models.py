"""A chat model that keeps the messages that really reach it, and the ways in which an app asks one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import reduce
from operator import add
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr


WAYS = ("invoke", "ainvoke", "stream", "astream", "batch", "generate", "agenerate")


class ProviderError(Exception):
    """What the provider says now and then."""


class Keeper(BaseChatModel):
    """Gives its next answer, or raises it, and keeps what it was asked with."""

    model_name: str = "gpt-4"
    _script: list[AIMessage | Exception] = PrivateAttr(default_factory=list)
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _given: list[BaseMessage] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "keeper"

    def say(self, answer: AIMessage | Exception) -> None:
        self._script.append(answer)

    @property
    def asked(self) -> list[list[BaseMessage]]:
        return self._asked

    @property
    def given(self) -> list[BaseMessage]:
        """The very objects of the newest answer: its message, or its chunks."""
        return self._given

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        self._asked.append(messages)
        self._given = []
        answer = self._script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        answer = self._next(messages)
        self._given = [answer]
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Streamer(Keeper):
    """The same, with all the methods that a provider's class has."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(self._next(messages)):
            self._given.append(chunk)
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            yield chunk


def _chunks(answer: AIMessage) -> list[AIMessageChunk]:
    """A whole answer in pieces: text in two, the rest with the last."""
    text = answer.content if isinstance(answer.content, str) else ""
    half = len(text) // 2
    calls: Any = [
        {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": n}
        for n, c in enumerate(answer.tool_calls)
    ]
    broken: Any = [
        {"name": c["name"], "args": c["args"], "id": c["id"], "index": len(calls) + n}
        for n, c in enumerate(answer.invalid_tool_calls)
    ]
    first = AIMessageChunk(
        content=text[:half], id=answer.id, additional_kwargs=answer.additional_kwargs
    )
    rest: Any = text[half:] if isinstance(answer.content, str) else answer.content
    return [first, AIMessageChunk(content=rest, tool_call_chunks=[*calls, *broken])]


def ask(
    loop: asyncio.AbstractEventLoop, model: Any, way: str, messages: list[BaseMessage], **given: Any
) -> tuple[list[BaseMessage], AIMessage]:
    """Ask in one of the `WAYS`; what came back, piece by piece, and the whole of it."""
    if way == "generate":
        found = [model.generate([messages], **given).generations[0][0].message]
    elif way == "agenerate":
        done = loop.run_until_complete(model.agenerate([messages], **given))
        found = [done.generations[0][0].message]
    elif way == "batch":
        found = model.batch([messages], **given)
    elif way == "ainvoke":
        found = [loop.run_until_complete(model.ainvoke(messages, **given))]
    elif way == "stream":
        found = list(model.stream(messages, **given))
    elif way == "astream":
        found = loop.run_until_complete(_collect(model.astream(messages, **given)))
    else:
        found = [model.invoke(messages, **given)]
    return found, reduce(add, found)


async def _collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [chunk async for chunk in stream]
