"""What the engine keeps, sends and tells stays within its bounds: bytes, tokens, projects, users and calls."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    Event,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    ModelCall,
    ObservabilityConfig,
    Prepared,
    RedactionConfig,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    SourceKind,
    StoreConfig,
    TokenEstimator,
    ToolRequest,
    create_context_engine,
    open_store,
)
from ce_engine.prepare import message_groups
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from ce_engine.text.tokens import default_estimator


SCOPE = Scope(session_id="s")
STORE = StoreConfig(deadline_s=20)
PATIENT = RuntimeConfig(store=STORE)
TIGHT = RuntimeConfig(
    store=STORE, budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0)
)
MAIL = "zhang.wei@example.com"
FACT = "The archive door code of the observatory in Leiden is kept by the night guard."


def sent(prepared: Prepared) -> str:
    return "\n".join(p.content for p in prepared.assembled.parts)


# Cost


class Counts:
    """The default estimator, and how many characters it was given."""

    def __init__(self) -> None:
        self.inner, self.chars = default_estimator(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        self.chars += len(text)
        return self.inner.estimate_text(text, model_hint)


def document(n: int) -> str:
    return f"Document {n}: " + " ".join(f"word{(n * 37 + j) % 997}" for j in range(150))


def ask_documents(budget: int, estimator: TokenEstimator | None = None) -> tuple[Prepared, int]:
    """Prepare a prompt of 60 documents; the result, and the prompt's characters."""
    config = RuntimeConfig(
        store=STORE, budget=BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0)
    )
    engine = create_context_engine(MemoryStore(), config=config, token_estimator=estimator)
    docs = [document(n) for n in range(60)]
    found = Retrieval("d", "q", [RetrievedDoc(text) for text in docs], "run")
    engine.post_retrieval(SCOPE, found, request_id="request-1")
    text = "Use:\n" + "\n".join(docs) + "\nQuestion?"
    prepared = HostApp(engine, SCOPE).prepare(user(text))
    engine.sync.close()
    return prepared, len(text)


def test_shortening_a_prompt_of_documents_reads_it_a_few_times_only() -> None:
    estimator = Counts()
    _, chars = ask_documents(1000, estimator)
    assert estimator.chars < 10 * chars, f"{estimator.chars / chars:.0f} times the prompt"


def test_notes_of_documents_left_out_do_not_fill_the_budget() -> None:
    prepared, _ = ask_documents(400)
    assert not prepared.report.over_budget, prepared.report.token_used


def test_a_list_with_many_system_messages_costs_in_proportion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    plain = message_groups.MessageItem.__eq__

    def counting(self: message_groups.MessageItem, other: object) -> bool:
        nonlocal compared
        compared += 1
        return plain(self, other)

    monkeypatch.setattr(message_groups.MessageItem, "__eq__", counting)
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    messages = [system(f"s{n}") for n in range(100)]
    for n in range(100):
        messages += [user(f"q{n}"), assistant(f"a{n}")]
    HostApp(engine, SCOPE, messages).prepare(user("x?"))
    assert compared < 10 * len(messages)
    engine.sync.close()


def test_a_message_with_many_tool_calls_costs_in_proportion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that asks for 10,000 calls at once must not stop the app."""
    compared = 0
    plain = ToolRequest.__eq__

    def counting(self: ToolRequest, other: Any) -> bool:
        nonlocal compared
        compared += 1
        return plain(self, other)

    engine = create_context_engine(MemoryStore(), config=PATIENT)
    host, calls = HostApp(engine, SCOPE), 200
    asked = tool_calls(*((f"c{n}", "lookup", {"n": n}) for n in range(calls)))
    host.commit(host.prepare(user("All of them?")), asked)
    monkeypatch.setattr(ToolRequest, "__eq__", counting)
    host.prepare(*(tool_result(f"c{n}", f"found {n}") for n in range(calls)))
    assert compared < 10 * calls
    assert engine.sync.flush()
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    assert len({each.tool_call_id for each in document.session.tool_state.tool_calls}) == calls
    engine.sync.close()


# Waiting


def test_a_slow_sync_handler_keeps_no_sync_caller_waiting() -> None:
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    go = threading.Event()
    engine.bus.on_all(lambda _: go.wait(5))
    done = threading.Event()

    def host() -> None:
        HostApp(engine, SCOPE).ask("one?", "1")
        done.set()

    threading.Thread(target=host, daemon=True).start()
    came = done.wait(3)
    go.set()
    assert came, "the call waited for somebody's event handler"
    engine.sync.close()


HANDED_OVER_AND_GONE = """
import sys
from ce_engine import RuntimeConfig, Scope, StoreConfig, ToolRun, create_context_engine
from ce_engine.testing.host import HostApp

