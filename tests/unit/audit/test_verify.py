"""A log is intact, deleted in part, or tampered with; verify tells which (B-01)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import (
    ConfigError,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    RuntimeConfig,
    Scope,
    SessionNotFoundError,
    SourceKind,
    StoreConfig,
    create_context_engine,
)
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    made = create_context_engine(f"sqlite:///{tmp_path / 'ce.db'}", config=PATIENT)
    yield made
    made.sync.close()


def tamper(tmp_path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(tmp_path / "ce.db")) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement


def talk(engine: ContextEngine) -> HostApp:
    """Three events: of a question, its answer, and a document."""
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    source = EvidenceSource(kind=SourceKind.RAG, name="book")
    engine.sync.record_evidence(SCOPE, "a page", source, EvidenceType.RAG_DOC)
    engine.sync.flush()
    return app


@pytest.mark.req("B-01")
def test_a_log_that_nobody_touched_is_intact(engine: ContextEngine) -> None:
    talk(engine)
    found = engine.sync.verify(SCOPE)
    assert (found.status, found.tampered_seq, found.deleted, found.unchecked) == (
        "intact",
        None,
        (),
        0,
    )
    assert found.events == len(engine.loop.run(engine.store.list_events(SCOPE))) == 3


TAMPERED = {
    "a payload was changed": ("UPDATE ce_events SET payload = '{\"x\":1}' WHERE seq = 2", 2),
    "a payload was emptied": ("UPDATE ce_events SET payload = NULL, nonce = '' WHERE seq = 2", 2),
    "all were emptied": (
        "UPDATE ce_events SET payload = NULL, nonce = '', extra = NULL",
        1,
    ),
    "a time was changed": ("UPDATE ce_events SET ts = '2020' WHERE seq = 3", 3),
    "it was called a deletion": ("UPDATE ce_events SET event_type = 'deleted' WHERE seq = 3", 3),
    "one was taken out": ("DELETE FROM ce_events WHERE seq = 2", 2),
    "the end was cut off": ("DELETE FROM ce_events WHERE seq = 3", 3),
    "two changed places": ("UPDATE ce_events SET seq = 5 - seq WHERE seq IN (2, 3)", 2),
    "the head was moved": ("UPDATE ce_sessions SET chain_head = 'c1:0'", 4),
}


@pytest.mark.req("B-01")
@pytest.mark.parametrize("what", TAMPERED)
def test_the_first_event_that_was_tampered_with_is_named(
    engine: ContextEngine, tmp_path: Path, what: str
) -> None:
    statement, seq = TAMPERED[what]
    talk(engine)
    parts = (
        [
            "UPDATE ce_events SET seq = 9 WHERE seq = 2",
            "UPDATE ce_events SET seq = 2 WHERE seq = 3",
            "UPDATE ce_events SET seq = 3 WHERE seq = 9",
        ]
        if "places" in what
        else [statement]
    )
    tamper(tmp_path, *parts)
    found = engine.sync.verify(SCOPE)
    assert (found.status, found.tampered_seq) == ("tampered", seq)


@pytest.mark.req("B-01", "A-30")
def test_what_was_deleted_is_named_and_what_comes_after_is_checked(
    engine: ContextEngine, tmp_path: Path
) -> None:
    talk(engine)
    source = EvidenceSource(kind=SourceKind.RAG, name="file")
    kept = engine.sync.record_evidence(SCOPE, "a text", source, EvidenceType.RAG_DOC)
    engine.sync.delete_evidence(SCOPE, kept.evidence_id)
    engine.sync.delete_session(SCOPE)
    talk(engine)
    found = engine.sync.verify(SCOPE)
    assert (found.status, found.events, found.unchecked) == ("deleted", 9, 0)
    assert [(part.seq, part.what, part.evidence_id) for part in found.deleted] == [
        (5, "evidence", kept.evidence_id),
        (6, "session", None),
    ]
    tamper(tmp_path, "UPDATE ce_events SET payload = NULL, nonce = '' WHERE seq = 8")
    after = engine.sync.verify(SCOPE)
    assert (after.tampered_seq, after.deleted) == (8, found.deleted)


DELETED_AND_TAMPERED = {
    "something was put back": ("UPDATE ce_events SET payload = '{\"x\":1}' WHERE seq = 2", 2),
    "the deletion says something else": (
        'UPDATE ce_events SET payload = \'{"what":"evidence"}\' WHERE seq = 4',
        4,
    ),
    "the deletion was taken out": ("DELETE FROM ce_events WHERE seq = 4", 4),
    "an envelope was changed": ("UPDATE ce_events SET kind = 'hitl' WHERE seq = 3", 3),
}


@pytest.mark.req("B-01", "A-30")
@pytest.mark.parametrize("what", DELETED_AND_TAMPERED)
def test_a_deletion_excuses_nothing_else(engine: ContextEngine, tmp_path: Path, what: str) -> None:
    statement, seq = DELETED_AND_TAMPERED[what]
    talk(engine)
    engine.sync.delete_session(SCOPE)
    tamper(tmp_path, statement)
    found = engine.sync.verify(SCOPE)
    assert (found.status, found.tampered_seq) == ("tampered", seq)


def test_what_was_recorded_without_its_key_is_not_called_tampered() -> None:
    store = SwitchStore()
    quick = RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.1))
    earlier = create_context_engine(store, config=quick)
    HostApp(earlier, SCOPE).ask("one?", "1")
    earlier.sync.flush()
    store.refuses = True
    engine = create_context_engine(store, config=quick)
    app = HostApp(engine, SCOPE)
    app.ask("two?", "2")
    app.ask("three?", "3")
    store.refuses = False
    assert engine.sync.flush(5)
    found = engine.sync.verify(SCOPE)
    assert (found.status, found.unchecked) == ("intact", 0)
    app.ask("four?", "4")
    engine.sync.flush()
    found = engine.sync.verify(SCOPE)
    assert (found.status, found.unchecked) == ("intact", 0)
    earlier.loop.close()
    engine.sync.close()


def test_with_another_secret_nothing_can_be_said(
    engine: ContextEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(engine)
    monkeypatch.setenv("CE_SECRET", "not the one that it was recorded with")
    other = create_context_engine(f"sqlite:///{tmp_path / 'ce.db'}", config=PATIENT)
    with pytest.raises(ConfigError, match="CE_SECRET"):
        other.sync.verify(SCOPE)
    other.sync.close()


@pytest.mark.req("B-03")
def test_another_users_log_is_not_there(engine: ContextEngine) -> None:
    talk(engine)
    for scope in (Scope(session_id="s"), Scope(session_id="s", user_id="v", account_id="a")):
        with pytest.raises(SessionNotFoundError):
            engine.sync.verify(scope)
