"""Originals go to a second store alone, are told on the record only, and are deleted with their rows (A-19, A-30)."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    BlockType,
    ConfigError,
    ContextBlock,
    ContextEngine,
    DeletionReport,
    Event,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    OriginalRefusedError,
    OriginalsReport,
    Priority,
    RedactionConfig,
    RedactionRules,
    Role,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    SourceKind,
    StoreConfig,
    StoreUnavailableError,
    ToolRun,
    Usage,
    create_context_engine,
    open_store,
)
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import DeleteEvidence, Write
from ce_engine.stores.urls import ORIGINALS_VARIABLE
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from tests.hosts.cli_host import ce


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
MAIL = "zhang.wei@example.com"
SALARY = "八千七百六十五"
RAG = EvidenceSource(kind=SourceKind.RAG, name="docs", uri="doc://handbook")
RULES = RedactionRules(field_paths=["$..salary"])
PATIENT = StoreConfig(deadline_s=20)  # a busy machine is no fault here

Opened = Callable[..., ContextEngine]


def dual(**redaction: Any) -> RuntimeConfig:
    values = {"mode": "dual_store", "audit": True, "rules": RULES, **redaction}
    return RuntimeConfig(store=PATIENT, redaction=RedactionConfig(**values))


@pytest.fixture(params=["sqlite", "file"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Make engines over the two stores, each as if in a process of its own."""
    engines: list[ContextEngine] = []

    def url(name: str) -> str:
        place = tmp_path / name / "store.db"
        place.parent.mkdir(exist_ok=True)
        return f"sqlite:///{place}" if request.param == "sqlite" else place.as_uri()

    def open_one(**redaction: Any) -> ContextEngine:
        config = dual(originals_url=url("originals"), **redaction)
        engines.append(create_context_engine(url("main"), config=config))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.sync.close()


def holds(folder: Path, *texts: str) -> bool:
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert files
    forms = [form for text in texts for form in (text, json.dumps(text)[1:-1])]
    return any(form.encode() in file for form in forms for file in files)


def talk(engine: ContextEngine) -> HostApp:
    app = HostApp(engine, SCOPE)
    asking = app.prepare(user(f"Write to {MAIL}, 谢谢"))
    app.commit(asking, tool_calls(("call_0", "pay", {"to": MAIL, "salary": SALARY})))
    result = json.dumps({"rows": [{"name": "Wei", "salary": SALARY}]}, ensure_ascii=False)
    run = ToolRun("pay", {"to": MAIL, "salary": SALARY}, result, "run-1", "call_0")
    engine.post_tool_run(SCOPE, run, request_id="request-1")
    answering = app.prepare(tool_result("call_0", result), new_request=False)
    app.commit(answering, assistant("Done."), Usage(20, 5, 25))
    engine.sync.record_evidence(
        SCOPE, f"Ask {MAIL}", RAG, EvidenceType.RAG_DOC, metadata={"author": MAIL}
    )
    assert engine.sync.flush()
    return app


def events(engine: ContextEngine, kind: str) -> list[Event]:
    engine.sync.flush()
    found = engine.loop.run(engine.store.list_events(SCOPE))
    return [event for event in found if event.event_type == kind]


def ids(engine: ContextEngine) -> dict[str, str]:
    """What the talk left: ids by a word for each."""
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    by_role = {str(m.role): m.message_id or "" for m in reversed(document.session.messages)}
    by_type = {str(e.type): e.evidence_id for e in document.evidences.values()}
    (call,) = document.session.tool_state.tool_calls
    return by_role | by_type | {"call": call.tool_call_id}


