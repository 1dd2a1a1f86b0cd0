"""What counts as a quote, in words, numbers and characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine.text.overlap import Words, quotes


REFUNDS = (
    "Opened items may be returned within 30 days of delivery, with the receipt. Refunds are paid "
    "to the card that was used, within five working days."
)


def is_quoted(answer: str, evidence: str, asked: str = "") -> bool:
    return quotes(Words.of(answer), Words.of(evidence), Words.of(asked))


@pytest.mark.parametrize(
    ("answer", "evidence", "asked"),
    [
        ("You may return it within 30 days of delivery.", REFUNDS, "Can I return it?"),
        ("Refunds\nare   PAID to the card", REFUNDS, "How?"),
        ("Water that falls from clouds.", "Rain is water that falls from clouds.", "What is rain?"),
        ("现在 4 度。", "4 度", "奥斯陆天气如何?"),
        ("王小明。", "北区仓库的负责人是王小明。", "北区仓库由谁负责？"),
        (
            "北区仓库的负责人是王小明，有事请找他。",
            "资料：北区仓库的负责人是王小明。",
            "由谁负责？",
        ),
        ("12 lamps.", '{"item": "lamp", "in_stock": 12}', "How many lamps?"),
        ("It was 7,391 units.", f"{REFUNDS} Order 7391.", "How many?"),
        ("We run pydantic 2.14.3 there.", f"{REFUNDS} pydantic 2.14.3", "Which pydantic?"),
        ("Noon.", "noon", "What time is it?"),
        ("Oslo", "The capital of Norway is Oslo.", "What is the capital of Norway?"),
        ("１２３４５件", f"{REFUNDS} 12345", "多少?"),
    ],
)
def test_what_stands_in_both_is_a_quote(answer: str, evidence: str, asked: str) -> None:
    assert is_quoted(answer, evidence, asked)


@pytest.mark.parametrize(
    ("answer", "evidence", "asked"),
    [
        ("I do not know.", REFUNDS, "Can I return it?"),
        ("Our shop is closed today.", REFUNDS, "Is it open?"),
        ("It is one of the most used, and it is as it was.", f"{REFUNDS} It is as it was.", ""),
        # Only the question's words again.
        (
            "The billing service of the payments team has no owner.",
            "The billing service of the payments team was written in 2019.",
            "Who owns the billing service of the payments team?",
        ),
        ("关于北区仓库，我不知道。", "北区仓库在奥斯陆。", "北区仓库由谁负责？"),
        ("You have 3 days.", REFUNDS.replace("30", "3 or 30"), "How long?"),
        ("It was in 2026.", f"{REFUNDS} Printed in 2026.", "When?"),
        ("Yes.", "Yes, we can.", "Can we?"),
        ("130 days", REFUNDS, "?"),
        ("", REFUNDS, ""),
        ("Something", "", ""),
        ("0A0A0A¼A0A0", "0A0A0A¼A0A0", "0A0A0A¼A0A0"),
    ],
)
def test_what_only_sounds_alike_is_none(answer: str, evidence: str, asked: str) -> None:
    assert not is_quoted(answer, evidence, asked)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_judged(answer: str, evidence: str, asked: str) -> None:
    assert is_quoted(answer, evidence, asked) in {True, False}
    assert not is_quoted(answer, evidence, answer)  # what the question said is no news
