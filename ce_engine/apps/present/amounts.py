"""How figures of cost and tokens are said: on every page and by every command the same figure in the same form."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import change, number, percent
from ce_engine.audit.compare.figures import EngineCosts
from ce_engine.text.tokens.prices import LISTED, PriceTable


PLACES = 1
"""Decimals of a share of a sum: two frameworks that differ by less than 1 % are told apart."""


DIGITS, CENTS, MOST_PLACES = 4, 2, 6
"""Digits of the least amount of money that are shown; decimals at least and at most."""


class Tokens(Protocol):
    """The tokens of calls, summed up: of a group, or of a session."""

    @property
    def tokens_sent(self) -> int: ...
    @property
    def tokens_without(self) -> int: ...
    @property
    def tokens_saved(self) -> int: ...
    @property
    def cached_prefix(self) -> int: ...


class Prefixes(Protocol):
    """What begins like the call before, of calls summed up."""

    @property
    def tokens_sent(self) -> int: ...
    @property
    def cached_prefix(self) -> int: ...
    @property
    def cacheable(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Amounts:
    """Writes amounts of one table's money.

    Attributes:
        prices: the table; units where nobody knows a price.
        least: of the amounts that stand together: all have as many places as it needs.
    """

    prices: PriceTable
    least: float = 0.0

    @classmethod
    def of(cls, prices: PriceTable, values: Iterable[float]) -> Amounts:
        return cls(prices, min((value for value in values if value > 0), default=0.0))

    @property
    def places(self) -> int:
        """Decimals of an amount."""
        if self.prices.is_units:
            return 0
        digits = math.floor(math.log10(self.least)) if self.least else 0
        return min(max(CENTS, DIGITS - 1 - digits), MOST_PLACES)

    def rounded(self, value: float) -> float:
        """An amount as it is shown, so that differences of what is shown are right."""
        return round(value, self.places)

    def bare(self, value: float) -> str:
        """An amount without its unit."""
        return f"{value:,.{self.places}f}"

    def text(self, value: float, say: Say = ENGLISH) -> str:
        """An amount with its unit."""
        return f"{self.bare(value)} {self.unit(say)}"

    def unit(self, say: Say = ENGLISH) -> str:
        """What amounts are in, in a word."""
        return say("units") if self.prices.is_units else self.prices.currency

    def source(self, say: Say = ENGLISH) -> str:
        """What amounts are in, and where the prices come from."""
        if self.prices.is_units:
            return say(
                "units, since not all models have a known price: an input token at full price is 1, cached ones and those of "
                "answers as the model's price has them, else 0.1 and 4 (--prices FILE or CE_PRICES gives money)"
            )
        if self.prices is LISTED:
            return say(
                "{currency} at list prices as known to this release (--prices FILE or CE_PRICES for yours)",
                currency=self.prices.currency,
            )
        return say("{currency} by your price table", currency=self.prices.currency)


def model_names(names: Iterable[str], say: Say) -> str:
    """Names of models, and what stands for one that no framework gave."""
    return say(", ").join(name or say("a model that the framework did not name") for name in names)


def saved_share(sums: Tokens) -> str:
    """How many fewer tokens went out than without us, as a share of these; below 0 more."""
    return percent(sums.tokens_saved, sums.tokens_without, PLACES)


def saved_tokens(sums: Tokens) -> str:
    """The tokens that were saved, with their share."""
    return _of(sums.tokens_saved, sums.tokens_without)


def cached_share(sums: Tokens) -> str:
    """How much of what went out begins like the call before."""
    return percent(sums.cached_prefix, sums.tokens_sent, PLACES)


def cached_tokens(sums: Tokens) -> str:
    """The tokens that begin like the call before, with their share."""
    return _of(sums.cached_prefix, sums.tokens_sent)


def cacheable_tokens(sums: Prefixes) -> str:
    """Those of them in prefixes as long as a provider caches, with their share."""
    return _of(sums.cacheable, sums.tokens_sent)


def cached_words(sums: Prefixes, say: Say = ENGLISH) -> str:
    """That so much begins like the call before, and whether a provider may cache it: short prefixes are not cached."""
    if sums.cacheable >= sums.cached_prefix:
        return say("begins like the call before, and may be cached")
    if not sums.cacheable:
        return say("begins like the call before: too few tokens at a time to be cached")
    share = percent(sums.cacheable, sums.cached_prefix, PLACES)
    return say(
        "begins like the call before: {share} of it may be cached, the rest is too few tokens at a time",
        share=share,
    )


def effect(costs: EngineCosts) -> str:
    """How much dearer than without us, or cheaper; a dash where nobody can say."""
    return change(costs.inputs, costs.without, PLACES) if costs.calls else "-"


def saved_amount(costs: EngineCosts, amounts: Amounts) -> str:
    """What was saved of the cost, with its share; below 0 what was lost."""
    if not costs.calls:
        return "-"
    return f"{amounts.bare(costs.saved)} ({percent(costs.saved, costs.without, PLACES)})"


def _of(part: int, whole: int) -> str:
    return f"{number(part)} ({percent(part, whole, PLACES)})" if whole else number(part)


__all__ = [
    "PLACES",
    "Amounts",
    "cacheable_tokens",
    "cached_share",
    "cached_tokens",
    "cached_words",
    "effect",
    "saved_amount",
    "saved_share",
    "saved_tokens",
]
