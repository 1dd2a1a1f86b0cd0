"""A tool that a model of one framework called asks an app of another: the model's arguments name nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from crewai import Agent
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool
from haystack import Pipeline, component
from haystack.components.agents import Agent as HaystackAgent
from haystack.dataclasses import ChatMessage
from haystack.tools.from_function import create_tool_from_function
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms.llm import LLM
from llama_index.core.tools import FunctionTool
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.functions import KernelPlugin, kernel_function

from ce_engine import ContextEngine, Scope
from ce_integrations import install_ce
from ce_integrations.testing.answers import Answer, text, tool_calls
from ce_integrations.testing.framework_apps import MODEL
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.contract_apps import Client
from tests.adapters.haystack.contract_apps import Model
from tests.adapters.llamaindex.contract_apps import ChatApps
from tests.adapters.semantic_kernel.contract_apps import Service
from tests.adapters.stored import Stored


RULE = "Say no more than is asked. 少说。"
ADA = {"session_id": "main", "user_id": "ada"}
ARGUMENTS = {**ADA, "question": "the gate?"}

Look = Callable[[str, str, str], str]
Ask = Callable[[], object]


@component
class Front:
    @component.output_types(messages=list[ChatMessage])
    def run(self, user_id: str, session_id: str, question: str) -> dict[str, Any]:
        return {"messages": [ChatMessage.from_user(question)]}


def in_haystack(wire: Wire) -> tuple[Pipeline, Look]:
    pipeline = Pipeline()
    pipeline.add_component("front", Front())
    pipeline.add_component("llm", Model(wire))
    pipeline.connect("front.messages", "llm.messages")

    def look(user_id: str, session_id: str, question: str) -> str:
        """Look something up."""
        asked = {"user_id": user_id, "session_id": session_id, "question": question}
        return str(pipeline.run({"front": asked})["llm"]["replies"][0].text)

    return pipeline, look


def of_llamaindex(wire: Wire, look: Look) -> tuple[Any, Ask]:
    made = FunctionAgent(tools=[look], llm=ChatApps().model(wire), timeout=60)
    return made, lambda: asyncio.run(_awaited(made))


async def _awaited(made: Any) -> None:
    await made.run("Look it up.")


def of_llamaindex_s_model(wire: Wire, look: Look) -> tuple[Any, Ask]:
    """It runs the tool that it called, by no agent."""
    model: LLM = ChatApps().model(wire)
    made = FunctionTool.from_defaults(look)
    return model, lambda: model.predict_and_call([made], "Look it up.")


def of_crewai(wire: Wire, look: Look) -> tuple[Any, Ask]:
    llm = OpenAICompletion(model=MODEL, base_url=wire.base_url, api_key="no key", max_retries=0)
    made = Agent(role="desk", goal="Answer.", backstory="Asks.", llm=llm, tools=[tool(look)])
    return made, lambda: made.kickoff("Look it up.")


def of_autogen(wire: Wire, look: Look) -> tuple[Any, Ask]:
    made = AssistantAgent("desk", Client(wire), tools=[look], reflect_on_tool_use=True)
    return made, lambda: asyncio.run(made.run(task="Look it up."))


def of_langchain(wire: Wire, look: Look) -> tuple[Any, Ask]:
    told: dict[str, Any] = {"base_url": wire.base_url, "api_key": "no key", "max_retries": 0}
    made: Any = create_agent(ChatOpenAI(model=MODEL, **told), [look])
    return made, lambda: made.invoke({"messages": [("user", "Look it up.")]})


def of_haystack(wire: Wire, look: Look) -> tuple[Any, Ask]:
    made = HaystackAgent(chat_generator=Model(wire), tools=[create_tool_from_function(look)])
    return made, lambda: made.run(messages=[ChatMessage.from_user("Look it up.")])


def of_semantic_kernel(wire: Wire, look: Look) -> tuple[Any, Ask]:
    functions = {"look": kernel_function(look, name="look")}
    plugin = KernelPlugin.from_object("desk", functions)
    made = ChatCompletionAgent(service=Service(wire), name="desk", plugins=[plugin])

    async def ask() -> None:
        await made.get_response("Look it up.")

    return made, lambda: asyncio.run(ask())


@pytest.mark.req("B-03")
@pytest.mark.parametrize(
    "outer",
    [
        of_llamaindex,
        of_llamaindex_s_model,
        of_crewai,
        of_autogen,
        of_langchain,
        of_haystack,
        of_semantic_kernel,
    ],
)
def test_a_model_s_arguments_name_nobody_in_another_framework_s_app(
    engine: ContextEngine, outer: Any
) -> None:
    engine.sync.constraints.create(Scope(**ADA), RULE)
    name = "desk-look" if outer is of_semantic_kernel else "look"
    script: list[Answer] = [tool_calls([(name, ARGUMENTS)]), text("Nothing."), text("So.")]
    with Wire(script) as wire:
        pipeline, look = in_haystack(wire)
        app, ask = outer(wire, look)
        with install_ce(app, engine=engine), install_ce(pipeline, engine=engine):
            ask()
        asked = [RULE in str(body) for body in wire.bodies]
        assert "the gate?" in str(wire.bodies[1])
    assert asked == [False] * len(asked)
    assert {each.user_id for each in Stored(engine).sessions()} == {""}
