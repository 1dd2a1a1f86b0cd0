"""Models in the nodes of a graph: what goes out is assembled, what the graph keeps is the app's alone."""

from __future__ import annotations

import threading
from contextvars import Context, copy_context
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

from ce_engine import BudgetConfig, ContextEngine, RuntimeConfig, Scope
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire


pytestmark = [pytest.mark.scenario(4), pytest.mark.req("A-24")]

RULE = "Answer in English."
THREAD: Any = {"configurable": {"thread_id": "t"}}
SMALL = RuntimeConfig(budget=BudgetConfig(max_input_tokens=300, reserved_reply_tokens=0))
WORDS = "some more words " * 20


@pytest.fixture
def engine(engine: ContextEngine) -> ContextEngine:
    """One that has something to bring into every call."""
    engine.sync.constraints.create(Scope(session_id="any"), RULE)
    return engine


def one_node(name: str, node: Any, **kwargs: Any) -> Any:
    graph = StateGraph(MessagesState).add_node(name, node)
    return graph.add_edge(START, name).add_edge(name, END).compile(**kwargs)


def closure(model: Any) -> Any:
    def answer(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    return answer


def async_closure(model: Any) -> Any:
    async def answer(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return answer


def streaming(model: Any) -> Any:
    def answer(state: MessagesState) -> Any:
        return {
            "messages": [AIMessage("".join(c.content for c in model.stream(state["messages"])))]
        }

    return answer


def made_inside(chat: Any, wire: Wire) -> Any:
    def answer(state: MessagesState) -> Any:
        return {"messages": [chat(wire).invoke(state["messages"])]}

    return answer


def made_inside_async(chat: Any, wire: Wire) -> Any:
    async def answer(state: MessagesState) -> Any:
        return {"messages": [await chat(wire).ainvoke(state["messages"])]}

    return answer


NODES: dict[str, Any] = {
    "closure": lambda chat, wire: closure(chat(wire)),
    "async closure": lambda chat, wire: async_closure(chat(wire)),
    "closure that streams": lambda chat, wire: streaming(chat(wire)),
    "made inside": made_inside,
    "made inside async": made_inside_async,
}


async def _read(graph: Any, given: Any, how: str) -> None:
    if how == "astream_events":
        async for _ in graph.astream_events(given, THREAD, version="v2"):
            pass
    else:
        async for _ in graph.astream(given, THREAD, stream_mode="messages"):
            pass


def run(graph: Any, question: str, how: str, runner: Any) -> None:
    given = {"messages": [HumanMessage(question)]}
    if how == "invoke":
        graph.invoke(given, THREAD)
    elif how == "ainvoke":
        runner.run(graph.ainvoke(given, THREAD))
    elif how == "messages":
        list(graph.stream(given, THREAD, stream_mode="messages"))
    else:
        runner.run(_read(graph, given, how))


WAYS = [
    ("closure", "invoke"),
    ("closure", "messages"),
    ("closure", "amessages"),
    ("closure", "astream_events"),
    ("async closure", "ainvoke"),
    ("async closure", "amessages"),
    ("closure that streams", "messages"),
    ("made inside", "invoke"),
    ("made inside", "amessages"),
    ("made inside async", "ainvoke"),
    ("made inside async", "astream_events"),
]


@pytest.mark.parametrize(("kind", "how"), WAYS)
def test_the_state_has_only_what_the_app_put_in(
    chat: Any, engine: Any, runner: Any, kind: str, how: str, stored: Any
) -> None:
    """Rules were brought in and messages left out: neither is in any byte of the checkpoints."""
    questions = [f"question {n} {WORDS}" for n in range(5)]
    saver = InMemorySaver()
    with Wire([f"answer {n}" for n in range(5)]) as wire:
        graph = one_node("node", NODES[kind](chat, wire), checkpointer=saver)
        with install_ce(graph, engine=engine, config=SMALL):
            for question in questions:
                run(graph, question, how, runner)
        assert wire.refusals == []
        bodies = [body["messages"] for body in wire.bodies]
    assert [str(body).count(RULE) for body in bodies] == [1] * 5
    assert len(bodies[-1]) < 10
    state = graph.get_state(THREAD).values["messages"]
    said = [words for n in range(5) for words in (questions[n], f"answer {n}")]
    assert [(m.type, m.content) for m in state] == [
        (kind, words) for kind, words in zip(["human", "ai"] * 5, said, strict=True)
    ]
    kept = repr(vars(saver)) + repr(list(saver.list(None)))
    assert "question 0" in kept
    assert RULE not in kept
    assert "<ce " not in kept
    assert [m.content for m in stored("t").session.messages] == said


def test_a_fan_out_is_of_one_session_or_of_those_it_says(
    chat: Any, engine: Any, stored: Any
) -> None:
    """Eight branches at once, in the thread's session, then each in one of its own."""

    def build(model: Any) -> Any:
        def write(state: Any, config: RunnableConfig) -> Any:
            if not state["own"]:
                return {"messages": [model.invoke([HumanMessage(state["topic"])])]}
            with ce_session(state["topic"]):
                return {"messages": [model.invoke([HumanMessage(state["topic"])])]}

        def fan(state: Any) -> Any:
            own = state["messages"][-1].content == "own"
            return [Send("write", {"topic": f"topic {n}", "own": own}) for n in range(8)]

        graph = StateGraph(MessagesState).add_node("write", write)
        return graph.add_conditional_edges(START, fan, ["write"]).add_edge("write", END).compile()

    with Wire(lambda body: f"about {body['messages'][-1]['content']}") as wire:
        graph = build(chat(wire))
        with install_ce(graph, engine=engine):
            for word in ("shared", "own"):
                found = graph.invoke({"messages": [HumanMessage(word)]}, THREAD)["messages"]
                assert sorted(m.content for m in found[1:]) == [
                    f"about topic {n}" for n in range(8)
                ]
        assert len(wire.bodies) == 16
        assert all(str(body["messages"]).count("topic ") == 1 for body in wire.bodies)
    both = sorted([f"topic {n}" for n in range(8)] + [f"about topic {n}" for n in range(8)])
    assert sorted(m.content for m in stored("t").session.messages) == both
    for n in range(8):
        said = [m.content for m in stored(f"topic {n}").session.messages]
        assert said == [f"topic {n}", f"about topic {n}"]


@pytest.mark.parametrize("as_node", [True, False], ids=["node", "called"])
def test_a_subgraph_is_of_the_same_session_in_a_line_of_its_own(
    chat: Any, engine: Any, stored: Any, as_node: bool
) -> None:
    with Wire(["inner answer", "outer answer"]) as wire:
        inner = one_node("ask", closure(chat(wire)))

        def call(state: MessagesState) -> Any:
            return {"messages": inner.invoke({"messages": state["messages"]})["messages"][-1:]}

        outer: Any = (
            StateGraph(MessagesState)
            .add_node("team", inner if as_node else call)
            .add_node("sum up", closure(chat(wire)))
            .add_edge(START, "team")
            .add_edge("team", "sum up")
            .add_edge("sum up", END)
            .compile(checkpointer=InMemorySaver())
        )
        with install_ce(outer, engine=engine):
            found = outer.invoke({"messages": [HumanMessage("q")]}, THREAD)["messages"]
        assert [m.content for m in found] == ["q", "inner answer", "outer answer"]
        assert [str(body["messages"]).count(RULE) for body in wire.bodies] == [1, 1]
    assert engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="t")))
    assert [turn.lane for turn in turns] == ["team|ask", "sum up"]
    assert len({turn.request_id for turn in turns}) == 1


