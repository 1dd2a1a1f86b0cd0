"""Numbers, ids and codes that a question names are found where they stand as words."""

from __future__ import annotations

import pytest

from ce_engine.text.relevance.exact_names import exact_names, says


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("When is invoice 4711 due?", ["4711"]),
        ("发票4711何时到期，TCK-12呢？", ["4711", "tck-12"]),
        ("Is HAT001 the flight of 2026-05-20, or HAT001?", ["hat001", "2026-05-20"]),
        ("Take 2 of the 30 mugs, 5 % off.", []),
        ("Nothing in it.", []),
        (" ".join(map(str, range(100, 200))), []),
    ],
)
def test_what_a_question_names(query: str, names: list[str]) -> None:
    assert exact_names(query) == names


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("Invoice 4711.", True),
        ("our ticket is TCK-4711", True),
        ("票4711到期", True),
        ("14711 or 47110", False),
        ("a4711", False),
    ],
)
def test_a_name_stands_as_a_word(text: str, is_there: bool) -> None:
    assert says("4711")(text) is is_there
    assert says("TCK-4711".lower())("the TCK-4711, and so on")
