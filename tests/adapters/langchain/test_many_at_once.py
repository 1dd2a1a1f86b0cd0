"""Many calls at once: sessions, engines and threads are never mixed."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough

from ce_engine import (
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from tests.adapters.langchain.rows import rows


THREADS = 16
TALKS = 40
CALLS = 8
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=60))


class Echo(BaseChatModel):
    """Answers with what it was asked, and with all that the user said."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        said = [m.content for m in messages if m.type == "human"]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(" | ".join(said)))])


def talker() -> Any:
    """A chain that keeps nothing: with history, what others said would be heard."""
    return RunnablePassthrough() | Echo()


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=PATIENT)
    yield made
    made.sync.close()


@pytest.fixture
def other() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=PATIENT)
    yield made
    made.sync.close()


def ask(model: Any, session: str, words: str, *, by_block: bool) -> str:
    if by_block:
        with ce_session(session):
            return str(model.invoke([HumanMessage(words)]).content)
    thread: Any = {"configurable": {"thread_id": session}}
    return str(model.invoke([HumanMessage(words)], thread).content)


@pytest.mark.req("A-24")
@pytest.mark.scenario(12)
def test_forty_talks_on_sixteen_threads(engine: Any) -> None:
    model, start = talker(), threading.Barrier(THREADS)
    wrong: list[str] = []

    def talk(n: int) -> None:
        if n < THREADS:
            start.wait()
        for call in range(CALLS):
            # In turn in a session of its own and in one that it shares with its neighbour.
            session = f"own {n}" if call % 2 else f"shared {n // 2}"
            said = ask(model, session, f"{session}; by {n}; {call}", by_block=call % 4 < 2)
            wrong.extend(part for part in said.split(" | ") if not part.startswith(f"{session};"))

    with install_ce(model, engine=engine, history=True), ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(talk, range(TALKS)))
    assert wrong == []
    assert engine.sync.flush(60)
    for n in range(TALKS):
        of_own = rows(engine, f"own {n}")
        assert len(of_own["turns"]) == len(of_own["usage"]) == CALLS // 2
        assert all(f"own {n};" in m[1] for m in of_own["messages"])
    for n in range(TALKS // 2):
        shared = rows(engine, f"shared {n}")
        assert len(shared["turns"]) == CALLS
        users = Counter(m[1] for m in shared["messages"] if m[0] == "user")
        assert set(users.values()) == {1}
        assert len(users) == CALLS


@pytest.mark.scenario(12)
def test_tasks_of_one_loop(engine: Any) -> None:
    model = talker()

    async def talk(n: int) -> list[str]:
        async with ce_session(f"s{n}"):
            return [str((await model.ainvoke(f"s{n} {call}")).content) for call in range(4)]

    async def all_of() -> list[list[str]]:
        return list(await asyncio.gather(*(talk(n) for n in range(THREADS))))

    with install_ce(model, engine=engine, history=True), asyncio.Runner() as runner:
        found = runner.run(all_of(), context=copy_context())
    for n, said in enumerate(found):
        assert said[-1] == " | ".join(f"s{n} {call}" for call in range(4))
        assert len(rows(engine, f"s{n}")["turns"]) == 4


@pytest.mark.scenario(12)
def test_a_fan_out_of_eight(engine: Any) -> None:
    model = Echo()
    prompt = ChatPromptTemplate([("human", "{q} {n}")])
    chain: Any = RunnableParallel({f"b{n}": prompt.partial(n=str(n)) | model for n in range(8)})
    with install_ce(chain, engine=engine), ThreadPoolExecutor(4) as pool:

        def ask(name: str) -> Any:
            return chain.invoke({"q": name}, {"configurable": {"session_id": name}})

        answers = list(pool.map(ask, ("ann", "bob", "卡尔", "dan")))
    for name, found in zip(("ann", "bob", "卡尔", "dan"), answers, strict=True):
        assert {key: said.content for key, said in found.items()} == {
            f"b{n}": f"{name} {n}" for n in range(8)
        }
        kept = rows(engine, name)
        assert sorted(m[1] for m in kept["messages"]) == sorted(
            [f"{name} {n}" for n in range(8)] * 2
        )
        assert len({turn[4] for turn in kept["turns"]}) == 1


class Ears(BaseCallbackHandler):
    """Counts."""

    def __init__(self) -> None:
        self.heard: Counter[str] = Counter()

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard["start"] += 1

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.heard["end"] += 1


class Telling(Echo):
    """Answers with the system message."""

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        words = " ".join(str(m.content) for m in messages if m.type == "system")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(words))])


def graph_of(model: Any) -> Any:
    from langgraph.graph import END, START, MessagesState, StateGraph

    def node(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    built = StateGraph(MessagesState).add_node("node", node)
    return built.add_edge(START, "node").add_edge("node", END).compile()


@pytest.mark.scenario(11)
def test_two_engines_on_one_model_at_once(engine: Any, other: Any) -> None:
    """Each graph's own rule goes out, each call is heard and recorded once, by its own engine."""
    ears = Ears()
    model = Telling(callbacks=[ears])
    sides = [(engine, "First.", graph_of(model)), (other, "Second.", graph_of(model))]
    for each, rule, _ in sides:
        each.sync.constraints.create(Scope(session_id="any"), rule)

    def ask(n: int) -> None:
        _, rule, graph = sides[n % 2]
        given = {"messages": [HumanMessage(f"q {n}")]}
        found = graph.invoke(given, {"configurable": {"thread_id": f"t{n}"}})
        said = found["messages"][-1].content
        assert rule in said
        assert said.count("must not be violated") == 1

    with ExitStack() as installed, ThreadPoolExecutor(8) as pool:
        for each, _, graph in sides:
            installed.enter_context(install_ce(graph, engine=each))
        list(pool.map(ask, range(24)))
    assert ears.heard == {"start": 24, "end": 24}
    for n in range(24):
        assert len(rows(sides[n % 2][0], f"t{n}")["turns"]) == 1
    for each, _, _ in sides:
        assert len(list(each.loop.run(each.store.list_sessions(user_id=None)))) == 12
    assert model.callbacks == [ears]


@pytest.mark.scenario(12)
def test_a_raw_thread_with_a_model_of_a_closure(engine: Any) -> None:
    """No context is copied there: the model carries its mark, the session is the installation's."""
    model, found = FakeListChatModel(responses=["yes"]), list[Any]()
    outer = RunnableLambda(model.invoke)

    def work() -> None:
        found.append(model.invoke("from a thread").content)

    with install_ce(outer, engine=engine, session_id="s"), ce_session("not there"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == ["yes"]
    assert [m[1] for m in rows(engine, "s")["messages"]] == ["from a thread", "yes"]
