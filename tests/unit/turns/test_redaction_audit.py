"""The report and the log say what was redacted; pointers keep what recognises content, and no content (A-19, A-30)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    ContextEngine,
    Event,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    RedactionConfig,
    RedactionRules,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
MAIL = "zhang.wei@example.com"
SALARY = "八千七百六十五"
RAG = EvidenceSource(kind=SourceKind.RAG, name="docs", uri="doc://handbook")
RULES = RedactionRules(field_paths=["$..salary"])
PATIENT = StoreConfig(deadline_s=20)  # a busy machine is no fault here


def events(engine: ContextEngine, kind: str) -> list[Event]:
    engine.sync.flush()
    found = engine.loop.run(engine.store.list_events(SCOPE))
    return [event for event in found if event.event_type == kind]


# Audit and report


@pytest.mark.req("A-19", "A-21")
def test_the_report_and_with_audit_an_event_say_which_rules_hit_what() -> None:
    engine = create_context_engine(
        MemoryStore(),
        config=RuntimeConfig(store=PATIENT, redaction=RedactionConfig(audit=True, rules=RULES)),
    )
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user(f"{MAIL} and {MAIL}"))
    (asked,) = prepared.report.redactions
    assert (asked.rules_applied, asked.fields_redacted) == (["mail"], 2)
    app.commit(prepared, tool_calls(("c", "pay", {"salary": SALARY}), text=f"To {MAIL}"))
    asked, answered = prepared.report.redactions
    assert answered.rules_applied == ["mail", "field $..salary"]
    engine.sync.flush()
    (turn,) = engine.loop.run(engine.store.list_turns(SCOPE))
    assert turn.report["redactions"] == [asked.model_dump(), answered.model_dump()]
    told = [
        record for event in events(engine, "Redacted") for record in event.payload["redactions"]
    ]
    assert told == [asked.model_dump(), answered.model_dump()]
    assert app.ask("Nothing here", "Nothing there").report.redactions == []
    engine.sync.close()


@pytest.mark.req("A-19")
def test_without_the_switch_there_is_no_event_but_the_report() -> None:
    engine = create_context_engine(MemoryStore(), config=RuntimeConfig(store=PATIENT))
    prepared = HostApp(engine, SCOPE).ask(MAIL, MAIL)
    assert [record.rules_applied for record in prepared.report.redactions] == [["mail"], ["mail"]]
    assert events(engine, "Redacted") == []
    engine.sync.close()


# Pointers


@pytest.mark.req("A-30")
@pytest.mark.parametrize("mode", ["store_redacted_only", "dual_store"])
def test_pointers_keep_length_and_mac_and_source_but_no_content(mode: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    given: dict[str, Any] = {"mode": mode, "content": "pointer", "audit": True}
    config = RuntimeConfig(store=PATIENT, redaction=RedactionConfig(**given))

    def opened() -> ContextEngine:
        second = MemoryStore() if mode == "dual_store" else None
        return create_context_engine(url, config=config, originals=second)

    engine = opened()
    app = HostApp(engine, SCOPE)
    app.ask("Where is the xyzzy?", "The xyzzy is here.")
    evidence = engine.sync.record_evidence(SCOPE, "All of xyzzy.", RAG, EvidenceType.RAG_DOC)
    again = engine.sync.record_evidence(SCOPE, "All of xyzzy.", RAG, EvidenceType.RAG_DOC)
    assert again.evidence_id == evidence.evidence_id
    app.commit(app.prepare(user("And xyzzy?")), tool_calls(("c", "find", {"q": "xyzzy"})))
    app.commit(app.prepare(tool_result("c", "xyzzy!"), new_request=False), assistant("xyzzy"))
    assert engine.sync.flush()
    assert not any(b"xyzzy" in path.read_bytes() for path in tmp_path.iterdir())
    state = engine.loop.run(engine.store.state(SCOPE))
    assert state is not None
    assert [(row.message.content, row.length) for row in state.rows[:2]] == [("", 19), ("", 18)]
    assert all(row.withheld and row.key for row in state.rows if row.length)
    assert len(state.rows) == 6  # each once: the host's list is recognised
    found = engine.loop.run(engine.store.get_evidence(SCOPE, evidence.evidence_id))
    assert found is not None
    assert (found.content, found.source.uri) == ("", "doc://handbook")
    assert (found.metadata["length"], len(found.metadata["content_mac"])) == (13, 32)
    if mode == "dual_store":
        told = engine.sync.original(SCOPE, evidence.evidence_id, actor="x")
        assert told.content == "All of xyzzy."
    engine.sync.close()
    reopened = opened()
    fresh = HostApp(reopened, SCOPE).prepare(user("What was it?"))
    assert fresh.unchanged  # nothing can be brought in
    reopened.sync.close()
