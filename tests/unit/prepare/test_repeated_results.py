"""What is brought back of a call that was made again: its newest result, and no failure that a result followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import CharBasedEstimator, ContextEngine, MemoryStore, create_context_engine
from tests.hosts.ward_host import STOCK, Ward, small_talk


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


def test_an_agent_s_question_that_goes_back_has_its_answer_beside_what_stands(
    engine: ContextEngine,
) -> None:
    """What stands before earlier questions has all that may come back, and room is free for the next steps."""
    ward = Ward(engine, 400)
    ward.look_up("Please look.", "stock", OLD, "I did.", args=STOCK)
    small_talk(ward, 9)
    ward.look_up("Please look.", "stock", "bandages: 40", "I did.", args={"item": "another"})
    small_talk(ward, 4)
    ward.ask(QUESTION, "Those.")
    assert "bandages" in ward.inputs[-1]
    assert OLD in ward.inputs[-1]
    assert ward.stored()[1][-1].report["token_used"] <= 400
