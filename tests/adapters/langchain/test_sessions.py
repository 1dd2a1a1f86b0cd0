"""Whose session a call belongs to: the framework's ids, `ce_session`, options, and nobody's."""

from __future__ import annotations

import inspect
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import tool

from ce_engine import Scope
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.langchain.releases import HAS, make_agent


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"meaning of {word}"


def chain_of(model: Any) -> Any:
    return ChatPromptTemplate.from_messages([("human", "{q}")]) | model | StrOutputParser()


@pytest.mark.parametrize("key", ["thread_id", "session_id", "conversation_id"])
@pytest.mark.parametrize("place", ["configurable", "metadata"])
def test_the_framework_s_own_id(
    chat: Any, engine: Any, call: Any, stored: Any, key: str, place: str
) -> None:
    with Wire("hello") as wire:
        chain = chain_of(chat(wire))
        with install_ce(chain, engine=engine):
            call(chain, {"q": "hi"}, {place: {key: "the id", "user_id": "ann"}})
    assert [m.content for m in stored("the id", "ann").session.messages] == ["hi", "hello"]


@pytest.mark.parametrize("key", ["thread_id", "session_id", "conversation_id"])
def test_the_id_of_a_tool_that_the_app_calls_itself(
    engine: Any, call: Any, stored: Any, sessions: Any, key: str
) -> None:
    asked = {"type": "tool_call", "id": "c1", "name": "lookup", "args": {"word": "cut"}}
    with install_ce(lookup, engine=engine):
        call(lookup, {"word": "lane"}, {"configurable": {key: "the id", "user_id": "ann"}})
        call(lookup, asked, {"metadata": {key: "the id", "user_id": "ann"}})
    runs = stored("the id", "ann").session.tool_state.tool_calls
    assert [run.tool for run in runs] == ["lookup", "lookup"]
    assert len(sessions()) == 1


def test_entry_points_stay_coroutine_functions(engine: Any) -> None:
    with install_ce(lookup, engine=engine):
        assert inspect.iscoroutinefunction(lookup.ainvoke)
        assert not inspect.iscoroutinefunction(lookup.invoke)


@pytest.mark.parametrize("templated", [False, True], ids=["a text", "a template"])
def test_what_was_said_stays_messages(chat: Any, engine: Any, call: Any, templated: bool) -> None:
    config = {"configurable": {"thread_id": "t"}}
    with Wire([text("Hi Bob"), text("Bob")]) as wire:
        first = PromptTemplate.from_template("{q}") if templated else RunnablePassthrough()
        chain = first | chat(wire)
        with install_ce(chain, engine=engine, history=True):
            for question in ("I am Bob", "Who am I?"):
                call(chain, {"q": question} if templated else question, config)
        assert [(m["role"], m["content"]) for m in wire.bodies[-1]["messages"]] == [
            ("user", "I am Bob"),
            ("assistant", "Hi Bob"),
            ("user", "Who am I?"),
        ]


def test_ids_need_not_be_texts(chat: Any, engine: Any, call: Any, stored: Any) -> None:
    thread = uuid.UUID(int=7)
    with Wire("hello") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine):
            call(model, "hi", {"configurable": {"thread_id": thread}})
            call(model, "hi", {"configurable": {"thread_id": 12}})
            call(model, "hi", {"configurable": {"thread_id": 0, "session_id": "s", "user_id": 0}})
            call(model, "hi", {"configurable": {"thread_id": "", "session_id": "s"}})
    assert len(stored(str(thread)).session.messages) == 2
    assert len(stored("12").session.messages) == 2
    assert len(stored("0", "0").session.messages) == 2
    assert len(stored("s").session.messages) == 2


@pytest.mark.parametrize("nobody", [{}, {"thread_id": "default"}, {"session_id": ""}])
def test_without_an_id_no_run_remembers_another(
    chat: Any, engine: Any, call: Any, sessions: Any, nobody: Any
) -> None:
    with Wire("hello") as wire:
        chain = chain_of(chat(wire))
        with install_ce(chain, engine=engine):
            for n in range(3):
                call(chain, {"q": f"my secret number is {n}"}, {"configurable": nobody})
        assert all(len(body["messages"]) == 1 for body in wire.bodies)
    assert [(s.ephemeral, s.messages) for s in sessions()] == [(True, 2)] * 3


