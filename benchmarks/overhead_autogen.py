"""AutoGen in `overhead.py`: one agent without tools, whose context keeps everything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import EVENT_LOGGER_NAME
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from overhead_talk import ANSWER, ANSWERS_AFTER_S, App, bare, clocks, since, texts

from ce_integrations.autogen import install_ce


# ruff: noqa: ARG002 - the signatures are the framework's


__all__ = ["APP", "MODES", "VARIANTS", "install_ce"]


class Client(ChatCompletionClient):
    """Answers the same after 5 ms."""

    info: ClassVar[ModelInfo] = {
        "vision": False,
        "function_calling": True,
        "json_output": False,
        "structured_output": False,
        "family": "unknown",
    }

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        await asyncio.sleep(ANSWERS_AFTER_S)
        return CreateResult(
            finish_reason="stop", content=ANSWER, usage=RequestUsage(0, 0), cached=False
        )

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        yield await self.create(messages, **options)

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def count_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        raise NotImplementedError

    def remaining_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        raise NotImplementedError

    @property
    def capabilities(self) -> ModelInfo:
        return self.info

    @property
    def model_info(self) -> ModelInfo:
        return self.info


class Agent(App):
    """Its sessions are told in the task's metadata; between two of them its context is emptied."""

    def __init__(self, messages: int) -> None:
        agent = AssistantAgent("helper", Client(), system_message="You are a travel agent.")
        super().__init__(agent, messages)

    async def run(self) -> list[float]:
        begins, (question, session) = self.begins, self.asked()
        if begins:
            context = self.target.model_context
            await context.clear()
            kinds = ((UserMessage, "user"), (AssistantMessage, "helper"))
            for n, text in enumerate(texts(self.messages)):
                kind, source = kinds[n % 2]
                await context.add_message(kind(content=text, source=source))
        task = TextMessage(content=question, source="user", metadata={"session_id": session})
        start = clocks()
        await self.target.run(task=task)
        return since(start)


@contextmanager
def no_op(_: App) -> Iterator[None]:
    """A handler of AutoGen's own log of events that drops them."""
    logger = logging.getLogger(EVENT_LOGGER_NAME)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    yield


APP, MODES = Agent, ("run",)
VARIANTS = {"bare": bare, "no_op": no_op}
