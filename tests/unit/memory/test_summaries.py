"""Summaries of the engine: incremental, of one line each, recorded, and in no turn's way (A-16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    EvidenceType,
    HostMessage,
    MemoryStore,
    ModelUsageStage,
    create_context_engine,
    open_store,
)
from ce_engine.ports.store import Store
from ce_engine.schema.document import Message
from ce_engine.schema.events import EventType
from ce_engine.testing import MockLlmAdapter
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from tests.hosts.summary_host import (
    SCOPE,
    Forgetful,
    config,
    covered,
    document,
    events,
    make,
    sent,
    summary,
    talk,
    tight,
    told,
)


pytestmark = pytest.mark.req("A-16")

Opened = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite", "file"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Open the same store again, as the next process does."""
    if request.param == "memory":
        store = MemoryStore()
        return lambda: store
    url = f"sqlite:///{tmp_path / 'ce.db'}" if request.param == "sqlite" else tmp_path.as_uri()
    return lambda: open_store(url)


@pytest.fixture
def llm() -> MockLlmAdapter:
    return MockLlmAdapter()


@pytest.fixture
def engine(llm: MockLlmAdapter) -> Iterator[ContextEngine]:
    made = make(MemoryStore(), llm)
    yield made
    made.sync.close()


def end(engine: ContextEngine) -> None:
    """End a process; what is in memory only stays for the next one of the test."""
    assert engine.sync.flush(20)
    if not isinstance(engine.store, MemoryStore):
        engine.sync.close()


def evidence_of(engine: ContextEngine, text: str) -> str:
    """The id of the evidence that the newest summary with such a text is."""
    found = [e for e in document(engine).evidences.values() if e.content == text]
    return found[-1].evidence_id


# What is summarised


def test_each_message_is_summarised_once_and_the_last_ones_stay(
    engine: ContextEngine, llm: MockLlmAdapter
) -> None:
    talk(HostApp(engine, SCOPE), 1, 3)
    assert llm.requests == []
    talk(app := HostApp(engine, replace(SCOPE, session_id="t")), 1, 4)
    assert covered(engine, app.scope) == (0, 5)
    talk(app, 5, 10)
    first, second, third = told(llm)
    assert all(f"user: q{n}.\n| assistant: aq{n}." in first for n in (1, 2, 3))
    assert "q4." not in first
    assert "summary 1" in second
    assert [n for n in range(1, 11) if f" q{n}." in second] == [4, 5, 6]
    assert "summary 2" in third
    assert "q6." not in third
    assert covered(engine, app.scope) == (0, 17)
    assert summary(engine, app.scope).content == "summary 3"


@pytest.mark.req("E-06", "A-07")
def test_a_restart_goes_on_from_it(opened: Opened) -> None:
    llm, messages = MockLlmAdapter(), list[HostMessage]()
    for process in range(4):
        engine = make(opened(), llm)
        app = HostApp(engine, SCOPE, messages)
        talk(app, 3 * process + 1, 3 * process + 3)
        messages = app.messages
        end(engine)
    engine = make(opened(), llm)
    texts = told(llm)
    assert [sum(f" q{n}." in text for text in texts) for n in range(1, 13)] == [1] * 9 + [0] * 3
    assert all(f"summary {n}" in text for n, text in enumerate(texts[1:], start=1))
    assert summary(engine).content == "summary 3"
    assert covered(engine) == (0, 17)
    end(engine)


def test_it_is_recorded_as_usage_evidence_and_event(engine: ContextEngine) -> None:
    talk(HostApp(engine, SCOPE), 1, 4)
    found = document(engine)
    [usage] = [u for u in found.session.model_usage if u.stage is ModelUsageStage.SUMMARIZE]
    assert (usage.model, usage.total_tokens) == ("mock", usage.prompt_tokens + 3)
    [evidence] = [
        e for e in found.evidences.values() if e.links.model_usage_id == usage.model_usage_id
    ]
    assert (evidence.type, evidence.content) == (EvidenceType.LLM_OUTPUT, "summary 1")
    [event] = events(engine, EventType.SUMMARY_GENERATED)
    assert (event.kind, event.model_usage_id) == ("summary", usage.model_usage_id)
    assert event.payload["evidence_id"] == evidence.evidence_id
    assert (event.payload["from_index"], event.payload["to_index"]) == (0, 5)
    assert engine.sync.verify(SCOPE).status == "intact"


