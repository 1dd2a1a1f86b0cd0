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


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ("It is 2026-06-05.", '{"order": 7, "promised": "2026-06-05T10:00:00Z"}'),
        ("It is promised for 5 June 2026.", f"{REFUNDS} Promised: 2026-06-05."),
        ("It is promised for June 5th, 2026.", f"{REFUNDS} Promised: 05.06.2026"),
        ("It comes on the 5th of June.", f"{REFUNDS} Promised: 2026/6/5."),
        ("订单6月5日发货。", f'{REFUNDS} "promised_date": "2026-06-05"'),
        ("订单2026年6月5日发货。", f'{REFUNDS} "promised_date": "2026-06-05"'),
        ("It comes on 2026-06-05.", f"{REFUNDS} 订单 6 月 5 号发货。"),
        ("订单６月５日发货", f"{REFUNDS}发货日为6月5日"),
        ("Take gate code KX-7731.", f"{REFUNDS} Gate: KX‑7731"),
        ("It comes to 1,282.50 euros.", f"{REFUNDS} Total 1282.50"),
    ],
)
def test_a_whole_date_or_code_is_a_quote(answer: str, evidence: str) -> None:
    assert is_quoted(answer, evidence, "What of it?")


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ("It is 2026-06-05.", f"{REFUNDS} Promised: 2026-06-04, packed."),
        ("It is 2026-06-05.", f"{REFUNDS} Promised: 2025-06-05, packed."),
        ("It is 2026-06-05.", f"{REFUNDS} It was in 2026-06, packed."),
        ("It is 5 June 2026.", f"{REFUNDS} Promised: 5 July 2026, packed."),
        ("订单6月5日发货。", f'{REFUNDS} "promised_date": "2026-06-15"'),
        ("订单2026年6月5日发货。", f"{REFUNDS} 订单2026年6月4日到货。"),
        ("订单2026年6月5日发货。", f"{REFUNDS} 2025年6月5日"),
        ("Take gate code KX-7731.", f"{REFUNDS} Gate: KB-7731"),
        ("Take gate code KX-7731.", f"{REFUNDS} Room 7731"),
        ("Ring 555-17311.", f"{REFUNDS} Ring 556-17311"),
        ("It comes to 1,282.50 euros.", f"{REFUNDS} Total 1282.51"),
        ("It costs 2370.17.", f"{REFUNDS} It weighs 12370.17"),
    ],
)
def test_half_a_date_or_code_is_none(answer: str, evidence: str) -> None:
    assert not is_quoted(answer, evidence, "What of it?")


def test_a_date_of_the_question_is_no_news_in_another_form() -> None:
    evidence = f"{REFUNDS} Promised: 2026-06-05."
    assert not is_quoted("6月5日没有货。", evidence, "2026-06-05 有货吗？")
    assert not is_quoted("Nothing on 2026-06-05.", evidence, "What comes on June 5?")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_judged(answer: str, evidence: str, asked: str) -> None:
    assert is_quoted(answer, evidence, asked) in {True, False}
    assert not is_quoted(answer, evidence, answer)  # what the question said is no news


def test_numbers_joined_by_hyphens_are_one_word_where_they_end() -> None:
    text = "on -2026-06-05, at 12-15 of 7-8-, Q-204 and 1-2-3-"
    assert [*Words.of(text).all] == (
        ["on", "2026-06-05", "at", "12-15", "of", "7", "8", "q-204", "and", "1", "2", "3"]
    )
