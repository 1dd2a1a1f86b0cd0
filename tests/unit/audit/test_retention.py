"""What outlives its rule goes, and only that; whoever wants nothing remembered is not (B-08)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ce_engine import (
    BudgetConfig,
    ConfigError,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    ModelUsage,
    RedactionConfig,
    RetentionConfig,
    RetentionRule,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    Task,
    TaskRun,
    ToolRun,
    create_context_engine,
    json_schema,
    open_store,
)
from ce_engine.audit.access import LISTED
from ce_engine.schema.call import Attachment
from ce_engine.schema.times import iso
from ce_engine.testing.host import HostApp, assistant
from ce_engine.testing.host import user as user_message
from tests.hosts.audit_records import Records
from tests.hosts.cli_host import ce
from tests.hosts.store_urls import KINDS, store_url


PATIENT = StoreConfig(deadline_s=10)
DAY = timedelta(days=1)


class Calendar:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def now_iso(self) -> str:
        return iso(self.now)


@pytest.fixture(params=KINDS)
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    with store_url(request.param, tmp_path, monkeypatch) as found:
        yield found


Make = Callable[..., ContextEngine]


@pytest.fixture
def clock() -> Calendar:
    return Calendar()


def engine_at(url: str, clock: Calendar, config: RuntimeConfig, **components: Any) -> ContextEngine:
    """An engine whose store has this clock, too."""
    store = open_store(url)
    store._clock = clock  # type: ignore[attr-defined]  # it has one of its own otherwise
    return create_context_engine(store, clock=clock, config=config, **components)


@pytest.fixture
def make(url: str, clock: Calendar) -> Make:
    def made(*rules: RetentionRule, **components: Any) -> ContextEngine:
        retention = RetentionConfig(rules=rules, every=components.pop("every", None))
        config = RuntimeConfig(store=PATIENT, retention=retention)
        return engine_at(url, clock, config, **components)

    return made


def talk(engine: ContextEngine, session: str, user: str = "anna", **scope: str) -> HostApp:
    host = HostApp(engine, Scope(session_id=session, user_id=user, **scope))
    host.ask(f"A question of {session}?", f"An answer in {session}.")
    return host


def there(engine: ContextEngine, user: str | None = None) -> set[str]:
    found = engine.sync.list_sessions(user_id=user, ephemeral=True)
    return {info.session_id for info in found}


@pytest.mark.req("B-08")
def test_a_session_goes_when_its_last_record_is_too_old(make: Make, clock: Calendar) -> None:
    records = Records()
    engine = make(RetentionRule(kind="session", max_age=30 * DAY), audit=records)
    talk(engine, "old")
    clock.now += 20 * DAY
    talk(engine, "young")
    assert engine.sync.sweep().expired == []
    clock.now += 11 * DAY
    looked = engine.sync.sweep(dry_run=True)
    assert [each.session_id for each in looked.expired] == ["old"]
    assert there(engine) == {"old", "young"}
    report = engine.sync.sweep()
    assert [each.session_id for each in report.expired] == ["old"]
    assert (report.deleted.sessions, report.deleted.messages) == (1, 2)
    assert there(engine) == {"young"}
    deletions = [each for each in records if each.event == "delete"]
    assert [(each.actor, each.session_id, each.status) for each in deletions] == [
        ("", LISTED, "ok"),
        ("", LISTED, "ok"),
        ("retention", "old", "ok"),
        ("", LISTED, "ok"),
    ]
    assert engine.sync.verify(Scope(session_id="old", user_id="anna")).status == "deleted"
    engine.sync.close()


@pytest.mark.req("B-08")
def test_who_talks_on_stays(make: Make, clock: Calendar) -> None:
    engine = make(RetentionRule(kind="session", max_age=30 * DAY))
    host = talk(engine, "long")
    for _ in range(3):
        clock.now += 20 * DAY
        host.ask("Still there?", "Yes.")
        engine.sync.sweep()
    assert there(engine) == {"long"}
    engine.sync.close()


@pytest.mark.req("B-08")
def test_the_newest_so_many_of_each_user_stay(make: Make, clock: Calendar) -> None:
    engine = make(RetentionRule(kind="session", max_count=2))
    for user in ("anna", "ben"):
        for n in range(3):
            clock.now += DAY
            talk(engine, f"{user}-{n}", user)
    engine.sync.sweep()
    assert there(engine) == {"anna-1", "anna-2", "ben-1", "ben-2"}
    engine.sync.close()


@pytest.mark.req("B-08")
def test_each_rule_counts_what_it_is_for(make: Make, clock: Calendar) -> None:
    """Sessions of one project do not use up what another one's rule keeps."""
    engine = make(
        RetentionRule(kind="session", max_count=1, project_id="law"),
        RetentionRule(kind="session", max_count=1, project_id="art"),
    )
    for project in ("law", "art"):
        for n in range(2):
            clock.now += DAY
            talk(engine, f"{project}-{n}", project_id=project)
    talk(engine, "none")
    engine.sync.sweep()
    assert there(engine) == {"law-1", "art-1", "none"}
    engine.sync.close()


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        (RetentionRule(kind="session", max_age=DAY), 0),
        (RetentionRule(kind="session", max_age=DAY, user_id="anna"), 0),
        (RetentionRule(kind="session", max_age=DAY, user_id="anna", project_id="law"), 3),
        (RetentionRule(kind="evidence", max_age=DAY, user_id="anna"), 3),
    ],
)
def test_a_sweep_reads_no_more_of_a_session_than_its_rules_ask(
    rule: RetentionRule, reads: int, clock: Calendar
) -> None:
    """Of 100,000 sessions the list alone, where that tells what has outlived its rule."""

    class Counting(MemoryStore):
        reads = 0

        async def state(self, *args: Any, **more: Any) -> Any:
            self.reads += 1
            return await super().state(*args, **more)

    store = Counting()
    engine = create_context_engine(store, clock=clock)
    for n in range(3):
        talk(engine, f"anna-{n}", "anna", project_id="law")
        talk(engine, f"ben-{n}", "ben", project_id="law")
    engine.sync.flush()
    store.reads = 0
    engine.sync.sweep(RetentionConfig(rules=(rule,)), dry_run=True)
    assert store.reads == reads
    engine.sync.close()


