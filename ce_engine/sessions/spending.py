"""What the calls of a session cost beside what they would have cost without us; and why, where it is more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ce_engine.errors import SchemaValidationError
from ce_engine.schema.document import ModelUsage
from ce_engine.schema.enums import Layer
from ce_engine.schema.report import Report, SessionCost, Untouched, report_of
from ce_engine.schema.rows import TurnRow
from ce_engine.text.tokens.prices import RELATIVE, ModelPrice, prices_here


DEARER = "CONTEXT_DEARER"
"""The session's calls cost more than they would have without us."""

MOST = 1e15
"""More tokens than any session has: somebody else wrote such a sum."""

MARGIN, LEAST = 1.1, 2000
"""How much more is told of: a share, and what so many input tokens cost at full price."""

WORDS = {
    "cut": "the cut moved",
    "rules": "a rule was added, changed or deleted",
    "brought_in": "text was brought in",
    "standing": "rules or settings were put in",
    "pruned": "the pruner left out what had been sent",
    "left_out": "what had been sent was not sent again",
    "short_prefix": "what begins like the call before is too short to be cached",
    "own_calls": "the engine's own calls",
    "other": "more went out",
}
"""The causes of what is lost, in words."""


def words(causes: dict[str, int]) -> str:
    """Causes with their tokens."""
    return ", ".join(f"{WORDS.get(name, name)} {tokens:,}" for name, tokens in causes.items())


def cause(broken_by: str, *, is_retrieved: bool, is_inserted: bool) -> str:
    """Why a call costs more than it would have without us: what broke its prefix, else what went in.

    Args:
        broken_by: what broke it, as its report has it.
        is_retrieved: whether anything was brought in for the question.
        is_inserted: whether any text was put in at all: else it is rules and settings.
    """
    if broken_by in WORDS:
        return broken_by
    if is_retrieved:
        return "brought_in"
    return "standing" if is_inserted else "other"


def is_short_prefix(price: ModelPrice, sent: tuple[int, int], untouched: tuple[int, int]) -> bool:
    """Whether a call is dearer only since what begins like the call before is too short for its model's cache.

    Args:
        price: of the model.
        sent: the tokens of the input, and how many of them begin like the call before.
        untouched: the same without us.
    """
    if not sent[1] < price.cached_from <= untouched[1]:
        return False
    of_any_length = price.model_copy(update={"cached_from": 0})
    return of_any_length.of_input(*sent) <= price.of_input(*untouched)


