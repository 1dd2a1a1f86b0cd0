"""The model gets the history that the app sends: that of the session goes in where the app asks for it, and only there."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.globals import set_llm_cache
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool

from ce_engine import BudgetConfig, ConfigError, RuntimeConfig
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.langchain.releases import make_agent


GROUPED: Any = {"metadata": {"session_id": "s"}}
THREAD: Any = {"configurable": {"thread_id": "s"}}


def translator(model: Any) -> Any:
    prompt = ChatPromptTemplate.from_messages([("human", "Translate: {q}")])
    return prompt | model | StrOutputParser()


def lengths(wire: Wire) -> list[int]:
    return [len(body["messages"]) for body in wire.bodies]


def test_a_stateless_chain_sends_its_own_messages_alone(
    chat: Any, engine: Any, call: Any, stored: Any
) -> None:
    with Wire("übersetzt") as wire:
        chain = translator(chat(wire))
        with install_ce(chain, engine=engine):
            for words in ("one", "二", "three"):
                call(chain, {"q": words}, GROUPED)
        assert lengths(wire) == [1, 1, 1]
    assert len(stored("s").session.messages) == 6


@pytest.mark.parametrize(
    "option", [{"history": True}, {"config": RuntimeConfig(history="session")}], ids=["option", "c"]
)
def test_who_asks_for_history_gets_it(chat: Any, engine: Any, call: Any, option: Any) -> None:
    with Wire("yes") as wire:
        chain = translator(chat(wire))
        with install_ce(chain, engine=engine, **option):
            for words in ("one", "二", "three"):
                call(chain, {"q": words}, GROUPED)
            with ce_session("s", history=False):
                call(chain, {"q": "off"})
        assert lengths(wire) == [1, 3, 5, 1]


def test_a_block_may_ask_for_it(chat: Any, engine: Any, call: Any) -> None:
    """Of a chain; the model in it that is asked alone gets none."""
    with Wire("yes") as wire:
        chain = translator(chat(wire))
        with install_ce(chain, engine=engine):
            call(chain, {"q": "one"}, GROUPED)
            with ce_session("s", history=True):
                call(chain, {"q": "two"})
                call(chain.middle[0], "three")
                with ce_session("s", history=False):
                    call(chain, {"q": "four"})
        assert lengths(wire) == [1, 3, 1, 1]


@pytest.mark.parametrize("history", [None, True])
@pytest.mark.parametrize("way", ["batch", "retried", "bound", "as completed"])
def test_items_of_one_batch_are_no_history_of_each_other(
    chat: Any, engine: Any, history: bool | None, way: str
) -> None:
    items = [{"q": f"item {n}"} for n in range(12)]
    with Wire("yes") as wire:
        chain = translator(chat(wire))
        asked = {"retried": chain.with_retry(), "bound": chain.with_config(tags=["t"])}
        with install_ce(chain, engine=engine, history=history):
            chain.invoke({"q": "before"}, THREAD)
            for most in (1, 4):
                config = {**THREAD, "max_concurrency": most}
                if way == "as completed":
                    list(chain.batch_as_completed(items, config))
                else:
                    asked.get(way, chain).batch(items, config)
        before = [1, *([3] * 12), *([27] * 12)] if history else [1] * 25
        assert lengths(wire) == before


@pytest.mark.parametrize("history", [None, True])
def test_items_of_an_awaited_batch(
    chat: Any, engine: Any, runner: Any, history: bool | None
) -> None:
    async def ask(chain: Any) -> None:
        await chain.ainvoke({"q": "before"}, THREAD)
        await chain.abatch([{"q": f"item {n}"} for n in range(6)], THREAD)
        items = [{"q": f"more {n}"} for n in range(6)]
        _ = [each async for each in chain.abatch_as_completed(items, THREAD)]

    with Wire("yes") as wire:
        chain = translator(chat(wire))
        with install_ce(chain, engine=engine, history=history):
            runner.run(ask(chain))
        assert lengths(wire) == ([1, *([3] * 6), *([15] * 6)] if history else [1] * 13)


@pytest.mark.parametrize("kept", ["the model's", "everybody's"])
def test_a_cache_hits_as_in_the_bare_app(chat: Any, engine: Any, kept: str) -> None:
    with Wire("yes") as wire:
        cache = InMemoryCache()
        model = chat(wire, **({"cache": cache} if kept == "the model's" else {}))
        set_llm_cache(cache if kept == "everybody's" else None)
        try:
            chain = translator(model)
            with install_ce(chain, engine=engine, history=True):
                for words in ("one", "two", "one"):
                    chain.invoke({"q": words}, GROUPED)
        finally:
            set_llm_cache(None)
        assert lengths(wire) == [1, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model,
        lambda model: model.bind(stop=["x"]),
        lambda model: model.with_retry(),
        lambda model: model.with_fallbacks([model]),
        lambda model: model | StrOutputParser(),
    ],
)
@pytest.mark.parametrize(
    "option", [{"history": True}, {"config": RuntimeConfig(history="session")}], ids=["option", "c"]
)
def test_a_bare_model_takes_none(chat: Any, engine: Any, change: Any, option: Any) -> None:
    with (
        Wire("yes") as wire,
        pytest.raises(ConfigError, match="on the chain or engine that holds"),
    ):
        install_ce(change(chat(wire)), engine=engine, **option)


def test_a_model_alone_in_a_block_that_asks_sends_its_own_alone(
    chat: Any, engine: Any, call: Any
) -> None:
    with Wire("yes") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine), ce_session("s", history=True):
            for words in ("one", "two"):
                call(model, words)
                call(translator(model), {"q": words})  # whose chain is nobody's
        assert lengths(wire) == [1, 1, 1, 1]


def test_a_graph_keeps_its_own_state(chat: Any, engine: Any) -> None:
    with Wire("yes") as wire:
        agent: Any = make_agent(chat(wire), [], system_prompt="S")
        with pytest.raises(ConfigError, match="holds no conversation"):
            install_ce(agent, engine=engine, history=True)
        with install_ce(agent, engine=engine), ce_session("s", history=True):
            for words in ("one", "two"):
                agent.invoke({"messages": [HumanMessage(words)]})
        assert lengths(wire) == [2, 2]


def test_what_a_tool_asks_is_no_conversation(chat: Any, engine: Any) -> None:
    with Wire("inner") as wire:
        inner = translator(chat(wire))

        @tool
        def ask(word: str) -> str:
            """Ask."""
            return str(inner.invoke({"q": word}))

        chain = RunnableLambda(lambda q: ask.invoke({"word": q})) | StrOutputParser()
        with install_ce(chain, engine=engine, history=True), ce_session("s"):
            for words in ("one", "two"):
                chain.invoke(words)
        assert lengths(wire) == [1, 1]


@pytest.mark.filterwarnings("ignore:.*MessageHistory")
def test_the_app_s_own_history_is_the_history(chat: Any, engine: Any) -> None:
    kept = InMemoryChatMessageHistory()
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{q}")])
    with Wire("yes") as wire:
        chain = RunnableWithMessageHistory(
            prompt | chat(wire),
            lambda _: kept,
            input_messages_key="q",
            history_messages_key="past",
        )
        with install_ce(chain, engine=engine, history=True):
            for words in ("one", "two", "three"):
                chain.invoke({"q": words}, {"configurable": {"session_id": "s"}})
        assert lengths(wire) == [1, 3, 5]


FACT = "The code of the north warehouse is 7391."
ASKED = "What is the code of the north warehouse?"


@pytest.mark.parametrize("history", [None, True])
def test_over_the_budget_nothing_of_other_lists_comes_back_unasked(
    chat: Any, engine: Any, history: bool | None
) -> None:
    """What fell out of this list may come back; what was said in another one of the session may not."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=300, reserved_reply_tokens=0))
    long = [HumanMessage("Tell me about lamps. " * 20), SystemMessage("ok")] * 4
    with Wire("Noted.") as wire:
        chain = ChatPromptTemplate.from_messages([MessagesPlaceholder("said")]) | chat(wire)
        with install_ce(chain, engine=engine, config=config, history=history), ce_session("s"):
            chain.invoke({"said": [HumanMessage(FACT)]})
            chain.invoke({"said": [*long, HumanMessage(ASKED)]})
            fell_out = [HumanMessage(FACT), *long, HumanMessage(ASKED)]
            with ce_session("t"):
                chain.invoke({"said": fell_out})
        assert ("7391" in str(wire.bodies[1])) is bool(history)
        assert "7391" in str(wire.bodies[2])


def test_a_tool_loop_of_a_chain_keeps_the_history(chat: Any, engine: Any) -> None:
    """The second request of a turn has the history that its first had."""
    with Wire([text("A lane."), tool_calls([("look", {"w": "x"})]), text("done")]) as wire:
        prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("said")])

        @tool
        def look(w: str) -> str:
            """Look."""
            return w

        chain = prompt | chat(wire).bind_tools([look])
        with install_ce(chain, engine=engine, history=True), ce_session("s"):
            chain.invoke({"said": [HumanMessage("What is it?")]})
            asked: list[Any] = [HumanMessage("Look x up.")]
            asked.append(chain.invoke({"said": asked}))
            asked.append(look.invoke(asked[-1].tool_calls[0]))
            chain.invoke({"said": asked})
        assert lengths(wire) == [1, 3, 5]
