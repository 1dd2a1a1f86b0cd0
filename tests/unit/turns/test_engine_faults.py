"""The store fails: calls go on, recording follows when it is back, and nobody waits twice (decision 10)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from ce_engine import (
    ConfigError,
    ContextEngine,
    Event,
    FileDamagedError,
    MemoryStore,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.schema.events import STORED
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import Write
from ce_engine.schema.settings import Versions
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, system, user


SCOPE = Scope(session_id="s")
QUICK = RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.3))


def texts(engine: ContextEngine) -> list[str]:
    found = engine.loop.run(engine.store.get_session(SCOPE))
    return [m.content for m in found.session.messages] if found else []


def test_a_turn_asks_the_store_once_and_writes_twice() -> None:
    store = SwitchStore()
    engine = create_context_engine(store)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    asked = store.asked
    app.ask("two?", "2")
    assert store.asked == asked + 3
    engine.sync.close()


def test_nobody_waits_for_a_store_that_has_said_no() -> None:
    store = SwitchStore()
    patient = RuntimeConfig(store=StoreConfig(deadline_s=3600, breaker_s=3600))
    engine = create_context_engine(store, config=patient)
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user("one?"))
    engine.sync.flush()
    store.refuses = True
    answered = threading.Thread(target=app.commit, args=(prepared, assistant("1")), daemon=True)
    answered.start()
    answered.join(30)
    assert not answered.is_alive()
    engine.loop.close()


@pytest.mark.parametrize("fault", ["hangs", "refuses"])
def test_calls_go_on_and_everything_is_recorded_later(fault: str) -> None:
    store = SwitchStore()
    engine = create_context_engine(store, config=QUICK)
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask("one?", "1")
    setattr(store, fault, True)
    down = app.ask("two?", "2")
    assert [p.content for p in down.assembled.parts] == ["You help.", "one?", "1", "two?"]
    assert down.report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
    app.ask("three?", "3")
    setattr(store, fault, False)
    assert engine.sync.flush(5)
    assert texts(engine) == ["one?", "1", "two?", "2", "three?", "3"]
    back = app.ask("four?", "4")
    assert back.report.degradations == []
    engine.sync.close()


def test_while_the_breaker_is_open_the_store_is_not_asked() -> None:
    store = SwitchStore()
    engine = create_context_engine(
        store, config=RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=60))
    )
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    store.hangs = True
    app.ask("two?", "2")
    asked = store.asked
    for n in range(20):
        app.ask(f"{n}?", str(n))
    assert store.asked == asked
    store.hangs = False
    engine.loop.close()


def test_a_process_that_starts_without_its_store_goes_on_too() -> None:
    store = SwitchStore()
    store.refuses = True
    engine = create_context_engine(store, config=QUICK)
    app = HostApp(engine, SCOPE, [system("You help.")])
    first = app.ask("one?", "1")
    assert first.unchanged
    app.ask("two?", "2")
    store.refuses = False
    assert engine.sync.flush(5)
    assert texts(engine) == ["one?", "1", "two?", "2"]
    engine.sync.close()


def test_what_was_recorded_without_the_store_joins_a_session_that_was_there() -> None:
    store = SwitchStore()
    earlier = create_context_engine(store, config=QUICK)
    HostApp(earlier, SCOPE).ask("one?", "1")
    earlier.sync.flush()
    store.refuses = True
    engine = create_context_engine(store, config=QUICK)
    HostApp(engine, SCOPE).ask("two?", "2")
    store.refuses = False
    assert engine.sync.flush(5)
    assert texts(engine) == ["one?", "1", "two?", "2"]
    for made in (earlier, engine):
        made.loop.close()


def test_a_locked_file_is_a_fault_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    engine = create_context_engine(f"sqlite:///{path}", config=QUICK)
    engine.sync.check()
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    app.ask("two?", "2")
    app.ask("three?", "3")
    holder.execute("COMMIT")
    holder.close()
    assert engine.sync.flush(5)
    assert texts(engine) == ["one?", "1", "two?", "2", "three?", "3"]
    engine.sync.close()


def test_a_deleted_file_loses_the_past_but_not_the_app(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    engine = create_context_engine(f"sqlite:///{path}", config=QUICK)
    engine.sync.check()
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    engine.sync.flush()
    for file in tmp_path.glob("ce.db*"):
        if file.suffix != ".key":
            file.unlink()
    for n in ("two", "three", "four"):
        prepared = app.ask(f"{n}?", n)
        assert prepared.assembled.parts[-1].content == f"{n}?"
    engine.sync.close()


def test_a_folder_that_is_not_there_is_a_store_that_is_away(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    engine = create_context_engine(f"sqlite:///{folder / 'ce.db'}", config=QUICK)
    app = HostApp(engine, SCOPE, [system("You help.")])
    first = app.ask("one?", "1")
    assert first.unchanged
    assert first.report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
    engine.loop.close()


class Odd(MemoryStore):
    """A store of somebody else's that raises what it likes."""

    async def version(self, scope: Scope) -> Versions:
        raise KeyError(scope.session_id)

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        raise ZeroDivisionError


def test_a_store_that_raises_anything_is_away_too() -> None:
    engine = create_context_engine(Odd(), config=QUICK)
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(3):
        prepared = app.ask(f"{n}?", str(n))
        assert prepared.report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
    engine.loop.close()


