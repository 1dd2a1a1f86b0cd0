"""An app with an agent of Semantic Kernel, whose thread keeps the conversation and which runs its functions."""

from __future__ import annotations

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
)
from semantic_kernel.functions import KernelArguments, KernelPlugin, kernel_function

from ce_integrations.semantic_kernel import install_ce
from tests.cassettes.line import Line
from tests.cassettes.talks import MODEL, REPLY_TOKENS, TIMEOUT_S, App, Plan, weather


class SemanticKernelApp(App):
    """It can be awaited only."""

    framework = "semantic_kernel"
    install = staticmethod(install_ce)

    def __init__(self, line: Line, plan: Plan) -> None:
        client = AsyncOpenAI(
            base_url=line.base_url,
            api_key="no key",
            max_retries=0,
            timeout=TIMEOUT_S,
            http_client=line.async_client,
        )
        functions = {"weather": kernel_function(weather, name="weather")}
        settings = OpenAIChatPromptExecutionSettings(temperature=0, max_tokens=REPLY_TOKENS)
        self.line, self.plan = line, plan
        self.target = ChatCompletionAgent(
            name="guide",
            service=OpenAIChatCompletion(ai_model_id=MODEL, async_client=client),
            instructions=plan.system,
            plugins=[KernelPlugin.from_object("here", functions)] if plan.tools else [],
            arguments=KernelArguments(settings),
        )
        self.thread = ChatHistoryAgentThread()

    def say(self, text: str) -> str:
        return self.line.runner.run(self._stream(text) if self.plan.streamed else self._ask(text))

    async def _ask(self, text: str) -> str:
        answer = await self.target.get_response(text, thread=self.thread)
        return str(answer.message.content)

    async def _stream(self, text: str) -> str:
        pieces = self.target.invoke_stream(text, thread=self.thread)
        return "".join([piece.message.content async for piece in pieces])