@pytest.mark.req("B-08", "B-03")
def test_of_rules_the_first_that_fits_the_owner_counts(make: Make, clock: Calendar) -> None:
    engine = make(
        RetentionRule(kind="session", max_age=100 * DAY, user_id="anna", project_id="law"),
        RetentionRule(kind="session", max_age=50 * DAY, account_id="acme"),
        RetentionRule(kind="session", max_age=10 * DAY, account_id=""),
    )
    talk(engine, "law", "anna", project_id="law")
    talk(engine, "other", "anna", project_id="art")
    talk(engine, "acme", "carl", account_id="acme")
    clock.now += 20 * DAY
    gone = {each.session_id for each in engine.sync.sweep().expired}
    assert gone == {"other"}
    clock.now += 40 * DAY
    assert {each.session_id for each in engine.sync.sweep().expired} == {"acme"}
    assert there(engine) == {"law"}
    engine.sync.close()


@pytest.mark.req("B-08")
def test_runs_that_nobody_named_have_a_rule_of_their_own(make: Make, clock: Calendar) -> None:
    engine = make(RetentionRule(kind="ephemeral", max_age=DAY))
    talk(engine, "named")
    host = HostApp(engine, Scope(session_id="run-1"))
    prepared = host.prepare(ephemeral=True)
    engine.loop.run(engine.fail(prepared.turn, "x"))
    assert engine.sync.flush()
    clock.now += 2 * DAY
    assert [each.kind for each in engine.sync.sweep().expired] == ["ephemeral"]
    assert there(engine) == {"named"}
    engine.sync.close()


@pytest.mark.req("B-08", "A-30")
def test_evidence_goes_before_its_session(make: Make, clock: Calendar) -> None:
    engine = make(RetentionRule(kind="evidence", max_age=30 * DAY))
    host = talk(engine, "s")
    page = RetrievedDoc("The lighthouse has ninety-nine steps.", "doc://steps")
    engine.sync.record_retrieval(host.scope, Retrieval("find", "steps", [page]))
    clock.now += 20 * DAY
    page = RetrievedDoc("The harbour is eleven metres deep.", "doc://depth")
    engine.sync.record_retrieval(host.scope, Retrieval("find", "depth", [page]))
    clock.now += 15 * DAY
    report = engine.sync.sweep()
    assert report.deleted.evidences == 1
    texts = {e.source.uri: e.content for e in engine.sync.list_evidences(host.scope)}
    assert texts["doc://steps"] == ""
    assert "eleven metres" in texts["doc://depth"]
    assert engine.sync.sweep().expired == []
    engine.sync.close()


