"""Limits and shares (A-17, D-02)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine.config import BudgetConfig, RuntimeConfig
from ce_engine.prepare.choose.budget import limit, shares
from ce_engine.schema.enums import Layer


@pytest.mark.req("A-17")
def test_the_budget_is_the_window_minus_the_reply() -> None:
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=2000, reserved_reply_tokens=300))
    assert limit(config, 128_000).tokens == 1700


def test_the_default_does_not_count_as_given() -> None:
    assert limit(RuntimeConfig(), 128_000).tokens == 128_000 - 1024
    unknown = limit(RuntimeConfig(), None)
    assert unknown.tokens is None
    assert unknown.inject == 8192 - 1024
    only_reserve = RuntimeConfig(budget=BudgetConfig(reserved_reply_tokens=10))
    assert limit(only_reserve, None).tokens is None


def test_a_small_window_reserves_a_quarter_unless_told() -> None:
    assert BudgetConfig(max_input_tokens=300).max_context_tokens == 225


@pytest.mark.req("D-02")
def test_all_fits_and_each_layer_gets_what_it_wants() -> None:
    wanted = {Layer.RETRIEVED: 100, Layer.IMMEDIATE: 200}
    assert shares(1000, BudgetConfig(), wanted) == wanted


@pytest.mark.req("D-02")
def test_over_the_room_minima_bind_and_the_rest_is_shared() -> None:
    wanted = {Layer.RULES: 100, Layer.RETRIEVED: 5000, Layer.IMMEDIATE: 5000}
    given_ = shares(6000, BudgetConfig(), wanted)
    assert given_[Layer.RULES] == 100
    assert given_[Layer.IMMEDIATE] >= 3000
    assert given_[Layer.RETRIEVED] >= 1500
    assert sum(given_.values()) <= 6000


@pytest.mark.req("D-02")
def test_minima_that_no_room_holds_do_not_bind() -> None:
    wanted = {Layer.RETRIEVED: 5000, Layer.IMMEDIATE: 5000}
    assert shares(600, BudgetConfig(), wanted) == {Layer.RETRIEVED: 200, Layer.IMMEDIATE: 400}


@given(
    room=st.integers(-500, 20_000),
    wanted=st.dictionaries(st.sampled_from(Layer), st.integers(0, 20_000)),
)
def test_shares_never_exceed_the_room_nor_what_is_wanted(
    room: int, wanted: dict[Layer, int]
) -> None:
    found = shares(room, BudgetConfig(), wanted)
    assert sum(found.values()) <= max(0, room)
    assert all(0 <= tokens <= wanted[layer] for layer, tokens in found.items())
