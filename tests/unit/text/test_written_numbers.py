"""A number is the same however it is written: with commas, in ten thousands, as a date with or without its year."""

from __future__ import annotations

import pytest

from ce_engine.text.written_numbers import number_forms, written_numbers


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("5.00", '{"price": 5}'),
        ("12 mg", "12.0 mg"),
        ("1,184.30", "1184.3"),
        ("1.184,30", "1184.30"),
        ("1 184.30", "1184.30"),
        ("30 000", "30000"),
        ("381,55", "381.55"),
        ("10万元", "100000"),
        ("100000", "共10万元"),
        ("1.5万", "15,000"),
        ("2亿", "200000000"),
        ("１２３", "123"),
        ("241元", "计算得241"),
        ("CP2207", "CP-2207"),
        ("cp-2207", "Batch CP-2207."),
        ("9:30", "2026-05-14T09:30:00Z"),
        ("09:30", "9:30"),
        ("15 May", "2026-05-15"),
        ("1月25日", "2026-01-25"),
        ("2026-05-15", "on 15 May"),
        ("14/05/2026", "2026-05-14"),
        ("May 2026", "2026-05-14"),
        ("12–15 May", "from 2026-05-12 to 2026-05-15"),
        ("8-10 days", "8, 9 or 10"),
        ("3 214", "3 and 214"),
        ("1234", "[1,234]"),
        ("234", "[1,234]"),
    ],
)
def test_one_number_in_two_ways(answer: str, source: str) -> None:
    forms = number_forms(source)
    found = written_numbers(answer)
    assert found
    assert [each.text for each in found if not each.stands_in(forms)] == []


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("241", "214"),
        ("31.80", "34.20"),
        ("1815.70", "3000 less 1184.30"),
        ("15 May", "2026-05-16"),
        ("CP-2208", "CP-2207"),
        ("9:30", "9:03"),
        ("12-16", "12 and 15"),
        ("15万", "15000"),
        ("123456789012345678901234567890123", "123456789012345678901234567890124"),
    ],
)
def test_another_number(answer: str, source: str) -> None:
    forms = number_forms(source)
    assert not any(each.stands_in(forms) for each in written_numbers(answer))


def test_numbers_are_told_as_they_are_written_and_those_of_a_list_are_none() -> None:
    text = "1. Rex: 1,184.30 on 15 May\n10. Ten: 第3轮 CT47"
    assert [each.text for each in written_numbers(text)] == ["1,184.30", "15 May", "3", "CT47"]
    assert [each.digits for each in written_numbers(text)] == [6, 2, 1, 2]
