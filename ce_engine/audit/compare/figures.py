"""The figures of a group of calls."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ce_engine.audit.compare.costs import (
    billed,
    cacheable,
    costs,
    is_apart,
    is_dearer,
    is_free,
    priced_by,
    unpriced_models,
)
from ce_engine.audit.compare.records import OWN, CallRecord, grouping
from ce_engine.schema.enums import TurnStatus
from ce_engine.text.tokens.prices import RELATIVE, PriceTable, prices_here


UNFINISHED = (TurnStatus.OPEN, TurnStatus.INCOMPLETE, TurnStatus.ABANDONED)
"""Calls without a whole answer that did not fail: left, cancelled, or of a process that is gone."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What half of the values are at most, and 95 of 100; `n` of them were told."""

    p50: int
    p95: int
    n: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a group cost. `unpriced` calls are not in `amount`: their models have no price."""

    amount: float
    unpriced: int = 0
    unpriced_models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """What inputs cost, by our own count, and the calls of the engine's own; and without us.

    Attributes:
        sent: of the calls of which can be said what they would have cost without us, and of our own.
        untouched: the same without us.
        calls: of which that can be said.
        own: what the engine's own calls cost, a part of `sent`.
        answers: what came back to the app, which costs the same without us.
        apart: calls with nothing to stand beside.
        apart_sent: what their inputs cost, no part of `sent`.
        dearer: calls that became dearer than without us.
    """

    sent: float
    untouched: float
    calls: int
    own: float = 0.0
    answers: float = 0.0
    apart: int = 0
    apart_sent: float = 0.0
    dearer: int = 0

    @property
    def inputs(self) -> float:
        """What all inputs cost, and our own calls."""
        return self.sent + self.apart_sent

    @property
    def without(self) -> float:
        """What they would have cost without us; calls that stand beside nothing count alike in both."""
        return self.untouched + self.apart_sent

    @property
    def saved(self) -> float:
        """How much less it cost than without us; below 0 how much more."""
        return self.untouched - self.sent

    @property
    def is_dearer(self) -> bool:
        """Whether all of it together became dearer than without us."""
        return is_dearer(self.inputs, self.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a group; tokens by our count, but for those that the provider tells.

    `own` of the `calls` were the engine's. `tokens_before` is what would have gone out without us, and `tokens_apart` a part of
    `tokens_sent` of which that cannot be said. `cached_prefix` is a part of `tokens_sent`,
    and `cacheable` the part of it that stands in prefixes as long as their models cache. `usage_told` counts the calls whose provider told its
    tokens, `cached_untold` those of which it did not tell what it had cached, and `failed_untold` those that failed without any: they cost nothing. `went_wrong` and `pruned` count calls, each once, `left_out` and `shortened` messages, `evidence_used` and `redactions`
    different pieces. `counters` are what counted the tokens.
    """

    calls: int
    own: int
    sessions: int
    failed: int
    went_wrong: int
    unfinished: int
    retries: int
    from_cache: int
    tokens_sent: int
    tokens_before: int
    tokens_apart: int
    cached_prefix: int
    cacheable: int
    prompt_tokens: int
    completion_tokens: int
    provider_cached: int | None
    usage_told: int
    cached_untold: int
    failed_untold: int
    cost: Cost | None
    beside: EngineCosts
    latency_ms: Spread | None
    first_token_ms: Spread | None
    pruned: int
    left_out: int
    shortened: int
    over_budget: int
    tool_calls: int
    tool_errors: int
    evidence_used: int
    redactions: int
    degradations: int
    degradation_codes: dict[str, int] = field(default_factory=dict)
    counters: tuple[str, ...] = ()

    @property
    def tokens_without(self) -> int:
        """What would have gone out without us; calls that stand beside nothing count alike in both."""
        return self.tokens_before + self.tokens_apart

    @property
    def tokens_saved(self) -> int:
        """Fewer tokens than without us; negative where more was brought in than left out."""
        return self.tokens_without - self.tokens_sent

    def as_json(self) -> dict[str, Any]:
        """All of them as plain data."""
        return {**asdict(self), "tokens_saved": self.tokens_saved}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Groups of calls by name, and all of them together; `by` says what the names are.

    `table` is what `Figures.beside` is counted by: money where all models have a price, else units of an input token.
    `unpriced` are the models without one.
    """

    by: str
    groups: dict[str, Figures]
    total: Figures
    prices: PriceTable | None
    table: PriceTable
    unpriced: tuple[str, ...]
    first_at: str
    last_at: str

    @property
    def unit(self) -> str:
        """What `Figures.beside` is in."""
        return self.table.currency


def compare(
    calls: Sequence[CallRecord], by: str = "framework", prices: PriceTable | None = None
) -> Comparison:
    """Group the calls and sum each group up; names in order, calls without one last.

    Without `prices` those that are known here count, where there is one of any of the models.

    Raises:
        ConfigError: nothing is grouped by `by`.
    """
    name_of = grouping(by)
    groups: dict[str, list[CallRecord]] = {}
    for call in calls:
        groups.setdefault(name_of(call), []).append(call)
    names = sorted(groups, key=lambda name: (not name, name))
    times = [call.at for call in calls if call.at]
    if prices is None:
        listed = prices_here()
        prices = listed if any(listed.of(call.model, call.provider) for call in calls) else None
    table = priced_by(calls, prices or RELATIVE)
    return Comparison(
        by,
        {name: figures(groups[name], table, prices) for name in names},
        figures(calls, table, prices),
        prices,
        table,
        unpriced_models(calls, prices or prices_here()),
        min(times, default=""),
        max(times, default=""),
    )


def figures(
    calls: Sequence[CallRecord], table: PriceTable, prices: PriceTable | None = None
) -> Figures:
    """Sum the calls up: what was billed by the user's `prices`, and what we changed by a `table` that has all."""
    paid = [call for call in calls if not call.from_cache]
    codes = Counter(code for call in calls for code in call.degradations)
    return Figures(
        calls=len(calls),
        own=sum(call.agent == OWN for call in calls),
        sessions=len({(call.user, call.session) for call in calls}),
        failed=sum(call.status == TurnStatus.FAILED for call in calls),
        went_wrong=sum(call.went_wrong for call in calls),
        unfinished=sum(call.status in UNFINISHED for call in calls),
        retries=sum(call.attempts - 1 for call in calls),
        from_cache=len(calls) - len(paid),
        tokens_sent=sum(call.sent for call in paid),
        tokens_before=sum(call.untouched or 0 for call in paid),
        tokens_apart=sum(call.sent for call in paid if is_apart(call)),
        cached_prefix=sum(min(call.prefix or 0, call.sent) for call in paid),
        cacheable=sum(cacheable(call, table) for call in paid),
        prompt_tokens=sum(call.prompt or 0 for call in paid),
        completion_tokens=sum(call.completion for call in paid),
        **_provider_figures(paid),
        cost=_cost(paid, prices) if prices else None,
        beside=_beside(calls, table),
        latency_ms=_spread(call.latency_ms for call in paid),
        first_token_ms=_spread(call.first_token_ms for call in paid),
        pruned=sum(bool(call.left_out or call.shortened) for call in calls),
        left_out=sum(call.left_out for call in calls),
        shortened=sum(call.shortened for call in calls),
        over_budget=sum(call.over_budget for call in calls),
        tool_calls=sum(call.tool_calls for call in calls),
        tool_errors=sum(call.tool_errors for call in calls),
        evidence_used=len({(call.user, call.session, e) for call in calls for e in call.evidence}),
        redactions=len({(call.user, call.session, e) for call in calls for e in call.redacted}),
        degradations=sum(codes.values()),
        degradation_codes=dict(sorted(codes.items())),
        counters=_counters(calls),
    )


