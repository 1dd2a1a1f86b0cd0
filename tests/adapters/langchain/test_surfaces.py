"""Every way in which LangChain wraps, composes and calls a model: the same wire, one turn a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)

from ce_engine import Scope
from tests.adapters.langchain.releases import make_agent


PROMPT = ChatPromptTemplate.from_messages([("human", "{q}")])

WRAPPINGS: dict[str, Any] = {
    "bind": lambda m: m.bind(stop=["x"]),
    "with_config": lambda m: m.with_config(tags=["t"], run_name="named"),
    "with_retry": lambda m: m.with_retry(),
    "with_fallbacks": lambda m: m.with_fallbacks([m]),
    "with_listeners": lambda m: m.with_listeners(on_start=lambda run: None),
    "configurable_fields": lambda m: m.configurable_fields(
        temperature=ConfigurableField(id="heat")
    ).with_config(configurable={"heat": 0.25}),
    "configurable_alternatives": lambda m: m.configurable_alternatives(
        ConfigurableField(id="which"), default_key="one", other=m.bind(stop=["y"])
    ).with_config(configurable={"which": "other"}),
    "lambda": lambda m: RunnableLambda(lambda prompt: m.invoke(prompt.to_messages())),
    "branch": lambda m: RunnableBranch((lambda _: True, m), m.bind(stop=["never"])),
    "map": lambda m: RunnableLambda(lambda p: [p]) | m.map() | RunnableLambda(lambda a: a[0]),
    "parallel": lambda m: RunnableParallel(one=m) | RunnableLambda(lambda both: both["one"]),
    "assign": lambda m: (
        RunnableLambda(lambda p: {"p": p})
        | RunnablePassthrough.assign(answer=RunnableLambda(lambda x: x["p"]) | m)
        | RunnableLambda(lambda x: x["answer"])
    ),
    "disable_streaming": lambda m: m.model_copy(update={"disable_streaming": True}),
}


def turns_of(engine: Any, session_id: str) -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id=session_id))))


@pytest.mark.scenario(3)
@pytest.mark.req("A-24")
@pytest.mark.parametrize("name", sorted(WRAPPINGS))
def test_wrappings(twins: Any, chat: Any, call: Any, engine: Any, name: str) -> None:
    def build(wire: Any) -> Any:
        return PROMPT | WRAPPINGS[name](chat(wire)) | StrOutputParser()

    def drive(chain: Any) -> Any:
        return call(chain, {"q": "你好"})

    found = twins(build, drive, session_id="s")
    assert found.results[0] == found.results[1]
    assert len(found.ours) == 1
    assert found.ours == found.plain
    assert [t.status for t in turns_of(engine, "s")] == ["committed"]


async def _events(chain: Any) -> Any:
    events = [e["event"] async for e in chain.astream_events({"q": "hi"}, version="v2")]
    return events[0], events[-1], "on_chat_model_stream" in events


async def _log(chain: Any) -> Any:
    last = [patch async for patch in chain.astream_log({"q": "hi"})][-1]
    return [op["path"] for op in last.ops]


async def _abatch(chain: Any) -> Any:
    return await chain.abatch([{"q": "one"}, {"q": "two"}], {"max_concurrency": 1})


async def _completed(chain: Any) -> Any:
    return sorted([answer async for answer in chain.abatch_as_completed([{"q": "one"}])])


CALLS: dict[str, Any] = {
    "astream_events": _events,
    "astream_log": _log,
    "abatch": _abatch,
    "abatch_as_completed": _completed,
}


@pytest.mark.scenario(1)
@pytest.mark.filterwarnings("ignore:astream_log is deprecated")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_further_ways_to_call(
    twins: Any, chat: Any, sessions: Any, runner: asyncio.Runner, name: str
) -> None:
    def build(wire: Any) -> Any:
        return PROMPT | chat(wire) | StrOutputParser()

    found = twins(build, lambda chain: runner.run(CALLS[name](chain)))
    assert found.results[0] == found.results[1]
    assert found.ours == found.plain
    assert sum(s.turns for s in sessions()) == len(found.ours) >= 1


@pytest.mark.scenario(6)
@pytest.mark.filterwarnings("ignore:Unexpected type for token usage")  # langchain-openai's own
def test_generate_by_hand_with_several_lists(twins: Any, chat: Any, sessions: Any) -> None:
    def drive(model: Any) -> Any:
        both = model.generate([[HumanMessage("one")], [HumanMessage("two")]])
        return [generations[0].text for generations in both.generations]

    found = twins(chat, drive)
    assert found.results[0] == found.results[1]
    assert found.ours == found.plain
    assert [s.messages for s in sessions()] == [2, 2]


@pytest.mark.scenario(3)
@pytest.mark.filterwarnings("ignore:.*MessageHistory")
def test_a_chain_with_message_history(twins: Any, chat: Any, call: Any, stored: Any) -> None:
    """Its store keeps the whole conversation, and its session id is ours."""
    from langchain_core.chat_history import InMemoryChatMessageHistory
    from langchain_core.prompts import MessagesPlaceholder
    from langchain_core.runnables.history import RunnableWithMessageHistory

    kept: list[Any] = []

    def build(wire: Any) -> Any:
        histories: dict[str, Any] = {}
        kept.append(histories)

        def history_of(session_id: str) -> Any:
            return histories.setdefault(session_id, InMemoryChatMessageHistory())

        prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{q}")])
        return RunnableWithMessageHistory(
            prompt | chat(wire),
            history_of,
            input_messages_key="q",
            history_messages_key="past",
        )

    def drive(chain: Any) -> Any:
        config = {"configurable": {"session_id": "reader"}}
        return [call(chain, {"q": question}, config).content for question in ("one", "two", "三")]

    found = twins(build, drive)
    assert found.ours == found.plain
    assert [len(histories["reader"].messages) for histories in kept] == [6, 6]
    assert len(stored("reader").session.messages) == 6


@pytest.mark.scenario(4)
def test_a_graph_with_fan_out_and_message_streaming(twins: Any, chat: Any, sessions: Any) -> None:
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import Send

    def build(wire: Any) -> Any:
        model = chat(wire)

        def write(state: Any) -> Any:
            return {"messages": [model.invoke([HumanMessage(state["topic"])])]}

        return (
            StateGraph(MessagesState)
            .add_node("write", write)
            .add_conditional_edges(
                START, lambda _: [Send("write", {"topic": f"topic {n}"}) for n in range(8)]
            )
            .add_edge("write", END)
            .compile()
        )

    def drive(graph: Any) -> Any:
        return len(list(graph.stream({"messages": []}, stream_mode="messages"))) > 8

    found = twins(build, drive, lambda body: f"about {body['messages'][-1]['content']}")
    assert sorted(found.ours) == sorted(found.plain)
    (session,) = sessions()
    assert (session.ephemeral, session.messages, session.turns) == (True, 16, 8)


def test_an_interrupted_tool_is_recorded_when_it_has_run(
    twins: Any, chat: Any, stored: Any
) -> None:
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command, interrupt

    from ce_integrations.testing.wire import text, tool_calls

    @tool
    def publish(title: str) -> str:
        """Publish, if a person agrees."""
        return f"{title}: {interrupt('really?')}"

    def build(wire: Any) -> Any:
        return make_agent(chat(wire), [publish], checkpointer=InMemorySaver())

    def drive(agent: Any) -> Any:
        config = {"configurable": {"thread_id": "t"}}
        agent.invoke({"messages": [HumanMessage("publish it")]}, config)
        return agent.invoke(Command(resume="yes"), config)["messages"][-1].content

    found = twins(build, drive, [tool_calls([("publish", {"title": "A"})]), text("done")])
    assert found.ours == found.plain
    document = stored("t")
    (call,) = document.session.tool_state.tool_calls
    assert call.status == "success"
    assert [m.content for m in document.session.messages] == ["publish it", "", "A: yes", "done"]
