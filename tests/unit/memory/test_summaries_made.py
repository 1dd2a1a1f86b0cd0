"""When summaries are made: when they are due or asked for, in no turn's way, and never with what is private (A-16)."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    MemoryStore,
    ModelUsageStage,
    Scope,
    SummaryConfig,
    create_context_engine,
    open_store,
)
from ce_engine.errors import ConfigError, SummarizerError
from ce_engine.schema.document import MessageIndexRange, Session, Summary
from ce_engine.schema.events import EventType
from ce_engine.schema.rows import PutSummary
from ce_engine.testing import MockLlmAdapter, samples
from ce_engine.testing.host import HostApp, assistant, user
from tests.hosts.summary_host import (
    SCOPE,
    SHORT,
    SlowLlm,
    config,
    covered,
    document,
    events,
    make,
    summary,
    talk,
    talk_without_waiting,
    tight,
    told,
)


pytestmark = pytest.mark.req("A-16")


@pytest.fixture
def llm() -> MockLlmAdapter:
    return MockLlmAdapter()


@pytest.fixture
def engine(llm: MockLlmAdapter) -> Iterator[ContextEngine]:
    made = make(MemoryStore(), llm)
    yield made
    made.sync.close()


# When


def test_by_hand_it_is_made_at_once_and_all_of_it(
    engine: ContextEngine, llm: MockLlmAdapter
) -> None:
    app = HostApp(engine, SCOPE)
    assert engine.sync.summarize(SCOPE) is None
    assert engine.loop.run(engine.store.version(SCOPE)).version == 0
    talk(app, 1, 3)
    assert engine.sync.summarize(SCOPE, only_if_due=True) is None
    made = engine.sync.summarize(SCOPE)
    assert made is not None
    assert (made.content, made.message_index_range.to_index) == ("summary 1", 3)
    assert engine.sync.summarize(SCOPE) == made
    assert len(llm.requests) == 1
    talk(app, 4, 4)
    later = engine.sync.summarize(SCOPE)
    assert later is not None
    assert later.message_index_range.to_index == 5


def test_without_a_model_there_are_none() -> None:
    engine = create_context_engine(MemoryStore(), config=config())
    talk(HostApp(engine, SCOPE), 1, 5)
    assert document(engine).session.summary is None
    with pytest.raises(ConfigError, match="llm_adapter"):
        engine.sync.summarize(SCOPE)
    engine.sync.close()


@pytest.mark.parametrize(
    "settings",
    [
        config(summary=SHORT.model_copy(update={"enabled": False})),
        config(enable_share_context=False),
    ],
    ids=["off", "nothing is put in"],
)
def test_where_it_is_of_no_use_none_is_made(settings: object, llm: MockLlmAdapter) -> None:
    engine = create_context_engine(MemoryStore(), llm_adapter=llm, config=settings)  # type: ignore[arg-type]  # parametrized
    talk(HostApp(engine, SCOPE), 1, 5)
    assert llm.requests == []
    engine.sync.close()


def test_nobodys_session_is_not_summarised(engine: ContextEngine, llm: MockLlmAdapter) -> None:
    app = HostApp(engine, SCOPE)
    for n in range(8):
        app.ask(f"q{n}", "a", ephemeral=True)
    engine.sync.flush(20)
    assert llm.requests == []


def test_a_slow_model_is_in_nobodys_way() -> None:
    slow = SlowLlm()
    engine = make(MemoryStore(), slow)
    app = HostApp(engine, SCOPE)
    for n in range(12):
        app.ask(f"q{n}.", "a")
    assert slow.asked.wait(10)
    prepared = app.prepare(user("still there?"))
    app.commit(prepared, assistant("yes"))
    assert not engine.sync.flush(0.05)
    assert slow.most == 1
    slow.go.set()
    assert engine.sync.flush(20)
    assert summary(engine).content == "slow summary"
    engine.sync.close()


def test_closing_ends_what_runs() -> None:
    slow = SlowLlm()
    engine = make(MemoryStore(), slow)
    talk_without_waiting(HostApp(engine, SCOPE))
    assert slow.asked.wait(10)
    engine.sync.close(0.05)
    assert (slow.count, slow.running) == (1, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_makes_its_own() -> None:
    slow = SlowLlm()
    engine = make(MemoryStore(), slow)
    talk_without_waiting(HostApp(engine, SCOPE))
    assert slow.asked.wait(10)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        slow.go.set()
        talk_without_waiting(HostApp(engine, SCOPE))
        os._exit(summary(engine).content != "slow summary")
    _, status = os.waitpid(pid, 0)
    assert status == 0
    slow.go.set()
    assert summary(engine).content == "slow summary"
    engine.sync.close()


def test_one_a_lane_at_a_time_and_many_sessions_at_once(llm: MockLlmAdapter) -> None:
    slow = SlowLlm()
    engine = make(MemoryStore(), slow)
    scopes = [Scope(session_id=f"s{n}") for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda scope: talk_without_waiting(HostApp(engine, scope)), scopes))
        assert slow.asked.wait(10)
        slow.go.set()
    assert engine.sync.flush(20)
    assert 1 <= slow.most <= 4
    assert all(covered(engine, scope) in [(0, 5), (0, 7), (0, 9)] for scope in scopes)
    engine.sync.close()


# Failure


def test_a_failure_is_told_and_the_messages_go_on_whole() -> None:
    llm = MockLlmAdapter([RuntimeError("quotes alice@example.com"), "later"])
    engine = make(MemoryStore(), llm)
    app = HostApp(engine, SCOPE)
    talk(app, 1, 4)
    [event] = events(engine, EventType.DEGRADED)
    assert event.payload == {"code": "CONTEXT_SUMMARIZE_FAILED", "reason": "summarize_failed"}
    prepared = app.prepare(user("next"))
    assert prepared.report.degradations == ["CONTEXT_SUMMARIZE_FAILED"]
    assert prepared.unchanged
    app.commit(prepared, assistant("ok"))
    assert app.prepare(user("and now")).report.degradations == []
    assert summary(engine).content == "later"
    engine.sync.close()


def test_it_is_no_reason_to_refuse_a_call() -> None:
    engine = make(MemoryStore(), MockLlmAdapter([ValueError()]), tight(9000, fail="closed"))
    app = HostApp(engine, SCOPE)
    talk(app, 1, 4)
    assert app.prepare(user("next")).report.degradations == ["CONTEXT_SUMMARIZE_FAILED"]
    engine.sync.close()


def test_a_model_that_always_fails_is_asked_less_and_less() -> None:
    llm = MockLlmAdapter([RuntimeError()] * 99)
    engine = make(MemoryStore(), llm)
    talk(HostApp(engine, SCOPE), 1, 40)
    assert 3 <= len(llm.requests) <= 7
    engine.sync.close()


def test_a_model_that_takes_too_long_has_failed() -> None:
    slow = SlowLlm()
    impatient = SHORT.model_copy(update={"timeout_s": 0.01})
    engine = make(MemoryStore(), slow, config(summary=impatient))
    app = HostApp(engine, SCOPE)
    talk(app, 1, 4)
    assert app.prepare(user("next")).report.degradations == ["CONTEXT_SUMMARIZE_FAILED"]
    with pytest.raises(SummarizerError, match="timeout_s"):
        engine.sync.summarize(SCOPE)
    engine.sync.close()


class Own:
    """A summarizer of somebody else's that says what it covers."""

    def __init__(self, to_index: int, content: str = "mine") -> None:
        self.to_index = to_index
        self.content = content

    async def should_summarize(self, session: Session, config: SummaryConfig) -> bool:
        return len(session.messages) > 6

    async def summarize(
        self,
        messages: object,
        existing_summary: Summary | None = None,
        config: SummaryConfig | None = None,
    ) -> Summary:
        covers = MessageIndexRange(from_index=0, to_index=self.to_index)
        return Summary(content=self.content, updated_at="2030", message_index_range=covers)


