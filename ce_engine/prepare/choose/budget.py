"""How many tokens the input may have, and how the layers share them (A-17, D-02)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ce_engine.config import BudgetConfig, RuntimeConfig
from ce_engine.prepare.message_groups import BelowCut, MessageItem
from ce_engine.schema.enums import Layer


@dataclass(frozen=True, slots=True)
class Limit:
    """`tokens` is what messages, tool schemas and response format may cost together; `None` is no limit.

    `inject` bounds what the engine itself brings in where there is no limit.
    """

    tokens: int | None
    inject: int
    source: str


def limit(config: RuntimeConfig, context_window: int | None, *, by_hand: bool = False) -> Limit:
    """The limit of one call (decision 11).

    The budget counts if somebody set it, or if the input is ours to make (`by_hand`); else the model's window minus the reply reserve, where the
    window is known; else there is none, and nothing is pruned.
    """
    budget = config.budget
    if config.budget_is_given or by_hand:
        return Limit(budget.max_context_tokens, budget.max_context_tokens, "config")
    if context_window is not None and context_window > budget.reserved_reply_tokens:
        tokens = context_window - budget.reserved_reply_tokens
        return Limit(tokens, min(tokens, budget.max_context_tokens), "model")
    return Limit(None, budget.max_context_tokens, "unknown")


def is_over(
    limit: Limit, fixed: int, items: Sequence[MessageItem], below: BelowCut | None = None
) -> bool:
    """Whether a line in its own words costs more than it may, with what is `below` its cut, and `fixed` tokens beside it.

    So a result that goes out in a form since a cut goes on in it: what goes out in its own words would end the prefix.
    """
    line_tokens = sum(item.tokens for item in items) + (below.tokens + below.saved if below else 0)
    return limit.tokens is not None and fixed + line_tokens > limit.tokens


def share(layer: Layer, room: int, budget: BudgetConfig) -> int:
    """What a layer may have of `room` tokens where others want them too.

    Minima that together exceed the room do not bind: one of 2,000 tokens would leave a budget of 700
    without any recall.
    """
    least = budget.minima.get(layer, 0) if sum(budget.minima.values()) <= room else 0
    return max(int(budget.shares.get(layer, 0.0) * room), least)


def shares(room: int, budget: BudgetConfig, needs: Mapping[Layer, int]) -> dict[Layer, int]:
    """Divide `room` tokens between the layers that want some (D-02).

    Each gets what it wants if all fit. Else shares and minima bind, shrunk in proportion when they
    exceed the room, and what a layer does not want goes to the ones that want more, in proportion
    to their shares. The result never sums to more than `room`.
    """
    room = max(0, room)
    needs = {layer: tokens for layer, tokens in needs.items() if tokens > 0}
    if sum(needs.values()) <= room:
        return dict(needs)
    floor = {layer: min(tokens, share(layer, room, budget)) for layer, tokens in needs.items()}
    total = sum(floor.values())
    if total > room:
        return {layer: tokens * room // total for layer, tokens in floor.items()}
    portions = dict(floor)
    while (left := room - sum(portions.values())) > 0:
        hungry = [layer for layer in needs if portions[layer] < needs[layer]]
        weights = sum(budget.shares.get(layer, 0.0) or 0.01 for layer in hungry)
        grown = False
        for layer in hungry:
            weight = budget.shares.get(layer, 0.0) or 0.01
            extra = min(int(left * weight / weights), needs[layer] - portions[layer])
            portions[layer] += extra
            grown = grown or extra > 0
        if not grown:
            break
    return portions