@pytest.mark.req("A-19", "A-30", "B-02")
def test_the_first_store_never_has_an_original_and_the_second_has_each(
    opened: Opened, tmp_path: Path
) -> None:
    engine = opened()
    talk(engine)
    assert not holds(tmp_path / "main", MAIL, SALARY)
    assert holds(tmp_path / "originals", MAIL)
    assert holds(tmp_path / "originals", SALARY)
    known = ids(engine)

    def original(what: str) -> Any:
        return engine.sync.original(SCOPE, known[what], actor="auditor-7")

    assert original("user").content == f"Write to {MAIL}, 谢谢"
    assert original("assistant").data == {"args": [{"to": MAIL, "salary": SALARY}]}
    assert original("call").data == {"args": {"to": MAIL, "salary": SALARY}}
    assert SALARY in original("tool_result").content
    assert SALARY in original("tool").content
    assert (original("rag_doc").content, original("rag_doc").data) == (
        f"Ask {MAIL}",
        {"metadata": {"author": MAIL}},
    )
    read = [event.payload for event in events(engine, "OriginalRead")]
    assert {entry["actor"] for entry in read} == {"auditor-7"}
    assert read[0] == {"actor": "auditor-7", "of": known["user"], "found": "yes"}
    assert len(read) == 7
    assert engine.sync.verify(SCOPE).status == "intact"
    assert not holds(tmp_path / "main", MAIL, SALARY)


@pytest.mark.req("A-19")
def test_another_process_reads_originals_too(opened: Opened) -> None:
    known = ids_of = opened()
    talk(ids_of)
    found = ids(known)
    assert opened().sync.original(SCOPE, found["user"], actor="x").content.startswith("Write to")


@pytest.mark.req("A-19")
@pytest.mark.parametrize(
    ("redaction", "actor", "cure"),
    [
        ({"audit": False}, "x", "set redaction.audit=True"),
        ({}, " ", "give actor"),
    ],
)
def test_originals_are_refused_where_nobody_records_it(
    opened: Opened, redaction: dict[str, Any], actor: str, cure: str
) -> None:
    engine = opened(**redaction)
    talk(engine)
    with pytest.raises(OriginalRefusedError, match=cure):
        engine.sync.original(SCOPE, ids(engine)["user"], actor=actor)
    assert events(engine, "OriginalRead") == []


@pytest.mark.req("A-19", "D-10")
def test_originals_are_of_one_user_and_project(opened: Opened) -> None:
    engine = opened()
    talk(engine)
    known = ids(engine)["user"]
    other = Scope(session_id="s", user_id="other", account_id="a")
    with pytest.raises(EvidenceNotFoundError):
        engine.sync.original(other, known, actor="x")
    with pytest.raises(ScopeViolationError):
        engine.sync.original(
            Scope(session_id="s", user_id="u", account_id="a", project_id="p"), known, actor="x"
        )
    with pytest.raises(EvidenceNotFoundError, match="no original 'nothing'"):
        engine.sync.original(SCOPE, "nothing", actor="x")
    assert [event.payload["found"] for event in events(engine, "OriginalRead")] == ["no"]


@pytest.mark.req("A-30")
@pytest.mark.parametrize("what", ["session", "user"])
def test_a_deletion_reaches_every_byte_of_the_second_store(
    opened: Opened, tmp_path: Path, what: str
) -> None:
    engine = opened()
    talk(engine)
    known = ids(engine)["user"]
    if what == "session":
        assert engine.sync.delete_session(SCOPE).sessions == 1
    else:
        assert engine.sync.delete_user_data("a", "u").sessions == 1
    assert not holds(tmp_path / "originals", MAIL, SALARY)
    with pytest.raises(EvidenceNotFoundError):
        engine.sync.original(SCOPE, known, actor="x")
    HostApp(engine, SCOPE).ask(f"A new life, {MAIL}", "Yes.")
    assert engine.sync.original(SCOPE, ids_of_user(engine), actor="x").content.startswith("A new")


def ids_of_user(engine: ContextEngine) -> str:
    engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    return document.session.messages[0].message_id or ""