def test_a_summarizer_of_ones_own_is_used_and_recorded() -> None:
    engine = create_context_engine(MemoryStore(), summarizer=Own(3), config=config())
    talk(HostApp(engine, SCOPE), 1, 4)
    assert summary(engine).content == "mine"
    assert covered(engine) == (0, 3)
    [usage] = [
        u for u in document(engine).session.model_usage if u.stage is ModelUsageStage.SUMMARIZE
    ]
    assert usage.params == {"estimated": True}
    engine.sync.close()


@pytest.mark.req("A-16")
@pytest.mark.parametrize(
    "own",
    [Own(-1), Own(8), Own(3, " "), Own(2)],
    ids=["none", "too-many", "empty", "a question without its answer"],
)
def test_what_cannot_be_is_a_failure(own: Own) -> None:
    engine = create_context_engine(MemoryStore(), summarizer=own, config=config())
    talk(HostApp(engine, SCOPE), 1, 4)
    assert document(engine).session.summary is None
    assert len(events(engine, EventType.DEGRADED)) == 1
    engine.sync.close()


# Privacy


@pytest.mark.req("B-15", "B-02")
def test_nothing_unredacted_is_asked_or_stored(tmp_path: Path) -> None:
    llm = MockLlmAdapter(["Write to bob@example.com about alice@example.com"])
    engine = make(open_store(f"sqlite:///{tmp_path / 'ce.db'}"), llm)
    app = HostApp(engine, SCOPE)
    app.ask("I am alice@example.com", "hello alice@example.com")
    talk(app, 2, 4)
    assert "[EMAIL_1]" in told(llm)[0]
    assert "alice@" not in told(llm)[0]
    assert summary(engine).content == "Write to [EMAIL_2] about [EMAIL_1]"
    engine.sync.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("ce.db*"))
    assert b"example.com" not in kept


@pytest.mark.req("A-30")
def test_what_is_deleted_while_the_model_works_does_not_come_back() -> None:
    slow = SlowLlm()
    engine = make(MemoryStore(), slow)
    talk_without_waiting(HostApp(engine, SCOPE))
    assert slow.asked.wait(10)
    engine.sync.delete_session(SCOPE)
    slow.go.set()
    assert engine.sync.flush(20)
    assert engine.loop.run(engine.store.version(SCOPE)).version == 0
    engine.sync.close()


def test_a_summary_of_what_was_replaced_meanwhile_is_no_session_that_was_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another process replaces the document: the summary is made anew, and nobody is told that a session is gone."""
    engine = make(MemoryStore(), SlowLlm())
    HostApp(engine, SCOPE).ask("hello", "hi")
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    engine.loop.run(engine.store.put_session(SCOPE, document))
    anchor = document.session.messages[0].message_id or ""
    with caplog.at_level(logging.INFO, "ce_engine.store"):
        engine._journal.submit(SCOPE, [PutSummary(samples.summary(anchor, "so far"), epoch=0)])
        assert engine.sync.flush(20)
    assert "deleted while a call" not in caplog.text
    assert "a summary was not stored" in caplog.text
    assert engine.sync.get_session(SCOPE) is not None
    engine.sync.close()
