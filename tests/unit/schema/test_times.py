"""Times that texts give: what has no form in UTC is none."""

from __future__ import annotations

import pytest

from ce_engine.schema.times import iso, parse_time


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-11-23", "2026-11-23T00:00:00.000Z"),
        ("2026-11-23T08:00:00+08:00", "2026-11-23T00:00:00.000Z"),
        ("0001-01-01", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_time_is_stored_in_utc(text: str, stored: str) -> None:
    at = parse_time(text)
    assert at is not None
    assert iso(at) == stored


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-13-01", "2026", "十一月", ""],
)
def test_what_is_no_time_in_utc_is_none(text: str) -> None:
    assert parse_time(text) is None
