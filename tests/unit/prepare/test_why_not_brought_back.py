"""Why something that relevance looked at is not brought back: what is told is what happened."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Report,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.prepare.choose.candidates import worth_adding
from ce_engine.prepare.compose.render import Snippet
from ce_engine.prepare.sources import Candidate
from ce_engine.schema.report import PruneDecision
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u")
INVOICE = "The invoice 4711 of the north warehouse lies in the blue folder."
WITHHELD = ("over_credit", "over_reserve", "over_share")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def config(tokens: int) -> RuntimeConfig:
    return RuntimeConfig(budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0))


def recalled(report: Report) -> list[PruneDecision]:
    return [d for d in report.prune_decisions if d.block_id.startswith(("m:", "e:"))]


def talk(engine: ContextEngine, tokens: int, turns: int, seed: int = 0) -> list[Report]:
    """A person's talk, in which some questions go back."""
    chance, reports = random.Random(seed), list[Report]()
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask(INVOICE, "That is noted.", config=config(tokens))
    for n in range(turns):
        new = f"Tell me about lamp {n} of hall {n % 5}. " * chance.randrange(1, 5)
        back = f"What did I ask of lamp {chance.randrange(n + 1)} and its hall?"
        asked = app.ask(
            back if chance.random() < 0.3 else new, f"Lamp {n} is red. ", config=config(tokens)
        )
        reports.append(asked.report)
    return reports


def run_of_tools(engine: ContextEngine, tokens: int, turns: int, seed: int) -> list[Report]:
    chance, reports = random.Random(seed), list[Report]()
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(turns):
        prepared = app.prepare(user(f"What costs lamp {n}? Compare it."), config=config(tokens))
        reports.append(prepared.report)
        for step in range(chance.randrange(4)):
            name, lamp = f"c{n}-{step}", chance.randrange(n + 1)
            app.commit(prepared, tool_calls((name, "price", {"lamp": f"lamp-{lamp}"})))
            text = f"lamp-{lamp} costs {chance.randrange(900)} units. " * chance.randrange(1, 9)
            prepared = app.prepare(
                tool_result(name, text), new_request=False, config=config(tokens)
            )
            reports.append(prepared.report)
        app.commit(prepared, assistant(f"Lamp {n} costs much."))
    return reports


def check(reports: list[Report]) -> set[str]:
    """What is told of each piece fits what went out; the reasons that were met."""
    met: set[str] = set()
    for report in reports:
        assert report.token_budget is not None
        free = report.token_budget - report.token_used
        for told in recalled(report):
            met.add(told.reason)
            if told.reason in WITHHELD:
                assert told.room is not None
                assert told.token_estimate > told.room
                assert told.token_estimate <= free, "it would have fitted the budget"
            if told.reason == "over_budget" and told.room is not None:
                assert told.token_estimate > told.room
        if report.recall is not None:
            met.add(report.recall.state)
            if report.recall.goes_back:
                assert not {"over_reserve", "not_nearer"} & {d.reason for d in recalled(report)}
        is_cut = any(d.reason == "below_cut" for d in report.prune_decisions)
        assert (report.cut != "") >= is_cut
        assert (report.recall is not None) >= is_cut
    return met


def test_a_talk_says_why() -> None:
    met: set[str] = set()
    for seed in range(3):
        engine = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
        met |= check(talk(engine, 420, 90, seed))
        engine.sync.close()
    assert {"looked", "over_credit", "over_reserve"} <= met


def test_an_agent_with_tools_says_why() -> None:
    met: set[str] = set()
    for seed in range(3):
        engine = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
        met |= check(run_of_tools(engine, 500, 25, seed))
        engine.sync.close()
    assert {"looked", "chosen_before", "over_share"} <= met


def test_what_is_no_nearer_than_the_talk_around_the_question_is_told_so(
    engine: ContextEngine,
) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask(INVOICE, "That is noted.", config=config(420))
    for n in range(14):
        app.ask(f"Tell me about lamp {n}. " * 4, f"Lamp {n} is red. ", config=config(420))
    reports = [
        app.ask(f"And the lamp of warehouse {n}?", "Red.", config=config(420)).report
        for n in range(6)
    ]
    told = [r for r in reports if "not_nearer" in {d.reason for d in recalled(r)}]
    assert told
    for report in told:
        assert report.cut == "stands"
        assert report.recall is not None
        assert report.recall.goes_back is False


def test_what_is_far_behind_the_best_is_told_so(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask(INVOICE, "That is noted.", config=config(420))
    app.ask("Which folder do you like?", "Blue, or any folder.", config=config(420))
    for n in range(14):
        app.ask(f"Tell me about lamp {n}. " * 4, f"Lamp {n} is red. ", config=config(420))
    question = "Where is the invoice 4711 of the north warehouse, in the blue folder?"
    report = app.ask(question, "There.", config=config(420)).report
    assert "below_floor" in {d.reason for d in recalled(report)}
    assert report.recall is not None
    assert report.recall.goes_back is True
    assert report.recall.most >= 16


def test_a_cut_that_leaves_no_room_says_so(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(8):
        app.ask(f"Tell me about lamp {n}. " * 4, f"Lamp {n} is red. ", config=config(420))
    report = app.ask("So it is with lamps. " * 70, "Yes.", config=config(420)).report
    assert report.recall is not None
    assert report.recall.state == "no_room"
    assert report.recall.room == 0


def test_a_message_that_stays_for_what_stands_before_it_says_so(engine: ContextEngine) -> None:
    reports = run_of_tools(engine, 500, 25, 0)
    assert "pinned" in {d.reason for r in reports for d in r.prune_decisions}


def test_a_replay_says_the_same(engine: ContextEngine) -> None:
    reports = talk(engine, 420, 20)
    engine.sync.flush()
    for turn in range(8, 20):
        found = engine.sync.explain(SCOPE, turn + 2)
        told = {
            d.block_id.partition(":")[2]: (d.reason, d.room)
            for d in recalled(reports[turn])
            if d.action == "dropped"
        }
        assert {piece.id: (piece.reason, piece.room) for piece in found.passed_over} == told


def test_the_same_question_asked_before_answers_nothing() -> None:
    asks = "What is my pass animal?"
    copy = Candidate("m:1", Snippet("message", f"{asks} "), 0.9, 1)
    fact = Candidate("m:2", Snippet("message", "My pass animal is the falcon."), 0.6, 2)
    assert worth_adding([copy, fact], {"m:1"}, lambda: 0.1, 0.85, asks) == [fact]
    assert worth_adding([copy, fact], {"m:1"}, lambda: 0.1, 0.85, "And my animal?") == []
