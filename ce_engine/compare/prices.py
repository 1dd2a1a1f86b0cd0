"""What models cost, from a table that the user gives; where it has no price there is none."""

from __future__ import annotations

import json
import tomllib
from fnmatch import fnmatchcase
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ce_engine.compare.records import CallRecord
from ce_engine.errors import ConfigError


EXAMPLE = 'currency = "USD"  per = 1000000  [models."gpt-4o-mini*"]  input = 0.15  cached = 0.075  output = 0.6'


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


class PriceTable(BaseModel):
    """Prices by the names of models; a name may be a pattern (`gpt-4o-mini*`), the first that fits counts."""

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

    def of(self, model: str) -> ModelPrice | None:
        """The price of this model, by its own name or the first pattern that fits."""
        exact = self.models.get(model)
        if exact is not None:
            return exact
        fits = (price for name, price in self.models.items() if fnmatchcase(model, name))
        return next(fits, None)

    def cost(self, call: CallRecord) -> float | None:
        """What the call cost; `None` without a price of its model.

        The provider's figures count where it told them; else our count of what was sent, and the
        prefix that it could cache. A call that failed, and of which no usage was told, cost nothing.
        """
        if call.from_cache or (call.status == "failed" and call.prompt is None):
            return 0.0
        price = self.of(call.model)
        if price is None:
            return None
        prompt = call.sent if call.prompt is None else call.prompt
        cached = min(cached_tokens(call), prompt)
        if cached < price.cached_from or price.cached is None:
            cached = 0
        paid = (prompt - cached) * price.input + call.completion * price.output
        return (paid + cached * (price.cached or 0.0)) / self.per


def cached_tokens(call: CallRecord) -> int:
    """Tokens of the input that were cached as the provider told, else that could be."""
    if call.cached is not None:
        return call.cached
    if not call.prefix or not call.sent:
        return 0
    # Our count is an upper bound; the provider's prompt shrinks the prefix with it.
    return call.prefix if call.prompt is None else round(call.prefix * call.prompt / call.sent)


def _why(error: ValidationError) -> str:
    told = (
        f"{'.'.join(map(str, each['loc'])) or '(all)'}: {each['msg']}" for each in error.errors()
    )
    return "; ".join(told)
