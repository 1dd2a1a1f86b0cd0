"""LlamaIndex in `overhead.py`: a chat engine with a buffer that keeps everything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation.event_handlers import NullEventHandler
from llama_index.core.instrumentation.span_handlers import NullSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index_instrumentation import get_dispatcher
from overhead_talk import ANSWER, ANSWERS_AFTER_S, App, bare, clocks, since, texts

from ce_integrations.llamaindex import install_ce


# ruff: noqa: ARG002 - the signatures are the framework's


__all__ = ["APP", "MODES", "VARIANTS", "install_ce"]


class Model(MockLLM):
    """Answers the same after 5 ms, with the decorators that integrations have."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, context_window=128_000, model_name="gpt-4o")

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        time.sleep(ANSWERS_AFTER_S)
        return ChatResponse(message=ChatMessage(ANSWER, role="assistant"))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        await asyncio.sleep(ANSWERS_AFTER_S)
        return ChatResponse(message=ChatMessage(ANSWER, role="assistant"))


class Engine(App):
    """Each session has a key of its own in the memory's store."""

    def __init__(self, messages: int) -> None:
        # Splits at blanks: how the framework counts tokens is nobody's overhead.
        self.memory = ChatMemoryBuffer.from_defaults(token_limit=100_000, tokenizer_fn=str.split)
        engine = SimpleChatEngine.from_defaults(
            llm=Model(max_tokens=None), memory=self.memory, system_prompt="You are a travel agent."
        )
        super().__init__(engine, messages)

    def question(self) -> str:
        begins, (question, session) = self.begins, self.asked()
        if begins:
            self.memory.chat_store_key = session
            roles = ("user", "assistant")
            talk = enumerate(texts(self.messages))
            self.memory.set([ChatMessage(text, role=roles[n % 2]) for n, text in talk])
        return question

    def chat(self) -> list[float]:
        question = self.question()
        start = clocks()
        self.target.chat(question)
        return since(start)

    async def achat(self) -> list[float]:
        question = self.question()
        start = clocks()
        await self.target.achat(question)
        return since(start)


@contextmanager
def no_op(_: App) -> Iterator[None]:
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(NullEventHandler())
    dispatcher.add_span_handler(NullSpanHandler())
    yield


APP, MODES = Engine, ("chat", "achat")
VARIANTS = {"bare": bare, "no_op": no_op}
