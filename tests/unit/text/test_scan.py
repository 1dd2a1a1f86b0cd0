"""Searches for numbers in long texts: by windows, so that no other thread waits for long."""

from __future__ import annotations

import pytest

from ce_engine.text.redaction.scan import scan


@pytest.mark.req("A-19")
@pytest.mark.parametrize("number", ["138-0013-8000", "6222021234567890128", "415.555.2671"])
def test_numbers_are_found_wherever_they_stand_in_a_text_of_digits(number: str) -> None:
    """They are read by windows, whose ends fall on every place of a number."""
    for before in range(4000, 4100):
        text = ("7) " * before)[:before] + f" {number}"
        assert [text[span.start : span.end] for span in scan(text)] == [number]