@pytest.mark.req("A-30")
def test_deleted_evidence_has_no_original_left(opened: Opened, tmp_path: Path) -> None:
    engine = opened()
    talk(engine)
    known = ids(engine)
    for what in ("rag_doc", "tool_result"):
        assert engine.sync.delete_evidence(SCOPE, known[what]).evidences == 1
        with pytest.raises(EvidenceNotFoundError):
            engine.sync.original(SCOPE, known[what], actor="x")
    assert not holds(tmp_path / "originals", f"Ask {MAIL}", '"rows"')
    assert engine.sync.original(SCOPE, known["user"], actor="x").content


@pytest.mark.req("A-30")
def test_the_originals_of_what_quotes_deleted_evidence_go_too(
    opened: Opened, tmp_path: Path
) -> None:
    engine = opened()
    document = f"The lighthouse keeper of the eastern cape is reached at {MAIL} by day."
    found = engine.sync.record_evidence(SCOPE, document, RAG, EvidenceType.RAG_DOC)
    HostApp(engine, SCOPE).ask(f"Who is it? {document}", "Nobody.")
    HostApp(engine, SCOPE).ask("Write to another@example.com", "Done.")
    assert engine.sync.flush()
    assert holds(tmp_path / "originals", "lighthouse keeper")
    done = engine.sync.delete_evidence(SCOPE, found.evidence_id)
    assert done.cleared
    assert not holds(tmp_path, "lighthouse keeper", MAIL)
    assert holds(tmp_path / "originals", "another@example.com")
    assert engine.sync.verify_originals(SCOPE).missing == []


@pytest.mark.req("A-30")
@pytest.mark.parametrize("of_evidence", [True, False])
@pytest.mark.parametrize("of_messages", [True, False])
@pytest.mark.parametrize("mail", [MAIL, "nobody"])
def test_what_one_store_keeps_as_a_pointer_is_looked_through_in_the_other(
    opened: Opened, tmp_path: Path, of_evidence: bool, of_messages: bool, mail: str
) -> None:
    fields = dict.fromkeys(["evidence"] * of_evidence + ["messages"] * of_messages, "pointer")
    engine = opened(fields=fields)
    document = f"The lighthouse keeper of the eastern cape is reached at {mail} by day."
    evidence = engine.sync.record_evidence(SCOPE, document, RAG, EvidenceType.RAG_DOC)
    HostApp(engine, SCOPE).ask(
        f"Who is it? {document}", "The lighthouse keeper of the eastern cape."
    )
    HostApp(engine, SCOPE).ask("Write to another@example.com", "Done.")
    assert engine.sync.flush()
    assert holds(tmp_path, "lighthouse keeper")
    engine.sync.delete_evidence(SCOPE, evidence.evidence_id)
    assert not holds(tmp_path, "lighthouse keeper", MAIL)
    assert holds(tmp_path / "originals", "another@example.com")
    assert engine.sync.verify_originals(SCOPE).missing == []


DOCUMENT = "The lighthouse keeper of the eastern cape is reached by radio by day."


class Failing(MemoryStore):
    """Its nth deletion of evidence from now on fails."""

    fails_at = 0

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if any(isinstance(write, DeleteEvidence) for write in writes):
            self.fails_at -= 1
            if self.fails_at == 0:
                raise StoreUnavailableError("away for a moment")
        return await super().apply(scope, writes, expected_version=expected_version)


@pytest.mark.req("A-30")
@pytest.mark.parametrize("where", ["first", "second"])
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("fields", [{"evidence": "pointer"}, {"messages": "pointer"}, {}])
def test_a_deletion_that_failed_halfway_is_completed_by_the_next(
    where: str, nth: int, fields: dict[str, str]
) -> None:
    first, second = Failing(), Failing()
    engine = create_context_engine(first, config=dual(fields=fields), originals=second)
    document = f"{DOCUMENT} Call +49 151 23456789 then."
    evidence = engine.sync.record_evidence(SCOPE, document, RAG, EvidenceType.RAG_DOC)
    HostApp(engine, SCOPE).ask(f"Who? {document}", "Call +49-151-2345-6789 then.")
    HostApp(engine, SCOPE).ask(f"{DOCUMENT} Write to {MAIL}.", "Done.")
    assert engine.sync.flush()
    assert "lighthouse" in repr(vars(second))
    {"first": first, "second": second}[where].fails_at = nth
    try:
        engine.sync.delete_evidence(SCOPE, evidence.evidence_id)
    except StoreUnavailableError:
        engine.sync.delete_evidence(SCOPE, evidence.evidence_id)
    for words in ("lighthouse", "23456789", MAIL):
        assert words not in repr(vars(first)), words
        assert words not in repr(vars(second)), words
    engine.sync.close()


