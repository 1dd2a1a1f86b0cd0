"""Asks with huge and odd inputs, by hand and through LangChain, and judges what became of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ce_engine import (
    Answer,
    BudgetConfig,
    ContextEngine,
    MemoryStore,
    ModelCall,
    RedactionConfig,
    Report,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    Store,
    StoreConfig,
    create_context_engine,
    open_store,
)
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.langchain.installer import ADAPTER
from ce_integrations.testing.wire import Wire
from tests.faults.fault_stores import url_at
from tests.faults.oddities import Oddity


STORES = ("memory", "sqlite", "file", "redis")
SCOPE = Scope(session_id="odd")
PATIENT = StoreConfig(deadline_s=300)
UNHURRIED = RedactionConfig(max_text_chars=100_000_000, timeout_s=300)
"""What is judged here is what becomes of an input; with the usual deadline a long write follows later, and
what cannot be redacted in the usual time is stored without its content."""

SMALL, ROOMY = 4_000, 100_000_000


@dataclass(frozen=True)
class Judged:
    """What became of one oddity on one way: CPU seconds, and what is wrong with it ("" if nothing)."""

    oddity: Oddity
    way: str
    seconds: float
    wrong: str


@contextmanager
def engine_on(kind: str, folder: Path, tokens: int) -> Iterator[ContextEngine]:
    urls = {"sqlite": f"sqlite:///{folder / 'ce.db'}", "file": f"file:///{folder / 'sessions'}"}
    urls["redis"] = url_at(folder / "ce", "redis") if kind == "redis" else ""
    store: Store = MemoryStore() if kind == "memory" else open_store(urls[kind])
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    engine = create_context_engine(
        store, config=RuntimeConfig(store=PATIENT, budget=budget, redaction=UNHURRIED)
    )
    engine.sync.check()
    try:
        yield engine
    finally:
        engine.sync.close()


def judged(oddity: Oddity, way: str, judge: Callable[[], Iterator[str]]) -> Judged:
    """Run a judgement, with the CPU seconds of this process."""
    start = time.process_time()
    wrong = "; ".join(judge())
    return Judged(oddity, way, time.process_time() - start, wrong)


def storable(text: str) -> str:
    """A text as it is stored: no encoding has a place for half an emoji."""
    return text.encode("utf-8", "replace").decode()


def expected(messages: Sequence[BaseMessage]) -> list[str]:
    return [storable(str(m.content)) for m in messages if not isinstance(m, SystemMessage)]


def stored(engine: ContextEngine) -> list[str]:
    assert engine.sync.flush(300)
    found = engine.loop.run(engine.store.get_session(SCOPE))
    return [message.content for message in found.session.messages] if found else []


def differing(found: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Where the two differ, shortly."""
    if len(found) != len(wanted):
        yield f"{len(found)} messages are stored, expected {len(wanted)}"
    for n, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            yield f"message {n} is stored as {one[:40]!r}..., expected {other[:40]!r}..."
            return


def by_hand(oddity: Oddity, store: str, folder: Path, tokens: int = SMALL) -> Judged:
    """Two turns by hand, within a small budget."""

    def judge() -> Iterator[str]:
        with engine_on(store, folder, tokens) as engine:
            try:
                told = _two_turns(engine, oddity)
            except SchemaValidationError as error:
                if oddity.fate != "refused" or "flatten it" not in str(error):
                    yield f"refused: {error}"
                return
            if oddity.fate == "refused":
                yield "it was not refused"
            elif SchemaValidationError.code in told:
                yield f"the reports tell {sorted(told)}"
            yield from differing(stored(engine), [*expected(oddity.messages), *AFTER])

    return judged(oddity, f"by hand, {store}", judge)


AFTER = ["The answer.", "And then?", "Nothing."]
"""The contents that follow those of the oddity itself."""


def _two_turns(engine: ContextEngine, oddity: Oddity) -> set[str]:
    messages: list[BaseMessage] = list(oddity.messages)
    told: set[str] = set()
    for answer, question in (AFTER[0], AFTER[1]), (AFTER[2], ""):
        report = _turn(engine, messages, oddity, answer)
        told |= {*report.degradations, *report.errors}
        before = [*messages, AIMessage(answer)] if oddity.resent else []
        messages = [*before, HumanMessage(question)]
    return told


def _turn(
    engine: ContextEngine, messages: Sequence[BaseMessage], oddity: Oddity, answer: str
) -> Report:
    """One turn of a host by hand, whose messages are mapped as the adapter maps them."""
    hosts = [ADAPTER.to_schema(message) for message in messages]
    call = ModelCall(scope=SCOPE, messages=hosts, tools=oddity.tools, request_id=answer)
    prepared = engine.sync.prepare(call)
    engine.sync.commit(prepared.turn, Answer(ADAPTER.to_schema(AIMessage(answer)).message))
    return prepared.report


Outcome = tuple[str, Any]


def called_on(wire: Wire, model: Any, messages: list[BaseMessage]) -> Outcome:
    """What the server got, or what the app was raised."""
    before = len(wire.requests)
    try:
        model.invoke(messages)
    except (Exception, RecursionError) as error:
        return "raised", type(error).__name__
    sent = wire.requests[before:]
    return "sent", [request.raw for request in sent]


def through_langchain(oddity: Oddity, store: str, folder: Path) -> Judged:
    """One call with room to spare, without us and with us: the same bytes, or the same exception."""

    def judge() -> Iterator[str]:
        with Wire(AFTER[0]) as wire, engine_on(store, folder, ROOMY) as engine:
            model = _model(wire)
            bound = model.bind(tools=oddity.tools) if oddity.tools else model
            messages = list(oddity.messages)
            bare = called_on(wire, bound, messages)
            with install_ce(model, engine=engine) as installed, ce_session(SCOPE.session_id):
                ours = called_on(wire, bound, messages)
                yield from _told(oddity, installed.faults, installed.last_report(SCOPE))
            if bare != ours:
                yield f"the app got {_short(ours)}, and without us {_short(bare)}"
            if oddity.fate != "refused":
                answered = AFTER[:1] if ours[0] == "sent" else []
                yield from differing(stored(engine), [*expected(messages), *answered])

    return judged(oddity, f"LangChain, {store}", judge)


def _model(wire: Wire) -> ChatOpenAI:
    return ChatOpenAI(
        model="gpt-4o",
        base_url=wire.base_url,
        api_key=SecretStr("none"),
        max_retries=0,
        timeout=120,
    )


def _told(oddity: Oddity, faults: Sequence[Any], report: Report | None) -> Iterator[str]:
    """Nothing is told of what is stored as it is; the rest has its name in a fault or the report."""
    codes = {fault.code for fault in faults}
    if report is not None:
        codes |= {*report.degradations, *report.errors}
    wanted = set() if oddity.fate == "stored" else {SchemaValidationError.code}
    if codes != wanted:
        yield f"told were {sorted(codes)}, expected {sorted(wanted)}"


def _short(outcome: Outcome) -> str:
    kind, what = outcome
    return f"{kind} {what if kind == 'raised' else [len(raw) for raw in what]}"