def _counters(calls: Iterable[CallRecord]) -> tuple[str, ...]:
    """What counted their tokens."""
    return tuple(sorted({call.counter for call in calls if call.counter}))


def _provider_figures(paid: Sequence[CallRecord]) -> dict[str, Any]:
    """What providers told, and of how many calls."""
    return {
        "provider_cached": _told_cached(paid),
        "usage_told": sum(call.prompt is not None for call in paid),
        "cached_untold": sum(map(_is_cached_untold, paid)),
        "failed_untold": sum(is_free(call) for call in paid),
    }


def _is_cached_untold(call: CallRecord) -> bool:
    """Whether what a call's provider had cached is not known, and may be something."""
    return call.cached is None and bool(call.prefix) and not is_free(call)


def _told_cached(calls: Iterable[CallRecord]) -> int | None:
    """What providers told to have had in their caches; `None` where none told."""
    cached = [call.cached for call in calls if call.cached is not None]
    return sum(cached) if cached else None


def _cost(calls: Sequence[CallRecord], prices: PriceTable) -> Cost:
    bills = [(call.model, billed(call, prices)) for call in calls]
    missing = [model for model, cost in bills if cost is None]
    return Cost(
        math.fsum(cost for _, cost in bills if cost is not None),
        len(missing),
        tuple(sorted(set(missing))),
    )


def _beside(calls: Sequence[CallRecord], table: PriceTable) -> EngineCosts:
    totals = costs(calls, table)
    return EngineCosts(
        sent=totals.compared + totals.own,
        untouched=totals.untouched,
        calls=sum(call.untouched is not None for call in calls),
        own=totals.own,
        answers=totals.answers,
        apart=totals.apart,
        apart_sent=totals.sent - totals.compared,
        dearer=sum(cost.is_dearer for cost in totals.calls),
    )


def _spread(values: Iterable[int | None]) -> Spread | None:
    told_values = sorted(value for value in values if value is not None)
    if not told_values:
        return None
    p50, p95 = (told_values[math.ceil(share * len(told_values)) - 1] for share in (0.5, 0.95))
    return Spread(p50, p95, len(told_values))
