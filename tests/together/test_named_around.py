"""A run of one framework inside one of another that is named: what came into it from a model names nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from contextvars import Context, copy_context
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from crewai import Agent, Crew, Task
from crewai.llms.providers.openai.completion import OpenAICompletion
from haystack import Pipeline, component
from haystack.dataclasses import ChatMessage
from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from llama_index.core.query_engine import CustomQueryEngine
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import instrument_tags
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.functions import KernelArguments

from ce_engine import ContextEngine, Scope
from ce_integrations import ce_session, install_ce
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


# Inside


@component
class Front:
    @component.output_types(messages=list[ChatMessage])
    def run(self, user_id: str = "", session_id: str = "") -> dict[str, Any]:
        return {"messages": [ChatMessage.from_user(QUESTION)]}


def in_haystack(wire: Wire, ids: dict[str, str] = ADA) -> tuple[Any, Ask]:
    pipeline = Pipeline()
    pipeline.add_component("front", Front())
    pipeline.add_component("llm", Model(wire))
    pipeline.connect("front.messages", "llm.messages")
    return pipeline, lambda: pipeline.run({"front": ids})


def in_crewai(wire: Wire, ids: dict[str, str] = ADA) -> tuple[Any, Ask]:
    llm = OpenAICompletion(model=MODEL, base_url=wire.base_url, api_key="no key", max_retries=0)
    agent = Agent(role="desk", goal="Answer.", backstory="Asks.", llm=llm)
    task = Task(description=QUESTION, expected_output="A word.", agent=agent)
    crew = Crew(agents=[agent], tasks=[task])
    return crew, lambda: crew.kickoff(inputs=ids)


def in_autogen(wire: Wire, ids: dict[str, str] = ADA) -> tuple[Any, Ask]:
    agent = AssistantAgent("inner", Client(wire))
    task = TextMessage(content=QUESTION, source="user", metadata=ids)
    return agent, lambda: asyncio.run(agent.run(task=task))


def in_an_autogen_team(wire: Wire, ids: dict[str, str] = ADA) -> tuple[Any, Ask]:
    """Whose agents work in tasks of a runtime, which inherit nothing."""
    team = RoundRobinGroupChat([AssistantAgent("inner", Client(wire))], max_turns=1)
    task = TextMessage(content=QUESTION, source="user", metadata=ids)
    return team, lambda: asyncio.run(team.run(task=task))


def in_semantic_kernel(wire: Wire, ids: dict[str, str] = ADA) -> tuple[Any, Ask]:
    agent = ChatCompletionAgent(service=Service(wire), name="inner")
    named: dict[str, Any] = dict(ids)
    told = KernelArguments(**named)

    async def ask() -> object:
        return await agent.get_response(QUESTION, arguments=told)

    return agent, lambda: asyncio.run(ask())


INNER = [in_haystack, in_crewai, in_autogen, in_an_autogen_team, in_semantic_kernel]


# Outside: what runs something of the app's that no model called


def _model(wire: Wire) -> ChatOpenAI:
    said: dict[str, Any] = {"base_url": wire.base_url, "api_key": "no key", "max_retries": 0}
    return ChatOpenAI(model=MODEL, **said)


def _configured(named: dict[str, str]) -> RunnableConfig:
    renamed = {"session_id": "thread_id"}
    return {"configurable": {renamed.get(key, key): value for key, value in named.items()}}


def of_langchain(wire: Wire, ask: Ask, named: dict[str, str] = BOB) -> tuple[Any, Ask]:
    first: Runnable[Any, Any] = RunnableLambda(lambda _: str(ask()))
    chain = first | _model(wire)
    return chain, lambda: chain.invoke("Look it up.", _configured(named))


def of_langgraph(wire: Wire, ask: Ask, named: dict[str, str] = BOB) -> tuple[Any, Ask]:
    model, graph = _model(wire), StateGraph(MessagesState)
    graph.add_node("look", lambda _: ask() and None)
    graph.add_node("answer", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "look")
    graph.add_edge("look", "answer")
    app = graph.compile()
    asked: Any = {"messages": [("user", "Look it up.")]}
    return app, lambda: app.invoke(asked, _configured(named))


class Desk(CustomQueryEngine):
    llm: Any
    ask: Any

    def custom_query(self, query_str: str) -> str:
        self.ask()
        return str(self.llm.complete(query_str))


def of_llamaindex(wire: Wire, ask: Ask, named: dict[str, str] = BOB) -> tuple[Any, Ask]:
    made = Desk(llm=ChatApps().model(wire), ask=ask)

    def run() -> None:
        with instrument_tags(named):
            made.query("Look it up.")

    return made, run


def of_haystack(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
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


OUTER = [of_langchain, of_langgraph, of_llamaindex]


def of_a_traced_chain(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    """In a run of a tracer's, which no chain of ours began."""
    chain, _ = of_langchain(wire, ask)
    callbacks = CallbackManager([], parent_run_id=UUID(int=7))
    return chain, lambda: chain.invoke("?", {**_configured(BOB), "callbacks": callbacks})


