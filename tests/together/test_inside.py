"""A model of one framework inside another's: the outermost governs, and each call is prepared once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CustomLLM
from llama_index.core.memory import ChatMemoryBuffer
from pydantic import ConfigDict

from ce_engine import ContextEngine, Scope
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce as install_on_langchain
from ce_integrations.llamaindex import install_ce as install_on_llamaindex
from ce_integrations.testing.answers import simple_count, text
from ce_integrations.testing.framework_apps import MODEL
from ce_integrations.testing.wire import Wire


class Inside(CustomLLM):
    """A model of LlamaIndex that asks one of LangChain, as apps that move from one to the other have."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    inner: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=MODEL)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=str(self.inner.invoke(prompt).content))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


Ask = Callable[[str], str]


def engine_of(model: Inside) -> tuple[Any, Ask]:
    chat = SimpleChatEngine.from_defaults(llm=model)
    return chat, lambda question: str(chat.chat(question))


def agent_of(model: Inside) -> tuple[Any, Ask]:
    agent = ReActAgent(llm=model, streaming=False)
    memory = ChatMemoryBuffer.from_defaults(token_limit=100_000)

    async def run(question: str) -> str:
        return str(await agent.run(question, memory=memory))

    return agent, lambda question: asyncio.run(run(question))


THOUGHT = "Thought: I can answer without using any more tools.\nAnswer: "


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("make", "before"), [(engine_of, ""), (agent_of, THOUGHT)])
def test_each_call_is_prepared_once_by_the_outermost(
    engine: ContextEngine, make: Callable[[Inside], tuple[Any, Ask]], before: str, both: bool
) -> None:
    with Wire([text(f"{before}one"), text(f"{before}two")]) as wire:
        inner = ChatOpenAI(
            model=MODEL,
            base_url=wire.base_url,
            api_key="no key",  # type: ignore[arg-type]  # a plain key is taken
            max_retries=0,
        )
        target, ask = make(Inside(inner=inner))
        installed: list[Any] = [install_on_llamaindex(target, engine=engine)]
        if both:
            installed.append(install_on_langchain(inner, engine=engine))
        with ce_session("s"):
            said = [ask(question) for question in ("first?", "second?")]
        for installation in installed:
            assert installation.flush()
            assert installation.faults == ()
            installation.uninstall()
        bodies = wire.bodies
    assert said == ["one", "two"]
    scope = Scope(session_id="s")
    turns = engine.loop.run(engine.store.list_turns(scope))
    assert [(t.framework, t.status, t.attempt) for t in turns] == [
        ("llamaindex", "committed", 1)
    ] * 2
    document = engine.loop.run(engine.store.get_session(scope))
    assert document is not None
    contents = [m.content for m in document.session.messages]
    assert contents == ["first?", f"{before}one", "second?", f"{before}two"]
    if both:  # who is inside has heard what the provider told
        used = [usage.prompt_tokens for usage in document.session.model_usage]
        assert used == [simple_count(body) for body in bodies]