def test_tool_results_go_with_their_call(engine: ContextEngine, llm: MockLlmAdapter) -> None:
    app = HostApp(engine, SCOPE)
    for n in range(4):
        asked = tool_calls(("call_0", "stock", {"n": n}))
        app.commit(app.prepare(user(f"how many {n}?")), asked)
        app.commit(
            app.prepare(tool_result("call_0", f"{n} lamps"), new_request=False), assistant("ok")
        )
        engine.sync.flush(20)
    first = told(llm)[0]
    assert "-> stock({'n': 0})\n| tool: 0 lamps" in first
    for text in told(llm):
        assert text.count("-> stock") == text.count("lamps")


def test_each_lane_has_its_own(engine: ContextEngine, llm: MockLlmAdapter) -> None:
    apps = [HostApp(engine, replace(SCOPE, agent_id=name)) for name in ("left", "right")]
    for n in range(1, 9):
        for app in apps:
            talk(app, n, n, app.scope.agent_id)
    assert len(llm.requests) == 4
    for text in told(llm):
        assert ("left" in text) != ("right" in text)
    state = engine.loop.run(engine.store.state(SCOPE))
    assert state is not None
    assert sorted(row.lane_key for row in state.summaries) == ["left", "right"]
    assert covered(engine) == (2, 23)


def test_a_branch_that_was_left_is_not_summarised_and_not_used(
    engine: ContextEngine, llm: MockLlmAdapter
) -> None:
    app = HostApp(engine, SCOPE)
    talk(app, 1, 2)
    talk(app, 3, 6, "left")
    assert "left" in told(llm)[0]
    app.messages = app.messages[:4]  # back to the second answer
    talk(app, 3, 5, "new")
    assert len(llm.requests) == 2
    assert "left" not in told(llm)[1]
    assert "summary" not in told(llm)[1]
    assert [f"q{n}." in told(llm)[1] for n in (1, 2)] == [True, True]
    app.messages = app.messages[:2]
    tightly = app.prepare(user("again " * 50), config=tight(150))
    assert "summary" not in sent(tightly)


def test_an_edited_message_is_summarised_as_it_is_now(
    engine: ContextEngine, llm: MockLlmAdapter
) -> None:
    app = HostApp(engine, SCOPE)
    app.ask("my cat is called Tom", "ok")
    talk(app, 2, 5)
    assert "Tom" in told(llm)[0]
    app.messages[0] = user("my cat is called Kitty")
    for message in app.messages:
        message.recognised = None
    talk(app, 6, 9)
    assert "Tom" not in told(llm)[-1]
    assert "Tom" not in summary(engine).content


@pytest.mark.req("A-30")
def test_deleted_evidence_is_in_no_summary(opened: Opened) -> None:
    llm = MockLlmAdapter(["the code is 4711", "still 4711", "nothing of it"])
    store = opened()
    engine = make(store, llm)
    app = HostApp(engine, SCOPE)
    app.commit(app.prepare(user("code?")), tool_calls(("c", "look", {})))
    app.commit(app.prepare(tool_result("c", "4711"), new_request=False), assistant("done"))
    talk(app, 1, 6)
    assert "4711" in told(llm)[0]
    [evidence] = [e for e in document(engine).evidences.values() if e.content == "4711"]
    assert engine.sync.delete_evidence(SCOPE, evidence.evidence_id).evidences >= 2
    assert document(engine).session.summary is None
    assert not [e for e in document(engine).evidences.values() if "4711" in e.content]
    app.messages = [m for m in app.messages if m.message.content != "4711"]
    del app.messages[1]
    talk(app, 7, 10)
    assert "4711" not in told(llm)[-1]
    engine.sync.close()


# What goes out


