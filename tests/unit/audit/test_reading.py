"""What is recorded, listed and read through the engine, with and without `await`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from inspect import iscoroutinefunction, signature
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    EvidenceFilter,
    EvidenceType,
    Scope,
    ScopeViolationError,
    StoreUnavailableError,
    SyncEngine,
    create_context_engine,
)
from ce_engine.testing.faults import SwitchStore
from tests.hosts.cli_host import TALK, TIGHT, talk, url_of


@pytest.fixture(params=["ce.db", "folder", "memory"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContextEngine]:
    url = "memory://" if request.param == "memory" else url_of(tmp_path / request.param)
    made = create_context_engine(url, config=TIGHT)
    yield made
    made.sync.close()


def test_sessions_are_listed_and_read_without_await(engine: ContextEngine) -> None:
    talk(engine)
    talk(engine, other := Scope(session_id="other", account_id="acme", user_id="王芳"))
    sync = engine.sync  # nothing is flushed here: what was handed over is there
    [info] = sync.list_sessions(account_id="acme", user_id="张伟")
    assert (info.session_id, info.messages, info.turns) == (TALK.session_id, 6, 3)
    everybody = sync.list_sessions(account_id="acme", user_id=None)
    assert {found.session_id for found in everybody} == {TALK.session_id, "other"}
    assert sync.list_sessions() == []

    document = sync.get_session(TALK)
    assert document is not None
    assert document.session.messages[0].content == "奥斯陆天气如何?"
    [rain] = sync.list_evidences(TALK, EvidenceFilter(types=[EvidenceType.RAG_DOC]))
    assert rain.content == "Rain is water that falls from clouds."
    assert sync.get_evidence(TALK, rain.evidence_id) == rain
    assert sync.get_evidence(other, rain.evidence_id) is None

    turns, reports = sync.list_turns(TALK), sync.list_reports(TALK)
    assert [report.turn_id for report in reports] == [turn.turn_id for turn in turns]
    assert reports[-1].token_used == sync.last_report(TALK).token_used  # type: ignore[union-attr]
    assert [event.seq for event in sync.list_events(TALK)][:2] == [1, 2]


async def test_the_async_methods_answer_the_same(engine: ContextEngine) -> None:
    talk(engine)
    [info] = await engine.list_sessions(account_id="acme", user_id="张伟")
    assert info.session_id == TALK.session_id
    document = await engine.get_session(TALK)
    assert document is not None
    assert [e.evidence_id for e in await engine.list_evidences(TALK)] == list(document.evidences)
    assert len(await engine.list_reports(TALK)) == len(await engine.list_turns(TALK)) == 3


def test_what_is_not_there_and_what_is_anothers_read_the_same(engine: ContextEngine) -> None:
    talk(engine)
    strangers: list[Scope | str] = [
        Scope(session_id=TALK.session_id),
        replace(TALK, user_id=""),
        "no such session",
    ]
    for stranger in strangers:
        assert engine.sync.get_session(stranger) is None
        assert engine.sync.list_evidences(stranger) == []
        assert engine.sync.list_turns(stranger) == []
        assert engine.sync.list_reports(stranger) == []
        assert engine.sync.list_events(stranger) == []
    with pytest.raises(ScopeViolationError):
        engine.sync.get_session(replace(TALK, project_id="another"))


def test_a_store_that_is_away_is_told() -> None:
    store = SwitchStore(refuses=True)
    engine = create_context_engine(store)
    with pytest.raises(StoreUnavailableError):
        engine.sync.get_session("s")
    store.refuses = False
    assert engine.sync.get_session("s") is None
    engine.sync.close()


def test_every_async_method_has_its_sync_twin() -> None:
    """But for those that need no `await`, or whose answer is for a loop."""
    theirs = {
        name: method
        for name, method in vars_of(ContextEngine).items()
        if iscoroutinefunction(method)
    }
    assert {"list_sessions", "get_session", "prepare", "trace"} <= set(theirs)
    lacking = {name for name in theirs if not hasattr(SyncEngine, name)}
    assert lacking == set()
    for name, method in theirs.items():
        twin = list(signature(getattr(SyncEngine, name)).parameters)
        own = list(signature(method).parameters)
        assert twin == [each for each in own if each in twin or each != "messages"]


def vars_of(kind: type) -> dict[str, object]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