def test_a_bounded_buffer_drops_and_counts_what_does_not_fit() -> None:
    store = SwitchStore()
    engine = create_context_engine(
        store,
        config=RuntimeConfig(store=StoreConfig(deadline_s=0.5, breaker_s=0.2, buffer_bytes=20_000)),
    )
    heard: list[Event] = []
    engine.bus.on_all(heard.append)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    engine.sync.flush()
    store.refuses = True
    for n in range(30):
        app.ask(f"{n}? {'x' * 2000}", str(n))
    store.refuses = False
    assert not engine.sync.flush(5)  # some was dropped
    assert engine.sync.flush(5)
    there = texts(engine)
    assert 2 < len(there) < 62
    assert app.ask("after?", "31").report.degradations == ["CONTEXT_RECORDING_GAP"]
    engine.sync.flush()
    events = engine.loop.run(engine.store.list_events(SCOPE))
    [gap] = [e.payload for e in events if "groups" in e.payload]
    engine.sync.close()
    assert gap["code"] == "CONTEXT_RECORDING_GAP"
    stored = {event.event_id for event in events}
    told = [e for e in heard if e.event_type in STORED and "type" not in e.payload]
    lost = [e.ts for e in told if e.event_id not in stored]
    assert gap["messages"] == 62 - len(there)
    assert (gap["from"], gap["to"]) == (min(lost), max(lost))


def test_a_gap_is_named_also_where_nothing_more_is_recorded_of_its_session() -> None:
    store = SwitchStore()
    config = RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.2, buffer_bytes=2_000))
    engine = create_context_engine(store, config=config)
    other = Scope(session_id="other")
    HostApp(engine, SCOPE).ask("one?", "1")
    engine.sync.flush()
    store.refuses = True
    HostApp(engine, other).ask("full?", "one group is under way, and one waits")
    HostApp(engine, SCOPE).ask("lost?", "2")
    store.refuses = False
    assert not engine.sync.flush(5)  # some was dropped
    assert engine.sync.flush(5)
    events = engine.loop.run(engine.store.list_events(SCOPE))
    assert [e.payload["messages"] for e in events if "groups" in e.payload] == [2]
    engine.sync.close()


@pytest.mark.req("A-07", "D-09")
@pytest.mark.parametrize("name", ["session.json", "settings.json"])
def test_a_damaged_file_of_one_user_harms_no_other(tmp_path: Path, name: str) -> None:
    patient = RuntimeConfig(store=StoreConfig(deadline_s=20, breaker_s=60))
    engine = create_context_engine((tmp_path / "data").as_uri(), config=patient)
    harmed, other = (Scope(session_id="s", user_id=user_id) for user_id in "ab")
    engine.sync.constraints.create(harmed, "short")
    HostApp(engine, harmed).ask("one?", "1")
    engine.sync.close()
    [file] = tmp_path.rglob(name)
    file.write_text("{")
    engine = create_context_engine((tmp_path / "data").as_uri(), config=patient)
    app = HostApp(engine, other)
    for text in ("two?", "three?"):
        HostApp(engine, harmed).prepare(user(text))
        report = app.ask(text, "1").report
        assert (report.degradations, report.warnings) == ([], ["CONTEXT_BUDGET_UNKNOWN"])
    assert engine.sync.flush(20) is (name == "settings.json")
    found = engine.loop.run(engine.store.get_session(other))
    assert found is not None
    assert len(found.session.messages) == 4
    assert file.read_text() == "{"
    engine.sync.close()


@pytest.mark.req("A-07", "D-09")
@pytest.mark.parametrize(
    "column", ["role = 'nobody'", "extra = '{'", "content = CAST(x'ff' AS TEXT)"]
)
def test_a_damaged_record_of_one_session_harms_no_other(tmp_path: Path, column: str) -> None:
    path = tmp_path / "ce.db"
    patient = RuntimeConfig(store=StoreConfig(deadline_s=20, breaker_s=60))
    engine = create_context_engine(f"sqlite:///{path}", config=patient)
    harmed, other = Scope(session_id="harmed"), Scope(session_id="other")
    HostApp(engine, harmed).ask("one?", "1")
    engine.sync.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE ce_messages SET {column} WHERE seq = 1")
    file.close()
    engine = create_context_engine(f"sqlite:///{path}", config=patient)
    assert HostApp(engine, harmed).ask("two?", "2").report.degradations == [
        "CONTEXT_STORE_UNAVAILABLE"
    ]
    assert HostApp(engine, other).ask("two?", "2").report.degradations == []
    with pytest.raises(FileDamagedError, match="damaged record"):
        engine.loop.run(engine.store.get_session(harmed))
    engine.sync.close()


class Untyped(MemoryStore):
    """Answers what is no answer."""

    answer: Any = "garbage"

    async def version(self, scope: Scope) -> Versions:
        return cast("Versions", self.answer)

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        return cast("PutResult", self.answer)


@pytest.mark.parametrize("answer", [None, "garbage", 7, {"version": 1}, []])
def test_a_store_that_answers_garbage_is_away_and_what_it_is_given_is_lost(answer: object) -> None:
    store = Untyped()
    store.answer = answer
    engine = create_context_engine(store, config=QUICK)
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(3):
        prepared = app.ask(f"{n}?", str(n))
        assert prepared.report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
    assert not engine.sync.flush(5)  # all was dropped
    assert engine.sync.flush(5)  # and nothing is held back for it
    [gap] = engine._journal._gaps.pop(SCOPE)
    assert (gap.groups, gap.messages) == (6, 6)
    engine.sync.close()


def test_a_url_in_place_of_a_store_is_refused_with_the_cure() -> None:
    url: Any = "postgresql://me:secret@db/ce"
    with pytest.raises(ConfigError, match=r"open_store\(url\)") as refused:
        ContextEngine(url)
    assert "secret" not in str(refused.value)
