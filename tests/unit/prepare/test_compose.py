"""The composer is pure, and alone has the order of the sections (E-01, E-03, E-04, E-06)."""

from __future__ import annotations

import inspect

import pytest

from ce_engine.prepare.compose.compose import (
    NO_TEXTS,
    SECTIONS,
    InputTexts,
    PromptMessage,
    compose,
    merge,
    texts_of,
)
from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Layer, Role


CONTEXTS = {
    "knowledge__context": "| K",
    "framework__context": "F",
    "experience__context": "| E",
}
TEXTS = InputTexts("F", "first", "asked")
HISTORY = [
    PromptMessage(index=1, is_said=True),
    PromptMessage(index=2),
    PromptMessage(index=3, is_said=True),
]


@pytest.mark.req("E-06")
def test_it_takes_no_state_and_every_key_ends_in_context() -> None:
    names = set(inspect.signature(compose).parameters)
    assert {"system_prompt", "checkpoint_messages", "contexts", "query"} <= names
    assert not names & {"state", "session", "view", "store"}
    assert all(key.endswith("__context") for key in SECTIONS)
    with pytest.raises(ValueError, match="knowledge"):
        merge({"knowledge": "K"})


@pytest.mark.req("E-03")
def test_the_sections_stand_in_their_fixed_order() -> None:
    everything = {key: key for key in reversed(SECTIONS)}
    assert merge(everything).split("\n") == list(SECTIONS)


@pytest.mark.req("E-03")
def test_rules_alone_are_no_data() -> None:
    texts = texts_of(CONTEXTS, "seed", "en")
    assert texts.rules == "F"
    assert texts.first.splitlines()[1:-1] == ["| E", "| K"]
    assert texts.before_query == ""


@pytest.mark.req("D-05")
def test_placement_cache_puts_what_changes_right_before_the_query() -> None:
    texts = texts_of(CONTEXTS, "cache", "en")
    assert texts.rules == "F"
    assert [text.splitlines()[1:-1] for text in texts[1:]] == [["| E"], ["| K"]]


@pytest.mark.req("E-03")
def test_rules_are_merged_into_the_leading_system_message_and_data_into_what_a_person_said() -> (
    None
):
    plan = compose(system_prompt=[0], checkpoint_messages=HISTORY, contexts=TEXTS, query=3)
    assert plan == [
        Extend(0, "\n\nF"),
        Extend(1, "first\n\n", before=True),
        Keep(2),
        Extend(3, "asked\n\n", before=True),
    ]


def test_without_a_system_message_one_is_inserted_for_rules_alone() -> None:
    plan = compose(system_prompt=[], checkpoint_messages=HISTORY, contexts=TEXTS, query=3)
    assert plan[0] == Insert("F", Layer.RULES)
    plan = compose(
        system_prompt=[], checkpoint_messages=HISTORY, contexts=InputTexts("", "", "asked"), query=3
    )
    assert plan == [Keep(1), Keep(2), Extend(3, "asked\n\n", before=True)]


def test_where_nobody_spoke_data_is_a_message_of_the_users_role() -> None:
    plan = compose(
        system_prompt=[0],
        checkpoint_messages=[PromptMessage(index=1)],
        contexts=TEXTS,
        query=None,
        block_ids=["b"],
    )
    inserted = Insert("first\n\nasked", Layer.RETRIEVED, ("b",), Role.USER)
    assert plan == [Extend(0, "\n\nF"), inserted, Keep(1)]


def test_a_shortened_query_keeps_what_is_put_before_it() -> None:
    pieces = [PromptMessage(index=0, text="short", before="pin\n\n", is_said=True)]
    plan = compose(system_prompt=[], checkpoint_messages=pieces, contexts=TEXTS, query=0)
    assert plan == [Insert("F", Layer.RULES), Shorten(0, "first\n\npin\n\nasked\n\nshort")]


@pytest.mark.req("E-04")
def test_the_query_stands_exactly_once() -> None:
    plan = compose(system_prompt=[0], checkpoint_messages=HISTORY, contexts=TEXTS, query=3)
    assert sum(getattr(step, "index", None) == 3 for step in plan) == 1


def test_stored_messages_are_restored_in_their_place_and_take_data_before_their_text() -> None:
    stored = Message(role=Role.USER, content="earlier")
    pieces = [PromptMessage(message=stored, is_said=True), PromptMessage(index=1, is_said=True)]
    plan = compose(system_prompt=[0], checkpoint_messages=pieces, contexts=NO_TEXTS, query=1)
    assert plan == [Keep(0), Restore(stored), Keep(1)]
    _, first, last = compose(
        system_prompt=[0], checkpoint_messages=pieces, contexts=InputTexts("", "data", ""), query=1
    )
    assert last == Keep(1)
    assert isinstance(first, Restore)
    assert (first.message.content, first.before) == ("data\n\nearlier", "data\n\n")
