"""The random apps of `room_cases` within budgets for less than they send: nothing over them but what is told."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from random import Random
from typing import Any

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.schema.rows import TurnRow
from ce_engine.turns.report.over_budget import WORDS
from ce_integrations.testing.adapter_budget import warnings_of_the_engine
from ce_integrations.testing.body_tokens import PRIMING
from ce_integrations.testing.contract_case import count
from tests.property.report_bodies import judge_bodies
from tests.property.room_cases import Case, Maker, Play


BUDGETS = (12, 60, 90, 150, 250, 400, 800)


def run(case: Case) -> Counter[str]:
    """Play an app in a budget; raises `AssertionError` where a body over it is not told, with its cause."""
    rng = Random(f"{case.seed} tight")
    budget = rng.choice(BUDGETS)
    options = {**Maker(rng).options(), "config": configuration(rng, budget)}
    store = MemoryStore()
    engine = create_context_engine(store)
    with closing(engine.sync), warnings_of_the_engine() as lines:
        play = case.play(engine=engine, **options)
        turns = turns_of(engine, store)
    told = [(session, turn) for session, turn in turns if turn.report.get("over_budget")]
    judge(case, play, [turn for _, turn in told], budget)
    if play.whole and not play.refused:
        case.counts += judge_bodies(play.bodies, [turn for _, turn in turns])
    logged = {line.partition(":")[0] for line in lines if "its budget has" in line}
    named = {f"session {session}" for session, _ in told}
    assert logged == named, f"over the budget in {logged}, told: {named}"
    case.counts["requests"] += len(play.bodies)
    case.counts["told"] += len(told)
    case.counts["shortened"] += sum(bool(turn.report.get("shortened")) for _, turn in turns)
    return case.counts


def judge(case: Case, play: Play, told: list[TurnRow], budget: int) -> None:
    """Each body over the budget has a report of its own that says so, with at least its tokens."""
    if not play.whole:
        case.counts["not all governed"] += 1
        return
    sizes = sorted((count(json.loads(body)) for body in play.bodies), reverse=True)
    over = [size for size in sizes if size > budget]
    reported = sorted((turn.report["token_used"] for turn in told), reverse=True)
    assert len(over) <= len(reported), f"{over} over {budget}, told: {reported}"
    for size, used in zip(over, reported, strict=False):
        assert size <= used, f"{over} over {budget}, told: {reported}"
    for turn in told:
        causes = turn.report["over_budget_causes"]
        assert causes.keys() <= WORDS.keys()
        used = turn.report["token_used"]
        assert budget - PRIMING < sum(causes.values()) <= used, f"{causes} of {used}, over {budget}"
    case.counts["over"] += len(over)


def configuration(rng: Random, tokens: int) -> RuntimeConfig:
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    slow = StoreConfig(deadline_s=30)  # a busy machine is no fault
    return RuntimeConfig(budget=budget, store=slow, placement=rng.choice(("seed", "cache")))


def turns_of(engine: ContextEngine, store: MemoryStore) -> list[tuple[str, TurnRow]]:
    """All model calls of a store, with their sessions."""
    sessions: Any = engine.loop.run(store.list_sessions(user_id=None, ephemeral=True))
    scopes = [Scope(session_id=each.session_id, user_id=each.user_id) for each in sessions]
    listed = [(scope, engine.loop.run(store.list_turns(scope))) for scope in scopes]
    return [(scope.session_id, turn) for scope, turns in listed for turn in turns]
