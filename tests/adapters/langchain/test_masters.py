"""Several installations at work: two engines, one inside the other, and helpers' calls."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ce_engine import (
    BudgetConfig,
    MemoryStore,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_integrations.install.adapter import Turn, governing
from ce_integrations.langchain import install_ce
from ce_integrations.testing.answers import simple_count
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.langchain.releases import HAS, MODEL_NODE, make_agent


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"meaning of {word}"


THREAD = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def other() -> Any:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def recorded(engine: Any, session_id: str = "t") -> tuple[int, int]:
    """(messages, tool calls) of a session."""
    assert engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(Scope(session_id=session_id)))
    if document is None:
        return 0, 0
    return len(document.session.messages), len(document.session.tool_state.tool_calls)


@pytest.mark.scenario(11)
# Not the streams: the updates of a graph cannot be added up to its state.
@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "batch"])
def test_two_agents_with_one_model_use_their_own_engines(
    engine: Any, other: Any, chat: Any, call: Any, mode: str
) -> None:
    script = [tool_calls([("lookup", {"word": "a"})]), text("done")]
    with Wire([*script, *script]) as wire:
        model = chat(wire)
        one, two = make_agent(model, [lookup]), make_agent(model, [lookup])
        with install_ce(one, engine=engine), install_ce(two, engine=other):
            call(one, {"messages": [HumanMessage("q")]}, THREAD)
            assert (recorded(engine), recorded(other)) == ((4, 1), (0, 0))
            call(two, {"messages": [HumanMessage("q")]}, THREAD)
            assert (recorded(engine), recorded(other)) == ((4, 1), (4, 1))
    assert model.callbacks is None
    assert lookup.callbacks is None


def test_the_outermost_installation_governs(engine: Any, other: Any, chat: Any) -> None:
    """An agent that another agent calls as its tool, each installed by itself."""
    with Wire([tool_calls([("ask", {"question": "x"})]), text("inner"), text("outer")]) as wire:
        inner: Any = make_agent(chat(wire), [])

        @tool
        def ask(question: str) -> str:
            """Ask the expert."""
            return str(inner.invoke({"messages": [HumanMessage(question)]})["messages"][-1].content)

        outer: Any = make_agent(chat(wire), [ask])
        with install_ce(inner, engine=other), install_ce(outer, engine=engine):
            outer.invoke({"messages": [HumanMessage("q")]}, THREAD)
    assert recorded(other) == (0, 0)
    messages, calls = recorded(engine)
    assert calls == 1
    assert messages == 6
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="t")))
    assert {t.lane for t in turns} == {MODEL_NODE, f"ask/tools|{MODEL_NODE}"}
    assert len({t.request_id for t in turns}) == 1


def test_uninstalling_one_leaves_the_other(engine: Any, chat: Any) -> None:
    with Wire("hi") as wire:
        model = chat(wire)
        first, second = model | str, model | str
        one = install_ce(first, engine=engine, session_id="t")
        two = install_ce(second, engine=engine, session_id="t")
        one.uninstall()
        second.invoke("q")
        assert recorded(engine) == (2, 0)
        two.uninstall()
        assert model.callbacks is None
        second.invoke("q")
    assert recorded(engine) == (2, 0)


def test_inside_a_call_of_another_framework_it_passes_through(
    engine: Any, other: Any, chat: Any, call: Any
) -> None:
    """And adds what it used to that framework's turn (decision 5)."""
    turn = Turn()
    with Wire("hi") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="t"), governing("crewai", object(), turn):
            call(model, "q")
    assert recorded(engine) == (0, 0)
    assert len(turn.inner) <= 1


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"], indirect=True)
def test_usage_inside_reaches_the_outer_turn(engine: Any, chat: Any, call: Any) -> None:
    turn = Turn()
    with Wire("hi") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine), governing("crewai", object(), turn):
            answer = call(model, "q")
    (usage,) = turn.inner
    assert usage.total_tokens == answer.usage_metadata["total_tokens"] > 0