@dataclass(slots=True)
class Spending:
    """What the calls of a session cost, in its model's input tokens at full price.

    Only calls count of which can be said what they would have cost without us; and the engine's own.
    """

    sent: float = 0.0
    untouched: float = 0.0
    talk: float = 0.0
    """`untouched` without what an app by hand put in itself: by it is told what a talk has saved."""
    causes: Counter[str] = field(default_factory=Counter)
    is_told: bool = False
    _price: ModelPrice = RELATIVE.models["*"]
    _has_price: bool = False
    _before: tuple[str, int, int, int] | None = None
    """Of another process's last call: its lane, and what went out that goes out again, with us, without us, and of the talk alone."""

    def go_on(self, turn: TurnRow) -> None:
        """Go on from where the calls of another process ended, by the report of the last turn.

        Of two processes that go on at once, the sums of the one that knows more calls count.
        """
        if "session_cost" not in turn.report:
            return
        try:
            report = report_of(turn.turn_id, turn.report)
        except SchemaValidationError:
            return
        if report is None or report.session_cost is None:
            return
        cost, without = report.session_cost, report.untouched
        sums = cost.sent, cost.untouched
        if not all(0 <= amount < MOST for amount in sums) or cost.untouched <= self.untouched:
            return
        talk = cost.untouched if cost.talk is None else cost.talk
        if not 0 <= talk < MOST:
            return
        self.sent, self.untouched, self.talk = cost.sent, cost.untouched, talk
        self.is_told |= self.is_dearer  # by the process whose call made it so
        if without is not None and report.purpose == "chat":
            layer = report.layers.get(Layer.RETRIEVED.value)
            ends = 0  # what was brought in does not go out again, and behind it stood the question
            if layer is not None and layer.tokens:
                ends = layer.tokens + report.payload_tokens.get("task", 0)
            talk_tokens = without.tokens - (without.put_in or 0)
            self._before = turn.lane, report.token_used - ends, without.tokens, talk_tokens

    def add(self, report: Report, model: str, talk: Untouched | None = None) -> bool:
        """Take a call in; whether it is the first that is to be told of.

        Args:
            report: of the call.
            model: that was called.
            talk: what it would have been without us, and without what an app by hand put in; if not given, the same.
        """
        without = report.untouched
        if without is None:
            self._sum_up(report)
            return False
        price = prices_here().of(model)
        self._price, self._has_price = price or RELATIVE.models["*"], price is not None
        unit = self._price.input or 1.0
        prefix, own_prefix, talk_prefix = self._prefixes(report, without, talk or without)
        sent_cost = self._price.of_input(report.token_used, prefix) / unit
        untouched_cost = self._price.of_input(without.tokens, own_prefix) / unit
        self.sent += sent_cost
        self.untouched += untouched_cost
        self.talk += self._price.of_input((talk or without).tokens, talk_prefix) / unit
        self._sum_up(report)
        if sent_cost > untouched_cost:
            layer = report.layers.get(Layer.RETRIEVED.value)
            why = cause(
                report.prefix_broken_by,
                is_retrieved=bool(report.restored or (layer and layer.tokens)),
                is_inserted=bool(report.inserted),
            )
            if is_short_prefix(
                self._price, (report.token_used, prefix), (without.tokens, own_prefix)
            ):
                why = "short_prefix"
            self.causes[why] += round(sent_cost - untouched_cost)
        if self.is_told or not self.is_dearer:
            return False
        self.is_told = True
        return True

    def _sum_up(self, report: Report) -> None:
        """Say in a report what the session has cost by then: another process goes on from there."""
        if self.untouched:
            sent_cost, untouched_cost = round(self.sent, 1), round(self.untouched, 1)
            talk_cost = round(self.talk, 1)
            report.session_cost = SessionCost(
                sent=sent_cost,
                untouched=untouched_cost,
                talk=None if talk_cost == untouched_cost else talk_cost,
            )

    def _prefixes(
        self, report: Report, without: Untouched, talk: Untouched
    ) -> tuple[int, int, int]:
        """Leading tokens that the provider has seen before: with us, without us, and of the talk alone.

        Of the first call that a process makes in a session they are estimated: what goes out is what went out in
        the call before, but where the cut moves, and for what was brought in.
        """
        before, prefix = self._before, report.prefix_tokens_unchanged
        is_first = report.purpose == "chat" and prefix is None
        if not is_first or before is None or before[0] != report.lane:
            return prefix or 0, without.prefix or 0, talk.prefix or 0
        _, sent_tokens, untouched_tokens, talk_tokens = before
        self._before = None
        sent_tokens = 0 if report.cut == "moved" else min(sent_tokens, report.token_used)
        return sent_tokens, min(untouched_tokens, without.tokens), min(talk_tokens, talk.tokens)

    def add_own(self, usages: Iterable[ModelUsage]) -> None:
        """Take calls of the engine's own in: without us there are none."""
        for usage in usages:
            price = prices_here().of(usage.model) if self._has_price else None
            unit = self._price.input or 1.0
            if price is None:
                price, unit = RELATIVE.models["*"], 1.0
            cost = price.of_input(usage.prompt_tokens, 0) + usage.completion_tokens * price.output
            self.sent += cost / unit
            self.causes["own_calls"] += round(cost / unit)

    @property
    def credit(self) -> int | None:
        """Tokens that the calls have saved by now, below 0 what they cost more; `None` before the first."""
        return round(self.talk - self.sent) if self.untouched else None

    @property
    def is_dearer(self) -> bool:
        """Whether it costs noticeably more."""
        return self.sent > self.untouched * MARGIN and self.sent > self.untouched + LEAST