@pytest.mark.req("A-30")
def test_originals_of_what_quotes_nothing_of_it_stay(opened: Opened, tmp_path: Path) -> None:
    engine = opened()
    signature = f"Yours, the harbour office of the northern coast, {MAIL}"
    evidence = engine.sync.record_evidence(SCOPE, DOCUMENT, RAG, EvidenceType.RAG_DOC)
    HostApp(engine, SCOPE).ask(f"Good morning. {signature}", "Good morning.")
    HostApp(engine, SCOPE).ask(f"{DOCUMENT} {signature}", "Yes.")
    asked = ids_of_user(engine)
    engine.sync.delete_evidence(SCOPE, evidence.evidence_id)
    assert engine.sync.original(SCOPE, asked, actor="x").content == f"Good morning. {signature}"
    assert not holds(tmp_path, "lighthouse")


@pytest.mark.req("A-30")
def test_of_what_is_no_evidence_nothing_is_deleted(opened: Opened) -> None:
    engine = opened()
    HostApp(engine, SCOPE).ask(f"Write to {MAIL}", "Done.")
    asked = ids_of_user(engine)
    assert engine.sync.delete_evidence(SCOPE, asked) == DeletionReport()
    assert engine.sync.original(SCOPE, asked, actor="x").content == f"Write to {MAIL}"


# The second store is away


def switched(**redaction: Any) -> tuple[ContextEngine, SwitchStore]:
    second = SwitchStore()
    config = RuntimeConfig(
        store=StoreConfig(deadline_s=2, breaker_s=0.05),
        redaction=RedactionConfig(mode="dual_store", audit=True, **redaction),
    )
    return create_context_engine(MemoryStore(), config=config, originals=second), second


@pytest.mark.req("A-19", "A-23")
def test_calls_go_on_without_the_second_store_and_it_is_written_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    engine, second = switched()
    second.refuses = True
    prepared = HostApp(engine, SCOPE).ask(f"Write to {MAIL}", "Done.")
    assert prepared.report.degradations == []
    assert not engine.sync.flush(0.2)
    second.refuses = False
    HostApp(engine, SCOPE).ask(f"Once more to {MAIL}", "Done.")
    assert engine.sync.original(SCOPE, ids_of_user(engine), actor="x").content.endswith(
        "example.com"
    )
    assert MAIL not in caplog.text
    engine.sync.close()


@pytest.mark.req("A-19", "A-23")
def test_no_row_is_acknowledged_before_its_original_is_there() -> None:
    engine, second = switched()
    HostApp(engine, SCOPE).ask("Hello", "Hello.")
    assert engine.sync.flush()
    closed = engine.config.model_copy(update={"fail": "closed"})
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user("Write to Ann."), config=closed)
    second.refuses = True
    with pytest.raises(StoreUnavailableError, match="not stored yet"):
        app.commit(prepared, assistant(f"Written to {MAIL}."))
    with pytest.raises(StoreUnavailableError, match="not stored yet"):
        app.prepare(user(f"Once more to {MAIL}"), config=closed)
    assert not engine.sync.flush(0.1)
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    assert [m.content for m in document.session.messages] == ["Hello", "Hello.", "Write to Ann."]
    second.refuses = False
    assert engine.sync.flush()
    assert engine.sync.verify_originals(SCOPE) == OriginalsReport(there=2)
    engine.sync.close()


