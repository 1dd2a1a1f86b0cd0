"""Compact JSON says what the JSON said: whoever reads the header can write the original again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine.prepare.tool_results.json_form import (
    COLUMNS,
    EVERY,
    ROWS,
    changed,
    compact,
    read,
    write,
)


def expanded(value: Any) -> Any:
    """The value that a compact one stands for."""
    if isinstance(value, list):
        return [expanded(each) for each in value]
    if not isinstance(value, dict):
        return value
    if COLUMNS in value and ROWS in value:
        return [_row(value, row) for row in value[ROWS]]
    return {name: expanded(each) for name, each in value.items()}


def _row(table: dict[str, Any], row: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    fields = {**table.get(EVERY, {}), **dict(zip(table[COLUMNS], row, strict=True))}
    for path, value in fields.items():
        *above, name = path.split(".")
        at = made
        for part in above:
            at = at.setdefault(part, {})
        at[name] = expanded(value)
    return made


SEATS = [
    {"flight": "HAT069", "from": "JFK", "seats": {"eco": 12, "biz": 3}, "price": 1.10},
    {"flight": "HAT083", "from": "JFK", "seats": {"eco": 7, "biz": 3}, "price": 2.0},
]


def test_alike_objects_stand_under_one_header() -> None:
    made = compact(SEATS)
    assert made is not None
    assert json.loads(made) == {
        "every": {"from": "JFK", "seats.biz": 3},
        "columns": ["flight", "seats.eco", "price"],
        "rows": [["HAT069", 12, 1.1], ["HAT083", 7, 2.0]],
    }
    assert expanded(json.loads(made)) == SEATS


def test_lists_of_alike_objects_stand_under_one_header() -> None:
    made = compact([SEATS, SEATS[::-1]])
    assert made is not None
    assert json.loads(made)["rows"] == [
        [["HAT069", 12, 1.1], ["HAT083", 7, 2.0]],
        [["HAT083", 7, 2.0], ["HAT069", 12, 1.1]],
    ]


@pytest.mark.parametrize(
    "number", ["1.10", "1e5", "-0.0", "12345678901234567890", "0.1000", "NaN", "-Infinity"]
)
def test_numbers_stay_as_they_are_written(number: str) -> None:
    assert compact(read(f'{{ "price": {number} }}')) == f'{{"price":{number}}}'


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": "\\u0000x"}',
        "12",
        '"text"',
        "{not json}",
        "[1, 2",
        "",
        "[" * 100_000,
    ],
)
def test_what_is_ambiguous_or_no_json_is_left(text: str) -> None:
    assert read(text) is None


def test_half_a_character_cannot_be_sent_and_is_left() -> None:
    assert compact(read('{"a": "\\ud800"}')) is None
    assert compact(read('{"a": "\\ud83d\\ude00 \\u8f66"}')) == '{"a":"😀 车"}'


def test_an_object_that_looks_like_ours_is_not_made_into_rows() -> None:
    value = [{"columns": ["a"], "rows": [[1]]}, {"columns": ["a"], "rows": [[2]]}]
    assert compact(value) == write(value)


def test_what_is_true_is_not_one_inside_others_neither() -> None:
    rows = [
        {"user": f"u{n}", "rights": {"a": [1, 0] if n == 0 else [True, False]}} for n in range(4)
    ]
    assert (compact(read(json.dumps(rows))) or "").count("[true,false]") == 3
    old = read('{"id":"7","flags":[1,{"x":0}]}')
    new = read('{"id":"7","flags":[true,{"x":0}]}')
    assert changed(old, new) == ({"flags": [True, {"x": 0}]}, [])
    assert changed(new, new) == ({}, [])


def test_of_a_known_object_only_what_changed() -> None:
    old = {"id": "R1", "cabin": "eco", "fees": {"bags": 1, "seat": 2}, "old": 1, "list": [1]}
    new = {"id": "R1", "cabin": "biz", "fees": {"bags": 1}, "list": [1, 2], "ok": True}
    assert changed(old, new) == (
        {"cabin": "biz", "list": [1, 2], "ok": True},
        ["old", "fees.seat"],
    )
    assert changed({"n": 1}, {"n": True}) == ({"n": True}, [])
    assert changed(new, new) == ({}, [])


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
NAMES = st.sampled_from(["id", "名", "seats", "a b", "x"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=24,
)


@given(st.dictionaries(NAMES, VALUES, max_size=5) | st.lists(VALUES, max_size=5))
def test_nothing_that_a_result_says_is_lost(value: Any) -> None:
    text = json.dumps(value)
    made = compact(read(text)) if read(text) is not None else None
    if made is None:
        return
    assert len(made) <= len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    for leaf in _leaves(value):
        assert json.dumps(leaf, ensure_ascii=False) in made


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


ROW = st.fixed_dictionaries(
    {
        "id": st.integers(),
        "名": st.text(max_size=5),
        "seats": st.fixed_dictionaries({"eco": SCALARS}),
    }
)


@given(st.lists(ROW, min_size=2, max_size=5))
def test_rows_can_be_written_out_again(value: list[dict[str, Any]]) -> None:
    known = read(json.dumps(value))
    if known is not None and (made := compact(known)) is not None:
        assert expanded(json.loads(made)) == value


@given(VALUES, VALUES)
def test_old_and_changes_make_the_new(one: Any, two: Any) -> None:
    old, new = {"v": one, "k": 1}, {"v": two, "k": 1}
    other, gone = changed(old, new)
    assert _applied(old, other, gone, "") == new


def _applied(
    old: dict[str, Any], other: dict[str, Any], gone: list[str], at: str
) -> dict[str, Any]:
    left = {name: each for name, each in old.items() if f"{at}{name}" not in gone}
    for name in left | other:
        known, value = left.get(name), other.get(name, {})
        if isinstance(known, dict) and isinstance(value, dict):
            left[name] = _applied(known, value, gone, f"{at}{name}.")
        elif name in other:
            left[name] = value
    return left
