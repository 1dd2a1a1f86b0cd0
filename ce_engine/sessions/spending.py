"""What the calls of a session cost beside what they would have cost without us; and why, where it is more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ce_engine.schema.document import ModelUsage
from ce_engine.schema.report import Report
from ce_engine.text.tokens.prices import RELATIVE, ModelPrice, prices_here


DEARER = "CONTEXT_DEARER"
"""The session's calls cost more than they would have without us."""

MARGIN, LEAST = 1.1, 2000
"""How much more is told of: a share, and what so many input tokens cost at full price."""

WORDS = {
    "cut": "the cut moved",
    "brought_in": "text was brought in",
    "pruned": "the pruner left out what had been sent",
    "left_out": "what had been sent was not sent again",
    "own_calls": "the engine's own calls",
    "other": "more went out",
}
"""The causes of what is lost, in words."""


def words(causes: dict[str, int]) -> str:
    """Causes with their tokens."""
    return ", ".join(f"{WORDS.get(name, name)} {tokens:,}" for name, tokens in causes.items())


def cause(broken_by: str, *, brought_in: bool) -> str:
    """Why a call costs more than it would have without us: what broke its prefix, else what went in."""
    if broken_by in WORDS:
        return broken_by
    return "brought_in" if brought_in else "other"


@dataclass(slots=True)
class Spending:
    """What the calls of a session cost since this process knows it, in its model's input tokens at full price.

    Only calls count of which can be said what they would have cost without us; and the engine's own.
    """

    sent: float = 0.0
    untouched: float = 0.0
    causes: Counter[str] = field(default_factory=Counter)
    is_told: bool = False
    _price: ModelPrice = RELATIVE.models["*"]
    _known: bool = False

    def add(self, report: Report, model: str) -> bool:
        """Take a call in; whether it is the first that is to be told of."""
        without = report.untouched
        if without is None:
            return False
        known = prices_here().of(model)
        self._price, self._known = known or RELATIVE.models["*"], known is not None
        unit = self._price.input or 1.0
        sent, untouched = (
            self._price.of_input(tokens, prefix or 0) / unit
            for tokens, prefix in (
                (report.token_used, report.prefix_tokens_unchanged),
                (without.tokens, without.prefix),
            )
        )
        self.sent += sent
        self.untouched += untouched
        if sent > untouched:
            brought_in = bool(report.inserted or report.restored)
            why = cause(report.prefix_broken_by, brought_in=brought_in)
            self.causes[why] += round(sent - untouched)
        if self.is_told or not self.is_dearer:
            return False
        self.is_told = True
        return True

    def add_own(self, usages: Iterable[ModelUsage]) -> None:
        """Take calls of the engine's own in: without us there are none."""
        for usage in usages:
            price = prices_here().of(usage.model) if self._known else None
            unit = self._price.input or 1.0
            if price is None:
                price, unit = RELATIVE.models["*"], 1.0
            cost = price.of_input(usage.prompt_tokens, 0) + usage.completion_tokens * price.output
            self.sent += cost / unit
            self.causes["own_calls"] += round(cost / unit)

    @property
    def is_dearer(self) -> bool:
        """Whether it costs noticeably more."""
        return self.sent > self.untouched * MARGIN and self.sent > self.untouched + LEAST
