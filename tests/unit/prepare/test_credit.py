"""A talk brings back what its calls have saved by then: it costs no more than without us, in one process or in many."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    ModelCall,
    Report,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, user


SCOPE = Scope(session_id="s", user_id="张伟")
CACHED = 0.1
"""The price of a token that the provider has seen before."""

FRAME = 4
"""Tokens of a message beside its text."""

SLIGHT, ROUGH = 1.02, 1.05
"""How far two counters differ; and how far what another process may know of a prefix is an estimate."""

WORDS = "sun rain window music river train coffee letter 市场 stone paper winter cat field song door".split()
THINGS = "lamp ferry boiler 发票 garden 仓库 piano tent passport 体检 quilt roof".split()


def config(tokens: int) -> RuntimeConfig:
    return RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0),
        store=StoreConfig(deadline_s=30),
    )


def made(url: str, tokens: int) -> ContextEngine:
    return create_context_engine(url, CharBasedEstimator(), config=config(tokens))


def bill(bodies: list[list[str]]) -> float:
    """What inputs cost in tokens: what an input begins with as the one before is cached."""
    cost, before = 0.0, list[str]()
    for body in bodies:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, body, strict=False))
        cost += tokens_of(body) - (1 - CACHED) * tokens_of(text for text, _ in same)
        before = body
    return cost


def tokens_of(texts: Iterable[str]) -> int:
    estimator = CharBasedEstimator()
    return sum(estimator.estimate_text(text) + FRAME for text in texts)


def talk(
    app: HostApp, turns: int, seed: int, another: Callable[[ContextEngine], ContextEngine]
) -> tuple[list[Report], float, float]:
    """Short turns that are much alike, of which each third asks for something said before; what they cost."""
    chance, reports = random.Random(seed), list[Report]()
    sent, own = list[list[str]](), list[list[str]]()
    for n in range(turns):
        thing, old = chance.choice(THINGS), chance.randrange(n + 1)
        new = f"Tell me about {thing} {n}, and what I have to bring. " * chance.randrange(1, 3)
        back = f"What was it that you said of number {old}, and of the {thing}?"
        prepared = app.prepare(user(back if n % 3 == 2 else new), restore=False)
        reports.append(prepared.report)
        sent.append([part.content for part in prepared.assembled.parts])
        own.append([each.message.content for each in app.messages])
        app.commit(prepared, assistant(f"For {thing} {n} bring the {chance.choice(THINGS)}. 好。"))
        app.engine = another(app.engine)
    return reports, bill(sent), bill(own)


def the_same(engine: ContextEngine) -> ContextEngine:
    return engine


@pytest.mark.parametrize("tokens", [300, 500, 800])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_talk_of_short_turns_costs_no_more_than_without_us(tokens: int, seed: int) -> None:
    engine = made("memory://", tokens)
    app = HostApp(engine, SCOPE, [system("You help.")])
    reports, ours, without = talk(app, 70, seed, the_same)
    engine.sync.close()
    assert any(report.recall and report.recall.goes_back for report in reports)
    assert sum(report.layers["retrieved"].chunks for report in reports) > 0
    assert ours <= without * SLIGHT


@pytest.mark.parametrize("tokens", [300, 800])
def test_nor_where_each_call_is_another_process_s(tmp_path: Path, tokens: int) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"

    def another(engine: ContextEngine) -> ContextEngine:
        engine.sync.close()
        return made(url, tokens)

    app = HostApp(made(url, tokens), SCOPE, [system("You help.")])
    reports, ours, without = talk(app, 60, 1, another)
    app.engine.sync.close()
    assert sum(report.layers["retrieved"].chunks for report in reports) > 0
    assert ours <= without * ROUGH


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    engine = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield engine
    engine.sync.close()


def test_what_would_cost_more_than_is_saved_stays_out_and_says_so(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(20):
        app.ask(f"The north boiler in Leeds has part {n}. ", "That is noted.", config=config(300))
    found = [
        app.ask("Which parts has the boiler in Leeds?", "All.", config=config(300)).report
        for _ in range(3)
    ]
    kept_out = [(r, d) for r in found for d in r.prune_decisions if d.reason == "over_credit"]
    assert kept_out
    for report, told in kept_out:
        assert report.recall is not None
        assert report.recall.credit is not None
        assert report.token_budget is not None
        assert told.room is not None
        assert told.room < told.token_estimate <= report.token_budget - report.token_used


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_another_process_knows_what_was_saved(tmp_path: Path, kind: str) -> None:
    url = f"{kind}:///{tmp_path / 'store'}"
    first = made(url, 300)
    app = HostApp(first, SCOPE, [system("You help.")])
    reports, *_ = talk(app, 40, 1, the_same)
    first.sync.close()
    cost = reports[-1].session_cost
    assert cost is not None
    second = made(url, 300)
    app.engine = second
    asked = app.ask("What was it that you said of number 3, and of the lamp?", "It.").report
    assert asked.recall is not None
    assert asked.recall.credit == round(cost.untouched - cost.sent)
    assert asked.session_cost is not None
    assert asked.session_cost.untouched > cost.untouched
    replay = second.sync.replay(SCOPE, system="You help.")
    assert replay.equal, replay.problems
    second.sync.close()


def test_two_processes_that_go_on_at_once_know_what_both_spent(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    engines = [made(url, 300), made(url, 300)]

    def another(engine: ContextEngine) -> ContextEngine:
        assert engine.sync.flush()
        return engines[engine is engines[0]]

    app = HostApp(engines[0], SCOPE, [system("You help.")])
    reports, *_ = talk(app, 40, 1, another)
    for engine in engines:
        engine.sync.close()
    sums = [report.session_cost.untouched for report in reports if report.session_cost]
    assert sums == sorted(sums)
    least = sum(CACHED * report.untouched.tokens for report in reports if report.untouched)
    assert sums[-1] > least


def test_a_preview_is_what_goes_out(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(40):
        asked = user(f"What was it that you said of number {n}, and of the lamp? 好")
        call = ModelCall(SCOPE, [*app.messages, asked], config=config(300), request_id=f"r{n}")
        looked = engine.sync.preview(call)
        prepared = app.prepare(asked, config=config(300), request_id=f"r{n}", restore=False)
        assert looked.report.token_used == prepared.report.token_used
        app.commit(prepared, assistant(f"For lamp {n} bring the tent."))


@pytest.mark.parametrize(
    "odd",
    [
        {"sent": "x"},
        {"sent": float("nan"), "untouched": 1e300},
        {"sent": -1.7e308, "untouched": 1.7e308},
        7,
        None,
    ],
)
def test_sums_that_nobody_can_read_are_none(odd: object) -> None:
    """Whoever may write to the store may write anything."""
    from ce_engine.schema.rows import TurnRow
    from ce_engine.sessions.spending import Spending

    spending = Spending()
    spending.go_on(TurnRow("t", report={"stable_prefix_hash": "x", "session_cost": odd}))
    assert spending.credit is None


@pytest.mark.parametrize("tokens", [700, 1200])
def test_a_talk_in_debt_that_goes_on_is_not_dearer_for_long(tokens: int) -> None:
    """Its turns are long, and share their words: each has something that is near to it."""
    engine, chance = made("memory://", tokens), random.Random(7)
    app = HostApp(engine, SCOPE, [system("You help.")])
    sent, own = list[list[str]](), list[list[str]]()
    for n in range(40):
        words = " ".join(chance.choice(WORDS) for _ in range(25))
        prepared = app.prepare(user(f"Tell me about thought {n}: {words}."))
        sent.append([part.content for part in prepared.assembled.parts])
        own.append([each.message.content for each in app.messages])
        app.commit(prepared, assistant("Noted."))
    engine.sync.close()
    assert any("thought" in text for text in sent[-1][:-1]), "it keeps something"
    assert bill(sent) <= bill(own) * SLIGHT
