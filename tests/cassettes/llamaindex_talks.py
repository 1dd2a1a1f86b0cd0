"""An app with a chat engine of LlamaIndex, and one with an agent where there are tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatResponse, LLMMetadata
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.llms.openai import OpenAI

from ce_integrations.llamaindex import install_ce
from tests.cassettes.line import Line
from tests.cassettes.talks import MODEL, REPLY_TOKENS, TIMEOUT_S, App, Plan, weather


class Served(OpenAI):
    """LlamaIndex knows OpenAI's own models only."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            context_window=4096,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name=self.model,
        )

    async def astream_chat_with_tools(
        self, *_: Any, **options: Any
    ) -> AsyncGenerator[ChatResponse, None]:
        """Whole, as the recorded server streams no calls as OpenAI does."""
        answer = await self.achat_with_tools(**options)

        async def once() -> AsyncGenerator[ChatResponse, None]:
            yield answer

        return once()


class LlamaIndexApp(App):
    framework = "llamaindex"
    install = staticmethod(install_ce)

    def __init__(self, line: Line, plan: Plan) -> None:
        clients: dict[str, Any] = {
            "http_client": line.client,
            "async_http_client": line.async_client,
        }
        model = Served(
            model=MODEL,
            api_base=line.base_url,
            api_key="no key",
            temperature=0,
            max_retries=0,
            timeout=TIMEOUT_S,
            max_tokens=REPLY_TOKENS,
            **clients,
        )
        self.line, self.plan = line, plan
        self.target = _agent(model) if plan.tools else _engine(model, plan.system)

    def say(self, text: str) -> str:
        runner, app = self.line.runner, self.target
        if self.plan.tools:
            return str(runner.run(self._run(text)))
        if self.plan.streamed and self.line.asynchronous:
            return runner.run(self._collect(text))
        if self.plan.streamed:
            return "".join(app.stream_chat(text).response_gen)
        return str(runner.run(app.achat(text)) if self.line.asynchronous else app.chat(text))

    async def _run(self, text: str) -> Any:
        """Agents can be awaited only."""
        return await self.target.run(text)

    async def _collect(self, text: str) -> str:
        answer = await self.target.astream_chat(text)
        return "".join([piece async for piece in answer.async_response_gen()])


def _agent(model: OpenAI) -> FunctionAgent:
    return FunctionAgent(llm=model, tools=[weather], timeout=None)


def _engine(model: OpenAI, system: str | None) -> SimpleChatEngine:
    memory = ChatMemoryBuffer.from_defaults(token_limit=1_000_000)  # the budget is our part
    return SimpleChatEngine.from_defaults(llm=model, memory=memory, system_prompt=system)
