"""Parts of somebody else's raise errors that quote what they were given: no log, no store, no report has it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from ce_engine import (
    ContextEngine,
    Event,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    PruneConfig,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    create_context_engine,
)
from ce_engine.ports.context import ContextPiece
from ce_engine.ports.llm import LlmRequest, LlmResponse
from ce_engine.ports.redaction import RedactResult
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.pruning import PruneResult
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import Write
from ce_engine.text.redaction.redact import PatternRedactor
from tests.canary.canaries import Canaries


SCOPE = Scope(session_id="s")
CONFIG = RuntimeConfig(
    store=StoreConfig(deadline_s=1, breaker_s=0), prune=PruneConfig(keep_ratio=0.5)
)


class Redactor(PatternRedactor):
    """Fails, and quotes the text that it failed at."""

    def bind(self, *_: Any) -> Any:
        return Bound()


class Bound:
    held_bytes = 0

    def text(self, text: str) -> RedactResult:
        raise ValueError(text)

    def data(self, value: Any) -> Any:
        raise ValueError(str(value))

    def restore(self, text: str) -> Any:
        raise ValueError(text)

    def learned(self) -> list[Any]:
        return []


class Store(MemoryStore):
    """Fails, and quotes what it was to write."""

    failing = True

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if self.failing and len(writes) > 1:
            raise RuntimeError(repr(writes), self.canary("store"))
        return await super().apply(scope, writes, expected_version=expected_version)

    def __init__(self, canary: Canaries) -> None:
        super().__init__()
        self.canary = canary


class Source:
    """Raises what it was asked."""

    name, section = "notes", "knowledge__context"

    def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        raise ValueError(scope, query, limit)


class Pruner:
    """Raises what it was to choose from."""

    def prune(self, blocks: Sequence[ContextBlock], *_: Any) -> PruneResult:
        raise ValueError(blocks, self.canary("pruner"))

    def __init__(self, canary: Canaries) -> None:
        self.canary = canary


class Llm:
    async def generate(self, request: LlmRequest) -> LlmResponse:
        raise ValueError(request)


def handler(canary: Canaries) -> Callable[[Event], None]:
    def handle(event: Event) -> None:
        raise ValueError(event, canary("handler"))

    return handle


def parts(name: str, canary: Canaries) -> dict[str, Any]:
    given: dict[str, dict[str, Any]] = {
        "redactor": {"redactor": Redactor()},
        "store": {"store": Store(canary)},
        "source": {"sources": [Source()]},
        "pruner": {"pruner": Pruner(canary)},
        "llm": {"llm_adapter": Llm()},
        "handler": {},
    }
    return given[name]


def use(engine: ContextEngine, canary: Canaries) -> list[str]:
    """A few turns with canaries in them; what was told."""
    told = []
    for _ in range(3):
        with suppress(Exception):  # whatever a host sees of its own parts' errors
            asked = Message(role=Role.USER, content=canary("question"))
            done = engine.sync.prepare_turn(SCOPE, asked, request_id=canary("request"))
            told.append(done.report.model_dump_json())
            said = Message(role=Role.ASSISTANT, content=canary("answer"))
            engine.sync.commit_assistant_message(SCOPE, said, turn_id=done.report.turn_id)
            source = EvidenceSource(kind=SourceKind.USER, name=canary("name"))
            engine.sync.ingest(SCOPE, canary("evidence"), source, EvidenceType.USER_INPUT)
            engine.sync.summarize(SCOPE)
    engine.sync.flush()
    return told


@pytest.mark.req("B-02")
@pytest.mark.parametrize("name", ["redactor", "store", "source", "pruner", "llm", "handler"])
def test_errors_of_foreign_parts_tell_nothing(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = Canaries(7)
    given: dict[str, Any] = {"store": MemoryStore(), **parts(name, canary)}
    engine = create_context_engine(config=CONFIG, **given)
    if name == "handler":
        engine.bus.on_all(handler(canary))
    told = use(engine, canary)
    assert told
    if name == "pruner":
        assert "pruner" in canary.doors
        assert "CONTEXT_PRUNE_FAILED" in told[-1]
    kept = repr(vars(engine.store)) if name != "store" else ""
    engine.sync.close()
    logged = [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    left = {
        "reports": canary.found_in(*told),
        "store": canary.found_in(kept),
        "logs": canary.found_in(*logged),
        "output": canary.found_in(*capfd.readouterr()),
    }
    assert {place: doors for place, doors in left.items() if doors} == {}