@pytest.mark.req("A-30")
def test_what_comes_too_late_leaves_no_original_either(opened: Opened, tmp_path: Path) -> None:
    engine, deleter = opened(), opened()
    app = HostApp(engine, SCOPE)
    app.ask("Hello", "Hello.")
    prepared = app.prepare(user("And?"))
    assert engine.sync.flush()
    deleter.sync.delete_session(SCOPE)
    app.commit(prepared, assistant(f"Ask {MAIL}."))
    assert engine.sync.flush()
    assert not holds(tmp_path, MAIL)


@pytest.mark.req("A-19")
def test_a_lost_original_is_named(opened: Opened, tmp_path: Path) -> None:
    engine = opened()
    talk(engine)
    known = ids(engine)
    there = engine.sync.verify_originals(SCOPE)
    assert (there.there > 4, there.missing, there.without_row) == (True, [], [])
    engine.sync.delete_evidence(SCOPE, known["rag_doc"])
    assert engine.sync.verify_originals(SCOPE).missing == []
    other = Scope(session_id="s", user_id="u", account_id="a", project_id="p")
    with pytest.raises(ScopeViolationError):
        engine.sync.verify_originals(other)
    engine.sync.close()
    for path in (tmp_path / "originals").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    urls = ["--account", "a", "--store", engine.store.url]
    urls += ["--originals", str(engine.config.redaction.originals_url)]
    done = ce("verify", "s", *urls)
    assert done.exit_code == 1
    assert f"missing: {known['user']} was redacted" in done.stdout
    assert known["rag_doc"] not in done.stdout.partition("originals of")[2]
    found = json.loads(ce("verify", "--json", *urls).stdout)["sessions"][0]["originals"]
    assert found["there"] == 0
    assert {known["user"], known["assistant"], known["call"]} <= set(found["missing"])
    assert ce("verify", "s", *urls[:4]).exit_code == 0


def test_originals_are_checked_where_there_are_some_only() -> None:
    engine = create_context_engine(MemoryStore())
    with pytest.raises(ConfigError, match="no originals are kept"):
        engine.sync.verify_originals(SCOPE)
    engine.sync.close()


@pytest.mark.req("A-30")
def test_a_deletion_that_the_second_store_refused_is_completed_by_the_next() -> None:
    engine, second = switched()
    HostApp(engine, SCOPE).ask(f"Write to {MAIL}", "Done.")
    assert engine.sync.flush()
    second.refuses = True
    with pytest.raises(StoreUnavailableError):
        engine.sync.delete_session(SCOPE)
    second.refuses = False
    engine.sync.delete_session(SCOPE)
    assert engine.loop.run(second.get_session(SCOPE)) is None
    engine.sync.close()


# Configuration


@pytest.mark.req("A-22", "A-30")
def test_both_stores_in_one_place_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = f"sqlite:///{tmp_path / 'ce.db'}"
    with pytest.raises(ConfigError, match="another file, folder or database"):
        create_context_engine("sqlite:///ce.db", config=dual(originals_url=absolute))
    monkeypatch.setenv(ORIGINALS_VARIABLE, absolute)
    with pytest.raises(ConfigError, match="another file, folder or database"):
        create_context_engine("sqlite:///ce.db", config=dual())
    monkeypatch.delenv(ORIGINALS_VARIABLE)
    with pytest.raises(
        ConfigError, match=rf"originals_url, in {ORIGINALS_VARIABLE}, or .* originals="
    ):
        create_context_engine("sqlite:///ce.db", config=dual())
    store = MemoryStore()
    with pytest.raises(ConfigError, match="the store itself"):
        create_context_engine(store, config=dual(), originals=store)
    with pytest.raises(ConfigError, match="dual_store"):
        create_context_engine(store, originals=MemoryStore())
    with pytest.raises(ConfigError, match=r'originals_url.* set mode="dual_store"'):
        RedactionConfig(originals_url=absolute)


