"""Many sessions, huge and odd inputs: what is held is bounded, and everything is handled or refused by name."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    StoreConfig,
    create_context_engine,
    open_store,
)
from ce_engine.schema.enums import TurnStatus
from ce_engine.sessions import sessions
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.mapping import known_messages as known
from tests.faults.extremes import STORES, by_hand, through_langchain
from tests.faults.oddities import DEEP, DEEPEST, deep, huge, nested, texts
from tests.faults.sessions import chat, come_back, fake_model, grown, held, some, talk, watch


VIEWS = 150_000
"""Bytes: some five sessions."""

ODDITIES = [*texts(3_000), *huge(100_000, 300, 50), *deep()]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    config = RuntimeConfig(store=StoreConfig(view_bytes=VIEWS, deadline_s=20))
    made = create_context_engine(open_store(f"sqlite:///{tmp_path / 'ce.db'}"), config=config)
    watch(made)
    yield made
    made.sync.close()


# Many sessions


@pytest.mark.parametrize("way", ["by hand", "LangChain"])
def test_what_is_held_does_not_grow_with_the_number_of_sessions(
    engine: ContextEngine, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "MAX_EQUALS", 20)
    monkeypatch.setattr(sessions, "MAX_REPLACED", 3)
    gc.collect()  # what other tests installed, and left, is given back when it is found
    model = fake_model()
    installed = install_ce(model, engine=engine) if way == "LangChain" else None
    counts = []
    for n in range(90):
        if installed is None:
            talk(engine, n, ends=n % 3 > 0)
        else:
            chat(model, n)
        if n in (59, 89):  # by then all is full that has a bound
            engine.sync.flush()
            counts.append(held())
    assert grown(counts[0], counts[1], 10) == {}
    assert engine._sessions._views.bytes <= 2 * VIEWS
    assert [wrong for n in some(10, 90, 1) if (wrong := come_back(engine, n))] == []


def test_sessions_with_open_turns_go_when_there_is_no_more_room_and_their_turns_do_not() -> None:
    config = RuntimeConfig(store=StoreConfig(view_bytes=VIEWS))
    engine = create_context_engine(MemoryStore(), config=config)
    begun = [
        HostApp(engine, Scope(session_id=f"s{n}")).prepare(user("x" * 1_000)).turn
        for n in range(60)
    ]
    assert engine._sessions._views.bytes <= 2 * VIEWS
    assert len(engine._sessions._views.keys()) < 60
    for turn in begun:
        engine.sync.commit(turn, Answer(assistant("late").message))
    assert {turn.status for turn in begun} == {TurnStatus.COMMITTED}
    for turn in begun:
        found = engine.loop.run(engine.store.get_session(turn.scope))
        assert found is not None
        assert [message.content for message in found.session.messages] == ["x" * 1_000, "late"]
    assert not engine._sessions._replaced
    engine.sync.close()


def test_of_too_many_turns_that_nobody_ended_the_oldest_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MAX_REPLACED", 20)
    config = RuntimeConfig(store=StoreConfig(view_bytes=VIEWS))
    engine = create_context_engine(MemoryStore(), config=config)
    begun = [
        HostApp(engine, Scope(session_id=f"s{n}")).prepare(user("x" * 1_000)).turn
        for n in range(60)
    ]
    assert len(engine._sessions._replaced) == 20
    engine.sync.commit(begun[0], Answer(assistant("late").message))  # is no error
    engine.sync.commit(begun[-1], Answer(assistant("in time").message))
    statuses = [turn.status for turn in begun]
    assert (statuses[0], statuses[-1]) == (TurnStatus.ABANDONED, TurnStatus.COMMITTED)
    engine.sync.close()


def test_what_follows_a_huge_group_of_records_is_not_dropped_for_it(tmp_path: Path) -> None:
    config = RuntimeConfig(store=StoreConfig(buffer_bytes=100_000, deadline_s=20))
    engine = create_context_engine(open_store(f"sqlite:///{tmp_path / 'ce.db'}"), config=config)
    app = HostApp(engine, Scope(session_id="s"))
    for n in range(500):  # a list of 600 kB, as one group
        app.messages += [user(f"question {n}?"), assistant(f"answer {n}")]
    app.ask("And now?", "The answer.")
    app.ask("And then?", "The last one.")
    assert engine.sync.flush(20)
    found = engine.sync._run(engine.store.get_session(app.scope))
    assert found is not None
    texts = [message.content for message in found.session.messages]
    assert texts == [message.message.content for message in app.messages]
    engine.sync.close()


# Huge and odd inputs


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")


@pytest.mark.parametrize("store", STORES)
def test_by_hand_everything_is_stored_or_refused_by_name(store: str, tmp_path: Path) -> None:
    wrong = []
    for number, oddity in enumerate(ODDITIES[STORES.index(store) :: len(STORES)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        wrong.append((oddity.name, by_hand(oddity, store, folder).wrong))
    assert [each for each in wrong if each[1]] == []


@pytest.mark.production_guard
def test_through_langchain_the_call_goes_on_as_without_us(tmp_path: Path) -> None:
    wrong = []
    for number, oddity in enumerate(ODDITIES[::6]):
        folder = tmp_path / str(number)
        folder.mkdir()
        store = STORES[number % len(STORES)]
        wrong.append((oddity.name, through_langchain(oddity, store, folder).wrong))
    assert [each for each in wrong if each[1]] == []


DOORS: dict[str, Any] = {
    "arguments": lambda app, data: app.prepare(
        user("q"), tool_calls(("c", "t", data)), tool_result("c", "r")
    ),
    "an answer's arguments": lambda app, data: app.commit(
        app.prepare(user("q")), tool_calls(("c", "t", data))
    ),
    "a tool's schema": lambda app, data: app.prepare(user("q"), tools=[data]),
    "a response format": lambda app, data: app.prepare(user("q"), response_format=data),
}


@pytest.mark.parametrize("door", DOORS)
def test_data_that_no_json_can_hold_is_refused_with_the_cure(door: str) -> None:
    engine = create_context_engine(MemoryStore())
    data = nested(DEEPEST)
    holds_itself: dict[str, Any] = {}
    holds_itself["x"] = holds_itself
    for each in (data, holds_itself):
        app = HostApp(engine, Scope(session_id="s"))
        with pytest.raises(SchemaValidationError, match="flatten it"):
            DOORS[door](app, each)
    engine.sync.close()


def test_what_is_stored_without_its_data_is_told_once() -> None:
    engine = create_context_engine(MemoryStore())
    app = HostApp(engine, Scope(session_id="s"))
    engine.sync.record_event(app.scope, "planner", nested(DEEP))
    assert app.ask("one?", "1").report.degradations == [SchemaValidationError.code]
    assert app.ask("two?", "2").report.degradations == []
    engine.sync.close()


# Blocks that end elsewhere


def test_a_session_block_in_a_generator_may_end_in_another_context() -> None:
    def answers() -> Generator[int, None, None]:
        with ce_session("s"):
            yield 1

    begun = answers()
    copy_context().run(next, begun)
    begun.close()  # no error of ours in place of the app's
