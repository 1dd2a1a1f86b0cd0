"""The composer is pure, and alone has the order of the sections (E-01, E-03, E-04, E-06)."""

from __future__ import annotations

import inspect

import pytest

from ce_engine.prepare.compose import SECTIONS, Piece, compose, merge
from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Layer, Role


CONTEXTS = {"knowledge__context": "K", "framework__context": "F"}
HISTORY = [Piece(index=1), Piece(index=2), Piece(index=3)]


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
    assert merge(everything).split("\n\n") == list(SECTIONS)


@pytest.mark.req("E-03")
def test_contexts_are_merged_into_the_leading_system_message() -> None:
    plan = compose(system_prompt=[0], checkpoint_messages=HISTORY, contexts=CONTEXTS, query=3)
    assert plan == [Extend(0, "\n\nF\n\nK"), Keep(1), Keep(2), Keep(3)]


def test_without_a_system_message_one_is_inserted() -> None:
    plan = compose(
        system_prompt=[], checkpoint_messages=HISTORY, contexts=CONTEXTS, query=3, block_ids=["b"]
    )
    assert plan[0] == Insert("F\n\nK", Layer.RETRIEVED, ("b",))


@pytest.mark.req("D-05")
def test_placement_cache_puts_what_changes_right_before_the_query() -> None:
    plan = compose(
        system_prompt=[0],
        checkpoint_messages=HISTORY,
        contexts=CONTEXTS,
        query=3,
        placement="cache",
    )
    assert plan == [Extend(0, "\n\nF"), Keep(1), Keep(2), Extend(3, "K\n\n", before=True)]


def test_a_shortened_query_keeps_what_is_put_before_it() -> None:
    plan = compose(
        system_prompt=[],
        checkpoint_messages=[Piece(index=0, text="short")],
        contexts=CONTEXTS,
        query=0,
        placement="cache",
    )
    assert plan == [Insert("F", Layer.RETRIEVED), Shorten(0, "K\n\nshort")]


@pytest.mark.req("E-04")
def test_the_query_stands_exactly_once() -> None:
    for placement in ("seed", "cache"):
        plan = compose(
            system_prompt=[0],
            checkpoint_messages=HISTORY,
            contexts=CONTEXTS,
            query=3,
            placement=placement,
        )
        assert sum(getattr(step, "index", None) == 3 for step in plan) == 1


def test_stored_messages_are_restored_in_their_place() -> None:
    stored = Message(role=Role.USER, content="earlier")
    plan = compose(
        system_prompt=[0],
        checkpoint_messages=[Piece(message=stored), Piece(index=1)],
        contexts={},
        query=1,
    )
    assert plan == [Keep(0), Restore(stored), Keep(1)]
