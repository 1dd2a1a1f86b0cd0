"""What a question quotes is found where it stands word for word."""

from __future__ import annotations

import pytest

from ce_engine.text.relevance.quoted_phrases import QUOTED, gain, quotes


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ('Which file said "Connection reset by peer"?', ["connection reset by peer"]),
        ("谁说过“港口大门天亮时开”和「灯塔」？", ["港口大门天亮时开", "灯塔"]),
        ("What does `azure-core` need?", ["azure-core"]),
        ('It is 5" long, and 6" wide', ["long, and 6"]),
        ('"a" is too short, "" empty', []),
        ("nothing", []),
    ],
)
def test_what_a_question_quotes(query: str, quoted: list[str]) -> None:
    assert quotes(query) == quoted


def test_a_text_gains_by_what_it_says_word_for_word() -> None:
    said = quotes('"Microsoft Azure Core Library" or "another one"')
    assert gain(said, "azure-core: Microsoft Azure Core Library for Python") == QUOTED / 2
    assert gain(said, "Microsoft Azure Identity, a Core Library") == 0
    assert gain([], "anything") == 0
