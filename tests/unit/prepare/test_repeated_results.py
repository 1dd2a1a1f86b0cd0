"""What is brought back of a call that was made again: its newest result, and no failure that a result followed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ce_engine import CharBasedEstimator, ContextEngine, MemoryStore, create_context_engine
from ce_engine.testing.host import assistant, tool_calls, tool_result, user
from tests.hosts.ward_host import CHART, RECORD, STOCK, Ward, config, small_talk


QUESTION = "Which carprofen tablets have we of the supplier Vetpharm Nord?"


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def asked(engine: ContextEngine, *results: str, failing: int = -1) -> str:
    """What goes out with a question, long after a call was made again and again."""
    ward = Ward(engine, 400)
    for n, result in enumerate(results):
        ward.look_up("Please look.", "stock", result, "I did.", args=STOCK, error=n == failing)
        small_talk(ward, 9)
    ward.ask(QUESTION, "Those.")
    return ward.inputs[-1]


OLD = "carprofen tablets of the supplier Vetpharm Nord: 31 packs"
NEW = "carprofen tablets of the supplier Vetpharm Nord: 7 packs"


@pytest.mark.req("A-20")
def test_the_newest_result_of_a_call_comes_back_before_an_older_one(engine: ContextEngine) -> None:
    sent = asked(engine, OLD, NEW)
    assert NEW in sent
    assert OLD not in sent or sent.index(NEW) < sent.index(OLD)


def test_it_comes_back_where_the_older_one_alone_has_the_words(engine: ContextEngine) -> None:
    assert "7 packs are left" in asked(engine, OLD, "7 packs are left")


def test_a_failure_that_a_result_followed_does_not_come_back(engine: ContextEngine) -> None:
    error = "carprofen tablets, Vetpharm Nord: the supplier did not answer"
    assert error not in asked(engine, error, NEW, failing=0)


def test_a_failure_that_no_result_followed_comes_back(engine: ContextEngine) -> None:
    error = "carprofen tablets, Vetpharm Nord: the supplier did not answer"
    assert error in asked(engine, error, failing=0)


def test_a_result_is_not_passed_over_for_a_failure_after_it(engine: ContextEngine) -> None:
    error = "carprofen tablets, Vetpharm Nord: the supplier did not answer"
    assert OLD in asked(engine, OLD, error, failing=1)


def test_results_of_other_arguments_are_results_of_their_own(engine: ContextEngine) -> None:
    ward = Ward(engine, 600)
    ward.look_up("Please look.", "stock", OLD, "I did.", args=STOCK)
    small_talk(ward, 9)
    ward.look_up("Please look.", "stock", "bandages: 40", "I did.", args={"item": "another"})
    small_talk(ward, 9)
    ward.ask(QUESTION, "Those.")
    assert OLD in ward.inputs[-1]


@pytest.mark.req("A-18")
def test_of_sources_that_disagree_the_newest_result_of_a_call_has_the_say(
    engine: ContextEngine,
) -> None:
    """A chart that was corrected says what the record says: there is nothing to be told of."""
    ward = Ward(engine)
    ward.look_up("Who is Biscuit?", "patient_record", RECORD, "A dog of Dr. Lind.")
    small_talk(ward, 2)
    corrected = json.dumps(json.loads(CHART) | {"weight_kg": 31.2})
    for paper in (CHART, corrected):
        ward.look_up("What does the ward say?", "ward_chart", paper, "He is in kennel 4.")
        small_talk(ward, 9)
    second = next(n for n, text in enumerate(ward.inputs, 1) if corrected in text)
    for _ in range(3):
        ward.ask("What weight_kg has Biscuit, P-1, by record and by ward chart?", "So much.")
        small_talk(ward, 4)
    told = [turn for turn in ward.turns_with("Sources disagree") if turn > second]
    assert told == []
    assert ward.turns_with("31.2", "ward_chart")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"note": "x" * 4100, "n": 1}, {"note": "x" * 4100, "n": 2}, id="long"),
    ],
)
def test_what_may_be_another_call_overtakes_nothing(
    engine: ContextEngine, first: dict[str, object], second: dict[str, object]
) -> None:
    error = "carprofen tablets, Vetpharm Nord: the supplier did not answer"
    ward = Ward(engine, 9000)
    ward.look_up("Please look.", "stock", error, "I did.", args=first, error=True)
    small_talk(ward, 4)
    ward.look_up("Please look.", "stock", "bandages: 40", "I did.", args=second)
    for _ in range(4):
        ward.ask("Please tell me a long tale of the hall. " * 300, "A lamp. " * 20)
    ward.ask(QUESTION, "Those.")
    assert error in ward.inputs[-1]


def test_two_calls_of_one_id_are_told_apart(engine: ContextEngine) -> None:
    """Some hosts give a call its tool's name for an id."""
    ward = Ward(engine, 600)
    app, few = ward.app, config(600)
    cities = [("weather", "weather", {"city": city}) for city in ("Paris", "Oslo")]
    app.commit(app.prepare(user("How is it there?"), config=few), tool_calls(*cities))
    results = [
        tool_result("weather", f"{text} all day", error=is_error)
        for text, is_error in (("Rain", True), ("Snow", False))  # which is no answer to the other
    ]
    app.commit(app.prepare(*results, new_request=False, config=few), assistant("So."))
    small_talk(ward, 12)
    ward.ask("Where was it rain all day, and where snow all day?", "There.")
    assert "Rain all day" in ward.inputs[-1]
    assert "Snow all day" in ward.inputs[-1]
