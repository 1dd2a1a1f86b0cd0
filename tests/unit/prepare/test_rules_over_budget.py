"""Rules over the budget: own before derived, high before low, then the nearest to the question; all is told (D-02, D-06)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    CollectConfig,
    ContextEngine,
    ContextPiece,
    MemoryStore,
    Message,
    PrepareResult,
    Priority,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.apps.present.output import short_id
from tests.hosts.cli_host import ce
from tests.hosts.context_host import Notes


SCOPE = Scope(session_id="s1", user_id="ada")
ROOM = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=600, reserved_reply_tokens=0),
    store=StoreConfig(deadline_s=30),  # a busy machine is no fault here
    collect=CollectConfig(deadline_s=30),
)
COLOURS = ["red", "green", "blue", "yellow", "black", "white", "grey", "brown", "pink", "orange"]


@pytest.fixture
async def engine() -> AsyncIterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator(), config=ROOM)
    yield made
    await made.close()


async def ask(engine: ContextEngine, text: str) -> PrepareResult:
    result = await engine.prepare_turn(SCOPE, Message(role=Role.USER, content=text))
    await engine.fail_turn(SCOPE, "not_sent", turn_id=result.report.turn_id)
    return result


def sent(result: PrepareResult) -> str:
    return "\n".join(part.content for part in result.assembled_input.parts)


def about(n: int) -> str:
    return f"A house number {n} in {COLOURS[n % 10]} street is painted anew every second year."


async def rules(
    engine: ContextEngine, numbers: Sequence[int], priority: Priority, *, derived: bool = False
) -> dict[int, str]:
    made = {}
    for n in numbers:
        rule = await engine.constraints.create(SCOPE, about(n), derived=derived, priority=priority)
        made[n] = f"c:{rule.constraint_id}"
    return made


@pytest.mark.req("D-02", "D-06")
@pytest.mark.parametrize("wanted", [3, 17, 39])
async def test_the_rule_that_the_question_is_about_goes_in(
    engine: ContextEngine, wanted: int
) -> None:
    ids = await rules(engine, range(40), Priority.HIGH)
    result = await ask(engine, f"When is house number {wanted} to be painted?")
    text, report = sent(result), result.report
    assert about(wanted) in text
    gone = [ids[n] for n in range(40) if about(n) not in text]
    assert 0 < len(gone) < 40
    assert sorted(report.rules_dropped) == sorted(gone)
    assert {d.block_id for d in report.prune_decisions if d.action == "dropped"} == set(gone)
    assert "CONTEXT_RULES_OVERBUDGET" in report.warnings
    assert report.layers["rules"].truncated


@pytest.mark.req("D-02", "D-06")
async def test_the_question_may_be_in_chinese(engine: ContextEngine) -> None:
    for n in range(40):
        text = f"第{n}条：{COLOURS[n % 10]} 街的房子每两年重新粉刷一次，由房主付钱。"
        await engine.constraints.create(SCOPE, text, priority=Priority.HIGH)
    await engine.constraints.create(SCOPE, "林远从不喝咖啡，只喝绿茶。", priority=Priority.HIGH)
    assert "只喝绿茶" in sent(await ask(engine, "林远早上喝什么？"))


@pytest.mark.req("D-02", "D-06")
async def test_own_go_before_derived_and_high_before_low(engine: ContextEngine) -> None:
    derived = await rules(engine, range(5), Priority.MEDIUM, derived=True)
    short = await engine.constraints.create(SCOPE, "Be short.", derived=True)
    own = await rules(engine, range(10, 40), Priority.HIGH)
    must = await rules(engine, range(40, 43), Priority.MUST)
    result = await ask(engine, "Which derived house number 3 is painted? Be short.")
    text = sent(result)
    assert all(about(n) in text for n in must)
    assert any(about(n) in text for n in own)
    assert any(about(n) not in text for n in own)
    assert not any(about(n) in text for n in derived), "one of the own rules is out"
    assert f"c:{short.constraint_id}" in result.report.rules_dropped, "however little it needs"


@pytest.mark.req("D-02")
async def test_derived_ones_that_matter_more_go_before_others(engine: ContextEngine) -> None:
    await rules(engine, range(2), Priority.HIGH)
    medium = await rules(engine, range(10, 38), Priority.MEDIUM, derived=True)
    low = await rules(engine, range(40, 44), Priority.LOW, derived=True)
    text = sent(await ask(engine, "Is house number 41 painted?"))
    assert about(0) in text
    assert about(1) in text
    assert sum(about(n) in text for n in medium) not in (0, len(medium))
    assert not any(about(n) in text for n in low)


@pytest.mark.req("D-02", "D-06")
async def test_rules_of_a_source_stand_behind_the_owners() -> None:
    noted = Notes(
        [ContextPiece(about(n), score=1.0) for n in range(20)], "kg", "framework__context"
    )
    engine = create_context_engine(
        MemoryStore(), token_estimator=CharBasedEstimator(), config=ROOM, sources=[noted]
    )
    own = await rules(engine, range(20, 60), Priority.HIGH)
    result = await ask(engine, "Is house number 3 painted?")
    assert not any(about(n) in sent(result) for n in range(20))
    gone = [n for n in own if about(n) not in sent(result)]
    assert len(result.report.rules_dropped) == 20 + len(gone)
    await engine.close()


@pytest.mark.req("D-02")
async def test_with_room_all_go_in_as_they_are_ordered(engine: ContextEngine) -> None:
    await rules(engine, range(3), Priority.HIGH)
    result = await ask(engine, "House number 2?")
    places = [sent(result).index(about(n)) for n in range(3)]
    assert places == sorted(places)
    assert result.report.rules_dropped == []


@pytest.mark.req("D-02")
async def test_every_rule_that_is_dropped_is_logged_once(
    engine: ContextEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ce_engine")
    await rules(engine, range(40), Priority.HIGH)
    gone: set[str] = set()
    for n in (3, 3, 17, 29):
        gone.update((await ask(engine, f"Is house number {n} painted?")).report.rules_dropped)
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.count(name) for line in lines for name in gone) == len(gone)
    assert all("session s1: a call goes out without" in line for line in lines)
    assert "painted anew" not in caplog.text


@pytest.mark.req("D-02")
def test_the_command_line_names_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ce.db"
    engine = create_context_engine(url, token_estimator=CharBasedEstimator(), config=ROOM)
    for n in range(40):
        engine.sync.constraints.create(SCOPE, about(n), priority=Priority.HIGH)
    asked = Message(role=Role.USER, content="Is house number 3 painted?")
    gone = engine.sync.prepare_turn(SCOPE, asked).report.rules_dropped
    engine.sync.flush()
    engine.sync.close()
    shown = ce("report", "s1", "--user", "ada", "--turn", "1", "--store", url)
    told = "".join(shown.stdout.split())
    assert f"{len(gone)}rulesdidnotgoout" in told
    assert all(short_id(name) in told for name in gone)