def of_a_span(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    """In a span of the app's own."""
    made, run = of_llamaindex(wire, ask)
    return made, get_dispatcher(__name__).span(run)


def of_a_nested_chain(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    """In a run that names a thread alone, inside one that names the user."""
    inner, run = of_langchain(wire, ask, {"session_id": "sub"})
    return inner, of_langchain(wire, run)[1]


def of_nested_tags(wire: Wire, ask: Ask) -> tuple[Any, Ask]:
    inner, run = of_llamaindex(wire, ask, {"session_id": "sub"})
    return inner, of_llamaindex(wire, run)[1]


@pytest.mark.req("B-03")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    "outer", [*OUTER, of_a_traced_chain, of_a_span, of_a_nested_chain, of_nested_tags]
)
def test_inputs_name_no_other_user_inside_a_run_of_another_framework_that_names_one(
    engine: ContextEngine, outer: Any, inner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    scopes, sent = asked(engine, outer, inner)
    assert RULE not in sent
    assert not [scope for scope in scopes if "main" in scope or "ada" in scope]
    assert "say ce_session round the run" in caplog.text


NESTED = [*OUTER, of_a_nested_chain, of_nested_tags]


@pytest.mark.req("B-03")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", NESTED)
def test_a_block_inside_that_names_no_user_is_of_the_user_outside(
    engine: ContextEngine, outer: Any, inner: Any
) -> None:
    def in_a_block(wire: Wire) -> tuple[Any, Ask]:
        app, ask = inner(wire, {})

        def run() -> None:
            with ce_session("notes"):
                ask()

        return app, run

    scopes, _ = asked(engine, outer, in_a_block)
    assert ("notes", "bob") in scopes
    assert {user_id for _, user_id in scopes} == {"bob"}


@pytest.mark.req("B-03", "B-08")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", NESTED)
def test_what_names_nobody_inside_is_the_user_s_and_goes_with_him(
    engine: ContextEngine, outer: Any, inner: Any
) -> None:
    scopes, _ = asked(engine, outer, partial(inner, ids={}))
    assert {user_id for _, user_id in scopes} == {"bob"}
    engine.sync.delete_user_data("", "bob")
    assert Stored(engine).sessions() == []


@pytest.mark.req("B-03")
def test_nobody_may_be_named_inside(engine: ContextEngine) -> None:
    nobody = {"session_id": "notes", "user_id": ""}
    scopes, _ = asked(
        engine, of_langchain, partial(of_langchain, ask=lambda: QUESTION, named=nobody)
    )
    assert {("notes", ""), ("desk", "bob")} <= scopes


@pytest.mark.req("B-03")
def test_an_app_that_comes_back_to_itself_is_in_the_run_between(engine: ContextEngine) -> None:
    engine.sync.constraints.create(Scope(**ADA), RULE)
    with Wire(lambda _: text("So.")) as wire:
        inner, ask = in_haystack(wire)
        steps: list[Ask] = []

        def step() -> object:
            return steps.pop(0)()

        outer, run_outer = of_haystack(wire, step)
        chain, run_chain = of_langchain(wire, run_outer)
        steps += [run_chain, ask]
        with ExitStack() as installed:
            for each in (outer, chain, inner):
                installed.enter_context(install_ce(each, engine=engine))
            run_outer()
        assert RULE not in str(wire.bodies)
    assert "ada" not in {each.user_id for each in Stored(engine).sessions()}


@pytest.mark.req("B-03")
def test_the_innermost_run_counts(engine: ContextEngine) -> None:
    carl = {"session_id": "c", "user_id": "carl"}
    with Wire(lambda _: text("So.")) as wire:
        pipeline, _ = in_haystack(wire)
        desk, look = of_llamaindex(wire, lambda: pipeline.run({"front": BOB}), carl)
        graph, run = of_langgraph(wire, look)
        with ExitStack() as installed:
            for each in (pipeline, desk, graph):
                installed.enter_context(install_ce(each, engine=engine))
            run()
    assert len(Stored(engine).turns("desk", "bob")) == 1  # of the graph's own model


@pytest.mark.req("B-03")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_they_name_a_session_of_that_user(engine: ContextEngine, outer: Any, inner: Any) -> None:
    scopes, sent = asked(engine, partial(outer, named=ADA | {"session_id": "desk"}), inner)
    assert RULE in sent
    assert scopes == {("desk", "ada"), ("main", "ada")}


@pytest.mark.req("B-03")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_they_name_the_user_where_nothing_around_does(
    engine: ContextEngine, outer: Any, inner: Any
) -> None:
    scopes, sent = asked(engine, partial(outer, named={"session_id": "desk"}), inner)
    assert RULE in sent
    assert scopes == {("desk", ""), ("main", "ada")}


@pytest.mark.req("B-03")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_they_name_the_session_where_installations_name_the_user(
    engine: ContextEngine, outer: Any, inner: Any
) -> None:
    scopes, _ = asked(engine, partial(outer, named={}), inner, user_id="desk")
    assert ("main", "desk") in scopes


@pytest.mark.req("B-03")
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_a_worker_that_was_begun_in_a_run_serves_others_after_it(
    engine: ContextEngine, outer: Any, inner: Any, fails: bool
) -> None:
    """It inherits the configuration, or the tags, of the run in which it was begun."""
    kept: list[Context] = []

    def begin() -> None:
        kept.append(copy_context())
        if fails:
            raise ZeroDivisionError

    with Wire(lambda _: text("So.")) as wire:
        app, ask = inner(wire)
        around, run = outer(wire, begin)
        engine.sync.constraints.create(Scope(**ADA), RULE)
        with install_ce(around, engine=engine), install_ce(app, engine=engine):
            with pytest.raises(ZeroDivisionError) if fails else nullcontext():
                run()
            kept[0].run(ask)
        assert RULE in str(wire.bodies)


def asked(
    engine: ContextEngine, outer: Any, inner: Any, **said: Any
) -> tuple[set[tuple[str, str]], str]:
    """((session, user) of what is stored, what went out)."""
    engine.sync.constraints.create(Scope(**ADA), RULE)
    with Wire(lambda _: text("So.")) as wire:
        app, ask = inner(wire)
        around, run = outer(wire, ask)
        with install_ce(around, engine=engine, **said), install_ce(app, engine=engine, **said):
            run()
        sent = str(wire.bodies)
    assert QUESTION in sent
    return {(each.session_id, each.user_id) for each in Stored(engine).sessions()}, sent
