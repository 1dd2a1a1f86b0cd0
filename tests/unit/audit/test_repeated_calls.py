"""Tool calls that were made again with the same arguments: in which turns, and whether they brought the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import CharBasedEstimator, ContextEngine, MemoryStore, create_context_engine
from ce_engine.audit.places.message_places import MessagePlaces
from ce_engine.audit.places.recorded_choice import recorded_fates
from ce_engine.audit.places.whereabouts import evidence_whereabouts
from ce_engine.audit.repeated_calls import FAILED, FIRST, OTHER, SAME, UNKNOWN, repeated_calls
from ce_engine.audit.stale_results import stale_results, stale_turns
from ce_engine.schema.enums import Role
from tests.hosts.ward_host import PATIENT, RECORD, SECOND, STOCK, Ward, small_talk, stock_of


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def told(ward: Ward) -> list[tuple[str, list[tuple[int | None, str]]]]:
    """Of each call its tool, and of each time the turn and what came of it."""
    return [
        (call.tool, [(each.turn, each.outcome) for each in call.results])
        for call in repeated_calls(*ward.stored())
    ]


def test_a_call_that_was_made_once_is_none(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("Who is it?", "record", RECORD, "A dog.")
    ward.look_up("And this?", "record", RECORD, "A dog.", args={"patient_id": "P-2"})
    ward.look_up("On the ward?", "chart", RECORD, "A dog.")
    assert told(ward) == []
    assert repeated_calls(ward.stored()[0], []) == []


def test_turns_ids_and_what_came_of_each(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("Stock?", "stock", "{'count': 4, 'of': 'tablets'}", "Four.", args=STOCK)
    ward.look_up("Who is it?", "record", RECORD, "A dog.")
    turned = {"at": {"shelf": "b", "ward": 3}, "item": "IT-88"}
    ward.look_up("Stock now?", "stock", "{'of': 'tablets', 'count': 4}", "Four.", args=turned)
    ward.look_up("And now?", "stock", '{"count": 3, "of": "tablets"}', "Three.", args=STOCK)
    ward.look_up("Again?", "stock", "{'count': 3.0, 'of': 'tablets'}", "Three.", args=STOCK)
    [call] = repeated_calls(*ward.stored())
    assert (call.tool, call.args) == ("stock", STOCK)
    assert [each.turn for each in call.results] == [1, 5, 7, 9]
    assert [each.outcome for each in call.results] == [FIRST, SAME, OTHER, SAME]
    document, _ = ward.stored()
    texts = [document.evidences[each.evidence_id or ""].content for each in call.results]
    assert [text.count("4") for text in texts] == [1, 1, 0, 0]
    assert call.has_other


def test_what_failed_says_nothing_and_is_compared_with_nothing(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("Covered?", "cover", "no answer within 20 s", "Later.", error=True)
    ward.look_up("Now?", "cover", '{"share": 0.8}', "Yes.")
    ward.look_up("Sure?", "cover", "no answer within 20 s", "Yes.", error=True)
    ward.look_up("Sure now?", "cover", '{"share": 0.8}', "Yes.")
    assert told(ward) == [("cover", [(1, FAILED), (3, FIRST), (5, FAILED), (7, SAME)])]
    assert not repeated_calls(*ward.stored())[0].has_other


def test_calls_of_one_answer_are_told_apart(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    calls = [("price", {"of": "dental"}, "12"), ("price", {"of": "imaging"}, "80")]
    ward.call("Prices?", calls, "12 and 80.")
    ward.call("Imaging, twice?", [calls[1], calls[1]], "80.")
    assert told(ward) == [("price", [(1, FIRST), (3, SAME), (3, SAME)])]


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        ("plain words", "plain words", SAME),
        ("plain words", "other words", OTHER),
        ('{"a": [1, 2]}', '{ "a" : [1,2] }', SAME),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', OTHER),
        ('{"a": 1}', '{"a": true}', OTHER),
        ('{"a": 1}', '{"a": "1"}', OTHER),
        ("{'a': None}", '{"a": null}', SAME),
        ("{'a': (1, 2)}", "{'a': (1, 3)}", OTHER),
        ('{"a": 1, "a": 2}', '{"a": 2}', OTHER),
        ("{'a': {1, 2}}", "{'a': {2, 1}}", OTHER),
        ("[" * 5000, "[" * 5001, OTHER),
        ('["天", "🐕"]', '["\\u5929", "🐕"]', SAME),
    ],
)
def test_what_is_the_same(engine: ContextEngine, one: str, other: str, outcome: str) -> None:
    ward = Ward(engine, 50_000)
    ward.look_up("Once?", "paper", one, "So.")
    ward.look_up("Twice?", "paper", other, "So.")
    assert told(ward) == [("paper", [(1, FIRST), (3, outcome)])]


def test_what_is_not_stored_is_not_guessed(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    for number in range(4):
        ward.look_up(f"Stock {number}?", "stock", f"{number} packs", "So many.")
    document, turns = ward.stored()
    [call] = repeated_calls(document, turns)
    gone = call.results[1].evidence_id or ""
    document.evidences[gone].content = ""
    del document.evidences[call.results[2].evidence_id or ""]
    [call] = repeated_calls(document, turns)
    assert [each.outcome for each in call.results] == [FIRST, UNKNOWN, UNKNOWN, OTHER]
    assert call.results[2].evidence_id is None
    # Arguments of which only the length is kept are not the same for it.
    for tool_call in document.session.tool_state.tool_calls:
        tool_call.args_digest = {"chars": 21}
    assert repeated_calls(document, turns) == []


def test_a_call_that_no_answer_of_the_session_asked_for_is_none(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("Stock?", "stock", "4", "Four.")
    ward.look_up("Stock?", "stock", "4", "Four.")
    document, turns = ward.stored()
    [call] = repeated_calls(document, turns[2:])  # its turn is not there: nobody says which it was
    assert [each.turn for each in call.results] == [None, 1]
    document.session.messages = [m for m in document.session.messages if not m.tool_calls]
    assert repeated_calls(document, turns) == []


# What stands before a model though a later result says something else


def stale_in(ward: Ward, turn: int) -> dict[str, tuple[int, str]]:
    """The texts of results that are stale in a turn, each with the newer one's turn and fate."""
    document, turns = ward.stored()
    ids = [m.message_id for m in document.session.messages if m.message_id]
    fates = recorded_fates(MessagePlaces(ids, document, turns), turns[turn - 1])
    found = stale_results(document, turns, turn - 1, fates)
    texts = {m.message_id: m.content for m in document.session.messages if m.role is Role.TOOL}
    return {texts[name]: (newer.turn, newer.fate) for name, newer in found.items() if name in texts}


