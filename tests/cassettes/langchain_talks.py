"""An app that asks `langchain-openai` itself, with all that was said before."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from ce_integrations.langchain import install_ce
from tests.cassettes.line import Line
from tests.cassettes.talks import MODEL, REPLY_TOKENS, TIMEOUT_S, App, Plan, weather


class LangChainApp(App):
    framework = "langchain"
    install = staticmethod(install_ce)

    def __init__(self, line: Line, plan: Plan) -> None:
        settings: dict[str, Any] = {
            "model": MODEL,
            "base_url": line.base_url,
            "api_key": "no key",
            "temperature": 0,
            "max_retries": 0,
            "timeout": TIMEOUT_S,
            "http_client": line.client,
            "http_async_client": line.async_client,
            # Not `max_tokens`, which goes out under a name that the recorded server does not know.
            "extra_body": {"max_tokens": REPLY_TOKENS},
        }
        self.target = ChatOpenAI(**settings)
        self.line, self.plan = line, plan
        self.history: list[BaseMessage] = [SystemMessage(plan.system)] if plan.system else []

    def say(self, text: str) -> str:
        self.history.append(HumanMessage(text))
        if self.plan.tools:
            weather_tool = tool(weather)
            asked = self._ask(self.target.bind_tools([weather_tool], tool_choice="weather"))
            self.history += [weather_tool.invoke(call) for call in asked.tool_calls]
        return str(self._ask(self.target).content)

    def _ask(self, model: Any) -> AIMessage:
        runner, messages = self.line.runner, list(self.history)
        answer: AIMessage
        if self.plan.streamed and self.line.asynchronous:
            answer = runner.run(self._collect(model, messages))
        elif self.plan.streamed:
            answer = _whole(list(model.stream(messages)))
        elif self.line.asynchronous:
            answer = runner.run(model.ainvoke(messages))
        else:
            answer = model.invoke(messages)
        self.history.append(answer)
        return answer

    async def _collect(self, model: Any, messages: list[BaseMessage]) -> AIMessage:
        return _whole([chunk async for chunk in model.astream(messages)])


def _whole(chunks: list[Any]) -> AIMessage:
    whole: AIMessage = sum(chunks[1:], start=chunks[0])
    return whole
