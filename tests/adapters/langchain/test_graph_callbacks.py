"""Handlers around a graph hear as much as without us, wherever the app put them, and the graph stays governed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph

from ce_integrations.langchain import install_ce


THREAD = {"configurable": {"thread_id": "t"}}
Place = Callable[[Any, Any], tuple[Any, dict[str, Any]]]


class Ears(BaseCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append(f"chain {kwargs.get('name')}")

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append("model")


def a_graph() -> Any:
    """A graph whose model is made while it runs: nothing but the graph can be marked."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [FakeListChatModel(responses=["fine"]).invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile()


def at_the_call(graph: Any, ears: Any) -> tuple[Any, dict[str, Any]]:
    return graph, {"callbacks": [ears]}


def in_a_manager(graph: Any, ears: Any) -> tuple[Any, dict[str, Any]]:
    return graph, {"callbacks": CallbackManager([ears], [ears])}


def around(graph: Any, ears: Any) -> tuple[Any, dict[str, Any]]:
    def call(given: Any) -> Any:
        return graph.invoke(given)

    async def acall(given: Any) -> Any:
        return await graph.ainvoke(given)

    return RunnableLambda(call, acall), {"callbacks": [ears]}


def of_the_graph(graph: Any, ears: Any) -> tuple[Any, dict[str, Any]]:
    return graph.with_config(callbacks=[ears]), {}


def of_both(graph: Any, ears: Any) -> tuple[Any, dict[str, Any]]:
    return graph.with_config(callbacks=[ears]), {"callbacks": [ears]}


@pytest.mark.req("A-24")
@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "batch"], indirect=True)
@pytest.mark.parametrize("place", [at_the_call, in_a_manager, around, of_the_graph, of_both])
def test_handlers_hear_the_same(engine: Any, call: Any, stored: Any, place: Place) -> None:
    heard = []
    for installed in (False, True):
        ears = Ears()
        app, config = place(a_graph(), ears)
        installation = install_ce(app, engine=engine) if installed else None
        call(app, {"messages": [("user", "q")]}, {**config, **THREAD})
        if installation is not None:
            installation.uninstall()
        heard.append(ears.heard)
    assert heard[0] == heard[1]
    assert heard[0].count("model") == 1
    assert [m.content for m in stored("t").session.messages] == ["q", "fine"]