@pytest.mark.req("E-06", "E-02")
def test_a_host_that_keeps_nothing_gets_it_in_the_place_of_what_it_covers(opened: Opened) -> None:
    llm = MockLlmAdapter(["they spoke of one to three"])
    engine = make(opened(), llm)
    talk(Forgetful(engine, SCOPE), 1, 4)
    end(engine)
    engine = make(opened(), llm)  # after a restart, too
    prepared = Forgetful(engine, SCOPE).prepare(user("q5."), request_id="r")
    text = sent(prepared)
    assert text.count("they spoke of one to three") == 1
    assert [text.count(f"q{n}.") for n in range(1, 6)] == [0, 0, 0, 2, 1]  # `aq4.` has it, too
    assert "|# Summary of what was said before" in text
    assert prepared.report.layers["immediate"].chunks == 1  # a piece like any other
    assert (
        evidence_of(engine, "they spoke of one to three") in prepared.report.injected_evidence_ids
    )
    end(engine)


@pytest.mark.req("E-06")
@pytest.mark.parametrize("keeps", ["nothing", "the list"])
def test_an_answer_refers_to_the_summary_that_it_was_shown(keeps: str) -> None:
    gist = "they spoke of the first ones"
    limit = config() if keeps == "nothing" else tight(400)
    engine = make(MemoryStore(), MockLlmAdapter([gist] * 9), limit)
    app = (Forgetful if keeps == "nothing" else HostApp)(engine, SCOPE)
    for n in range(1, 10):
        app.ask(f"q{n}. " + "boats " * 20, f"a{n}. " + "waves " * 20)
        engine.sync.flush(20)
    shown = evidence_of(engine, gist)
    *_, answer = document(engine).session.messages
    assert shown in [ref.evidence_id for ref in answer.refs or ()]
    first = document(engine).session.messages[1]
    assert shown not in [ref.evidence_id for ref in first.refs or ()]
    engine.sync.close()


@pytest.mark.req("E-04")
def test_a_host_with_room_to_spare_gets_its_own_list(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    talk(app, 1, 8)
    assert summary(engine).content
    assert app.prepare(user("next")).unchanged


@pytest.mark.req("E-06")
def test_where_the_list_is_cut_it_stands_for_what_is_gone() -> None:
    llm = MockLlmAdapter(["they spoke of the first ones"] * 9)
    engine = make(MemoryStore(), llm, tight(400))
    app = HostApp(engine, SCOPE)
    for n in range(1, 9):
        app.ask(f"q{n}. " + "boats " * 20, f"a{n}. " + "waves " * 20)
        engine.sync.flush(20)
    prepared = app.prepare(user("and now?"))
    assert prepared.report.token_used <= 400
    text = sent(prepared)
    assert text.count("they spoke of the first ones") == 1
    assert "q1." not in text.replace("user: q1.", "")  # but where relevance brings it in again
    engine.sync.close()


@pytest.mark.req("A-12")
def test_in_chinese() -> None:
    engine = make(MemoryStore(), llm := MockLlmAdapter(["他们谈到了港口"]), config(locale="zh"))
    talk(Forgetful(engine, SCOPE), 1, 4, "问")
    assert "滚动摘要" in llm.requests[0].messages[0].content
    assert "|# 此前对话的摘要\n| 他们谈到了港口" in sent(
        Forgetful(engine, SCOPE).prepare(user("五"))
    )
    engine.sync.close()


def test_stored_messages_are_not_touched(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    talk(app, 1, 8)
    contents = [m.content for m in document(engine).session.messages]
    assert contents == [m.message.content for m in app.messages]
    assert all(isinstance(m, Message) for m in document(engine).session.messages)


class Noon:
    """A clock of the app's own."""

    def now_iso(self) -> str:
        return "2030-01-01T12:00:00.000Z"


@pytest.mark.req("A-16", "A-26")
def test_a_summary_has_the_time_of_the_engine_s_clock() -> None:
    engine = create_context_engine(
        MemoryStore(), llm_adapter=MockLlmAdapter(), config=config(), clock=Noon()
    )
    talk(HostApp(engine, SCOPE), 1, 4)
    assert summary(engine).updated_at == Noon().now_iso()
    engine.sync.close()
