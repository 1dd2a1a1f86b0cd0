"""Other people's handlers hear the same events in the same order, with us and without."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseLLM, FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

from ce_integrations.langchain import install_ce


pytestmark = pytest.mark.scenario(18)

EVENTS = [
    f"on_{what}_{when}"
    for what in ("llm", "chat_model", "chain", "tool", "retriever")
    for when in ("start", "end", "error")
    if (what, when) not in {("chat_model", "end"), ("chat_model", "error")}
] + ["on_llm_new_token", "on_text", "on_stream_event", "on_custom_event"]
"""Of these a run fires what it has; a release that lacks one never does."""


def shown(value: Any) -> Any:
    """A payload without ids: types, texts, and how many."""
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, LLMResult):
        return [[g.text for g in row] for row in value.generations]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items() if key not in {"id", "kwargs"}}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    content = getattr(value, "content", None)
    return (type(value).__name__, content) if content is not None else str(value)[:60]


class _Log:
    """What was heard, in order, with what came along but for ids and times."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self._names: dict[Any, int] = {}
        self._lock = threading.Lock()

    def note(self, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with self._lock:
            run, parent = (
                None
                if kwargs.get(key) is None
                else self._names.setdefault(kwargs[key], len(self._names))
                for key in ("run_id", "parent_run_id")
            )
            # Whether it hears of serialized objects and inputs is in the arguments.
            told = (shown(args[-1]) if args else None, kwargs.get("name"), kwargs.get("tags"))
            keys = sorted(key for key in kwargs if kwargs[key] is not None)
            self.heard.append(
                (event, run, parent, *told, sorted(kwargs.get("metadata") or {}), keys)
            )


class Plain(BaseCallbackHandler, _Log):
    """Sync, called on a thread of the pool by async runs."""


class Inline(Plain):
    """Sync, called in the loop's own thread."""

    run_inline = True


class Later(AsyncCallbackHandler, _Log):
    """Async."""


def _hears(event: str) -> Any:
    def hear(self: Any, *args: Any, **kwargs: Any) -> None:
        self.note(event, args, kwargs)

    return hear


def _hears_later(event: str) -> Any:
    async def hear(self: Any, *args: Any, **kwargs: Any) -> None:
        self.note(event, args, kwargs)

    return hear


for _event in EVENTS:
    setattr(Plain, _event, _hears(_event))
    setattr(Later, _event, _hears_later(_event))

KINDS: dict[str, list[Any]] = {
    "plain": [Plain],
    "inline": [Inline],
    "async": [Later],
    "all": [Plain, Inline, Later],
}


# What is run


class Words(BaseLLM):
    """A model for texts."""

    @property
    def _llm_type(self) -> str:
        return "words"

    def _generate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
        if "fail" in prompts[0]:
            raise KeyError(prompts[0])
        return LLMResult(generations=[[Generation(text=f"to {p}")] for p in prompts])

    def _stream(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        for piece in ("to ", prompt):
            if run_manager:
                run_manager.on_llm_new_token(piece)
            yield GenerationChunk(text=piece)


class Failing(FakeListChatModel):
    """Raises."""

    def _call(self, *args: Any, **kwargs: Any) -> str:
        raise TimeoutError


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"{query}: 意思")]


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return Shelf().invoke(word)[0].page_content


def a_model() -> Any:
    return FakeListChatModel(responses=["one two"])


def a_chain() -> Any:
    prompt = ChatPromptTemplate([("system", "s"), ("human", "{q}")])
    return RunnableLambda(lambda q: {"q": q}) | prompt | a_model() | (lambda said: said.content)


def a_graph(model: Any = None) -> Any:
    model = model or a_model()

    def node(state: MessagesState) -> Any:
        lookup.invoke({"word": "lane"})
        return {"messages": [model.invoke(state["messages"])]}

    async def anode(state: MessagesState) -> Any:
        await lookup.ainvoke({"word": "lane"})
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("node", RunnableLambda(node, anode))
    compiled: Any = graph.add_edge(START, "node").add_edge("node", END).compile()
    return RunnableLambda(lambda q: {"messages": [HumanMessage(q)]}) | compiled


