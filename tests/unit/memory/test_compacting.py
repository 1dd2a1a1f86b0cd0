"""A log in few tokens: by its length none, key events, or summaries and the last of them; and when summaries come (B-15)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ce_engine import (
    CharBasedEstimator,
    CompactionConfig,
    CompactLog,
    ConfigError,
    ContextEngine,
    MemoryStore,
    Message,
    RollingSummarizer,
    RuntimeConfig,
    Scope,
    Summarizer,
    SummaryConfig,
    Task,
    TaskStatus,
    create_context_engine,
)
from ce_engine.memory.summary_layers import BETWEEN, LayeredSummarizer
from ce_engine.schema.document import MessageIndexRange, Summary
from ce_engine.schema.enums import Role
from ce_engine.testing import MockLlmAdapter, SummarizerContract
from ce_engine.testing.host import HostApp
from tests.hosts.summary_host import PATIENT, SCOPE, config, covered, make, summary, talk


pytestmark = pytest.mark.req("B-15")

NEVER = SummaryConfig(
    trigger_message_count=10_000, trigger_token_threshold=10**6, preserve_recent_messages=2
)
KEY = {"user_input", "tool_result", "aggregate", "final", "error", "hitl"}


@pytest.fixture
def llm() -> MockLlmAdapter:
    return MockLlmAdapter()


@pytest.fixture
def engine(llm: MockLlmAdapter) -> Iterator[ContextEngine]:
    made = make(MemoryStore(), llm, config(summary=NEVER))
    yield made
    made.sync.close()


def chat(engine: ContextEngine, turns: int, scope: Scope = SCOPE) -> None:
    app = HostApp(engine, scope)
    for n in range(turns):
        app.ask(f"What of chapter {n}? 第 {n} 章 " * 4, f"Chapter {n} is long. " * 12)
        if n % 5 == 0:
            engine.sync.record_event(scope, "planner", {"step": n})


def whole(engine: ContextEngine) -> CompactLog:
    return engine.sync.compact(SCOPE, CompactionConfig(threshold_low=10**9, threshold_high=10**9))


# The log


def test_a_short_log_stays_whole(engine: ContextEngine, llm: MockLlmAdapter) -> None:
    chat(engine, 6)
    log = engine.sync.compact(SCOPE)
    assert (log.strategy, log.tokens) == ("none", log.tokens_before)
    assert log.tokens < 4000
    assert list(log.events) == engine.sync.list_events(SCOPE)
    assert (log.summaries, log.left_out, llm.requests) == ((), {}, [])


def test_a_longer_one_keeps_its_newest_key_events(
    engine: ContextEngine, llm: MockLlmAdapter
) -> None:
    chat(engine, 40)
    log = engine.sync.compact(SCOPE)
    assert 4000 <= log.tokens_before < 8000
    assert (log.strategy, len(log.events), llm.requests) == ("key_events", 40, [])
    everything = engine.sync.list_events(SCOPE)
    key = [event for event in everything if event.kind in KEY]
    assert list(log.events) == key[-40:]
    assert sum(log.left_out.values()) == len(everything) - 40
    assert log.left_out["planner"] == 8
    assert log.tokens < log.tokens_before


def test_a_long_one_has_a_summary_of_what_is_old(
    engine: ContextEngine, llm: MockLlmAdapter
) -> None:
    chat(engine, 80)
    before = engine.sync.list_events(SCOPE)
    log = engine.sync.compact(SCOPE)
    assert log.tokens_before >= 8000
    assert (log.strategy, len(log.events)) == ("summary", 40)
    assert [each.content for each in log.summaries] == [summary(engine).content]
    assert covered(engine) == (0, 157)
    assert llm.requests
    assert log.tokens < log.tokens_before // 3
    now = engine.sync.list_events(SCOPE)
    assert now[: len(before)] == before
    assert engine.sync.verify(SCOPE).status == "intact"
    asked = len(llm.requests)
    assert engine.sync.compact(SCOPE).summaries == log.summaries
    assert len(llm.requests) == asked


def test_what_no_summary_stands_for_stays(engine: ContextEngine) -> None:
    """The last messages of another agent's line, which nobody sums up."""
    quiet = HostApp(engine, SCOPE)
    quiet.ask("What does the editor say?", "Too long.", lane_key="editor")
    chat(engine, 80)
    kept = [event for event in engine.sync.compact(SCOPE).events if event.kind == "user_input"]
    assert kept[0] == next(e for e in engine.sync.list_events(SCOPE) if e.kind == "user_input")