@pytest.mark.scenario(12)
@pytest.mark.parametrize(
    ("made_there", "copied", "governed"),
    [(False, False, True), (True, False, False), (True, True, True)],
    ids=["closure", "made there", "made there, context copied"],
)
def test_a_thread_of_the_app_s_own_in_a_node(
    chat: Any, engine: Any, sessions: Any, made_there: bool, copied: bool, governed: bool
) -> None:
    """A raw one inherits nothing: a model that carries the mark is governed, one made there is not."""
    with Wire("fine") as wire:
        model = chat(wire)

        def node(state: MessagesState) -> Any:
            found: list[Any] = []

            def work() -> None:
                asked = chat(wire) if made_there else model
                found.append(asked.invoke(state["messages"]))

            run = copy_context().run if copied else Context().run
            thread = threading.Thread(target=run, args=(work,))
            thread.start()
            thread.join()
            return {"messages": found}

        graph = one_node("node", node)
        with install_ce(graph, engine=engine, session_id="s"):
            found = graph.invoke({"messages": [HumanMessage("q")]}, THREAD)["messages"]
        assert [m.content for m in found] == ["q", "fine"]
        assert str(wire.bodies[0]["messages"]).count(RULE) == int(governed)
    assert len(sessions()) == int(governed)


@pytest.mark.req("B-16")
def test_a_graph_that_has_a_name_is_the_author_of_its_answers(
    chat: Any, engine: ContextEngine, stored: Any
) -> None:
    """A graph without one says no author: the framework's own default is no name."""
    with Wire("yes") as wire:
        for name in ("planner", None):
            made = StateGraph(MessagesState).add_node("answer", closure(chat(wire)))
            graph = made.add_edge(START, "answer").add_edge("answer", END).compile(name=name)
            config: Any = {"configurable": {"thread_id": str(name)}}
            with install_ce(graph, engine=engine):
                graph.invoke({"messages": [HumanMessage("plan?")]}, config)
    said = {name: stored(name).session.messages[-1].author for name in ("planner", "None")}
    assert said["planner"].id == "planner"
    assert said["None"] is None
