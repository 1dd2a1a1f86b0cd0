"""What models cost: a table of list prices, what a user says instead, and units where nobody knows."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ce_engine.errors import ConfigError
from ce_engine.schema.environment import PRICES
from ce_engine.text.tokens.models import bare_name, is_local


EXAMPLE = 'currency = "USD"  per = 1000000  [models."gpt-4o-mini*"]  input = 0.15  cached = 0.075  output = 0.6'

UNITS = "input tokens"
"""The currency where no price is known: what so many input tokens cost at full price."""


class ModelPrice(BaseModel):
    """A model's prices for `PriceTable.per` tokens.

    Attributes:
        input: of the input.
        output: of the answer.
        cached: of the part of the input that the provider had in its cache; without one that of `input`.
        cached_from: how many tokens a prefix has at least to be cached.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cached_from: int = Field(default=0, ge=0)

    def of_input(self, tokens: int, prefix: int) -> float:
        """What an input costs of which so many leading `tokens` may be cached, times `PriceTable.per`."""
        return self.of_cached(tokens, prefix if prefix >= self.cached_from else 0)

    def of_cached(self, tokens: int, cached: int) -> float:
        """What an input costs of which so many `tokens` were cached, as its provider told, times `PriceTable.per`."""
        cached = 0 if self.cached is None else min(cached, tokens)
        return (tokens - cached) * self.input + cached * (self.cached or 0.0)


class PriceTable(BaseModel):
    """Prices by the names of models; a name may be a pattern (`gpt-4o-mini*`), the first that fits counts.

    With a provider in front (`azure/gpt-4o*`) it is of that provider's calls alone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = Field(default="USD", max_length=12)
    per: int = Field(default=1_000_000, ge=1)
    models: dict[str, ModelPrice] = Field(min_length=1)

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """Read a table from TOML, or from JSON where `name` ends in `.json`.

        Raises:
            ConfigError: it is no price table; says where, and what one looks like.
        """
        try:
            plain: Any = json.loads(text) if name.endswith(".json") else tomllib.loads(text)
            return cls.model_validate(plain)
        except (ValueError, RecursionError) as error:
            why = _why(error) if isinstance(error, ValidationError) else str(error)
            raise ConfigError(f"{name!r} is no price table: {why}. Expected: {EXAMPLE}") from error

    def of(self, model: str, provider: str = "") -> ModelPrice | None:
        """The price of this model, by its own name or the first pattern that fits."""
        for name in ([f"{provider}/{model}"] if provider else []) + [model]:
            exact = self.models.get(name)
            if exact is not None:
                return exact
            fits = (price for pattern, price in self.models.items() if fnmatchcase(name, pattern))
            if (price := next(fits, None)) is not None:
                return price
        return None

    @property
    def is_units(self) -> bool:
        """Whether amounts are no money, but how many input tokens at full price they are."""
        return self.currency == UNITS

    def knows(self, models: Iterable[str]) -> bool:
        """Whether all of these have a price."""
        return all(self.of(model) is not None for model in models)


class ListPrices(PriceTable):
    """The list prices of well-known models; `own_table`, what a user says, goes before."""

    own_table: PriceTable | None = None

    def of(self, model: str, provider: str = "") -> ModelPrice | None:
        """As the user's table has it, else by the bare name, a date behind it left away."""
        own = self.own_table.of(model, provider) if self.own_table is not None else None
        if own is not None:
            return own
        return None if is_local(model) else self.models.get(_DATE.sub("", bare_name(model)))


_DATE = re.compile(r"(?:-(?:\d{4}-?\d\d-?\d\d|\d{4}|latest|v\d+))+$")

RELATIVE = PriceTable(
    currency=UNITS, per=1, models={"*": ModelPrice(input=1, cached=0.1, output=4)}
)
"""Where a price is not known: cached tokens cost a tenth, and an answer's tokens four times the input's."""


class UnitPrices(PriceTable):
    """Units where not all models have a price: each of those that have one is in its own input tokens.

    So what we changed of the cost of a model is the same share in units as in money.
    """

    base: PriceTable

    def of(self, model: str, provider: str = "") -> ModelPrice | None:
        """As the price is that is known, at 1 for an input token; else as nobody knows better."""
        price = self.base.of(model, provider)
        if price is None or not price.input:
            return super().of(model, provider)
        cached = None if price.cached is None else price.cached / price.input
        scaled = {"input": 1.0, "cached": cached, "output": price.output / price.input}
        return price.model_copy(update=scaled)


def in_units(prices: PriceTable) -> PriceTable:
    """Units of an input token, for models of which not all have a price."""
    if prices.is_units:
        return prices
    plain = {name: getattr(RELATIVE, name) for name in ("currency", "per", "models")}
    return UnitPrices(**plain, base=prices)


def _listed(input_: float, cached: float, output: float, cached_from: int = 1024) -> ModelPrice:
    return ModelPrice(input=input_, cached=cached, output=output, cached_from=cached_from)


LISTED = ListPrices(
    models={
        "claude-haiku-4-5": _listed(1, 0.1, 5),
        "claude-opus-4-5": _listed(5, 0.5, 25),
        "claude-sonnet-4-5": _listed(3, 0.3, 15),
        "gemini-2.5-flash": _listed(0.3, 0.03, 2.5),
        "gemini-2.5-flash-lite": _listed(0.1, 0.01, 0.4),
        "gemini-2.5-pro": _listed(1.25, 0.125, 10),
        "gpt-4.1": _listed(2, 0.5, 8),
        "gpt-4.1-mini": _listed(0.4, 0.1, 1.6),
        "gpt-4.1-nano": _listed(0.1, 0.025, 0.4),
        "gpt-4o": _listed(2.5, 1.25, 10),
        "gpt-4o-mini": _listed(0.15, 0.075, 0.6),
        "gpt-5": _listed(1.25, 0.125, 10),
        "gpt-5-mini": _listed(0.25, 0.025, 2),
        "gpt-5-nano": _listed(0.05, 0.005, 0.4),
        "gpt-5.1": _listed(1.25, 0.125, 10),
        "gpt-5.2": _listed(1.75, 0.175, 14),
        "o1": _listed(15, 7.5, 60),
        "o3": _listed(2, 0.5, 8),
        "o3-mini": _listed(1.1, 0.55, 4.4),
        "o4-mini": _listed(1.1, 0.275, 4.4),
    }
)
"""US dollars a million tokens, as providers listed them for pay-as-you-go when this was written: they change."""


def over_the_list(table: PriceTable) -> PriceTable:
    """A user's table before the listed prices; one in other money or for other amounts stands alone."""
    same = (table.currency, table.per) == (LISTED.currency, LISTED.per)
    return LISTED.model_copy(update={"own_table": table}) if same else table


def prices_here() -> PriceTable:
    """The listed prices, behind those of the table that `CE_PRICES` names.

    Raises:
        ConfigError: it names what cannot be read, or is no price table.
    """
    path = os.environ.get(PRICES, "")
    return _read(path) if path else LISTED


@lru_cache(maxsize=1)
def _read(path: str) -> PriceTable:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{PRICES} names {path!r}, which cannot be read ({error}). Give a table in TOML or JSON, or "
            "unset it."
        ) from error
    return over_the_list(PriceTable.parse(text, path))


def _why(error: ValidationError) -> str:
    messages = (
        f"{'.'.join(map(str, detail['loc'])) or '(all)'}: {detail['msg']}"
        for detail in error.errors()
    )
    return "; ".join(messages)
