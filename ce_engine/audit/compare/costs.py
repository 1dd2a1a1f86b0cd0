"""What calls cost by a table of prices, beside what they would have cost without us."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ce_engine.audit.compare.records import OWN, CallRecord
from ce_engine.sessions.spending import is_short_prefix
from ce_engine.text.tokens.prices import ModelPrice, PriceTable, in_units


SLIGHT = 0.01
"""A share by which nothing has become dearer: a percentage does not show it."""
_NEAR = 1.1
"""A beginning of up to so many times the least that is cached may be too short, for its tokens are ours in a provider's measure."""


def is_dearer(sent_cost: float, untouched_cost: float | None) -> bool:
    """Whether inputs cost so much more than without us that a percentage shows it: of a call, a session or a group."""
    return untouched_cost is not None and sent_cost - untouched_cost > SLIGHT * untouched_cost


@dataclass(frozen=True, slots=True)
class CallCost:
    """What one call cost, by our own count of its input, and as its provider told to have cached.

    Of a provider that tells nothing of a cache, what begins like the call before is taken to be cached.

    Attributes:
        sent: the input as it went out.
        untouched: the input without us; `None` where nobody can say, and of a call of the engine's own.
        answer: what came back, as the provider told.
        cause: why the input costs more than without us, where it does.
    """

    sent: float = 0.0
    untouched: float | None = None
    answer: float = 0.0
    cause: str = ""

    @property
    def more(self) -> float:
        """How much dearer its input was than without us; below 0 what it saved."""
        return 0.0 if self.untouched is None else self.sent - self.untouched

    @property
    def is_dearer(self) -> bool:
        """Whether the call became dearer than without us."""
        return is_dearer(self.sent, self.untouched)


@dataclass(frozen=True, slots=True)
class Costs:
    """What calls cost together; each figure is the sum of those of the calls.

    Attributes:
        prices: the table that was used.
        calls: what single calls cost, in their order.
        sent: inputs that the app's calls sent.
        compared: those of them of which can be said what they would have been without us.
        untouched: what these would have cost.
        answers: what came back to the app.
        own: calls that the engine made itself.
        losses: what single calls cost more than without us, by cause.
        apart: calls that cannot be compared.
        by_talk: calls that are compared with sending the whole talk.
        estimated: calls whose usage nobody told: their answers are our count.
    """

    prices: PriceTable
    calls: Sequence[CallCost]
    sent: float
    compared: float
    untouched: float
    answers: float
    own: float
    losses: dict[str, float] = field(default_factory=dict)
    apart: int = 0
    by_talk: int = 0
    estimated: int = 0

    @property
    def more(self) -> float:
        """How much dearer it all was than without us; below 0 what was saved."""
        return self.compared + self.own - self.untouched

    @property
    def is_dearer(self) -> bool:
        """Whether all of it together became dearer than without us; calls that stand beside nothing count alike."""
        apart = self.sent - self.compared
        return is_dearer(self.compared + self.own + apart, self.untouched + apart)


def priced_by(calls: Iterable[CallRecord], prices: PriceTable) -> PriceTable:
    """The table, where it has a price for every call; else units of an input token of each call's model."""
    models = {(c.model, c.provider) for c in calls if not is_free(c)}
    return prices if all(prices.of(*names) for names in models) else in_units(prices)


def is_apart(call: CallRecord) -> bool:
    """Whether a call of the app has nothing to stand beside: what it would have been without us, nobody can say."""
    return call.untouched is None and call.agent != OWN


def unpriced_models(calls: Iterable[CallRecord], prices: PriceTable) -> tuple[str, ...]:
    """The models of which the table has no price, by name; `""` of calls that name none."""
    return tuple(
        sorted({c.model for c in calls if not is_free(c) and not prices.of(c.model, c.provider)})
    )


def is_free(call: CallRecord) -> bool:
    """Whether nothing was billed: answered from the app's own cache, or failed without a word on tokens."""
    return call.from_cache or (call.status == "failed" and call.prompt is None)


def costs(calls: Sequence[CallRecord], prices: PriceTable) -> Costs:
    """Sum the calls up, in the table's money where it knows all of their models, else in units."""
    table = priced_by(calls, prices)
    call_costs = [call_cost(call, table) for call in calls]
    app_costs = [(c, cost) for c, cost in zip(calls, call_costs, strict=True) if c.agent != OWN]
    compared = [(c, cost) for c, cost in app_costs if cost.untouched is not None]
    losses: dict[str, list[float]] = {}
    for _, cost in compared:
        if cost.more > 0:
            losses.setdefault(cost.cause, []).append(cost.more)
    own = math.fsum(
        cost.sent + cost.answer for c, cost in zip(calls, call_costs, strict=True) if c.agent == OWN
    )
    sums = {cause: math.fsum(all_) for cause, all_ in losses.items()}
    sums |= {"own_calls": own} if own else {}
    return Costs(
        table,
        call_costs,
        sent=math.fsum(cost.sent for _, cost in app_costs),
        compared=math.fsum(cost.sent for _, cost in compared),
        untouched=math.fsum(cost.untouched or 0.0 for _, cost in compared),
        answers=math.fsum(cost.answer for _, cost in app_costs),
        own=own,
        losses=dict(sorted(sums.items(), key=lambda pair: -pair[1])),
        apart=len(app_costs) - len(compared),
        by_talk=sum(call.beside == "talk" for call, _ in compared),
        estimated=sum(call.estimated for call, _ in app_costs),
    )