def test_without_an_id_a_run_is_one_session(
    chat: Any, engine: Any, call: Any, sessions: Any, mode: str
) -> None:
    """Model calls and tools of one run of an agent, in the session that was made for it."""
    with Wire([tool_calls([("lookup", {"word": "a"})]), text("done")]) as wire:
        agent: Any = make_agent(chat(wire), [lookup])
        with install_ce(agent, engine=engine):
            config = {"tags": ["x"]}
            if mode in {"stream", "astream"}:
                config = {}  # a stream of updates cannot be added up
                list(agent.stream({"messages": [("human", "q")]}, config))
            else:
                call(agent, {"messages": [("human", "q")]}, config)
    (session,) = sessions()
    assert (session.ephemeral, session.messages, session.tool_calls, session.turns) == (
        *(True, 4),
        *(1, 2),
    )


def test_a_chain_s_steps_share_its_run(chat: Any, engine: Any, call: Any, sessions: Any) -> None:
    """Only the models are marked here: the root is found through the runs above them."""
    with Wire("hello") as wire:
        first, second = chain_of(chat(wire)), chain_of(chat(wire))
        both = first | (lambda answer: {"q": answer}) | second
        with install_ce(both, engine=engine):
            call(both, {"q": "hi"})
        assert [len(body["messages"]) for body in wire.bodies] == [1, 1]
    (session,) = sessions()
    assert session.turns == 2


def test_a_list_with_our_answer_goes_on_with_its_session(
    chat: Any, engine: Any, sessions: Any
) -> None:
    with Wire("hello") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine):
            messages: list[Any] = []
            for question in ("one", "two", "three"):
                messages.append(HumanMessage(question))
                messages.append(model.invoke(messages))
            model.invoke([HumanMessage("one")])  # the same words, of somebody else
    assert sorted((s.ephemeral, s.messages) for s in sessions()) == [(True, 2), (True, 6)]


def test_ce_session_wins(chat: Any, engine: Any, call: Any, stored: Any, sessions: Any) -> None:
    with Wire("hello") as wire:
        chain = chain_of(chat(wire))
        with install_ce(chain, engine=engine, session_id="of install", user_id="bob"):
            with ce_session("inner", user_id="ann"):
                call(chain, {"q": "in"}, {"configurable": {"thread_id": "of the framework"}})
            with ce_session("other"):
                call(chain, {"q": "no user said"})
            call(chain, {"q": "out"}, {"configurable": {"thread_id": "of the framework"}})
    assert len(stored("inner", "ann").session.messages) == 2
    assert len(stored("other", "bob").session.messages) == 2
    assert len(stored("of install", "bob").session.messages) == 2
    assert len(sessions()) == 3


def test_callables_are_told_of_the_call(chat: Any, engine: Any, call: Any, stored: Any) -> None:
    told = []

    def whose(info: Any) -> Scope | None:
        told.append(info)
        tenant = info.metadata.get("tenant")
        return Scope(session_id=f"{tenant}-1", account_id=tenant) if tenant else None

    with Wire("hello") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, scope=whose):
            call(model.bind_tools([lookup]), "hi", {"metadata": {"tenant": "acme"}})
    assert told[0].model == "gpt-4o-mini"
    assert told[0].provider == "openai"
    assert told[0].tools[0]["function"]["name"] == "lookup"
    assert told[0].context_window == (128_000 if HAS["profiles"] else None)
    assert engine.sync.flush()
    scope = Scope(session_id="acme-1", account_id="acme")
    assert engine.loop.run(engine.store.get_session(scope)) is not None


@pytest.mark.scenario(12)
def test_two_sessions_in_threads_never_mix(chat: Any, engine: Any, stored: Any) -> None:
    users, rounds = ["ann", "bob", "卡尔"], 5
    start = Barrier(len(users))

    with Wire(lambda body: f"you said: {body['messages'][-1]['content']}") as wire:
        chain = chain_of(chat(wire))

        def talk(user: str) -> None:
            start.wait()
            for n in range(rounds):
                chain.invoke({"q": f"{user} {n}"}, {"configurable": {"thread_id": user}})

        with install_ce(chain, engine=engine), ThreadPoolExecutor(len(users)) as pool:
            list(pool.map(talk, users))
        for body in wire.bodies:
            spoken = [m["content"] for m in body["messages"] if m["role"] == "user"]
            assert len({words.split()[0] for words in spoken}) == 1
    for user in users:
        words = [m.content for m in stored(user).session.messages]
        assert words == [
            said for n in range(rounds) for said in (f"{user} {n}", f"you said: {user} {n}")
        ]


def test_the_parent_s_configuration_counts_inside_a_node(
    chat: Any, engine: Any, stored: Any
) -> None:
    from langchain_core.runnables import RunnableLambda

    with Wire("hello") as wire:
        model = chat(wire)
        outer = RunnableLambda(lambda q: model.invoke(q).content)
        with install_ce(outer, engine=engine):
            outer.invoke("hi", {"configurable": {"thread_id": "t"}})
    assert len(stored("t").session.messages) == 2