def test_without_a_model_or_with_one_that_fails_the_newest_key_events_are_left() -> None:
    for llm in (None, MockLlmAdapter([ValueError("no")] * 100)):
        engine = create_context_engine(
            MemoryStore(), CharBasedEstimator(), llm, config(summary=NEVER)
        )
        chat(engine, 80)
        log = engine.sync.compact(SCOPE)
        assert (log.strategy, len(log.events), list(log.summaries)) == ("summary", 40, [])
        engine.sync.close()


def test_of_no_session_there_is_nothing(engine: ContextEngine) -> None:
    log = engine.sync.compact("nobody's", CompactionConfig(threshold_low=0, threshold_high=0))
    assert (log.events, log.tokens) == ([], 0)
    assert engine.sync.get_session("nobody's") is None


def test_thresholds_in_the_wrong_order_are_an_error() -> None:
    with pytest.raises(ConfigError, match="make it smaller"):
        CompactionConfig(threshold_low=9000)


# When summaries come


def wait_for(done: Callable[[], Any]) -> bool:
    for _ in range(1000):
        if done():
            return True
        time.sleep(0.02)
    return False


def test_a_line_that_falls_silent_is_summed_up(llm: MockLlmAdapter) -> None:
    quick = NEVER.model_copy(update={"idle_s": 0.05})
    engine = make(MemoryStore(), llm, config(summary=quick))
    talk(HostApp(engine, SCOPE), 1, 3)
    assert wait_for(lambda: llm.requests)
    assert wait_for(lambda: engine.sync.get_session(SCOPE).session.summary)  # type: ignore[union-attr]  # it is there
    engine.sync.close()


def test_nobody_waits_for_silence(llm: MockLlmAdapter) -> None:
    slow = NEVER.model_copy(update={"idle_s": 3600})
    engine = make(MemoryStore(), llm, config(summary=slow))
    talk(HostApp(engine, SCOPE), 1, 5)
    assert engine.sync.flush(20)
    engine.sync.close()
    assert llm.requests == []


@pytest.mark.parametrize("kind", ["aggregate", "task_done"])
def test_an_event_of_the_hosts_is_a_reason(llm: MockLlmAdapter, kind: Any) -> None:
    settings = NEVER.model_copy(update={"on_events": frozenset({kind})})
    engine = make(MemoryStore(), llm, config(summary=settings))
    talk(HostApp(engine, SCOPE), 1, 3)
    engine.sync.record_event(SCOPE, "planner", {"step": 1})
    engine.sync.upsert_tasks(SCOPE, [Task(task_id="t", name="draft")])
    assert engine.sync.flush(20)
    assert llm.requests == []
    if kind == "aggregate":
        engine.sync.record_event(SCOPE, "aggregate", {"passed": True})
    else:
        done = Task(task_id="t", name="draft", status=TaskStatus.COMPLETED)
        engine.sync.upsert_tasks(SCOPE, [done])
    assert covered(engine) == (0, 3)
    assert len(llm.requests) == 1
    engine.sync.close()


def test_a_summary_that_fails_is_no_reason_for_the_next_one() -> None:
    llm = MockLlmAdapter([ValueError("no")] * 100)
    settings = NEVER.model_copy(update={"on_events": frozenset({"final"})})
    engine = make(MemoryStore(), llm, config(summary=settings))
    talk(HostApp(engine, SCOPE), 1, 6)
    assert engine.sync.flush(20)
    assert len(llm.requests) <= 6
    engine.sync.close()
    for kind in ("error", "summary"):
        with pytest.raises(ConfigError, match="on_events"):
            SummaryConfig(on_events=frozenset({kind}))  # type: ignore[arg-type]  # what is wrong is the point


