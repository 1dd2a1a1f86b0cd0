"""Uses of AutoGen that few apps have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_core import CancellationToken
from autogen_core.memory import ListMemory, MemoryContent, MemoryMimeType, MemoryQueryResult
from autogen_core.models import CreateResult, LLMMessage, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from tests.adapters.autogen.natives import AutoGen
from tests.adapters.odd_uses import Mute, OddUseTests, Pieces, Use, once


class Echo(ReplayChatCompletionClient):
    """Says what it was told."""

    def __init__(self) -> None:
        super().__init__([])

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        return self.answer(messages)

    def answer(self, messages: Sequence[LLMMessage]) -> CreateResult:
        text = " ".join(str(each.content) for each in messages if each.type == "UserMessage")
        usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
        return CreateResult(finish_reason="stop", content=text, usage=usage, cached=False)

    async def create_stream(self, messages: Any, **_: Any) -> AsyncIterator[str | CreateResult]:  # type: ignore[override]  # as some are
        yield self.answer(messages)


def said(text: str) -> UserMessage:
    return UserMessage(content=text, source="user")


class Notebook(ListMemory):
    """Finds by a subject."""

    async def query(self, query: Any, *_: Any, **kwargs: Any) -> MemoryQueryResult:  # type: ignore[override]  # as some are
        text = f"{query} {kwargs.get('subject')}"
        return MemoryQueryResult(
            results=[MemoryContent(content=text, mime_type=MemoryMimeType.TEXT)]
        )


class Asking(AssistantAgent):
    """Asks its memory by a subject, and says what it found."""

    async def on_messages(
        self, messages: Sequence[Any], cancellation_token: CancellationToken, **kwargs: Any
    ) -> Response:
        assert self._memory is not None
        hits = await self._memory[0].query("q", subject=kwargs["subject"])
        text = str(hits.results[0].content)
        return Response(chat_message=TextMessage(content=text, source=self.name))


async def ask_by_subject(agent: Asking) -> str:
    response = await agent.on_messages([], CancellationToken(), subject="s")
    return str(getattr(response.chat_message, "content", ""))


KEYWORDS = {
    "an agent's and a memory's `subject`": Use(
        lambda: Asking("ann", Echo(), memory=[Notebook()]), ask_by_subject, "q s"
    ),
}


async def create(client: Echo, messages: Any) -> Any:
    return (await client.create(messages)).content


async def create_piecewise(client: Echo, messages: Any) -> Any:
    pieces: list[Any] = [piece async for piece in client.create_stream(messages)]
    return pieces[-1].content


ITERATORS = {
    **once(Echo, said, create),
    **{f"{name}, streamed": use for name, use in once(Echo, said, create_piecewise).items()},
}


class Streaming(Echo):
    """Its streams are no iterators."""

    def create_stream(self, messages: Any, **_: Any) -> Any:
        whole = self.answer(messages)
        return Pieces(*str(whole.content).split(), whole)


async def run_piecewise(agent: AssistantAgent) -> list[str]:
    return [
        event.content
        async for event in agent.run_stream(task="one two")
        if isinstance(event, ModelClientStreamingChunkEvent)
    ]


STREAMS = {
    "a stream of an agent": Use(
        lambda: AssistantAgent("ann", Streaming(), model_client_stream=True),
        run_piecewise,
        ["one", "two"],
    ),
}


async def ask_for_somebody(agent: AssistantAgent) -> Any:
    metadata: Any = {"session_id": Mute(), "user_id": Mute()}
    message = TextMessage.model_construct(content="x", source="user", metadata=metadata)
    response = await agent.on_messages([message], CancellationToken())
    return getattr(response.chat_message, "content", None)


IDS = {
    "a message's ids": Use(lambda: AssistantAgent("ann", Echo()), ask_for_somebody, "x"),
}


class TestOddUses(AutoGen, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **ITERATORS, **STREAMS, **IDS}
