"""Sources of the host's own: asked in time, left out when they fail, bounded, held to their scope (D-09 to D-11)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    CollectConfig,
    ConfigError,
    ContextEngine,
    ContextPiece,
    Event,
    Evidence,
    EvidenceSource,
    EvidenceType,
    InputTooLargeError,
    MemoryStore,
    Message,
    PruneConfig,
    Role,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    SourceKind,
    StoreConfig,
    create_context_engine,
)
from ce_engine.schema.enums import Priority
from ce_engine.schema.rows import EvidenceRow, PutEvidence
from ce_engine.testing.host import assistant, user
from ce_engine.text.tokens import default_estimator
from tests.hosts.context_host import SCOPE, Notes, call, collect, told


PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20), collect=CollectConfig(deadline_s=20))
SHORT = RuntimeConfig(store=PATIENT.store, collect=CollectConfig(deadline_s=0.05))
FACT = ContextPiece("林远性格冷静", score=0.9)


@pytest.fixture
async def engines() -> AsyncIterator[list[ContextEngine]]:
    made: list[ContextEngine] = []
    yield made
    for engine in made:
        await engine.close()


Engines = list[ContextEngine]


def engine_with(engines: Engines, *sources: Any, config: RuntimeConfig = PATIENT) -> ContextEngine:
    engines.append(create_context_engine(MemoryStore(), sources=sources, config=config))
    return engines[-1]


@pytest.mark.req("D-09", "E-01")
async def test_a_source_is_asked_for_the_task_and_its_pieces_are_collected(
    engines: Engines,
) -> None:
    source = Notes([FACT, ContextPiece("  ")])
    engine = engine_with(engines, source)
    [material] = (await collect(engine, call(text="林远是谁?"))).materials
    assert (material.text, material.section) == (FACT.text, "knowledge__context")
    assert (material.source, material.score) == ("notes", 0.9)
    assert source.asked == [(SCOPE, "林远是谁?", 200)]
    again = await collect(engine, call(text="林远是谁?"))
    assert [each.id for each in again.materials] == [material.id]


@pytest.mark.req("D-09")
async def test_sources_are_asked_side_by_side_outside_the_sessions_lock(engines: Engines) -> None:
    both = threading.Barrier(2)

    @dataclass
    class Meets:
        name: str
        section: str = "knowledge__context"

        def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
            both.wait(20)  # neither is answered before both are asked
            return [FACT]

    @dataclass
    class Records:
        name: str = "records"
        section: str = "knowledge__context"

        async def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
            await engine.record_event(scope, "planner", {})  # needs the session's lock
            return [FACT]

    engine = engine_with(engines, Meets("one"), Meets("two"), Records())
    assert (await engine.prepare(call())).report.warnings == ["CONTEXT_BUDGET_UNKNOWN"]
    found = await collect(engine, call())
    assert [each.source for each in found.materials] == ["one", "two", "records"]


class Odd:
    def __len__(self) -> int:
        raise ZeroDivisionError

    def __iter__(self) -> Any:
        raise ZeroDivisionError


WRONG: list[dict[str, Any]] = [
    {"text": 5},
    {"text": b"x"},
    {"score": float("nan")},
    {"score": float("inf")},
    {"score": -0.1},
    {"score": 1.5},
    {"score": "0.5"},
    {"score": True},
    {"tokens": -1},
    {"tokens": "many"},
    {"priority": "urgent"},
    {"priority": []},
    {"at": None},
    {"project_id": 5},
]
NO_PIECES: list[Any] = [
    None,
    "text",
    5,
    {"text": "x"},
    Odd(),
    [FACT, {"text": "x"}],
    [FACT, None],
    *([FACT, replace(FACT, **wrong)] for wrong in WRONG),
]


@pytest.mark.req("D-09", "D-11")
@pytest.mark.parametrize("answer", NO_PIECES)
async def test_what_answers_no_pieces_is_left_out_and_named(engines: Engines, answer: Any) -> None:
    engine = engine_with(engines, Notes(answer, "bad"), Notes([FACT]))
    prepared = await engine.prepare(call())
    assert "CONTEXT_SOURCE_MALFORMED: bad" in prepared.report.warnings
    assert told(await collect(engine, call())) == [FACT.text]


FAULTS = [ZeroDivisionError("a secret"), asyncio.CancelledError(), SystemExit(3), TimeoutError()]


@pytest.mark.req("D-09")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
async def test_what_raises_is_left_out_and_named(
    engines: Engines, fault: BaseException, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Plain(Notes):
        def fetch(self, *_: object) -> Any:
            raise fault

    bad = Plain(name="kg") if plain else Notes(fault, "kg")
    engine = engine_with(engines, bad, Notes([FACT]))
    seen: list[Event] = []
    engine.bus.on_all(seen.append)
    prepared = await engine.prepare(call())
    assert "CONTEXT_SOURCE_UNAVAILABLE: kg" in prepared.report.warnings
    assert told(await collect(engine, call())) == [FACT.text]
    await engine.commit(prepared.turn, Answer(Message(role=Role.ASSISTANT, content="ok")))
    await engine.flush()
    stored = await engine.store.list_events(SCOPE)
    payloads = [event.payload for event in stored if event.event_type == "Degraded"]
    assert payloads == [
        {"code": "CONTEXT_SOURCE_UNAVAILABLE", "reason": "source_unavailable", "of": "kg"}
    ]
    assert "secret" not in caplog.text


@pytest.mark.req("D-09")
@pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
async def test_what_hangs_is_left_out_and_named(engines: Engines, plain: bool) -> None:
    over = threading.Event()

    class Hangs(Notes):
        async def fetch(self, *_: object) -> Any:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if over.is_set():
                        raise

    class Blocks(Notes):
        def fetch(self, *_: object) -> Any:
            over.wait(60)
            return [FACT]

    bad = Blocks(name="kg") if plain else Hangs(name="kg")
    engine = engine_with(engines, bad, Notes([FACT]), config=SHORT)
    for n in range(10):  # more often than a source has threads
        prepared = await engine.prepare(call(text=f"{n}?"))
        assert "CONTEXT_SOURCE_UNAVAILABLE: kg" in prepared.report.warnings
        assert "CONTEXT_SOURCE_UNAVAILABLE: notes" not in prepared.report.warnings
    assert len([t for t in threading.enumerate() if t.name == "ce-source-kg"]) <= 8
    over.set()


@pytest.mark.req("D-10", "B-03", "D-14")
async def test_a_piece_of_another_scope_is_refused_and_told(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    others: list[dict[str, Any]] = [
        {"project_id": "project-b"},
        {"user_id": "user-b"},
        {"account_id": "account-b"},
        {"project_id": "", "user_id": "u"},
    ]
    foreign = [replace(FACT, text=f"canary {n}", **other) for n, other in enumerate(others)]
    mine = replace(FACT, account_id="a", user_id="u", project_id="p")
    engine = engine_with(engines, Notes([*foreign, mine]))
    caplog.set_level(logging.DEBUG)
    prepared = await engine.prepare(call())
    assert "CONTEXT_SCOPE_VIOLATION: notes" in prepared.report.warnings
    await engine.flush()
    events = await engine.store.list_events(SCOPE)
    [event] = [event for event in events if event.event_type == "Degraded"]
    assert event.payload == {
        "code": "CONTEXT_SCOPE_VIOLATION",
        "reason": "scope_violation",
        "of": "notes",
    }
    [line] = [r for r in caplog.records if r.name == "ce_engine.security"]
    assert "source=notes pieces=4" in line.getMessage()
    for word in ("canary", "project-b", "user-b", "account-b"):
        assert word not in caplog.text
        assert word not in str(prepared.report) + str(events)
    assert told(await collect(engine, call())) == [FACT.text]


@pytest.mark.req("D-11")
async def test_of_too_many_tokens_the_best_go_in_with_advice(engines: Engines) -> None:
    pieces = [ContextPiece(f"{n} " + "字" * 9000, score=n / 10) for n in range(10)]
    engine = engine_with(engines, Notes(pieces))
    await engine.constraints.create(SCOPE, "Be brief.")
    found = await collect(engine, call())
    kept = [text.split()[0] for text in told(found)]
    assert kept[0] == "Be"
    assert 0 < len(kept) - 1 < 10
    assert kept[1:] == [str(n) for n in range(11 - len(kept), 10)]
    [warning] = found.warnings
    assert warning.startswith("CONTEXT_INPUT_TOO_LARGE: ")
    assert "64000 may be" in warning
    closed = PATIENT.model_copy(update={"fail": "closed"})
    with pytest.raises(InputTooLargeError, match="64000 may be"):
        await engine.prepare(call(config=closed))
    wide = PATIENT.model_copy(update={"collect": CollectConfig(max_input_tokens=10**6)})
    assert len(told(await collect(engine, call(config=wide)))) == 11


@pytest.mark.req("D-11")
async def test_what_a_source_says_that_its_pieces_cost_counts(engines: Engines) -> None:
    pieces = [ContextPiece("x" * 40_000, tokens=t, score=0.5) for t in (60_000, 0)]
    pieces[1] = replace(pieces[1], text="y" * 40_000, score=0.4)
    engine = engine_with(engines, Notes(pieces))
    assert [text[0] for text in told(await collect(engine, call()))] == ["x"]


class Counts:
    """The default estimator, and how many characters it was asked to count."""

    def __init__(self) -> None:
        self._inner = default_estimator()
        self.chars = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        self.chars += len(text)
        return self._inner.estimate_text(text, model_hint)


@pytest.mark.req("D-11", "D-13")
async def test_a_library_is_not_counted_to_its_end(engines: Engines) -> None:
    books = [ContextPiece(f"{n} " + "word " * 40_000, score=0.5) for n in range(100)]
    estimator = Counts()
    engine = create_context_engine(
        MemoryStore(), token_estimator=estimator, sources=[Notes([*books, FACT])], config=PATIENT
    )
    engines.append(engine)
    found = await collect(engine, call())
    assert estimator.chars <= 64_000 * 8
    assert FACT.text in told(found)
    assert [w.partition(":")[0] for w in found.warnings] == ["CONTEXT_INPUT_TOO_LARGE"]


@pytest.mark.req("D-11")
async def test_of_too_many_pieces_the_best_go_in(engines: Engines) -> None:
    def notes(name: str) -> Notes:
        return Notes([ContextPiece(f"{name}{n}", score=n / 300) for n in range(300)], name)

    engine = engine_with(engines, notes("a"), notes("b"))
    found = await collect(engine, call())
    assert len(found.materials) == 200
    advice = "600 retrieved pieces, 200 may be; search for less"
    assert found.warnings == [f"CONTEXT_INPUT_TOO_LARGE: {advice}"]
    assert set(told(found)) == {f"{name}{n}" for name in "ab" for n in range(200, 300)}
    assert len(found.left_out) == 400
    few = PATIENT.model_copy(update={"prune": PruneConfig(max_retrieved_chunks=3)})
    assert len((await collect(engine, call(config=few))).materials) == 3
    rules = PATIENT.model_copy(update={"collect": CollectConfig(max_constraints=1)})
    for text in ("one", "two"):
        await engine.constraints.create(SCOPE, text)
    assert [t for t in told(await collect(engine, call(config=rules))) if len(t) == 3] == ["one"]


@pytest.mark.req("D-06")
async def test_a_rule_of_a_source_never_outranks_the_users_own(engines: Engines) -> None:
    loud = replace(FACT, priority=Priority.MUST)
    engine = engine_with(engines, Notes([loud], "kg", "framework__context"), Notes([loud], "wiki"))
    own = await engine.constraints.create(SCOPE, "x", priority=Priority.HIGH)
    found = await collect(engine, call())
    assert [(m.source, str(m.priority)) for m in found.materials] == [
        ("constraints", str(own.priority)),
        ("kg", "medium"),
        ("wiki", "high"),
    ]


async def test_a_text_that_was_cut_within_an_emoji_can_still_be_sent(engines: Engines) -> None:
    engine = engine_with(engines, Notes([ContextPiece("Now green \ud83c, not blue")]))
    assert told(await collect(engine, call())) == ["Now green ?, not blue"]


@pytest.mark.parametrize(
    ("sources", "cure"),
    [
        ([Notes(name="constraints")], "expected a word that no other has"),
        ([Notes(), Notes()], "expected a word that no other has"),
        ([Notes(name="a b")], "expected a word"),
        ([Notes(section="rules")], "expected one of framework__context"),
    ],
)
def test_a_source_without_a_name_or_a_place_is_refused(sources: list[Notes], cure: str) -> None:
    with pytest.raises(ConfigError, match=cure):
        create_context_engine(MemoryStore(), sources=sources)


@pytest.mark.req("E-05")
async def test_nobody_is_asked_where_nothing_may_go_in(engines: Engines) -> None:
    source = Notes([FACT])
    engine = engine_with(engines, source)
    off = PATIENT.model_copy(update={"enable_share_context": False})
    for asked in (call(purpose="helper"), call(config=off), call(role="worker")):
        await engine.prepare(asked)
        assert told(await collect(engine, asked)) == []
    assert source.asked == []
    wanted = call(role="worker", want=frozenset({"knowledge__context"}))
    assert told(await collect(engine, wanted)) == [FACT.text]


@pytest.mark.req("D-10")
async def test_evidence_of_another_project_is_never_recalled(engines: Engines) -> None:
    """A session is of one project; rows of another may come in by a document that was put whole."""
    fact = "The archive door code of the observatory in Leiden is kept by the night guard."
    source = EvidenceSource(kind=SourceKind.RAG, name="kb", uri="")
    small = BudgetConfig(max_input_tokens=600, reserved_reply_tokens=0)
    config = PATIENT.model_copy(update={"budget": small})
    for project, found in (("p", True), ("q", False)):
        engine = engine_with(engines)
        row = EvidenceRow(
            Evidence(evidence_id="e1", type=EvidenceType.RAG_DOC, source=source, content=fact),
            dedup_key=b"k",
            project_id=project,
        )
        await engine.prepare(call(text="Hello?"))
        await engine.flush()
        await engine.store.apply(SCOPE, [PutEvidence(row)])
        filler = [user("tell me more " * 60), assistant("well " * 300)]
        asked = call(text="Who keeps the archive door code of the observatory?", config=config)
        asked.messages = [asked.messages[0], *filler, asked.messages[1]]
        prepared = await engine.prepare(asked)
        sent = "\n".join(part.content for part in prepared.assembled.parts)
        assert ("night guard" in sent) == found


@pytest.mark.req("D-10", "D-14")
async def test_a_session_of_another_project_is_refused_and_told(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_with(engines)
    await engine.prepare(call())
    with pytest.raises(ScopeViolationError):
        await engine.prepare(call(replace(SCOPE, project_id="project-b")))
    [line] = [r.getMessage() for r in caplog.records if r.name == "ce_engine.security"]
    assert line.startswith("CONTEXT_SCOPE_VIOLATION")
    assert "project-b" not in line