@pytest.mark.req("B-08")
def test_of_who_opts_out_no_event_is_a_reason(llm: MockLlmAdapter) -> None:
    """What was said before they did is there still, and would be read once more."""
    out: set[str] = set()
    settings = NEVER.model_copy(update={"on_events": frozenset({"final"})})
    made = config(summary=settings)
    made = made.model_copy(update={"memory_opt_out": lambda scope: scope.session_id in out})
    engine = make(MemoryStore(), None, made)
    host = HostApp(engine, SCOPE)
    talk(host, 1, 6)
    assert engine.sync.flush(20)
    again = make(engine.store, llm, made)
    out.add(SCOPE.session_id)
    host.engine = again
    host.ask("And now?", "Now, too.")
    assert again.sync.flush(20)
    assert llm.requests == []
    out.clear()
    own = RuntimeConfig(memory_opt_out=lambda _: True)
    host.ask("And now?", "Now, too.", config=own)
    assert again.sync.flush(20)
    assert llm.requests == [], "whose call says so by its own configuration opts out, too"
    host.ask("And now?", "Now, too.")
    assert again.sync.flush(20)
    assert llm.requests, "there was something to summarise, so that the test can fail"
    again.sync.close()
    engine.sync.close()


def test_the_model_is_configurable(llm: MockLlmAdapter) -> None:
    settings = NEVER.model_copy(update={"model": "small-1"})
    engine = make(MemoryStore(), llm, config(summary=settings))
    talk(HostApp(engine, SCOPE), 1, 3)
    engine.sync.summarize(SCOPE)
    assert [request.model for request in llm.requests] == ["small-1"]
    engine.sync.close()


# Layers


class TestLayers(SummarizerContract):
    @pytest.fixture
    def summarizer(self) -> Summarizer:
        return LayeredSummarizer(MockLlmAdapter(), CharBasedEstimator())


def stretch(n: int) -> list[Message]:
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(role=roles[k % 2], content=f"Topic {n}, line {k}.") for k in range(4)]


async def test_old_stretches_are_summed_up_again_and_new_ones_stay() -> None:
    said = [f"Stretch {n}: 很多事情发生了。" + " It rained." * 4 for n in range(60)]
    llm = MockLlmAdapter(said)
    layers = LayeredSummarizer(llm, CharBasedEstimator())
    settings = SummaryConfig(max_summary_tokens=240, preserve_recent_messages=0)
    made: Summary | None = None
    merges = 0
    for n in range(40):
        known = len(llm.requests)
        if made is not None:
            before = MessageIndexRange(from_index=-4 * n, to_index=-1)
            made = made.model_copy(update={"message_index_range": before})
        made = await layers.summarize(stretch(n), made, settings)
        first, *more = llm.requests[known:]
        asked = first.messages[1].content
        assert f"Topic {n}, line 3." in asked
        assert "Stretch" not in asked  # what was summed up once is not retold
        merges += len(more)
        assert all("Stretch" in request.messages[1].content for request in more)
        assert CharBasedEstimator().estimate_text(made.content) <= 240
        assert made.content.split(BETWEEN)[-1] == said[known]
        assert made.message_index_range.from_index == -4 * n
    assert 2 < merges < 30
    assert made is not None
    assert len(made.content.split(BETWEEN)) > 1


def test_an_engine_keeps_layers_where_it_is_told_to() -> None:
    llm = MockLlmAdapter()
    settings = SummaryConfig(
        max_summary_tokens=60,
        trigger_message_count=6,
        preserve_recent_messages=2,
        strategy="layers",
    )
    engine = make(MemoryStore(), llm, config(summary=settings, store=PATIENT))
    talk(HostApp(engine, SCOPE), 1, 10)
    assert len(summary(engine).content.split(BETWEEN)) > 1
    rolling = make(MemoryStore(), llm, config())
    assert isinstance(rolling.summarizer, RollingSummarizer)
    assert not isinstance(rolling.summarizer, LayeredSummarizer)
    engine.sync.close()
    rolling.sync.close()
