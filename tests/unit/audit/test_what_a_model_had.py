"""What a model had before it: contradictions, numbers of its answers, quoted words, and turns told by their record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from ce_engine import (
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Retrieval,
    RetrievedDoc,
    Role,
    create_context_engine,
)
from ce_engine.apps.present.conflicts import Disagreements
from ce_engine.audit.contradictions import Contradiction, contradictions
from ce_engine.audit.input_texts import InputTexts
from ce_engine.audit.noted_sources import noted_fields
from ce_engine.audit.number_places import MOST_NUMBERS, number_places
from ce_engine.audit.places.message_places import MessagePlaces
from ce_engine.audit.places.quoted_words import with_words
from ce_engine.audit.places.recorded_choice import recorded_choice, recorded_fates
from ce_engine.audit.places.whereabouts import (
    FOUND,
    QUOTED,
    QUOTED_PART,
    QUOTED_REST,
    SENT,
    Stay,
    evidence_whereabouts,
    fate_in,
    stretches_of,
    whereabouts,
)
from ce_engine.audit.unsupported_numbers import unsupported_numbers
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.host import HostApp, assistant, system, user
from tests.hosts.ward_host import CHART, RECORD, SCOPE, Ward, config, small_talk, ward_of


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


@pytest.mark.req("A-18")
def test_a_contradiction_says_when_both_stood_before_the_model(engine: ContextEngine) -> None:
    ward = ward_of(engine)
    document, turns = ward.stored()
    [found] = contradictions(document, turns)
    assert found.fields == ["$.weight_kg"]
    both = [n for n in ward.turns_with("31.2", "28.6") if not ward.is_note_alone(n)]
    assert both
    assert len(both) < len(turns)
    assert found.shared_turns == both
    noted = ward.turns_with("Sources disagree")
    assert found.noted_turns == noted
    assert found.silent_turns == [turn for turn in both if turn not in noted]
    names = {document.evidences[name].source.name for name in found.values}
    assert names == {"patient_record", "ward_chart"}


@pytest.mark.req("A-18")
def test_what_no_model_saw_of_a_contradiction_is_in_no_report(engine: ContextEngine) -> None:
    ward = ward_of(engine)
    _, turns = ward.stored()
    told = [n for n, row in enumerate(turns, 1) if row.report.get("conflicts")]
    seen = {*ward.turns_with("31.2"), *ward.turns_with("28.6")}
    assert told
    assert {*told} <= seen


def test_of_two_that_say_the_same_neither_contradicts() -> None:
    values = {"a": {"$.x": "1"}, "b": {"$.x": "2"}, "c": {"$.x": "1"}}
    found = Contradiction(values, {}, [3, 4], [4])
    assert (found.fields, found.silent_turns) == (["$.x"], [3])


@pytest.mark.req("A-18")
def test_other_things_with_the_same_fields_do_not_hide_one(engine: ContextEngine) -> None:
    """What a call compares is bounded; a whole session has many more."""
    ward = Ward(engine, 900)
    ward.look_up("Who is Biscuit?", "patient_record", RECORD, "A dog.")
    ward.look_up("And on the ward?", "ward_chart", CHART, "In kennel 4.")
    for n in range(2, 46):
        paper = json.dumps({"patient_id": f"P-{n}", "weight_kg": n})
        ward.look_up(f"And number {n}?", "patient_record", paper, "Another one.")
    [found] = contradictions(*ward.stored())
    assert sorted(value for by in found.values.values() for value in by.values()) == [
        "28.6",
        "31.2",
    ]


@pytest.mark.req("A-18")
def test_a_trace_tells_of_what_stood_in_its_turn_and_each_once(engine: ContextEngine) -> None:
    ward = ward_of(engine)
    ward.look_up(
        "Once more, who is Biscuit?", "patient_record", RECORD.replace("Lind", "Adey"), "A dog."
    )
    document, turns = ward.stored()
    disagreements = Disagreements(document, turns)
    first = turns[-1].report["new_evidence_ids"]
    for turn in range(1, len(turns) - 1):
        seen = disagreements.seen(turn)
        assert len({record.field_path for record in seen}) == len(seen), turn
        assert not {name for record in seen for name in record.evidence_ids} & {*first}
    assert any(disagreements.seen(turn) for turn in range(1, len(turns)))


def fates_in(document: SessionDocument, turns: Sequence[TurnRow], at: int) -> dict[str, str]:
    """What became of all messages in a turn, by its place."""
    ids = [m.message_id for m in document.session.messages if m.message_id]
    return recorded_fates(MessagePlaces(ids, document, turns), turns[at])


def inputs(document: SessionDocument, turns: Sequence[TurnRow]) -> InputTexts:
    return InputTexts(document, turns, partial(fates_in, document, turns))


def unsupported(ward: Ward, turn: int) -> dict[str, str]:
    """The numbers of a turn's answer that nothing had, and the text of the message that has each."""
    document, turns = ward.stored()
    messages = {m.message_id: m for m in document.session.messages}
    answer = messages[turns[turn - 1].answer_message_id]
    found = unsupported_numbers(answer, turn - 1, inputs(document, turns))
    return {
        each.text: messages[each.message_id].content if each.message_id else "" for each in found
    }