def test_a_result_is_older_than_one_that_stands_there_too(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("Stock?", "stock", "4 packs", "Four.", args=STOCK)
    ward.look_up("Still?", "stock", "3 packs", "Three.", args=STOCK)
    ward.ask("Thanks.", "Welcome.")
    assert [stale_in(ward, turn) for turn in range(1, 4)] == [{}, {}, {}]
    assert stale_in(ward, 4) == stale_in(ward, 5) == {"4 packs": (3, "sent")}


def test_a_result_that_says_the_same_again_is_not_stale(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    for text in ("4 packs", "3 packs", "4 packs"):
        ward.look_up("Stock?", "stock", text, "So many.", args=STOCK)
    ward.look_up("Stock?", "stock", "no answer", "Hm.", args=STOCK, error=True)
    assert stale_in(ward, 4) == {"4 packs": (3, "sent")}
    # The first says what the newest says, and what failed says nothing.
    assert stale_in(ward, 8) == {"3 packs": (5, "sent")}


def test_a_failure_is_older_than_what_came_later(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("Covered?", "cover", "no answer", "Later.", error=True)
    ward.look_up("Now?", "cover", "80 %", "Yes.")
    assert stale_in(ward, 4) == {"no answer": (3, "sent")}


def test_a_quoted_result_is_older_than_one_that_is_not_there(engine: ContextEngine) -> None:
    ward = stock_of(engine)
    seen = set[str]()
    for turn, sent in enumerate(ward.inputs, 1):
        found = stale_in(ward, turn)
        assert bool(found) == ("count 31" in sent and turn > SECOND), turn
        for newer_turn, fate in found.values():
            assert newer_turn == SECOND
            assert (fate != "left_out") == ("7 left" in sent), turn
            seen.add(fate)
    assert {"left_out", "sent"} <= seen


@pytest.mark.parametrize("tokens", [600, 5000])
def test_the_turns_of_a_call_are_those_that_have_an_older_result(
    engine: ContextEngine, tokens: int
) -> None:
    ward = Ward(engine, tokens)
    for text, is_error in (
        ("no answer", True),
        ("4 packs", False),
        ("3 packs", False),
        ("4 packs", False),
    ):
        ward.look_up("Stock?", "stock", text, "So many.", args=STOCK, error=is_error)
        small_talk(ward, 3)
    document, turns = ward.stored()
    [call] = repeated_calls(document, turns)
    places = evidence_whereabouts(document.evidences, document, turns)
    one_by_one = {turn for turn in range(1, len(turns) + 1) if stale_in(ward, turn)}
    assert stale_turns(call, places) == one_by_one
    assert one_by_one


def test_patients_of_other_arguments_have_results_of_their_own(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("Who?", "record", RECORD, "A dog.", args=PATIENT)
    ward.look_up("Who?", "record", "another", "A cat.", args={"patient_id": "P-2"})
    assert stale_in(ward, 4) == {}