@pytest.mark.req("B-08")
@pytest.mark.req("B-08")
def test_what_was_said_with_words_of_evidence_stays_when_that_goes(
    make: Make, clock: Calendar
) -> None:
    engine = make(RetentionRule(kind="evidence", max_age=3 * DAY))
    scope = Scope(session_id="s", user_id="anna")
    host = HostApp(engine, scope)
    host.ask("I moved to Berlin last year.", "Berlin it is.")
    run = ToolRun("capital", {"of": "Germany"}, "Berlin", "run-1", "call-1")
    engine.post_tool_run(scope, run, request_id="request-1")
    assert engine.sync.flush()
    clock.now += 4 * DAY
    assert engine.sync.sweep().deleted.evidences == 1
    document = engine.sync.get_session(scope)
    assert document is not None
    said = [message.content for message in document.session.messages]
    assert said[:2] == ["I moved to Berlin last year.", "Berlin it is."]
    assert [e.content for e in document.evidences.values() if e.source.name == "capital"] == [""]


@pytest.mark.req("B-08")
def test_who_comes_back_while_a_sweep_is_at_work_loses_nothing(make: Make, clock: Calendar) -> None:
    engine = make()
    for session in ("s1", "s2", "s3"):
        talk(engine, session)
    assert engine.sync.flush()
    clock.now += 40 * DAY
    scope = Scope(session_id="s1", user_id="anna")
    app = create_context_engine(engine.store, clock=clock, config=engine.config)

    def come_back(left: int) -> None:
        if left == 3:
            with ThreadPoolExecutor(1) as pool:  # it is called on the sweeping engine's loop
                pool.submit(HostApp(app, scope).ask, "I am back.", "Welcome.").result()
                assert pool.submit(app.sync.flush).result()

    rules = RetentionConfig(rules=(RetentionRule(kind="session", max_age=30 * DAY),))
    done = engine.sync.sweep(rules, advance=come_back)
    assert (done.deleted.sessions, done.failed) == (2, [])
    assert there(engine) == {"s1"}
    document = app.sync.get_session(scope)
    assert document is not None
    assert document.session.messages[-1].content == "Welcome."


def test_an_engine_sweeps_beside_its_calls_where_it_is_time(
    tmp_path: Path, clock: Calendar
) -> None:
    url = f"sqlite:///{tmp_path}/ce.db"
    engine = engine_at(url, clock, RuntimeConfig(store=PATIENT))
    talk(engine, "old")
    engine.sync.close()
    clock.now += 40 * DAY
    rules = (RetentionRule(kind="session", max_age=30 * DAY),)
    config = RuntimeConfig(store=PATIENT, retention=RetentionConfig(rules=rules))
    engine = engine_at(url, clock, config)
    talk(engine, "new")
    assert engine.loop.run(engine._background.settle(20))
    assert there(engine) == {"new"}
    engine.sync.close()


def test_a_rule_says_something() -> None:
    with pytest.raises(ConfigError, match="max_age or max_count"):
        RetentionRule(kind="session")


# Nobody is to remember


OUT = "The code of my safe is amber-otter-nineteen."


@pytest.mark.req("B-08")
def test_of_who_opts_out_no_content_is_stored(url: str, tmp_path: Path) -> None:
    originals = open_store(f"sqlite:///{tmp_path}/originals.db")
    config = RuntimeConfig(
        store=PATIENT,
        redaction=RedactionConfig(mode="dual_store"),
        memory_opt_out=lambda scope: scope.user_id == "anna",
    )
    engine = create_context_engine(url, config=config, originals=originals)
    for user in ("anna", "ben"):
        scope = Scope(session_id=f"of-{user}", user_id=user)
        host = HostApp(engine, scope)
        host.ask(OUT, f"Noted: {OUT}")
        run = ToolRun(name="safe", args={"code": OUT}, result=OUT, run_id="r")
        engine.sync.record_tool_run(scope, run)
        page = RetrievedDoc(OUT, f"https://safes.example/?q={OUT}", metadata={"title": OUT})
        engine.sync.record_retrieval(scope, Retrieval("find", OUT, [page]))
        file = replace(user_message("Its code?"), attachments=(Attachment("file", name=OUT),))
        prepared = host.prepare(file)
        assert prepared.unchanged
        host.commit(prepared, assistant("amber-otter-nineteen"))
        engine.sync.upsert_tasks(scope, [Task(task_id="t1", name=OUT, error=OUT)])
        engine.post_tasks(scope, [TaskRun("t2", OUT, result=OUT, error=OUT)])
        engine.sync.record_event(scope, "planner", {OUT: OUT})
        used = ModelUsage(model_usage_id="m", provider="p", model="m", total_tokens=7, error=OUT)
        used.params = {"stop": OUT}
        engine.sync.record_model_usage(scope, used)
        answer = EvidenceSource(kind=SourceKind.USER, name=OUT, uri=OUT)
        engine.sync.record_evidence(scope, OUT, answer, EvidenceType.OTHER, metadata={"x": OUT})
        assert engine.sync.flush()
    texts = {}
    for user in ("anna", "ben"):
        scope = Scope(session_id=f"of-{user}", user_id=user)
        texts[user] = engine.sync.export_user_data("", user).model_dump_json()
        kept = engine.loop.run(originals.get_session(scope))
        texts[user] += "" if kept is None else kept.model_dump_json()
        session = engine.sync.get_session(scope).session  # type: ignore[union-attr] # it is there
        assert (len(session.messages), session.model_usage[-1].total_tokens) == (4, 7)
    engine.sync.close()
    assert "otter" not in texts["anna"]
    assert "otter" in texts["ben"]


