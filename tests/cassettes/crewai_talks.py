"""An app that asks a model of CrewAI itself, with all that was said before, and one with an agent where there are tools."""

from __future__ import annotations

from typing import Any

from crewai import Agent
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool
from openai import AsyncOpenAI, OpenAI

from ce_integrations.crewai import install_ce
from tests.cassettes.line import Line
from tests.cassettes.talks import MODEL, REPLY_TOKENS, TIMEOUT_S, App, Plan, weather


class CrewAIApp(App):
    framework = "crewai"
    install = staticmethod(install_ce)

    def __init__(self, line: Line, plan: Plan) -> None:
        model = _model(line, plan)
        self.line, self.plan = line, plan
        self.target: Any = _agent(model) if plan.tools else model
        self.history = [{"role": "system", "content": plan.system}] if plan.system else []

    def say(self, text: str) -> str:
        if self.plan.tools:
            return self._run(text)
        self.history.append({"role": "user", "content": text})
        messages = list(self.history)
        if self.line.asynchronous:
            answer = str(self.line.runner.run(self.target.acall(messages)))
        else:
            answer = str(self.target.call(messages))
        self.history.append({"role": "assistant", "content": answer})
        return answer

    def _run(self, text: str) -> str:
        if self.line.asynchronous:
            return str(self.line.runner.run(self.target.kickoff_async(text)))
        return str(self.target.kickoff(text))


def _agent(model: OpenAICompletion) -> Agent:
    told: dict[str, Any] = {"role": "guide", "goal": "Help.", "backstory": "You know the world."}
    return Agent(llm=model, tools=[tool(weather)], **told)


def _model(line: Line, plan: Plan) -> OpenAICompletion:
    told: dict[str, Any] = {"base_url": line.base_url, "api_key": "no key", "max_retries": 0}
    model = OpenAICompletion(
        model=MODEL, temperature=0, max_tokens=REPLY_TOKENS, stream=plan.streamed, **told
    )
    told["timeout"] = TIMEOUT_S
    model._client = OpenAI(http_client=line.client, **told)
    model._async_client = AsyncOpenAI(http_client=line.async_client, **told)
    return model