def call_cost(call: CallRecord, table: PriceTable) -> CallCost:
    """What one call cost; nothing without a price."""
    price = table.of(call.model, call.provider)
    if is_free(call) or price is None:
        return CallCost(untouched=None if call.untouched is None else 0.0)
    cached, cached_without = _cached(call, price)
    sent_cost = price.of_cached(call.sent, cached) / table.per
    untouched_cost, cause = None, call.cause
    if call.untouched is not None:
        untouched_cost = price.of_cached(call.untouched, cached_without) / table.per
        sent = as_told(call, call.sent), prefix_as_told(call)
        untouched = as_told(call, call.untouched), as_told(call, call.untouched_prefix or 0)
        if is_short_prefix(price, sent, untouched):
            cause = "short_prefix"
    answer_cost = call.completion * price.output / table.per
    return CallCost(sent_cost, untouched_cost, answer_cost, cause)


def _cached(call: CallRecord, price: ModelPrice) -> tuple[int, int]:
    """Tokens of the input that were cached, and of what would have gone out without us, by our own count.

    A provider that had less than what begins alike had forgotten it: it would have without us, too. One that had more had it
    of other calls. So an input that went out as it was costs the same in both.
    """
    prefixes = min(call.prefix or 0, call.sent), call.untouched_prefix or 0
    supposed, without = (
        each if as_told(call, each) >= price.cached_from else 0 for each in prefixes
    )
    if call.cached is None or not call.prompt or not has_usage(call):
        return supposed, without
    cached = min(call.sent, round(call.cached * call.sent / call.prompt))
    if cached < supposed:
        least = _NEAR * price.cached_from
        may_be_short = not cached and as_told(call, supposed) < least <= as_told(call, without)
        return cached, without if may_be_short else round(without * cached / supposed)
    return cached, max(without, cached)


def billed(call: CallRecord, prices: PriceTable) -> float | None:
    """What the provider billed for a call; `None` without a price of its model.

    The provider's figures count where it told them; else our count of what was sent, and the
    prefix that it could cache. A call that failed, and of which no usage was told, cost nothing.
    """
    if is_free(call):
        return 0.0
    price = prices.of(call.model, call.provider)
    if price is None:
        return None
    return (_input_cost(call, price) + call.completion * price.output) / prices.per


def _input_cost(call: CallRecord, price: ModelPrice) -> float:
    """What an input cost, by what its provider told of it, else as it may be."""
    prompt = call.sent if call.prompt is None else call.prompt
    if call.cached is not None:
        return price.of_cached(prompt, call.cached)
    return price.of_input(prompt, cached_tokens(call))


@dataclass(frozen=True, slots=True)
class Bill:
    """What calls cost of which the provider told its tokens: by these, where `CallCost` is by our own count.

    Where nobody told of a cache, what begins like the call before counts as cached, if it is long enough.

    Attributes:
        inputs: what their inputs cost, by call: its place among those that were summed up.
        answers: what came back.
        prompt: tokens of the inputs, as told.
        cached: those of them that were in a provider's cache; `None` where none told of one.
        completion: tokens of the answers.
        sent: tokens of the same inputs, by our own count.
        untold: calls of which nobody told whether anything was cached, and something may have been.
    """

    inputs: dict[int, float]
    answers: float = 0.0
    prompt: int = 0
    cached: int | None = None
    completion: int = 0
    sent: int = 0
    untold: int = 0

    @property
    def amount(self) -> float:
        """All of it together."""
        return math.fsum(self.inputs.values()) + self.answers


def bill_of(calls: Sequence[CallRecord], table: PriceTable) -> Bill:
    """The bill of those of the calls whose provider told its tokens; `table` has a price for all of them."""
    counted = {place: call for place, call in enumerate(calls) if has_usage(call)}
    prices = {place: table.of(call.model, call.provider) for place, call in counted.items()}
    cached = [call.cached for call in counted.values() if call.cached is not None]
    return Bill(
        {n: _input_cost(counted[n], price) / table.per for n, price in prices.items() if price},
        math.fsum(counted[n].completion * p.output for n, p in prices.items() if p) / table.per,
        prompt=sum(call.prompt or 0 for call in counted.values()),
        cached=sum(cached) if cached else None,
        completion=sum(call.completion for call in counted.values()),
        sent=sum(call.sent for call in counted.values()),
        untold=sum(call.cached is None and cached_tokens(call) > 0 for call in counted.values()),
    )


def has_usage(call: CallRecord) -> bool:
    """Whether a call's provider told what it used."""
    return call.prompt is not None and not call.from_cache


def cacheable(call: CallRecord, table: PriceTable) -> int:
    """Leading tokens as in the call before, where they are so many that the call's model may cache them, else 0."""
    price, prefix = table.of(call.model, call.provider), min(call.prefix or 0, call.sent)
    return prefix if price is None or prefix_as_told(call) >= price.cached_from else 0


def prefix_as_told(call: CallRecord) -> int:
    """Leading tokens as in the call before, in the measure of the provider where it told its own."""
    return as_told(call, min(call.prefix or 0, call.sent))


def as_told(call: CallRecord, tokens: int) -> int:
    """Tokens by our own count in the measure of a call's provider, where it told its own."""
    if not (has_usage(call) and call.sent):
        return tokens
    return round(tokens * (call.prompt or 0) / call.sent)


def cached_tokens(call: CallRecord) -> int:
    """Tokens of the input that were cached as the provider told, else that could be."""
    if call.cached is not None:
        return call.cached
    if not call.prefix or not call.sent:
        return 0
    # Our count is an upper bound; the provider's prompt shrinks the prefix with it.
    return call.prefix if call.prompt is None else round(call.prefix * call.prompt / call.sent)