@pytest.mark.req("B-08")
def test_who_opts_out_is_brought_nothing_of_before(url: str) -> None:
    budget = BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0)
    config = RuntimeConfig(store=PATIENT, budget=budget, history="session")
    out: set[str] = set()
    config = config.model_copy(update={"memory_opt_out": lambda scope: scope.user_id in out})
    engine = create_context_engine(url, config=config)
    scope = Scope(session_id="s", user_id="anna")
    host = HostApp(engine, scope)
    host.ask(OUT, "Noted.")
    for n in range(10):
        host.ask(f"Tell me of stone {n}.", f"Stone {n} is grey and old. " * 8)
    told = host.ask("What is the code of my safe?", "amber-otter-nineteen")
    assert "amber-otter" in str(told.plan), "it is brought back, so that the test can fail"
    out.add("anna")
    told = host.ask("And once more, the code of my safe?", "I do not know.")
    sent = [step for step in told.plan if "otter" in str(step)]
    assert sent == []
    engine.sync.close()


@pytest.mark.req("B-08")
def test_where_nobody_can_say_nothing_is_remembered(url: str) -> None:
    def broken(_: Scope) -> bool:
        raise RuntimeError("the directory is away")

    config = RuntimeConfig(store=PATIENT, memory_opt_out=broken)
    engine = create_context_engine(url, config=config)
    HostApp(engine, Scope(session_id="s")).ask(OUT, "Noted.")
    assert "otter" not in engine.sync.export_user_data("", "").model_dump_json()
    engine.sync.close()


# A person's own data


@pytest.mark.req("B-08", "A-01")
def test_a_user_s_data_are_exported_whole_and_nobody_else_s(url: str) -> None:
    engine = create_context_engine(url, config=RuntimeConfig(store=PATIENT))
    talk(engine, "one", "anna", project_id="law")
    talk(engine, "two", "anna")
    talk(engine, "three", "ben")
    scope = Scope(session_id="one", user_id="anna", project_id="law")
    engine.sync.constraints.create(scope, "Answer in Chinese.")
    found = engine.sync.export_user_data("", "anna")
    plain = json.loads(found.model_dump_json())
    jsonschema_rs.validator_for(json_schema("export")).validate(plain)
    assert {each.document.session.session_id for each in found.sessions} == {"one", "two"}
    assert {each.project_id for each in found.sessions} == {"law", ""}
    assert all(each.turns and each.events for each in found.sessions)
    assert "Answer in Chinese." in str(plain["settings"])
    assert "three" not in str(plain)
    assert engine.sync.export_user_data("", "nobody").sessions == []
    engine.sync.close()


@pytest.mark.req("B-08")
def test_the_commands_export_and_sweep(tmp_path: Path, clock: Calendar) -> None:
    url = f"sqlite:///{tmp_path}/ce.db"
    engine = engine_at(url, clock, RuntimeConfig(store=PATIENT))
    talk(engine, "old")
    engine.sync.close()
    file = tmp_path / "anna.json"
    done = ce("export", "--user", "anna", "--to", str(file), "--store", url)
    assert done.exit_code == 0, done.stderr
    assert "1 sessions, 2 messages" in done.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    jsonschema_rs.validator_for(json_schema("export")).validate(json.loads(file.read_text()))
    assert ce("export", "--user", "anna", "--to", str(file), "--store", url).exit_code == 1
    dry = ce("sweep", "--sessions", "30d", "--dry-run", "--store", url)
    assert "would delete 1 sessions" in dry.stdout
    assert ce("sweep", "--sessions", "soon", "--store", url).exit_code == 2
    assert ce("sweep", "--store", url).exit_code == 2
    done = ce("sweep", "--sessions", "30d", "--store", url)
    assert "deleted 1 sessions" in done.stdout
    assert "nothing is older" in ce("sweep", "--sessions", "30d", "--store", url).stdout
