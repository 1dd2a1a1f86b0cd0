"""The talk of the demo: its facts stand where they are old, and nobody says them again."""

from __future__ import annotations

import pytest

from ce_engine import ConfigError
from ce_integrations.demo.documents import installed_packages
from ce_integrations.demo.turns import FIXED, script


PACKAGES = installed_packages()


def test_the_facts_stand_where_the_issue_wants_them() -> None:
    turns = script(list(PACKAGES.values()), 120)
    assert [turn.number for turn in turns] == list(range(1, 121))
    assert [fact.turn for fact in FIXED] == [3, 20, 50, 80, 110]
    for fact, question in zip(FIXED, turns[115:], strict=True):
        told = turns[fact.turn - 1]
        assert told.surface == question.surface == fact.surface
        assert "`" in told.text
        assert "`" not in question.text, "it would be looked up again"
        if fact.expected != "{version}":
            assert [t.number for t in turns if question.expected in t.text] == [fact.turn]
    assert {turn.surface for turn in turns if turn.number % 4 == 0} >= {"retrieval"}
    assert any("许可证" in turn.text for turn in turns)


def test_what_is_asked_again_was_not_talked_about_lately() -> None:
    turns = script(list(PACKAGES.values()), 120)
    name = turns[109].text.split("`")[1]
    assert not [turn for turn in turns[110:] if f"`{name}`" in turn.text]


@pytest.mark.parametrize("count", [30, 45, 60, 119, 120, 121, 500])
def test_facts_keep_their_places_and_their_age(count: int) -> None:
    turns = script(list(PACKAGES.values()), count)
    assert [turn.number for turn in turns] == list(range(1, count + 1))
    plain, questions = turns[:-5], turns[-5:]
    places = [t.number for q in questions[:-1] for t in plain if q.expected in t.text]
    looked_up = [t.number for t in plain if "installed here, and what does it require" in t.text]
    assert places + looked_up == sorted({*places, *looked_up})
    for place, fact in zip(places + looked_up, FIXED, strict=True):
        assert abs(place / len(plain) - fact.turn / 115) < 0.16
        assert place <= len(plain) - 5


@pytest.mark.parametrize("turns", [0, 29])
def test_too_few_turns_are_refused(turns: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 30 turns.*found {turns}.*--turns 30"):
        script(list(PACKAGES.values()), turns)


def test_too_few_distributions_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs 5; 2 are installed"):
        script(list(PACKAGES.values())[:2], 120)