@pytest.mark.needs("create_agent")
@pytest.mark.scenario(5, 16)
def test_a_summary_of_the_middleware_is_a_helper_s_call(engine: Any, chat: Any, call: Any) -> None:
    """It is recorded and nothing is put into it; its summary is no question of a person."""
    from langchain.agents.middleware import SummarizationMiddleware

    with Wire(lambda body: f"to {len(body['messages'])}") as wire:
        model = chat(wire)
        limits: dict[str, Any] = {"trigger": ("messages", 5), "keep": ("messages", 2)}
        if not HAS["marked_helpers"]:
            limits = {"max_tokens_before_summary": 40, "messages_to_keep": 2}
        summing: Any = SummarizationMiddleware(model, **limits)
        agent: Any = make_agent(model, [], middleware=[summing], checkpointer=InMemorySaver())
        with install_ce(agent, engine=engine):
            for n in range(4):
                agent.invoke({"messages": [HumanMessage(f"question {n}")]}, THREAD)
        assert wire.refusals == []
    assert engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="t")))
    purposes = [t.purpose for t in turns]
    assert purposes.count("chat") == 4
    assert purposes.count("helper") >= 1
    assert len(purposes) == len(wire.bodies)
    state = engine.loop.run(engine.store.state(Scope(session_id="t")))
    origins = [row.origin for row in state.rows]
    if HAS["marked_helpers"]:
        assert origins.count("host_summary") >= 1
        assert origins.count("task") == 4
    else:  # nothing tells its summary from what a person says
        assert origins.count("task") > 4


@pytest.mark.needs("create_agent")
@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
def test_what_middleware_asks_in_its_own_node_is_a_helper_s_call(
    engine: Any, chat: Any, hook: str
) -> None:
    from langchain.agents.middleware import AgentMiddleware

    with Wire("fine") as wire:
        model = chat(wire)

        def ask(self: Any, state: Any, runtime: Any) -> None:
            model.invoke("is this allowed?")

        guard: Any = type("Guard", (AgentMiddleware,), {hook: ask})()
        agent = make_agent(model, [], middleware=[guard])
        with install_ce(agent, engine=engine):
            agent.invoke({"messages": [HumanMessage("q")]}, THREAD)
    assert engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="t")))
    assert sorted(turn.purpose for turn in turns) == ["chat", "helper"]


@pytest.mark.scenario(16)
@pytest.mark.parametrize("how", [{"tags": ["ce:skip"]}, {"metadata": {"ce:skip": True}}], ids=str)
def test_the_app_can_say_that_a_call_is_its_own_helper(
    engine: Any, chat: Any, call: Any, how: Any
) -> None:
    with Wire("hi") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="t"):
            call(model, "remember this")
            call(model, "route this", how)
        assert [len(body["messages"]) for body in wire.bodies] == [1, 1]
    assert recorded(engine) == (2, 0)


def routing(asked: Any, route: Any) -> Any:
    """A model of the app's own, which asks another."""
    from langchain_core.language_models.chat_models import SimpleChatModel

    class Router(SimpleChatModel):
        model: Any

        @property
        def _llm_type(self) -> str:
            return "router"

        def _call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
            return str(route(self.model, messages))

    return Router(model=asked)


def talk_with(router: Any, engine: Any) -> tuple[list[Any], list[str], list[Any]]:
    """Its turns, the texts that are stored, and the usage, after two questions."""
    with install_ce(router, engine=engine, session_id="t"):
        for question in ("q", "and?"):
            router.invoke([HumanMessage(question)])
    assert engine.sync.flush()
    scope = Scope(session_id="t")
    session = engine.loop.run(engine.store.get_session(scope)).session
    turns = engine.loop.run(engine.store.list_turns(scope))
    return turns, [m.content for m in session.messages], session.model_usage