engine = create_context_engine(sys.argv[1], config=RuntimeConfig(store=StoreConfig(deadline_s=20)))
scope = Scope(session_id="s")
HostApp(engine, scope).ask("one?", "1")
for n in range(30):
    engine.post_tool_run(scope, ToolRun("t", {}, f"result {n}", f"run-{n}"))
"""


def test_what_is_handed_over_right_before_the_exit_is_stored(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    subprocess.run([sys.executable, "-c", HANDED_OVER_AND_GONE, url], check=True, timeout=60)
    engine = create_context_engine(open_store(url))
    found = engine.loop.run(engine.store.get_session(SCOPE))
    assert found is not None
    assert len(found.session.tool_state.tool_calls) == 30
    engine.sync.close()


# Memory


class Big:
    """What a host hangs on its messages."""

    def __init__(self) -> None:
        self.image = bytearray(200_000)


def test_a_run_that_is_over_does_not_keep_the_hosts_objects() -> None:
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    alive: list[weakref.ref[Big]] = []
    for n in range(20):
        app = HostApp(engine, Scope(session_id=f"run-{n}"))
        big = Big()
        alive.append(weakref.ref(big))
        message = user("look at this")
        message.obj = big
        prepared = app.prepare(message, ephemeral=True)
        app.commit(prepared, assistant("seen"))
        del big, app, message, prepared
    engine.sync.flush()
    gc.collect()
    held = sum(ref() is not None for ref in alive) * 200_000
    counted = engine._sessions._views.bytes
    assert held <= counted, f"{held} bytes of the host's are kept, {counted} are counted"
    engine.sync.close()


def test_lanes_of_a_session_are_bounded() -> None:
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    for n in range(300):  # some frameworks make a fresh lane with every run
        HostApp(engine, SCOPE).ask(f"q{n}", "a", lane_key=f"node:{n}")
    view = engine._sessions.peek(SCOPE)
    assert view is not None
    assert len(view.lanes) < 300
    engine.sync.close()


def test_failed_turns_of_a_session_are_bounded() -> None:
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    for n in range(200):
        app = HostApp(engine, SCOPE)
        turn = app.prepare(user(f"q{n}"), request_id=f"r{n}").turn
        engine.sync.fail(turn, "Timeout", partial="")
    view = engine._sessions.peek(SCOPE)
    assert view is not None
    assert len(view.failed) < 200
    engine.sync.close()


def talk_of_one_turn(app: HostApp) -> None:
    app.ask(f"{app.scope.session_id}, please?", "Here you are.")


def talk_in_chinese(app: HostApp) -> None:
    for n in range(10):
        app.ask(
            f"第{n}个问题，{app.scope.session_id}" + "观测台档案室的门禁密码" * 5,
            f"第{n}个答案" * 9,
        )


def talk_over_documents(app: HostApp) -> None:
    for n in range(3):
        texts = [f"{app.scope.session_id} {n} {m} {document(n + m)}" for m in range(5)]
        found = Retrieval("d", "q", [RetrievedDoc(text) for text in texts], f"run-{n}")
        app.engine.sync.record_retrieval(app.scope, found, request_id=f"r{n}")
        app.ask(f"question {n}?", "a", request_id=f"r{n}")


def talk_over_private_documents(app: HostApp) -> None:
    """Every run finds the same ones; they are stored without the mail, and known with it."""
    for n in range(20):
        texts = [f"{app.scope.session_id}, m{m}@example.com: {'观' * 2000}" for m in range(5)]
        found = Retrieval("d", "q", [RetrievedDoc(text) for text in texts], f"run-{n}")
        app.engine.sync.record_retrieval(app.scope, found, request_id=f"r{n}")
    app.ask("question?", "a", request_id="r19")


def talk_with_mails(app: HostApp) -> None:
    for n in range(5):
        mails = (f"p{m}.{n}.{app.scope.session_id}@example.com" for m in range(40))
        app.ask(" ".join(mails), "sent")


@pytest.mark.parametrize(
    "talk",
    [
        talk_of_one_turn,
        talk_in_chinese,
        talk_over_documents,
        talk_over_private_documents,
        talk_with_mails,
    ],
)
def test_a_view_counts_what_it_costs(talk: Callable[[HostApp], None]) -> None:
    engine = create_context_engine(SwitchStore(), config=PATIENT)
    views = engine._sessions._views

    def talks(some: range) -> int:
        for n in some:
            talk(HostApp(engine, Scope(session_id=f"session-{n}")))
        engine.sync.flush()
        gc.collect()
        return views.bytes

    before = talks(range(5))
    tracemalloc.start()
    counted = talks(range(5, 13)) - before
    held = tracemalloc.get_traced_memory()[0]
    views.clear()
    gc.collect()
    cost = held - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    engine.sync.close()
    assert 0.5 * cost < counted < 2 * cost, f"{counted} bytes counted of {cost}"


def test_views_that_grow_stay_within_the_bound() -> None:
    config = RuntimeConfig(store=StoreConfig(deadline_s=20, view_bytes=100_000))
    engine = create_context_engine(MemoryStore(), config=config)
    apps = [HostApp(engine, Scope(session_id=f"s{n}")) for n in range(4)]
    for app in apps:
        app.ask("one?", "1")
    for n in range(5):
        for app in apps:
            app.ask(f"{n}?", "x" * 10_000)
    # The view in use always stays: it counts 250 kB by itself, all four would count 1,000.
    assert engine._sessions._views.bytes <= 260_000
    engine.sync.close()


def test_the_buffer_is_bounded_whatever_the_records_hold() -> None:
    config = RuntimeConfig(store=StoreConfig(deadline_s=0.02, breaker_s=60, buffer_bytes=100_000))
    engine = create_context_engine(SwitchStore(refuses=True), config=config)
    for _ in range(20):
        engine.sync.record_event(SCOPE, "planner", {"plan": "step " * 20_000})
    held = sum(
        len(str(e.payload))
        for group in engine._journal._groups
        for write in group.writes
        for e in getattr(write, "events", ())
    )
    assert held <= 200_100, held  # one that is under way, and one that waits
    engine.loop.close()


# Projects, users and calls


@pytest.mark.req("D-10")
def test_a_session_of_one_project_is_refused_to_another() -> None:
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    one, two = Scope(session_id="s", project_id="p1"), Scope(session_id="s", project_id="p2")
    mine = HostApp(engine, one)
    mine.ask(FACT, "noted")
    with pytest.raises(ScopeViolationError, match=r"'p1'.*'p2'"):
        HostApp(engine, two).prepare(user("who keeps the code?"))
    source = EvidenceSource(kind=SourceKind.RAG, name="d")
    with pytest.raises(ScopeViolationError, match=r"'p1'.*'p2'"):
        engine.sync.record_evidence(two, FACT, source, EvidenceType.RAG_DOC)
    mine.ask("who keeps the code?", "the guard")
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(one))
    assert found is not None
    assert FACT not in [e.content for e in found.evidences.values()]
    texts = [m.content for m in found.session.messages]
    assert texts == [FACT, "noted", "who keeps the code?", "the guard"]
    engine.sync.close()


def test_the_output_of_a_helper_call_is_not_injected_into_a_chat() -> None:
    engine = create_context_engine(MemoryStore(), config=TIGHT)
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(14):
        question = f"question {n} about gardening and tulips in spring time?"
        app.ask(question, f"answer {n} " + "tulip bulbs need soil " * 8)
    call = ModelCall(scope=SCOPE, messages=[user("classify")], purpose="helper", request_id="h")
    helper = engine.sync.prepare(call)
    engine.sync.commit(helper.turn, Answer(assistant(FACT).message, model="guardrail"))
    prepared = app.prepare(user("who keeps the archive door code of the observatory in Leiden?"))
    assert FACT not in sent(prepared)
    engine.sync.close()


def test_a_report_is_told_to_its_own_user_only() -> None:
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    mine = HostApp(engine, Scope(session_id="chat", user_id="u1")).ask("one?", "1")
    HostApp(engine, Scope(session_id="chat", user_id="u2")).ask("two?", "2")
    assert engine.last_report("chat") is not mine.report
    assert engine.last_report(Scope(session_id="chat", user_id="u1")) is mine.report
    engine.sync.close()


def test_the_redaction_of_a_call_holds_for_its_answer() -> None:
    base = RuntimeConfig(store=STORE, redaction=RedactionConfig(enabled=False))
    engine = create_context_engine(MemoryStore(), config=base)
    app = HostApp(engine, SCOPE)
    own = PATIENT.model_copy(update={"redaction": RedactionConfig()})
    prepared = app.prepare(user(f"write to {MAIL}"), config=own)
    app.commit(prepared, assistant(f"I wrote to {MAIL}"))
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(SCOPE))
    assert found is not None
    assert MAIL not in found.model_dump_json()
    engine.sync.close()


# Events


def test_events_can_be_switched_off() -> None:
    config = RuntimeConfig(store=STORE, observability=ObservabilityConfig(emit_events=False))
    engine = create_context_engine(MemoryStore(), config=config)
    heard: list[Event] = []
    engine.bus.on_all(heard.append)
    HostApp(engine, SCOPE).ask("one?", "1")
    engine.sync.flush()
    engine.sync.close()
    assert heard == []


def test_tags_are_on_every_event_of_the_turn() -> None:
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    HostApp(engine, SCOPE).ask("one?", "1", tags={"ab": "b"})
    engine.sync.flush()
    events = engine.loop.run(engine.store.list_events(SCOPE))
    assert {e.tags.get("ab") for e in events} == {"b"}
    engine.sync.close()
