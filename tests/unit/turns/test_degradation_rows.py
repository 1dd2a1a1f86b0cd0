"""Rows of the table of degradations: what must stay is over the budget; the store's version is another (A-25)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ce_engine import (
    BudgetConfig,
    BudgetExceededError,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Message,
    PutResult,
    Role,
    RuntimeConfig,
    Scope,
    VersionConflictError,
    create_context_engine,
)
from ce_engine.schema.rows import Write


OVER, CONFLICT = "CONTEXT_BUDGET_EXCEEDED", "CONTEXT_VERSION_CONFLICT"


class Contended(MemoryStore):
    """A store in which somebody else is faster, so many times."""

    left = 0

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if self.left:
            self.left -= 1
            raise VersionConflictError("the session has version 7, expected 6")
        return await super().apply(scope, writes, expected_version=expected_version)


def user(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def answer(text: str) -> Message:
    return Message(role=Role.ASSISTANT, content=text)


def engine_on(store: MemoryStore, config: RuntimeConfig | None = None) -> ContextEngine:
    return create_context_engine(store, token_estimator=CharBasedEstimator(), config=config)


async def errors(engine: ContextEngine) -> list[tuple[str, str]]:
    found = [event for event in await engine.list_events("s") if event.event_type == "Error"]
    return [(event.payload["code"], event.payload["reason"]) for event in found]


@pytest.mark.req("A-25", "A-17")
async def test_what_must_stay_is_over_the_budget() -> None:
    small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=50, reserved_reply_tokens=0))
    engine = engine_on(MemoryStore(), small)
    heard = list[str]()
    engine.bus.on("Error", lambda event: heard.append(event.payload["reason"]))
    result = await engine.prepare_turn("s", user("很长的问题 " * 100))
    assert result.assembled_input.parts[-1].content == "很长的问题 " * 100, "fail=open: it goes out"
    assert result.report.over_budget
    assert result.report.degradations == [OVER]
    await engine.commit_assistant_message("s", answer("yes"))
    assert await errors(engine) == [(OVER, "must_exceeded_budget")]
    [stored] = await engine.list_reports("s")
    assert stored.degradations == [OVER]
    await engine.prepare_turn("s", user("short?"))
    assert (await engine.list_reports("s"))[-1].degradations == []
    await engine.close()
    assert heard == ["must_exceeded_budget"]


@pytest.mark.req("A-25")
async def test_it_raises_where_that_is_asked_for_and_says_the_same() -> None:
    small = BudgetConfig(max_input_tokens=50, reserved_reply_tokens=0)
    engine = engine_on(MemoryStore(), RuntimeConfig(budget=small, fail="closed"))
    with pytest.raises(BudgetExceededError):
        await engine.prepare_turn("s", user("long " * 100))
    assert await errors(engine) == [(OVER, "must_exceeded_budget")]
    await engine.close()


@pytest.mark.req("A-25", "B-07")
async def test_a_conflict_is_retried_once_and_told_as_one() -> None:
    store = Contended()
    engine = engine_on(store)
    await engine.prepare_turn("s", user("one?"))
    store.left = 1
    put = await engine.commit_assistant_message("s", answer("1"))
    assert put.success
    later = await engine.prepare_turn("s", user("two?"))
    assert later.report.degradations == [CONFLICT]
    assert [part.content for part in later.assembled_input.parts] == ["one?", "1", "two?"]
    assert await errors(engine) == [(CONFLICT, "version_conflict")]
    await engine.close()


@pytest.mark.req("A-25")
async def test_a_conflict_that_stays_is_told_as_what_it_is() -> None:
    store = Contended()
    engine = engine_on(store)
    await engine.prepare_turn("s", user("one?"))
    store.left = 100
    put = await engine.commit_assistant_message("s", answer("1"))
    assert (put.success, put.error) == (False, CONFLICT)
    store.left = 0
    await engine.prepare_turn("s", user("two?"))
    told = await errors(engine)
    assert (CONFLICT, "version_conflict") in told
    assert ("CONTEXT_RECORDING_GAP", "recording_gap") in told
    assert "CONTEXT_STORE_UNAVAILABLE" not in [code for code, _ in told]
    await engine.close()


@pytest.mark.req("A-25")
async def test_a_conflict_raises_as_one_where_that_is_asked_for() -> None:
    store = Contended()
    engine = engine_on(store, RuntimeConfig(fail="closed"))
    await engine.prepare_turn("s", user("one?"))
    store.left = 100
    with pytest.raises(VersionConflictError, match="somebody else"):
        await engine.commit_assistant_message("s", answer("1"))
    store.left = 0
    await engine.close()
