"""Which conversation a call is of: with room, no step, branch or agent is sent another's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableParallel
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from ce_engine import Scope
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.langchain.releases import make_agent


THREAD = {"configurable": {"thread_id": "t"}}
SESSION = {"configurable": {"session_id": "t"}}
App = Callable[[Any], tuple[Any, list[Any], dict[str, Any]]]


def step(system: str) -> ChatPromptTemplate:
    return ChatPromptTemplate([("system", system), ("human", "{q}")])


def steps(model: Any) -> Any:
    chain = step("rephrase") | model | (lambda said: {"q": said.content}) | step("answer") | model
    return chain, [{"q": "one"}, {"q": "two"}], SESSION


def branches(model: Any) -> Any:
    both = RunnableParallel(joke=step("joke") | model, poem=step("poem") | model)
    return both, [{"q": "cats"}, {"q": "dogs"}], {**SESSION, "max_concurrency": 1}


def router(model: Any) -> Any:
    def route(state: MessagesState) -> dict[str, Any]:
        model.invoke([("system", "route"), ("user", state["messages"][-1].content)])
        return {}

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke([("system", "answer"), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("route", route)
    graph.add_node("answer", answer)
    graph.add_edge(START, "route")
    graph.add_edge("route", "answer")
    graph.add_edge("answer", END)
    asked = [{"messages": [("user", question)]} for question in ("one", "two", "three")]
    return graph.compile(checkpointer=InMemorySaver()), asked, THREAD


def bodies(app: App, chat: Any, engine: Any) -> list[Any]:
    """What goes out; with an engine, with us."""
    with Wire(lambda body: f"{body['messages'][0]['content']} of {len(body['messages'])}") as wire:
        target, inputs, config = app(chat(wire))
        installed = install_ce(target, engine=engine) if engine is not None else None
        for given in inputs:
            target.invoke(given, config)
        if installed is not None:
            assert installed.faults == ()
            installed.uninstall()
        return [body["messages"] for body in wire.bodies]


@pytest.mark.req("A-24")
@pytest.mark.parametrize("app", [steps, branches, router], ids=lambda app: app.__name__)
def test_no_step_is_sent_what_another_was_told(app: App, chat: Any, engine: Any) -> None:
    def in_order(found: list[Any]) -> list[Any]:
        return sorted(found, key=str)  # branches take their turns as they like

    assert in_order(bodies(app, chat, engine)) == in_order(bodies(app, chat, None))


def asking(agent: Any, name: str) -> BaseTool:
    @tool(name)
    def ask(q: str) -> str:
        """Ask."""
        said: str = agent.invoke({"messages": [("user", q)]})["messages"][-1].content
        return said

    return ask


@pytest.mark.req("A-24")
@pytest.mark.parametrize("names", [(None, None), ("hr", "web")], ids=["unnamed", "named"])
def test_no_agent_is_sent_what_another_was_told(
    names: tuple[str | None, str | None], chat: Any, engine: Any
) -> None:
    script = [
        tool_calls([("hr", {"q": "what does Bob earn?"})]),
        text("a lot, and that is secret"),
        text("done"),
        tool_calls([("web", {"q": "the weather?"})]),
        text("sunny"),
        text("done again"),
    ]
    with Wire(script) as wire:
        prompts = ("you are HR", "you are the web")
        hr, web = (
            make_agent(chat(wire), [], system_prompt=prompt, name=name)
            for prompt, name in zip(prompts, names, strict=True)
        )
        agent: Any = make_agent(
            chat(wire), [asking(hr, "hr"), asking(web, "web")], checkpointer=InMemorySaver()
        )
        with install_ce(agent, engine=engine):
            for question in ("one", "two"):
                agent.invoke({"messages": [HumanMessage(question)]}, THREAD)
    sent = [body["messages"] for body in wire.bodies]
    assert [message["content"] for message in sent[4]] == ["you are the web", "the weather?"]
    lanes = {turn.lane for turn in engine.loop.run(engine.store.list_turns(Scope(session_id="t")))}
    assert len(lanes) == 3


@pytest.fixture
def cache() -> Iterator[None]:
    set_llm_cache(InMemoryCache())
    yield
    set_llm_cache(None)


@pytest.mark.req("B-03")
def test_an_answer_out_of_a_cache_leads_to_nobodys_session(
    cache: None, chat: Any, engine: Any
) -> None:
    del cache
    with Wire("hello") as wire:
        model: Any = chat(wire)
        with install_ce(model, engine=engine):
            said = {name: [HumanMessage("hi")] for name in ("Alice", "Bob")}
            for messages in said.values():
                messages.append(model.invoke(messages))
            assert said["Alice"][1].id == said["Bob"][1].id
            for name, messages in said.items():
                model.invoke([*messages, HumanMessage(f"I am {name}")])
    found = engine.loop.run(engine.store.list_sessions(ephemeral=True))
    for info in found:
        document = engine.loop.run(engine.store.get_session(Scope(session_id=info.session_id)))
        words = " ".join(message.content for message in document.session.messages)
        assert not ("Alice" in words and "Bob" in words)


def test_a_model_inside_a_model_is_of_the_same_session(chat: Any, engine: Any) -> None:
    with Wire(["inner", "again"]) as wire:
        inner: Any = chat(wire)

        class Guarded(type(inner)):  # type: ignore[misc]  # a class of the app's
            def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
                checked = inner.invoke([HumanMessage("is this right?")])
                assert isinstance(checked, AIMessage)
                return super()._generate(messages, *args, **kwargs)

        outer = Guarded(model="gpt-4", base_url=wire.base_url, api_key="none", max_retries=0)
        with install_ce(inner, engine=engine), install_ce(outer, engine=engine):
            outer.invoke([HumanMessage("q")], THREAD)
    found = engine.loop.run(engine.store.list_sessions(ephemeral=True))
    assert [info.session_id for info in found] == ["t"]