def test_a_model_that_hands_on_what_it_was_asked(engine: Any, chat: Any) -> None:
    """A fallback, a router: it is one call, recorded once, with what the provider told."""
    with Wire(["one", "two"]) as wire:
        router = routing(chat(wire), lambda model, messages: model.invoke(messages).content)
        turns, texts, usage = talk_with(router, engine)
        sent = [[m["content"] for m in body["messages"]] for body in wire.bodies]
        told = [simple_count(body) for body in wire.bodies]
    assert [turn.status for turn in turns] == ["committed"] * 2
    assert texts == ["q", "one", "and?", "two"]
    assert sent == [["q"], ["and?"]]
    assert [each.prompt_tokens for each in usage] == told


def test_a_model_that_asks_another_something_of_its_own(engine: Any, chat: Any) -> None:
    """That one's turn names the one around it, and is no part of the talk."""

    def route(model: Any, messages: Any) -> str:
        return f"routed: {model.invoke('Which department?').content}"

    with Wire("sales") as wire:
        turns, texts, _ = talk_with(routing(chat(wire), route), engine)
        assert [[m["content"] for m in b["messages"]] for b in wire.bodies] == [
            ["Which department?"]
        ] * 2
    assert [turn.purpose for turn in turns] == ["chat", "helper"] * 2
    assert [turn.parent_turn_id for turn in turns[:2]] == [None, turns[0].turn_id]
    assert texts == ["q", "routed: sales", "and?", "routed: sales"]


def test_what_another_agent_says_in_the_user_s_role_is_no_task(engine: Any, chat: Any) -> None:
    from langgraph.graph import END, START, MessagesState, StateGraph

    with Wire([text("facts"), text("a text")]) as wire:
        model = chat(wire)

        def researcher(state: MessagesState) -> Any:
            found = model.invoke(state["messages"]).content
            return {"messages": [HumanMessage(found, name="researcher")]}

        def writer(state: MessagesState) -> Any:
            return {"messages": [model.invoke(state["messages"])]}

        graph = (
            StateGraph(MessagesState)
            .add_node("researcher", researcher)
            .add_node("writer", writer)
            .add_edge(START, "researcher")
            .add_edge("researcher", "writer")
            .add_edge("writer", END)
            .compile()
        )
        with install_ce(graph, engine=engine):
            given: Any = {"messages": [HumanMessage("q", name="ann")]}
            config: Any = THREAD
            graph.invoke(given, config)
    assert engine.sync.flush()
    state = engine.loop.run(engine.store.state(Scope(session_id="t")))
    said = [(row.origin, row.speaker) for row in state.rows if row.message.role == "user"]
    assert said == [("task", "ann"), ("colleague", "researcher")]


def test_a_person_with_an_agent_s_name_does_not_lose_the_task(engine: Any, chat: Any) -> None:
    from langgraph.graph import END, START, MessagesState, StateGraph

    with Wire() as wire:
        model = chat(wire)

        def bob(state: MessagesState) -> Any:
            return {"messages": [model.invoke(state["messages"])]}

        graph = (
            StateGraph(MessagesState)
            .add_node("bob", bob)
            .add_edge(START, "bob")
            .add_edge("bob", END)
            .compile()
        )
        said: list[Any] = [HumanMessage("THE TASK " + "x " * 50, name="bob")]
        for n in range(6):
            asked = {"name": "t", "args": {}, "id": str(n), "type": "tool_call"}
            said += [AIMessage("", tool_calls=[asked]), ToolMessage("r " * 60, tool_call_id=str(n))]
        config: Any = THREAD
        small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=200))
        with install_ce(graph, engine=engine, config=small):
            given: Any = {"messages": said}
            graph.invoke(given, config)
        assert wire.bodies[0]["messages"][0]["content"].startswith("THE TASK")
        assert len(wire.bodies[0]["messages"]) < len(said)
    assert engine.sync.flush()
    state = engine.loop.run(engine.store.state(Scope(session_id="t")))
    assert [(row.origin, row.speaker) for row in state.rows[:1]] == [("task", "bob")]
