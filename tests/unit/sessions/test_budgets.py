"""Stored budgets, their versions, and what happens when a budget cannot be worked out (D-04)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    BudgetConflictError,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    StoreConfig,
    create_context_engine,
    open_store,
)
from ce_engine.schema.enums import Layer
from ce_engine.text.tokens import CharBasedEstimator, default_estimator
from tests.hosts.context_host import SCOPE, call


pytestmark = pytest.mark.req("D-04")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))
SMALL = BudgetConfig(max_input_tokens=3000, reserved_reply_tokens=500)


@pytest.fixture(params=["memory://", "sqlite:///ce.db", "file:sessions"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[ContextEngine]:
    made = create_context_engine(open_store(request.param), config=PATIENT)
    yield made
    await made.close()


async def test_a_stale_version_overwrites_nothing(engine: ContextEngine) -> None:
    assert await engine.budgets.get(SCOPE) == (BudgetConfig(), 0)
    assert await engine.budgets.update(SCOPE, SMALL, 0, actor=SCOPE.user_id) == 1
    other = BudgetConfig(max_input_tokens=9000, shares={Layer.RULES: 0.5})
    for stale in (0, 2):
        with pytest.raises(BudgetConflictError, match=f"version 1, expected {stale}") as caught:
            await engine.budgets.update(SCOPE, other, stale, actor=SCOPE.user_id)
        assert caught.value.code == "CONTEXT_BUDGET_CONFLICT"
    assert await engine.budgets.get(SCOPE) == (SMALL, 1)
    assert await engine.budgets.update(SCOPE, other, 1, actor=SCOPE.user_id) == 2
    assert await engine.budgets.get(SCOPE) == (other, 2)


async def test_it_holds_for_calls_whose_configuration_gives_none(engine: ContextEngine) -> None:
    await engine.budgets.update(SCOPE, SMALL, 0, actor=SCOPE.user_id)

    async def budget(text: str, **values: Any) -> int | None:
        return (await engine.prepare(call(text=text, **values))).report.token_budget

    assert await budget("one?") == 2500
    own = RuntimeConfig(budget=BudgetConfig(max_input_tokens=7000, reserved_reply_tokens=0))
    assert await budget("two?", config=own) == 7000
    assert await budget("three?", context_window=100_000) == 2500
    part = RuntimeConfig(budget=BudgetConfig(reserved_reply_tokens=1000))
    assert await budget("four?", config=part) == 2000
    assert await budget("five?", scope=replace(SCOPE, session_id="t", project_id="q")) is None


async def test_what_is_stored_and_no_budget_falls_back(engine: ContextEngine) -> None:
    await engine.store.put_setting(SCOPE, "budget", {"max_input_tokens": "many"})
    prepared = await engine.prepare(call())
    assert "CONTEXT_BUDGET_FALLBACK" in prepared.report.warnings
    assert prepared.report.token_budget is None
    given = RuntimeConfig(budget=SMALL)
    prepared = await engine.prepare(call(text="two?", config=given))
    assert "CONTEXT_BUDGET_FALLBACK" not in prepared.report.warnings
    assert await engine.budgets.get(SCOPE) == (BudgetConfig(), 1)
    assert await engine.budgets.update(SCOPE, SMALL, 1, actor=SCOPE.user_id) == 2
    prepared = await engine.prepare(call(text="three?"))
    assert (
        prepared.report.token_budget,
        "CONTEXT_BUDGET_FALLBACK" in prepared.report.warnings,
    ) == (
        2500,
        False,
    )


class Broken:
    """The default estimator, with a fault in one of its methods."""

    def __init__(self, where: str, answer: object) -> None:
        self._inner = default_estimator()
        self._where, self._answer = where, answer

    def __getattr__(self, name: str) -> Any:
        return self._fault if name == self._where else getattr(self._inner, name)

    def _fault(self, *_: object, **__: object) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


FAULTS = [
    *((where, ZeroDivisionError("secret")) for where in ("exact_for", "describe")),
    *(
        (where, answer)
        for where in ("estimate_text", "estimate_message")
        for answer in (ZeroDivisionError("secret"), -5, None, float("nan"))
    ),
]


@pytest.mark.req("D-11")
@pytest.mark.parametrize(("where", "answer"), FAULTS)
async def test_a_broken_estimator_gives_way_to_an_upper_bound(where: str, answer: object) -> None:
    engine = create_context_engine(
        MemoryStore(), token_estimator=Broken(where, answer), config=PATIENT
    )
    small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=2000), store=PATIENT.store)
    text = "我们几点见面? " * 20
    tools = [{"name": "search", "parameters": {"type": "object"}}]
    prepared = await engine.prepare(call(text=text, config=small, tools=tools))
    assert "CONTEXT_BUDGET_FALLBACK" in prepared.report.warnings
    assert prepared.unchanged
    assert prepared.report.token_used >= CharBasedEstimator().estimate_text(text)
    assert prepared.report.token_budget == 1500
    await engine.close()


def test_blocking_callers_have_the_same() -> None:
    engine = create_context_engine(MemoryStore())
    assert engine.sync.budgets.update(SCOPE, SMALL, 0, actor=SCOPE.user_id) == 1
    assert engine.sync.budgets.get(SCOPE) == (SMALL, 1)
    engine.sync.close()
