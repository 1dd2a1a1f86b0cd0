"""Random apps of LangChain with room: trees of runnables, agents, graphs, caches, asked in every way."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from random import Random
from typing import Any

from langchain_core.caches import InMemoryCache
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from ce_integrations.langchain import install_ce
from tests.adapters.langchain.contract_apps import AgentApps, ChainApps, Shelf
from tests.adapters.langchain.contract_surfaces import SURFACES, Meaning
from tests.adapters.langchain.releases import make_agent
from tests.property import room_cases
from tests.property.room_cases import (
    PAGES,
    SESSIONS,
    App,
    Maker,
    broken,
    from_contract,
    from_surface,
    lookup,
)


class Rig(room_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self.agents, self.chains = AgentApps(), ChainApps()
        self.apps = (self.agents, self.chains)


@dataclass
class Case(room_cases.Case):
    install = staticmethod(install_ce)

    rig: Rig

    def app(self, rng: Random) -> App:
        maker, wire, kind = Trees(rng, self.rig), self.rig.wire, rng.random()
        if kind < 0.2:
            self.counts["surfaces"] += 1
            surface = SURFACES[rng.choice(sorted(SURFACES))]
            return from_surface(maker, surface, self.rig.chains, wire)
        if kind < 0.4:
            self.counts["apps of the contract"] += 1
            return from_contract(maker, rng.choice((self.rig.agents, self.rig.chains)), wire)
        self.counts["trees"] += 1
        return maker.app()


class Trees(Maker):
    """Makes runnables that take a text."""

    def __init__(self, rng: Random, rig: Rig) -> None:
        super().__init__(rng)
        self.rig = rig
        self.models: list[Any] = []

    def app(self) -> App:
        made = self.tree(self.rng.choice((0, 1, 1, 2)))
        whole = self.chance(0.7)
        ways = [self._asked(made, self.questions()) for _ in range(self.rng.choice((1, 2)))]
        target = made if whole else self.models[0]
        return App(target, self.in_sessions(ways), ordered=False, whole=whole)

    def model(self) -> Any:
        """A chat model; now and then one that was there before."""
        if self.models and self.chance(0.3):
            return self.models[0]
        made = self.rig.chains.model(self.rig.wire)
        if self.chance(0.2):
            made.cache = InMemoryCache()
        self.models.append(made)
        return made

    def bound(self) -> Any:
        model = self.model()
        kind = self.rng.choice(("", "", "tools", "stop", "config", "retry", "fallbacks", "schema"))
        if kind == "tools":
            return model.bind_tools([tool(lookup)])
        if kind == "stop":
            return model.bind(stop=["END"])
        if kind == "config":
            return model.with_config(tags=["mine"], metadata={"session_id": self.session()})
        if kind == "retry":
            return model.with_retry(stop_after_attempt=2)
        if kind == "fallbacks":
            return model.with_fallbacks([self.model()])
        if kind == "schema":
            return model.with_structured_output(Meaning, method="function_calling")
        return model

    def tree(self, depth: int) -> Runnable[Any, Any]:
        if depth == 0:
            leaves = (
                self.bound,
                self.prompted,
                self.prompted,
                self.text_prompt,
                self.messages,
                self.list_keeping,
                self.with_history,
                self.retrieving,
                self.agent,
                self.graph,
            )
            return self.rng.choice(leaves)()
        kind = self.rng.choice(("text", "parallel", "function", "pipe", "branch", "name"))
        inner = self.tree(depth - 1)
        if kind == "parallel":
            return RunnableParallel(a=inner, b=self.tree(depth - 1))
        if kind == "function":
            return RunnableLambda(_apart(inner))
        if kind == "pipe":
            return inner | RunnableLambda(_text) | self.tree(depth - 1)
        if kind == "branch":
            other = self.tree(depth - 1)
            return RunnableLambda(lambda text: inner if len(text) % 2 else other)
        if kind == "name":
            return inner.with_config(run_name="named", metadata={"thread_id": self.session()})
        return inner | RunnableLambda(_text)

    # Leaves

    def prompted(self) -> Runnable[Any, Any]:
        parts: list[Any] = [("system", "You translate. 翻译。")] if self.chance(0.7) else []
        if self.chance(0.3):
            parts += [("human", "yes"), ("ai", "oui")]
        prompt = ChatPromptTemplate.from_messages([*parts, ("human", "{text}")])
        chain: Runnable[Any, Any] = {"text": RunnablePassthrough()} | prompt | self.bound()
        return chain | RunnableLambda(_text) if self.chance(0.3) else chain

    def text_prompt(self) -> Any:
        return PromptTemplate.from_template("Answer in a word: {text}") | self.bound()

    def messages(self) -> Any:
        said: list[BaseMessage] = [SystemMessage("You help."), HumanMessage("yes"), AIMessage("ok")]
        before = said[: self.rng.randint(0, 3)]
        return RunnableLambda(lambda text: [*before, HumanMessage(text)]) | self.bound()

    def list_keeping(self) -> Runnable[Any, Any]:
        """An app that keeps its list itself."""
        model, kept = self.model(), list[BaseMessage]()

        def ask(text: str) -> Any:
            kept.append(HumanMessage(text))
            kept.append(model.invoke(list(kept)))
            return kept[-1]

        return RunnableLambda(ask)

    def with_history(self) -> Runnable[Any, Any]:
        prompt = ChatPromptTemplate.from_messages(
            [("system", "You help."), MessagesPlaceholder("before"), ("human", "{text}")]
        )
        with warnings.catch_warnings(action="ignore"):  # deprecated, and still in many apps
            histories = {session: InMemoryChatMessageHistory() for session in SESSIONS}
            chain = RunnableWithMessageHistory(
                prompt | self.model(),
                lambda session_id: histories[session_id],
                input_messages_key="text",
                history_messages_key="before",
            )
        config: Any = {"configurable": {"session_id": self.session()}}
        return RunnableLambda(lambda text: chain.invoke({"text": text}, config))

    def retrieving(self) -> Any:
        found = Shelf(pages=PAGES) | RunnableLambda(lambda pages: "\n".join(map(_page, pages)))
        role = self.rng.choice(("system", "human"))
        prompt = ChatPromptTemplate.from_messages(
            [(role, "Use only this: {found}"), ("human", "{text}")]
        )
        return {"text": RunnablePassthrough(), "found": found} | prompt | self.model()

    def agent(self) -> Runnable[Any, Any]:
        tools = [tool(lookup), tool(broken)][: self.rng.randint(0, 1)]
        saver = InMemorySaver() if self.chance(0.5) else None
        made = make_agent(self.model(), tools, system_prompt="You look up.", checkpointer=saver)
        return self._threaded(made)

    def graph(self) -> Runnable[Any, Any]:
        model, graph = self.model(), StateGraph(MessagesState)

        def answer(state: MessagesState) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        graph.add_node("answer", answer)
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        return self._threaded(graph.compile(checkpointer=InMemorySaver()))

    def _threaded(self, graph: Any) -> Runnable[Any, Any]:
        """A graph that is asked in a thread of its app's choice."""
        config = {"configurable": {"thread_id": self.session() or "t"}, "recursion_limit": 12}

        def asked(text: str) -> Any:
            return graph.invoke({"messages": [HumanMessage(text)]}, config)["messages"][-1]

        return RunnableLambda(asked)

    # Ways

    def _asked(self, made: Runnable[Any, Any], questions: list[str]) -> Callable[[], Any]:
        way = self.rng.choice(("invoke", "ainvoke", "stream", "astream", "batch", "abatch"))
        config = self._config()
        if way == "invoke":
            return lambda: [_plain(made.invoke(q, config)) for q in questions]
        if way == "stream":
            return lambda: [_whole(made.stream(q, config)) for q in questions]
        if way == "batch":
            # One after the other: what stateful leaves keep is the same each time.
            one: Any = {**config, "max_concurrency": 1}
            return lambda: [_plain(each) for each in made.batch(questions, one)]

        async def asking() -> list[Any]:
            if way == "ainvoke":
                return [_plain(await made.ainvoke(q, config)) for q in questions]
            if way == "abatch":
                one: Any = {**config, "max_concurrency": 1}
                return [_plain(each) for each in await made.abatch(questions, one)]
            return [_whole([c async for c in made.astream(q, config)]) for q in questions]

        return asking

    def _config(self) -> Any:
        session = self.session()
        kind = self.rng.choice(("", "metadata", "thread", "session", "both"))
        config: dict[str, Any] = {}
        if kind in ("metadata", "both"):
            config["metadata"] = {"session_id": session}
        if kind in ("thread", "both"):
            config["configurable"] = {"thread_id": session}
        elif kind == "session":
            config["configurable"] = {"session_id": session}
        return config


def _apart(inner: Runnable[Any, Any]) -> Callable[[str], Any]:
    """A function that hands no configuration on."""

    def ask(text: str) -> Any:
        return inner.invoke(text)

    return ask


def _page(page: Any) -> str:
    return str(page.page_content)


def _text(value: Any) -> str:
    return str(_plain(value))


def _plain(value: Any) -> Any:
    """What an app gets, without the ids of runs."""
    if isinstance(value, BaseMessage):
        calls = getattr(value, "tool_calls", ())
        return (value.type.removesuffix("MessageChunk").lower(), value.content, _named(calls))
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in sorted(value.items())}
    return value if isinstance(value, str) else repr(value)


def _named(calls: Iterable[Any]) -> list[Any]:
    return [(call["name"], call["args"], call["id"]) for call in calls]


def _whole(chunks: Iterable[Any]) -> Any:
    pieces = list(chunks)
    try:
        return _plain(reduce(operator.add, pieces))
    except TypeError:
        return sorted((_plain(piece) for piece in pieces), key=repr)  # branches race
