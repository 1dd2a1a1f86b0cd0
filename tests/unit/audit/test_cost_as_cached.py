"""What an input cost follows what its provider told to have had in its cache, with us and without us alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ce_engine.audit.compare.costs import call_cost
from ce_engine.audit.compare.records import CallRecord
from ce_engine.text.tokens.prices import PriceTable


PRICES = PriceTable.parse(
    'currency = "USD"\nper = 1\n[models."m"]\ninput = 4\ncached = 1\ncached_from = 1000\noutput = 9',
    "x",
)
CALL = CallRecord(
    session="s", model="m", sent=2000, prefix=1200, untouched=5000, untouched_prefix=4000
)
SUPPOSED = (800 * 4 + 1200, 1000 * 4 + 4000)


@pytest.mark.req("D-13")
@pytest.mark.parametrize(
    ("told", "costs"),
    [
        ({}, SUPPOSED),
        ({"prompt": 2000}, SUPPOSED),
        ({"prompt": 2000, "cached": 1200}, SUPPOSED),
        # It had forgotten: it would have without us, too.
        ({"prompt": 2000, "cached": 0}, (2000 * 4, 5000 * 4)),
        ({"prompt": 2000, "cached": 900}, (1100 * 4 + 900, 2000 * 4 + 3000)),
        # By its own count ours is too short for its cache, and the app's own is not.
        ({"prompt": 1600, "cached": 0}, (2000 * 4, 1000 * 4 + 4000)),
        # By its own count ours may be too short for its cache: 1,050 are next to 1,000.
        ({"prompt": 1750, "cached": 0}, (2000 * 4, 1000 * 4 + 4000)),
        ({"prompt": 1750, "cached": 0, "untouched_prefix": 1250}, (2000 * 4, 5000 * 4)),
        # Other calls had sent more of it.
        ({"prompt": 2000, "cached": 1900}, (100 * 4 + 1900, 1000 * 4 + 4000)),
    ],
)
def test_what_a_provider_told_of_its_cache_counts(
    told: dict[str, Any], costs: tuple[int, int]
) -> None:
    cost = call_cost(replace(CALL, **told), PRICES)
    assert (cost.sent, cost.untouched) == costs


@pytest.mark.parametrize("cached", [0, 128, 1200, 1990])
@pytest.mark.parametrize("prompt", [1500, 2000, 2600])
@pytest.mark.parametrize("prefix", [0, 900, 1200, 2000])
def test_an_input_that_went_out_as_it_was_costs_the_same(
    cached: int, prompt: int, prefix: int
) -> None:
    own = replace(CALL, prefix=prefix, untouched=2000, untouched_prefix=prefix)
    call = replace(own, prompt=prompt, cached=cached)
    cost = call_cost(call, PRICES)
    assert cost.sent == cost.untouched


def test_a_prefix_that_only_the_provider_counts_long_enough_is_cached() -> None:
    call = replace(CALL, prefix=900, prompt=2400, cached=1080)
    assert call_cost(call, PRICES).sent == 1100 * 4 + 900


def test_what_begins_like_nothing_and_was_cached_is_believed() -> None:
    """Another lane had sent it."""
    cost = call_cost(replace(CALL, prefix=0, prompt=2000, cached=1500), PRICES)
    assert cost.sent == 500 * 4 + 1500
    assert cost.untouched == 1000 * 4 + 4000
