"""An app with an agent of AutoGen, which keeps the conversation and runs its tools."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from ce_integrations.autogen import install_ce
from tests.cassettes.line import Line
from tests.cassettes.talks import MODEL, REPLY_TOKENS, TIMEOUT_S, App, Plan, weather


INFO: Any = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "structured_output": False,
    "family": "unknown",
}


class AutoGenApp(App):
    """It can be awaited only."""

    framework = "autogen"
    install = staticmethod(install_ce)

    def __init__(self, line: Line, plan: Plan) -> None:
        told: dict[str, Any] = {"http_client": line.async_client}  # is taken, and not declared
        client = OpenAIChatCompletionClient(
            model=MODEL,
            base_url=line.base_url,
            api_key="no key",
            temperature=0,
            max_retries=0,
            timeout=TIMEOUT_S,
            max_tokens=REPLY_TOKENS,
            model_info=INFO,
            **told,
        )
        self.line, self.plan = line, plan
        self.target = AssistantAgent(
            "guide",
            client,
            tools=[FunctionTool(weather, "The weather in a city.")] if plan.tools else None,
            reflect_on_tool_use=plan.tools,
            system_message=plan.system,
            model_client_stream=plan.streamed,
        )

    def say(self, text: str) -> str:
        return self.line.runner.run(self._run(text))

    async def _run(self, text: str) -> str:
        pieces, result = [], TaskResult(messages=[])
        async for event in self.target.run_stream(task=text):
            if isinstance(event, ModelClientStreamingChunkEvent):
                pieces.append(event.content)
            elif isinstance(event, TaskResult):
                result = event
        last = result.messages[-1].to_text()
        assert last == "".join(pieces) or not self.plan.streamed
        return last
