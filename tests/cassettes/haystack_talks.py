"""An app with an agent of Haystack, whose messages it keeps."""

from __future__ import annotations

from typing import Any

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools.from_function import create_tool_from_function
from haystack.utils import Secret
from openai import AsyncOpenAI, OpenAI

from ce_integrations.haystack import install_ce
from tests.cassettes.line import Line
from tests.cassettes.talks import MODEL, REPLY_TOKENS, TIMEOUT_S, App, Plan, weather


class HaystackApp(App):
    framework = "haystack"
    install = staticmethod(install_ce)

    def __init__(self, line: Line, plan: Plan) -> None:
        self.line, self.plan = line, plan
        tools = [create_tool_from_function(weather)] if plan.tools else []
        self.target = Agent(chat_generator=_model(line), tools=tools)
        self.messages = [ChatMessage.from_system(plan.system)] if plan.system else []

    def say(self, text: str) -> str:
        given: Any = {"messages": [*self.messages, ChatMessage.from_user(text)]}
        pieces: list[str] = []
        if self.plan.streamed:
            given["streaming_callback"] = (
                _awaited(pieces) if self.line.asynchronous else _plain(pieces)
            )
        if self.line.asynchronous:
            done = self.line.runner.run(self.target.run_async(**given))
        else:
            done = self.target.run(**given)
        self.messages = done["messages"]
        answer = str(self.messages[-1].text)
        assert answer == "".join(pieces) or not self.plan.streamed
        return answer


def _plain(pieces: list[str]) -> Any:
    return lambda chunk: pieces.append(chunk.content)


def _awaited(pieces: list[str]) -> Any:
    async def take(chunk: StreamingChunk) -> None:
        pieces.append(chunk.content)

    return take


def _model(line: Line) -> OpenAIChatGenerator:
    told: dict[str, Any] = {
        "base_url": line.base_url,
        "api_key": "no key",
        "max_retries": 0,
        "timeout": TIMEOUT_S,
    }
    model = OpenAIChatGenerator(
        api_key=Secret.from_token("no key"),
        model=MODEL,
        generation_kwargs={"temperature": 0, "max_tokens": REPLY_TOKENS},
    )
    model.client = OpenAI(http_client=line.client, **told)
    model.async_client = AsyncOpenAI(http_client=line.async_client, **told)
    return model
