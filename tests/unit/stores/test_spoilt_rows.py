"""A stored summary with a value of another type, or a forged project, is a damaged row, and stops no call (19 A)."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, select, update

from ce_engine import (
    FileDamagedError,
    Message,
    Role,
    Scope,
    ScopeViolationError,
    StoreUnavailableError,
)
from ce_engine.stores.tables import tables
from ce_engine.testing.host import HostApp
from tests.unit.audit.forged_store import OTHER, SCOPE, fill, forge, opened


SPOILT: list[dict[str, object]] = [
    {"evidence_id": {"a": 1}},
    {"redactor_version": 1.5},
    {"tips": [[["x"]]]},
    {"tips": "abc"},
    {"lane_key": ["x"]},
    {"tokens": {}},
    {"counted_by": -1},
]


def spoil(path: Path, leaf: dict[str, object]) -> None:
    """Put a value into the first session's stored summary, as somebody else's program may."""
    body, session = tables.summaries.c.body, tables.summaries.c.session
    mine = select(tables.sessions.c.id).where(tables.sessions.c.session_id == SCOPE.session_id)
    database = create_engine(f"sqlite:///{path}")
    with database.begin() as connection:
        found = connection.execute(select(body).where(session == mine.scalar_subquery())).scalar()
        assert found is not None
        connection.execute(
            update(tables.summaries)
            .where(session == mine.scalar_subquery())
            .values(body={**found, **leaf})
        )
    database.dispose()


@pytest.mark.req("B-01", "B-03")
@pytest.mark.parametrize("leaf", SPOILT, ids=lambda leaf: next(iter(leaf)))
def test_calls_go_on_and_it_is_said(leaf: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    fill(path)
    spoil(path, leaf)
    engine = opened(path)
    try:
        prepared = HostApp(engine, SCOPE).ask("what is the weather, 你好?", "rain")
        assert prepared.report.degradations == [StoreUnavailableError.code]
        again = engine.sync.prepare_turn(SCOPE, [Message(role=Role.USER, content="and now?")])
        assert StoreUnavailableError.code in again.report.degradations
        with pytest.raises(FileDamagedError, match="damaged record"):
            engine.sync.replay(SCOPE)
        other = HostApp(engine, OTHER).ask("and you?", "well")
        assert StoreUnavailableError.code not in other.report.degradations
    finally:
        engine.sync.close()


@pytest.mark.req("B-01", "B-03")
def test_a_forged_project_stops_no_call(tmp_path: Path) -> None:
    """Who changes whose the session is makes a damaged row of it, and no refusal of its own app."""
    path = tmp_path / "ce.db"
    fill(path)
    forge(path, ["UPDATE ce_sessions SET project_id = 'mallory' WHERE id = @s"])
    engine = opened(path)
    try:
        prepared = HostApp(engine, SCOPE).ask("what is the weather, 你好?", "rain")
        assert prepared.report.degradations == [StoreUnavailableError.code]
        with pytest.raises(ScopeViolationError):
            engine.sync.get_session(SCOPE)
        theirs = Scope(session_id="s", user_id="u", account_id="a", project_id="mallory")
        assert engine.sync.verify(theirs).status == "tampered"
    finally:
        engine.sync.close()


@pytest.mark.req("B-01", "B-03")
@pytest.mark.parametrize("name", ["ce.db", "folder"])
def test_a_forged_origin_stops_no_call(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    fill(path)
    if path.suffix:
        forge(path, ["UPDATE ce_messages SET origin = 'whatever' WHERE session = @s AND seq = 1"])
    else:
        [file] = path.rglob("s-*/session.json")
        file.write_text(file.read_text().replace('"origin":"task"', '"origin":"whatever"', 1))
    engine = opened(path)
    try:
        prepared = HostApp(engine, SCOPE).ask("what is the weather, 你好?", "rain")
        assert prepared.report.degradations == [StoreUnavailableError.code]
        other = HostApp(engine, OTHER).ask("and you?", "well")
        assert StoreUnavailableError.code not in other.report.degradations
    finally:
        engine.sync.close()


@pytest.mark.req("B-01", "E-06")
def test_a_forged_role_puts_no_quotation_into_a_models_own_words(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    fill(path)
    engine = opened(path)
    asked = [Message(role=Role.USER, content="what of the weather?")]
    before = engine.sync.prepare_turn(SCOPE, asked).assembled_input.parts
    engine.sync.close()
    assert any(part.role is Role.USER and "so far" in part.content for part in before[:-1])
    database = create_engine(f"sqlite:///{path}")
    role = tables.messages.c.role
    with database.begin() as connection:
        statement = update(tables.messages).where(role == "user").values(role="assistant")
        assert connection.execute(statement).rowcount
    database.dispose()
    engine = opened(path)
    try:
        parts = engine.sync.prepare_turn(SCOPE, asked).assembled_input.parts
    finally:
        engine.sync.close()
    quoted = [part.role for part in parts if "so far" in part.content]
    assert quoted == [Role.USER]
