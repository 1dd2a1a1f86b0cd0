"""Bolt's adapter as its users meet it: parts come later, models are shared, and nobody is told an id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bolt_flows import Agent, ChatModel, Condenser, Flow, Message, Shelf
from ce_bolt import ADAPTER

from ce_engine import (
    ContextEngine,
    MemoryStore,
    Scope,
    SessionDocument,
    ToolCallStatus,
    UnsupportedTargetError,
    create_context_engine,
)
from ce_integrations import ce_session, install_ce, load_adapters
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire


ASKED = [Message("user", "What is a lane? 车道")]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def document(engine: ContextEngine) -> Callable[[], SessionDocument]:
    def read() -> SessionDocument:
        assert engine.sync.flush()
        found = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
        assert found is not None
        return found

    return read


def look(word: str) -> str:
    """Look a word up."""
    if word == "bad":
        raise PermissionError(word)
    return f"{word} is a line"


def agent(wire: Wire, *tools: Callable[..., str]) -> Agent:
    return Agent("helper", ChatModel("gpt-4", wire.base_url), "You help.", tools)


def test_the_adapter_is_found_by_its_entry_point(engine: ContextEngine) -> None:
    assert load_adapters()["bolt"] is ADAPTER
    with Wire("A line.") as wire, install_ce(agent(wire), engine=engine) as installed:
        assert installed.adapter is ADAPTER
    with pytest.raises(UnsupportedTargetError, match="bolt"):
        install_ce(Shelf([]))


def test_equal_calls_and_unknown_ones_have_a_row_each(
    engine: ContextEngine, document: Callable[[], SessionDocument]
) -> None:
    """Tools are told no ids: runs are joined with their calls all the same."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("look", {"word": "lane"}),
        ("look", {"word": "lane"}),
        ("look", {"word": "bad"}),
        ("missing", {"word": "lane"}),
    ]
    with Wire([tool_calls(asked), text("A line.")]) as wire:
        helper = agent(wire, look)
        with install_ce(helper, engine=engine), ce_session("s"):
            helper.run(ASKED)
        assert wire.refusals == []
    runs = document().session.tool_state.tool_calls
    found = sorted((run.tool, str(run.args_digest["word"]), run.status) for run in runs)
    assert found == [
        ("look", "bad", ToolCallStatus.FORBIDDEN),
        ("look", "lane", ToolCallStatus.SUCCESS),
        ("look", "lane", ToolCallStatus.SUCCESS),
        ("missing", "lane", ToolCallStatus.ERROR),
    ]
    assert {run.type for run in runs} == {"function_call"}


def test_parts_that_are_added_later_are_governed(
    engine: ContextEngine, document: Callable[[], SessionDocument]
) -> None:
    with Wire("A line.") as wire:
        flow = Flow()
        with install_ce(flow, engine=engine) as installed, ce_session("s"):
            flow.add(Condenser(ChatModel("gpt-4", wire.base_url)))
            flow.add(Shelf([{"text": "A lane is a line. 一条线", "uri": "p1", "score": 0.5}]))
            flow.add(agent(wire))
            flow.run(messages=ASKED)
            assert installed.adapter.is_attached(flow)
        assert ["_ce_mark" in vars(part) for part in flow.parts] == [False] * 3
        assert "__wrapped__" not in vars(Shelf.run)
    assert [usage.stage for usage in document().session.model_usage] == ["other", "answer"]
    assert "A lane is a line. 一条线" in [e.content for e in document().evidences.values()]


def test_who_is_asked_beside_it_is_nobody_s(engine: ContextEngine) -> None:
    with Wire("A line.") as wire:
        other = agent(wire, look)
        with install_ce(agent(wire), engine=engine), ce_session("s"):
            other.run(ASKED)
    assert engine.sync.flush()
    assert engine.loop.run(engine.store.list_sessions(user_id=None, ephemeral=True)) == []