def test_a_number_that_nothing_had_is_found(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    paper = json.dumps(
        {"sample": "LB-7731", "ALT": 214.0, "price": 1184.3, "at": "09:30", "on": "2026-05-14"}
    )
    said = "LB-7731 of 14 May, 9:30: ALT 241, not 214; 1,184.30 of 3,000 leave 1815.70. 2 ways."
    ward.look_up("Is it of 3000?", "lab", paper, said)
    assert unsupported(ward, 2) == {"241": "", "1815.70": ""}


def test_a_number_of_what_did_not_go_out_is_told_with_its_message(engine: ContextEngine) -> None:
    ward = Ward(engine, 400)
    ward.ask("The mail says: a pack costs 31.80 from June on.", "Noted.")
    small_talk(ward, 14)
    ward.ask("Hello.", "It gets dearer, from 31.80 to 34.20.")
    turn = len(ward.inputs)
    assert "31.80" not in ward.inputs[-1]
    found = unsupported(ward, turn)
    assert found == {
        "31.80": "The mail says: a pack costs 31.80 from June on.",
        "34.20": "",
    }


def test_of_two_messages_with_a_number_that_did_not_go_out_the_one_of_the_same_matter_is_named(
    engine: ContextEngine,
) -> None:
    ward = Ward(engine, 400)
    sheet = "Laboratory: repeat after 14 days without carprofen."
    ward.ask(sheet, "Noted.")
    ward.ask("The carprofen is delivered today between 14 and 16.", "Good.")
    small_talk(ward, 14)
    ward.ask("And his liver?", "The laboratory wants him back after 14 days.")
    assert " 14 " not in ward.inputs[-1]
    assert unsupported(ward, len(ward.inputs)) == {"14": sheet}


def test_a_masked_value_is_looked_for_by_its_mask(engine: ContextEngine) -> None:
    """Of two numbers of one household, the one that did not go out: it is stored as a mask, as the other is."""
    ward = Ward(engine, 400)
    ward.ask("主人的电话是 13812345678。", "记下了。")
    small_talk(ward, 40)
    ward.ask("The cleaner has 13987654321.", "Noted.")
    ward.ask("Whom do we ring?", "Ring 13987654321, or 13812345678, or a@example.com.")
    assert "13812345678" not in ward.inputs[-1]
    assert "13987654321" in ward.inputs[-1]
    found = unsupported(ward, len(ward.inputs))
    assert found == {"[PHONE_1]": "主人的电话是 [PHONE_1]。", "[EMAIL_1]": ""}
    shown = places(ward, len(ward.inputs))
    assert shown["[PHONE_2]"][0] == "The cleaner has [PHONE_2]."
    assert [*shown] == ["[PHONE_2]"]


def test_of_very_many_numbers_the_first_are_looked_for(engine: ContextEngine) -> None:
    ward = Ward(engine, 9000)
    numbers = [f"{n}.25" for n in range(100, 400)]
    ward.ask("Give me a table.", " ".join(numbers))
    assert [*unsupported(ward, 1)] == numbers[:MOST_NUMBERS]


def of_answers(ward: Ward, turn: int) -> dict[str, int]:
    """The numbers of a turn's answer that no more than earlier answers had, and the turn of the first of these."""
    document, turns = ward.stored()
    name = turns[turn - 1].answer_message_id
    answer = next(m for m in document.session.messages if m.message_id == name)
    found = unsupported_numbers(answer, turn - 1, inputs(document, turns))
    for each in found:
        if each.answer_turn:
            assert each.answer_id == turns[each.answer_turn - 1].answer_message_id
    return {each.text: each.answer_turn for each in found}


SHEET = "LB-8812 of 9 July: ALT 236.0 U/L"


def test_what_the_model_has_from_an_answer_that_had_it_from_nothing_is_found(
    engine: ContextEngine,
) -> None:
    """A turned digit goes on from answer to answer."""
    ward = Ward(engine, 5000)
    ward.look_up("What says the laboratory?", "lab", SHEET, "LB-8812: ALT 263 U/L, of 9 July.")
    ward.ask("Which is it, for the owner?", "ALT 263 U/L.")
    small_talk(ward, 3)
    ward.ask("The ALT in LB-8812 of 9 July, please?", "ALT 263 U/L in LB-8812.")
    found = [of_answers(ward, turn) for turn in (2, 3, len(ward.inputs))]
    assert found == [{"263": 0}, {"263": 2}, {"263": 2}]


def test_it_is_found_where_the_answer_came_back_quoted(engine: ContextEngine) -> None:
    ward = Ward(engine, 400)
    ward.ask("What says the laboratory of LB-8812?", "LB-8812 of 9 July: ALT 263 U/L.")
    small_talk(ward, 12)
    ward.ask("The ALT in LB-8812 of 9 July, please?", "ALT 263 U/L in LB-8812.")
    assert "263" in ward.inputs[-1]
    assert of_answers(ward, len(ward.inputs)) == {"263": 1}


def test_what_an_answer_had_from_a_source_may_be_said_again(engine: ContextEngine) -> None:
    ward = Ward(engine, 400)
    ward.look_up("What says the laboratory?", "lab", SHEET, "LB-8812: ALT 236 U/L, of 9 July.")
    small_talk(ward, 12)
    ward.ask("The ALT in LB-8812 of 9 July, please?", "ALT 236 U/L in LB-8812.")
    assert of_answers(ward, len(ward.inputs)) == {}


def test_what_a_person_said_too_is_no_answer_s_alone(engine: ContextEngine) -> None:
    ward = Ward(engine, 5000)
    ward.look_up("What says the laboratory?", "lab", SHEET, "LB-8812: ALT 263 U/L, of 9 July.")
    ward.ask("263, you say?", "Yes, 263.")
    assert of_answers(ward, 3) == {}


def test_what_a_note_says_of_a_source_was_there(engine: ContextEngine) -> None:
    ward = ward_of(engine)
    document, turns = ward.stored()
    noted = next(n for n in ward.turns_with("Sources disagree"))
    answer = next(
        m for m in document.session.messages if m.message_id == turns[noted - 1].answer_message_id
    )
    said = answer.model_copy(update={"content": "It is 31.2 or 28.6, and not 45.5."})
    found = unsupported_numbers(said, noted - 1, inputs(document, turns))
    assert [each.text for each in found] == ["45.5"]


def test_what_stands_in_a_quotation_was_there(engine: ContextEngine) -> None:
    ward = Ward(engine)
    ward.ask("The invoice 4711 of the north warehouse is over 381.55 euros.", "Noted.")
    small_talk(ward, 12)
    ward.ask("How much is the invoice 4711 of the warehouse?", "381.55 euros.")
    document, turns = ward.stored()
    first = document.session.messages[0].message_id or ""
    where = whereabouts([first], document, turns)
    assert fate_in(where[first], len(turns)) == QUOTED
    assert unsupported(ward, len(turns)) == {}


def places(ward: Ward, turn: int) -> dict[str, tuple[str, str, int]]:
    """Of each number of a turn's answer that went out: what has it, the words beside it there, and how many more have it."""
    document, turns = ward.stored()
    messages = {m.message_id: m for m in document.session.messages}
    answer = messages[turns[turn - 1].answer_message_id]
    found = number_places(answer, turn - 1, inputs(document, turns))
    names = {m.message_id: m.content for m in document.session.messages}
    return {p.text: (names.get(p.source.id, p.source.kind), p.words, p.others) for p in found}


def test_a_number_is_shown_with_what_stands_beside_it(engine: ContextEngine) -> None:
    """A deposit of 54 is no discount of 54 per cent."""
    ward = Ward(engine)
    paper = json.dumps({"tenant": "Ahrens", "deposit": 54.0, "rent": 812.5, "until": "2027-03-31"})
    ward.look_up("What of the flat?", "lease", paper, "The deposit is 54 euros.")
    ward.ask("And 54 of 90 tenants agreed?", "I see.")
    ward.ask(
        "How much is off the rent?",
        "54 % is off, from 31.03.2027 on; the deposit was 54 euros and the rent is 812.50, not 999.",
    )
    found = places(ward, 4)
    assert [*found] == ["54", "31.03.2027", "812.50"]
    text, words, others = found["812.50"]
    assert text == paper
    assert '"rent": 812.5, "until"' in words
    assert others == 0
    assert found["31.03.2027"][0] == paper
    assert found["54"][2] >= 1  # the question before, and the paper
    assert unsupported(ward, 4) == {"999": ""}


def test_of_several_places_that_with_the_same_words_is_shown(engine: ContextEngine) -> None:
    ward = Ward(engine)
    ward.ask("The deposit of the north flat is 1,350 euros.", "Noted.")
    ward.ask("The garage costs 1350 a year.", "Noted, too.")
    ward.ask("What was the deposit?", "The deposit is 1350 euros.")
    text, words, others = places(ward, 3)["1350"]
    assert text == "The deposit of the north flat is 1,350 euros."
    assert "deposit of the north flat is 1,350 euros." in words
    assert others == 1


def test_a_number_of_answers_alone_is_shown_in_the_answer(engine: ContextEngine) -> None:
    ward = Ward(engine)
    ward.ask("How old is the bridge?", "It is of 1894.")
    ward.ask("Sure?", "Yes, of 1894.")
    assert places(ward, 1) == {}
    assert places(ward, 2) == {"1894": ("It is of 1894.", "It is of 1894. ", 0)}


def test_chinese_numbers_are_shown_with_what_stands_beside_them(engine: ContextEngine) -> None:
    ward = Ward(engine)
    ward.ask("合同编号 HT-2027-18，押金３５００元，租期到2027年3月31日。", "已记录。")
    ward.ask("押金是多少？", "押金是3500元，合同 HT-2027-18，到 2027-03-31 为止。")
    found = places(ward, 2)
    assert [*found] == ["3500", "HT-2027-18", "2027-03-31"]
    assert "押金3500元" in found["3500"][1]
    assert "合同编号 HT-2027-18" in found["HT-2027-18"][1]


def test_a_document_in_the_apps_own_prompt_was_there(engine: ContextEngine) -> None:
    """System messages are never stored; what was found for the call is known to have been given."""
    ward = Ward(engine)
    found = Retrieval("search", "waiting", [RetrievedDoc("Demurrage of 62 euros an hour is owed.")])
    [name] = engine.sync.record_retrieval(SCOPE, found, request_id="request-1")
    prepared = ward.app.prepare(user("What is owed for waiting?"))
    ward.app.commit(prepared, assistant("62 euros an hour, and 15 more at night."))
    assert unsupported(ward, 1) == {"15": ""}
    assert places(ward, 1)["62"][0] == "evidence"
    ward.ask("Thanks.", "You are welcome.")
    where = evidence_whereabouts([name], *ward.stored())
    assert where[name].stays == (Stay(FOUND, ((1, 1),)),)


LETTER = (
    "Rex has not eaten since eight o'clock in the evening. Is the dental work tomorrow still wise? "
    "If it must be moved: I am away from 14 to 24 May. "
    + "Bring his own blanket back, please. "
    * 12
)


def test_words_are_told_apart_from_the_rest_of_what_is_quoted_in_part(
    engine: ContextEngine,
) -> None:
    ward = Ward(engine, 500)
    ward.look_up("Any mail?", "mail_from", LETTER, "A letter on Rex.")
    small_talk(ward, 10)
    ward.ask("Is the dental work of Rex tomorrow still wise?", "It is not.")
    small_talk(ward, 2)
    ward.ask("From when to when in May is the owner of Rex away?", "From 14 to 24 May.")
    small_talk(ward, 8)
    document, turns = ward.stored()
    name = next(m.message_id for m in document.session.messages if m.role is Role.TOOL)
    assert name is not None
    where = whereabouts([name], document, turns)
    found = with_words(where, "24 may", document, turns)[name]
    there = {
        n for n in range(1, len(turns) + 1) if fate_in(found, n) in (SENT, QUOTED, QUOTED_PART)
    }
    assert {*ward.turns_with("24 May", "dental")} <= there
    rest = {n for n in range(1, len(turns) + 1) if fate_in(found, n) == QUOTED_REST}
    assert rest
    for n in rest:
        assert "away from 14 to 24 May" not in ward.inputs[n - 1]
        assert any(part in ward.inputs[n - 1] for part in ("Rex has not", "dental", "blanket"))
    for n in there:
        assert "24 May" in ward.inputs[n - 1], n
    # A tool's name stands before each of its sentences.
    by_name = with_words(where, "mail_from", document, turns)[name]
    assert not any(stay.fate == QUOTED_REST for stay in by_name.stays)


def test_the_record_counts_where_a_turn_is_made_again_otherwise(engine: ContextEngine) -> None:
    """As another release would that leaves out more: its attempt says one thing, the record what was on the wire."""
    ward = ward_of(engine)
    document, turns = ward.stored()
    differing = 0
    for at, row in enumerate(turns):
        replay = engine.sync.replay(SCOPE, row.turn_id, config(250)).instead
        attempt = engine.sync.explain(SCOPE, row.turn_id)
        assert replay is not None
        fates = fates_in(document, turns, at)
        choice, record = recorded_choice(fates, attempt, document, turns, at)
        assert record is not None
        kept = {p.message_id for p in replay.parts if p.action == "kept" and p.message_id}
        texts = {m.message_id: m.content for m in document.session.messages}
        for name, fate in choice.fates.items():
            if fate == SENT and texts[name]:
                assert texts[name] in ward.inputs[at]
                differing += name not in kept
        # What was made again is what went out: of it the record says the same.
        assert [(p.id, p.is_part) for p in record.brought_in] == [
            (p.id, p.is_part) for p in attempt.brought_in
        ]
        assert [g.ids for g in record.earlier] == [g.ids for g in attempt.earlier]
    assert differing


def test_a_text_that_is_masked_and_left_out_is_no_other_choice() -> None:
    """What it would have cost is not what its masked form costs; it did not go out, either way."""
    engine = create_context_engine(MemoryStore())
    made = engine.sync.constraints.create(SCOPE, "Answer in short sentences.")
    ward = Ward(engine, 450)
    for n in range(5):
        paper = {"id": n, "phone": f"+49 30 9018203{n}", "mail": f"a.lindholm-{n}@harbour.example"}
        paper["note"] = "some words " * 9
        ward.look_up(f"Whom do I call of lamp {n}?", "owner", json.dumps(paper), "The owner.")
    small_talk(ward, 8)
    engine.sync.constraints.update(SCOPE, made.constraint_id, text="Answer in one word.")
    _, turns = ward.stored()
    # While a paper goes out, the tokens of its masked form may move the cut.
    replays = [engine.sync.replay(SCOPE, row.turn_id) for row in turns[2 * 5 :]]
    engine.sync.close()
    assert len(replays) == 8
    assert not any(replay.equal for replay in replays)
    assert [replay.turn for replay in replays if not replay.same_choice] == []


def test_stretches() -> None:
    assert stretches_of({4, 1, 2, 9, 3}) == [(1, 4), (9, 9)]
    assert stretches_of([]) == []


@pytest.mark.parametrize("tokens", [660, 840, 900])
def test_each_field_that_a_note_names_is_in_the_report(engine: ContextEngine, tokens: int) -> None:
    """Also where neither source of it went out: the note has its values."""
    ward = Ward(engine, tokens)
    papers = {
        "patient_record": {"patient_id": "P-1", "weight_kg": 31.2, "owner": "Harrow " * 40},
        "ward_chart": {"patient_id": "P-1", "weight_kg": 28.6, "dose_mg": 75, "ward": "box " * 40},
        "prescription": {"patient_id": "P-1", "dose_mg": 50},
    }
    for tool, paper in papers.items():
        ward.look_up(f"What does the {tool} of P-1 say?", tool, json.dumps(paper), "Noted.")
        small_talk(ward, 3)
    small_talk(ward, 8)
    for word in ("dose_mg", "weight_kg", "dose_mg and weight_kg", "prescription", "ward_chart"):
        ward.ask(f"What is the {word} of P-1, by all papers?", "They differ.")
        small_talk(ward, 3)
    _, turns = ward.stored()
    named = 0
    for text, row in zip(ward.inputs, turns, strict=True):
        note = text.partition("Sources disagree")[2].partition("[/")[0]
        fields = {
            f"$.{name}"
            for name in ("weight_kg", "dose_mg")
            if f"| {name} (patient_id P-1):" in note
        }
        assert fields == {name for names in noted_fields(row.report).values() for name in names}
        named += len(fields)
    assert named


@pytest.mark.req("A-18")
def test_in_a_team_what_one_agent_had_counts_for_none_of_its_colleagues(
    engine: ContextEngine,
) -> None:
    """Their turns take turns: a stretch from turn 4 to turn 13 tells of those of one lane alone."""
    ward, desk = Ward(engine, 5000), HostApp(engine, SCOPE, [system("You sell.")])
    number = 0
    for tool, paper in (("patient_record", RECORD), ("ward_chart", CHART), ("lab", '{"ALT": 214}')):
        ward.look_up(f"What does the {tool} say?", tool, paper, "Noted.")
        number += 2
        desk.ask(f"Do we have food of kind {number}?", "Yes.", lane_key="desk", config=config(5000))
        number += 1
    both = [n for n, text in enumerate(ward.inputs) if "31.2" in text and "28.6" in text]
    had = [n // 2 * 3 + n % 2 + 1 for n in both]  # two of its turns stand beside one of the desk's
    document, turns = ward.stored()
    [found] = contradictions(document, turns)
    assert found.shared_turns == had == [5, 7, 8]
    record = next(n for n, each in document.evidences.items() if each.content == RECORD)
    where = evidence_whereabouts([record], document, turns)[record]
    assert [fate_in(where, n) for n in range(1, len(turns) + 1)] == [
        *(None, SENT, None),
        *(SENT, SENT, None),
        *(SENT, SENT, None),
    ]