TARGETS: dict[str, Any] = {
    "chat model": a_model,
    "chain": a_chain,
    "graph": a_graph,
    "texts": Words,
    "failing": lambda: Failing(responses=[""]),
    "tool": lambda: lookup,
    "retriever": Shelf,
    "fallback": lambda: Failing(responses=[""]).with_fallbacks([a_model()]),
}


async def _aread(target: Any, config: Any) -> list[Any]:
    return [piece async for piece in target.astream("hello", config)]


async def _abatch(target: Any, config: Any) -> Any:
    # One: of two at once nobody says in which order they are heard, and on Python 3.13 it varies.
    return await target.abatch(["a"], {**config, "max_concurrency": 1})


def drive(target: Any, way: str, config: Any, runner: Any) -> Any:
    try:
        if way == "invoke":
            return shown(target.invoke("hello", config))
        if way == "stream":
            return shown(list(target.stream("hello", config)))
        if way == "batch":
            return shown(target.batch(["a", "b"], {**config, "max_concurrency": 1}))
        if way == "ainvoke":
            return shown(runner.run(target.ainvoke("hello", config)))
        if way == "abatch":
            return shown(runner.run(_abatch(target, config)))
        return shown(runner.run(_aread(target, config)))
    except Exception as error:
        return type(error).__name__


@pytest.mark.req("A-24")
@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.parametrize("way", ["invoke", "stream", "batch", "ainvoke", "astream", "abatch"])
def test_they_hear_the_same(engine: Any, runner: Any, way: str, name: str) -> None:
    for kind, classes in KINDS.items():
        heard: list[tuple[Any, list[Any]]] = []
        for governed in (False, True):
            target = TARGETS[name]()
            ears: list[Any] = [each() for each in classes]
            config = {"callbacks": ears, "tags": ["mine"], "metadata": {"mine": 1}}
            if governed:
                with install_ce(target, engine=engine):
                    answer = drive(target, way, config, runner)
            else:
                answer = drive(target, way, config, runner)
            heard.append((answer, [each.heard for each in ears]))
        assert heard[0] == heard[1], kind
        assert all(ears for _, all_ears in heard for ears in all_ears), kind


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "astream"])
def test_their_own_on_the_model_too(engine: Any, runner: Any, way: str) -> None:
    """Handlers that stand where the mark is put, not in the call's configuration."""
    heard = []
    for governed in (False, True):
        ears = Plain()
        model = FakeListChatModel(responses=["one two"], callbacks=[ears])
        if governed:
            with install_ce(model, engine=engine):
                drive(model, way, {}, runner)
        else:
            drive(model, way, {}, runner)
        heard.append(ears.heard)
    assert heard[0] == heard[1]
    assert heard[0]


@pytest.mark.scenario(4)
def test_what_a_graph_streams_and_tells_is_as_before(twins: Any, chat: Any, runner: Any) -> None:
    given = {"messages": [HumanMessage("你好")]}
    thread: Any = {"configurable": {"thread_id": "t"}}

    async def told(graph: Any) -> list[Any]:
        return [
            (e["event"], e["name"], sorted(e["metadata"]), len(e["parent_ids"]))
            async for e in graph.astream_events(given, thread, version="v2")
        ]

    def drive(graph: Any) -> Any:
        pieces = [
            (piece.content, piece.type, metadata["langgraph_node"])
            for piece, metadata in graph.stream(given, thread, stream_mode="messages")
        ]
        modes = [
            (mode, sorted(told) if isinstance(told, dict) else type(told).__name__)
            for mode, told in graph.stream(
                given, thread, stream_mode=["updates", "values", "tasks"]
            )
        ]
        return pieces, modes, runner.run(told(graph))

    def build(wire: Any) -> Any:
        return a_graph(chat(wire)).last

    found = twins(build, drive, "an answer in several pieces")
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    assert len(found.results[1][0]) > 3
