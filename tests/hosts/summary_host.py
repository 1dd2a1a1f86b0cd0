"""An engine with a scripted model for summaries, and what a test asks of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    LlmRequest,
    LlmResponse,
    Prepared,
    RuntimeConfig,
    Scope,
    SessionDocument,
    StoreConfig,
    Summary,
    SummaryConfig,
    create_context_engine,
)
from ce_engine.ports.store import Store
from ce_engine.schema.events import Event, EventType
from ce_engine.testing import MockLlmAdapter
from ce_engine.testing.host import HostApp


SCOPE = Scope(session_id="s", user_id="u")
SHORT = SummaryConfig(max_summary_tokens=60, trigger_message_count=6, preserve_recent_messages=2)
PATIENT = StoreConfig(deadline_s=20)


def config(**fields: Any) -> RuntimeConfig:
    return RuntimeConfig(**{"summary": SHORT, "store": PATIENT, **fields})


def tight(tokens: int, **fields: Any) -> RuntimeConfig:
    return config(budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0), **fields)


def make(store: Store, llm: Any, settings: RuntimeConfig | None = None) -> ContextEngine:
    return create_context_engine(store, CharBasedEstimator(), llm, settings or config())


def document(engine: ContextEngine, scope: Scope = SCOPE) -> SessionDocument:
    assert engine.sync.flush(20)
    found = engine.loop.run(engine.store.get_session(scope))
    assert found is not None
    return found


def summary(engine: ContextEngine, scope: Scope = SCOPE) -> Summary:
    found = document(engine, scope).session.summary
    assert found is not None
    return found


def covered(engine: ContextEngine, scope: Scope = SCOPE) -> tuple[int, int]:
    found = summary(engine, scope).message_index_range
    return found.from_index, found.to_index


def events(engine: ContextEngine, kind: EventType, scope: Scope = SCOPE) -> list[Event]:
    assert engine.sync.flush(20)
    found = engine.loop.run(engine.store.list_events(scope))
    return [event for event in found if event.event_type == kind]


def sent(prepared: Prepared) -> str:
    return "\n".join(part.content for part in prepared.assembled.parts)


def told(llm: MockLlmAdapter) -> list[str]:
    """What the model for summaries was given, call by call."""
    return [request.messages[-1].content for request in llm.requests]


class Forgetful(HostApp):
    """Keeps no history: each call has its question alone."""

    def prepare(self, *extra: Any, new_request: bool = True, **call: Any) -> Prepared:
        self.messages.clear()
        return super().prepare(*extra, new_request=new_request, **call)


def talk(app: HostApp, first: int, last: int, word: str = "q") -> None:
    """Questions `q1.` and answers `a1.` in turn."""
    for n in range(first, last + 1):
        app.ask(f"{word}{n}.", f"a{word}{n}.")
        app.engine.sync.flush(20)  # a test's summaries come when they are due, not when they can


class SlowLlm:
    """Answers when it is allowed to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.running = 0
        self.most = 0
        self.count = 0

    async def generate(self, request: LlmRequest) -> LlmResponse:
        del request
        self.count += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self.asked.set()
        try:
            while not self.go.is_set():  # noqa: ASYNC110 - set from another thread
                await asyncio.sleep(0.005)
        finally:
            self.running -= 1
        return LlmResponse("slow summary", "slow", 1, 1, 2)


def talk_without_waiting(app: HostApp, count: int = 6) -> None:
    for n in range(count):
        app.ask(f"q{n}.", "a")
