"""A run of one framework inside one of another that is named: what came into it from a model names nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from crewai import Agent, Crew, Task
from crewai.llms.providers.openai.completion import OpenAICompletion
from haystack import Pipeline, component
from haystack.dataclasses import ChatMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_openai import ChatOpenAI
from llama_index.core.query_engine import CustomQueryEngine
from llama_index_instrumentation.dispatcher import instrument_tags
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.functions import (
    KernelArguments,
    KernelFunctionFromMethod,
    kernel_function,
)

from ce_engine import ContextEngine, MemoryStore, Scope, create_context_engine
from ce_integrations import install_ce
from ce_integrations.testing.answers import text
from ce_integrations.testing.framework_apps import MODEL
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.contract_apps import Client
from tests.adapters.haystack.contract_apps import Model
from tests.adapters.llamaindex.contract_apps import ChatApps
from tests.adapters.semantic_kernel.contract_apps import Service
from tests.adapters.stored import Stored


RULE = "Say no more than is asked. 少说。"
ADA = {"session_id": "main", "user_id": "ada"}
BOB = {"session_id": "desk", "user_id": "bob"}
QUESTION = "the gate?"

Ask = Callable[[], object]
"""Asks an inner app, which is handed what a model wrote: that Ada asks."""


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


# Inside


@component
class Front:
    @component.output_types(messages=list[ChatMessage])
    def run(self, user_id: str, session_id: str) -> dict[str, Any]:
        return {"messages": [ChatMessage.from_user(QUESTION)]}


def in_haystack(wire: Wire) -> tuple[Any, Ask]:
    pipeline = Pipeline()
    pipeline.add_component("front", Front())
    pipeline.add_component("llm", Model(wire))
    pipeline.connect("front.messages", "llm.messages")
    return pipeline, lambda: pipeline.run({"front": ADA})


def in_crewai(wire: Wire) -> tuple[Any, Ask]:
    llm = OpenAICompletion(model=MODEL, base_url=wire.base_url, api_key="no key", max_retries=0)
    agent = Agent(role="desk", goal="Answer.", backstory="Asks.", llm=llm)
    task = Task(description=QUESTION, expected_output="A word.", agent=agent)
    crew = Crew(agents=[agent], tasks=[task])
    return crew, lambda: crew.kickoff(inputs=ADA)


def in_autogen(wire: Wire) -> tuple[Any, Ask]:
    agent = AssistantAgent("inner", Client(wire))
    task = TextMessage(content=QUESTION, source="user", metadata=ADA)
    return agent, lambda: asyncio.run(agent.run(task=task))


def in_an_autogen_team(wire: Wire) -> tuple[Any, Ask]:
    """Whose agents work in tasks of a runtime, which inherit nothing."""
    team = RoundRobinGroupChat([AssistantAgent("inner", Client(wire))], max_turns=1)
    task = TextMessage(content=QUESTION, source="user", metadata=ADA)
    return team, lambda: asyncio.run(team.run(task=task))


def in_semantic_kernel(wire: Wire) -> tuple[Any, Ask]:
    agent = ChatCompletionAgent(service=Service(wire), name="inner")
    told = KernelArguments(session_id=ADA["session_id"], user_id=ADA["user_id"])

    async def ask() -> object:
        return await agent.get_response(QUESTION, arguments=told)

    return agent, lambda: asyncio.run(ask())


INNER = [in_haystack, in_crewai, in_autogen, in_an_autogen_team, in_semantic_kernel]


# Outside: what runs something of the app's that no model called


def of_langchain(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    told: dict[str, Any] = {"base_url": wire.base_url, "api_key": "no key", "max_retries": 0}
    first: Runnable[Any, Any] = RunnableLambda(lambda _: str(ask()))
    chain = first | ChatOpenAI(model=MODEL, **told)
    named = {"thread_id": BOB["session_id"], "user_id": BOB["user_id"]}
    return chain, lambda: chain.invoke("Look it up.", {"configurable": named})


class Desk(CustomQueryEngine):
    llm: Any
    ask: Any

    def custom_query(self, query_str: str) -> str:
        self.ask()
        return str(self.llm.complete(query_str))


def of_llamaindex(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    made, run = of_llamaindex_unnamed(wire, ask)

    def named() -> None:
        with instrument_tags(BOB):
            run()

    return made, named


def of_llamaindex_unnamed(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    made = Desk(llm=ChatApps().model(wire), ask=ask)
    return made, lambda: made.query("Look it up.")


def of_semantic_kernel_unnamed(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    kernel = Kernel()

    async def look() -> str:
        return str(await asyncio.to_thread(ask))

    async def run() -> None:
        function = KernelFunctionFromMethod(kernel_function(look, name="look"), "desk")
        await kernel.invoke(function)

    return kernel, lambda: asyncio.run(run())


def of_haystack_unnamed(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    @component
    class Look:
        @component.output_types(messages=list[ChatMessage])
        def run(self, question: str) -> dict[str, Any]:
            return {"messages": [ChatMessage.from_user(str(ask()))]}

    pipeline = Pipeline()
    pipeline.add_component("look", Look())
    pipeline.add_component("llm", Model(wire))
    pipeline.connect("look.messages", "llm.messages")
    return pipeline, lambda: pipeline.run({"look": {"question": "Look it up."}})


@pytest.mark.req("B-03")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", [of_langchain, of_llamaindex])
def test_inputs_name_nobody_else_inside_a_named_run_of_another_framework(
    engine: ContextEngine, outer: Any, inner: Any
) -> None:
    users, sent = asked(engine, outer, inner)
    assert RULE not in sent
    assert users == {"bob"}


@pytest.mark.req("B-03")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    "outer", [of_llamaindex_unnamed, of_semantic_kernel_unnamed, of_haystack_unnamed]
)
def test_nor_where_the_installation_outside_says_whose_it_is(
    engine: ContextEngine, outer: Any, inner: Any
) -> None:
    users, sent = asked(engine, outer, inner, user_id="bob")
    assert RULE not in sent
    assert "ada" not in users


def asked(engine: ContextEngine, outer: Any, inner: Any, **named: Any) -> tuple[set[str], str]:
    """(Users of the stored sessions beside Ada's own, what went out)."""
    engine.sync.constraints.create(Scope(**ADA), RULE)
    with Wire(lambda _: text("So.")) as wire:
        app, ask = inner(wire)
        around, run = outer(wire, ask)
        with install_ce(around, engine=engine, **named), install_ce(app, engine=engine):
            run()
        sent = str(wire.bodies)
    assert QUESTION in sent
    return {each.user_id for each in Stored(engine).sessions()}, sent
