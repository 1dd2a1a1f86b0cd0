"""Uses of LlamaIndex that few apps have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation.dispatcher import instrument_tags

from tests.adapters.llamaindex.natives import LlamaIndex
from tests.adapters.odd_uses import Mute, OddUseTests, Pieces, Use, once


def said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


class Echo(MockLLM):
    """Says what it was told."""

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        text = kwargs.get("subject") or " ".join(str(each.content) for each in messages)
        return ChatResponse(message=ChatMessage(role="assistant", content=text))


def send_email(to: str, subject: str) -> str:
    """Send it."""
    return f"{subject!r} to {to}"


def mailing() -> FunctionTool:
    return FunctionTool.from_defaults(send_email)


async def mail_later(tool: FunctionTool) -> str:
    return str(await tool.acall(to="ann", subject="hi"))


def echo() -> Echo:
    return Echo(max_tokens=None)


KEYWORDS = {
    "a tool's `subject`": Use(
        mailing, lambda tool: str(tool.call(to="ann", subject="hi")), "'hi' to ann"
    ),
    "a tool's `subject`, awaited": Use(mailing, mail_later, "'hi' to ann"),
    "a model's `subject`": Use(
        echo, lambda llm: llm.chat([said("x")], subject="s").message.content, "s"
    ),
}


ITERATORS = once(echo, said, lambda llm, messages: llm.chat(messages).message.content)


def chunks(messages: Sequence[ChatMessage]) -> list[ChatResponse]:
    words = [word for each in messages for word in str(each.content).split()]
    return [
        ChatResponse(
            message=ChatMessage(role="assistant", content=" ".join(words[: n + 1])),
            delta=f" {word}" if n else word,
        )
        for n, word in enumerate(words)
    ]


class Streaming(Echo):
    """Its streams are no iterators."""

    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        return Pieces(*chunks(messages))

    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        return Pieces(*chunks(messages))


class Listing(Echo):
    """Its streams are lists."""

    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        return chunks(messages)


def streaming() -> Streaming:
    return Streaming(max_tokens=None)


def listing() -> Listing:
    return Listing(max_tokens=None)


def chatting(llm: Echo) -> SimpleChatEngine:
    return SimpleChatEngine.from_defaults(llm=llm)


def chat(engine: Any) -> list[str]:
    return list(engine.stream_chat("one two").response_gen)


async def chat_later(engine: Any) -> list[str]:
    answer = await engine.astream_chat("one two")
    return [piece async for piece in answer.async_response_gen()]


STREAMS = {
    "a stream": Use(lambda: chatting(streaming()), chat, ["one", " two"]),
    "an awaited stream": Use(lambda: chatting(streaming()), chat_later, ["one", " two"]),
    "a list as a stream": Use(lambda: chatting(listing()), chat, ["one", " two"]),
    "a list as a stream stays one": Use(
        listing,
        lambda llm: [each.delta for each in llm.stream_chat([said("one two")])[-2:]],
        ["one", " two"],
    ),
}


def whose(name: str) -> Use:
    """Asks with an id that is none."""

    def ask(llm: Echo) -> Any:
        with instrument_tags({name: Mute()}):
            return llm.chat([said("x")]).message.content

    return Use(echo, ask, "x")


IDS = {f"a call's {name}": whose(name) for name in ("session_id", "user_id")}


class TestOddUses(LlamaIndex, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **ITERATORS, **STREAMS, **IDS}