def test_an_original_does_not_show_itself() -> None:
    engine, _ = switched()
    HostApp(engine, SCOPE).ask(f"Write to {MAIL}", "Done.")
    told = engine.sync.original(SCOPE, ids_of_user(engine), actor=MAIL)
    assert MAIL not in repr(told)
    assert events(engine, "OriginalRead")[0].payload["actor"] == "[EMAIL_1]"
    engine.sync.close()


def test_two_memory_stores_are_two_places() -> None:
    engine = create_context_engine(
        open_store("memory://"), config=dual(originals_url="memory://"), originals=None
    )
    engine.sync.close()


# The command


@pytest.mark.req("A-30")
def test_the_command_deletes_and_checks_both_stores(tmp_path: Path) -> None:
    first, second = f"sqlite:///{tmp_path / 'ce.db'}", f"sqlite:///{tmp_path / 'originals.db'}"
    engine = create_context_engine(first, config=dual(originals_url=second))
    talk(engine)
    engine.sync.close()
    urls = ("--store", first, "--originals", second)
    (tmp_path / "originals.db").chmod(0o644)
    found = {check["check"]: check for check in json.loads(ce("doctor", "--json", *urls).stdout)}
    assert found["originals store"]["status"] == "OK"
    assert found["originals rights"]["cure"].startswith("chmod 600 ")
    (tmp_path / "originals.db").chmod(0o600)
    assert "for this user only" in ce("doctor", *urls).stdout.replace("\n", " ")
    same = ce("doctor", "--store", first, "--originals", first)
    assert same.exit_code == 1
    assert "another file, folder or database" in " ".join(same.stdout.split())

    # The first time the second store is not named: its content is deleted by the next.
    assert (
        ce("delete", "--account", "a", "--session", "s", "--yes", "--store", first).exit_code == 0
    )
    assert MAIL.encode() in (tmp_path / "originals.db").read_bytes()
    who = ("--account", "a", "--user", "u", "--session", "s", "--yes")
    assert ce("delete", *who, *urls).exit_code == 0
    assert not holds(tmp_path, MAIL, SALARY)


@pytest.mark.req("A-30")
def test_what_is_of_some_sensitivity_is_in_the_second_store_alone(
    opened: Opened, tmp_path: Path
) -> None:
    engine = opened(originals_only=("secret", "机密"))
    secret, public = "The vault opens at noon 正午.", "The shop opens at nine."
    apart = engine.sync.ingest(
        SCOPE, secret, RAG, EvidenceType.RAG_DOC, metadata={"sensitivity": "机密"}
    )
    engine.sync.ingest(SCOPE, public, RAG, EvidenceType.RAG_DOC, metadata={"sensitivity": "open"})
    block = ContextBlock(
        block_id="b1",
        block_type=BlockType.MEMORY,
        priority=Priority.HIGH,
        content=secret,
        sensitivity="secret",
    )
    engine.sync.put_context_blocks(SCOPE, [block])
    turn = engine.sync.prepare_turn(SCOPE, Message(role=Role.USER, content="When does it open?"))
    sent = str(turn.assembled_input)
    assert public in sent
    assert secret not in sent
    assert (apart.content, apart.metadata["length"]) == ("", len(secret))
    for piece_id in (apart.evidence_id, "b1"):
        assert engine.sync.original(SCOPE, piece_id, actor="auditor").content == secret
    assert engine.sync.flush()
    assert not holds(tmp_path / "main", "vault opens", "正午")
    assert holds(tmp_path / "originals", "vault opens")
    engine.sync.delete_session(SCOPE)
    assert not holds(tmp_path / "originals", "vault opens", "正午")


def test_sensitive_content_needs_a_second_store() -> None:
    with pytest.raises(ConfigError, match="dual_store"):
        RedactionConfig(originals_only=("secret",))
