"""What calls cost beside what they would have cost without us, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ce_engine.apps.present.output import change, number, percent
from ce_engine.audit.compare.costs import Costs, costs
from ce_engine.audit.compare.records import OWN, CallRecord
from ce_engine.sessions.spending import WORDS
from ce_engine.text.tokens.prices import LISTED, RELATIVE, PriceTable


SLIGHT = 0.01
"""A share by which nothing has become dearer."""

NAMED = 3
"""Turns that a cause names, those that lost the most."""


@dataclass(frozen=True, slots=True)
class SessionCosts:
    """A session's calls with what they cost; the first are those of its turns, whose numbers are `turns`."""

    calls: Sequence[CallRecord]
    costs: Costs
    turns: Sequence[int]

    @classmethod
    def of(
        cls, calls: Sequence[CallRecord], prices: PriceTable, turns: Sequence[int]
    ) -> SessionCosts:
        return cls(calls, costs(calls, prices), turns)

    def amount(self, value: float) -> str:
        """An amount of the session's money, with as many places as its calls need."""
        if self.costs.prices is RELATIVE:
            return f"{value:,.0f}"
        largest = max((cost.sent for cost in self.costs.each), default=0.0)
        return f"{value:,.{2 if largest >= 1 else 4 if largest >= 0.01 else 6}f}"

    def cells(self, place: int) -> tuple[str, str, str]:
        """A turn's cost, what it would have been, and how much that changed."""
        cost = self.costs.each[place]
        if cost.untouched is None:
            return self.amount(cost.sent), "-", "-"
        return (
            self.amount(cost.sent),
            self.amount(cost.untouched),
            change(cost.sent, cost.untouched),
        )

    def headline(self) -> str:
        """What to know first: that it became dearer, and why; `""` where it did not."""
        found = self.costs
        if not self.is_dearer:
            return ""
        now = found.compared + found.own
        return (
            f"DEARER than without us: {self.amount(now)} for {self.amount(found.untouched)} "
            f"({change(now, found.untouched)}): {self.causes()}"
        )

    @property
    def is_dearer(self) -> bool:
        """Whether it is so much dearer that a percentage shows it."""
        return self.costs.more > SLIGHT * self.costs.untouched

    def causes(self) -> str:
        """What was lost, cause by cause, with the turns that lost the most."""
        return "; ".join(
            f"{WORDS.get(cause, cause)}{self._turns(cause)} (+{self.amount(lost)})"
            for cause, lost in self.costs.lost.items()
        )

    def _turns(self, cause: str) -> str:
        theirs = zip(self.turns, self.calls, self.costs.each, strict=False)  # our own stand last
        turns = sorted(
            (-cost.more, turn)
            for turn, call, cost in theirs
            if call.cause == cause and cost.more > 0
        )
        if not turns:
            return ""
        named = sorted(turn for _, turn in turns[:NAMED])
        more = f" and {number(len(turns) - NAMED)} more" if len(turns) > NAMED else ""
        word = "turn" if len(turns) == 1 else "turns"
        return f" at {word} {', '.join(map(number, named))}{more}"

    def lines(self) -> Iterator[tuple[str, str]]:
        """The sums, what they are in, and what they leave out, as named lines."""
        found, theirs = self.costs, [c for c in self.calls if c.agent != OWN]
        own = f", {_calls(len(self.calls) - len(theirs))} of our own included" if found.own else ""
        if found.apart < len(theirs):
            now, before = found.compared + found.own, found.untouched
            inputs = f"{self.amount(now)} for inputs{own}, {self.amount(before)} without us"
            effect = saved(now, before, self.amount)
            yield "cost", f"{inputs} · {effect} · answers {self._answers()}"
            yield "", f"in {self._money()}"
        if found.apart:
            why = "the app leaves their history to us, or an older release recorded them"
            cost = f"their inputs cost {self.amount(found.sent - found.compared)}"
            yield "apart", f"{_calls(found.apart)} with nothing to stand beside: {why}; {cost}"
        if found.by_talk:
            beside = "beside them stands the cost of sending all of it each time"
            yield "by hand", f"{_calls(found.by_talk)} by hand, where we keep the talk: {beside}"
        if not self.is_dearer and found.lost:
            yield "dearer", self.causes()

    def _answers(self) -> str:
        told = f" ({_calls(self.costs.estimated)} estimated)" if self.costs.estimated else ""
        return f"{'~' if told else ''}{self.amount(self.costs.answers)}{told}"

    def _money(self) -> str:
        prices = self.costs.prices
        if prices is RELATIVE:
            return "input tokens at full price, a cached one a tenth (--prices FILE for money)"
        listed = " at list prices (--prices FILE for yours)" if prices is LISTED else ""
        return f"{prices.currency}{listed}"


def saved(now: float, before: float, amount: Callable[[float], str] = "{:,.0f}".format) -> str:
    """How much less `now` is than `before`, or how much more."""
    if now <= before:
        return f"saved {amount(before - now)} ({percent(before - now, before)})"
    return f"{amount(now - before)} more ({change(now, before)})"


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{number(count)} calls"


def turn_lines(spent: SessionCosts, place: int) -> Iterator[tuple[str, str]]:
    """What one turn cost, and what it is made of, as named lines."""
    call, cost, prices = spent.calls[place], spent.costs.each[place], spent.costs.prices
    price = prices.of(call.model, call.provider)
    least = price.cached_from if price is not None else 0
    sent, without, effect = spent.cells(place)
    yield "cost", f"{sent} {prices.currency}: {_made_of(call.sent, call.prefix, least)}"
    if cost.untouched is None:
        yield "without us", "nobody can say: the app leaves its history to us"
    else:
        what = "all of the talk, " if call.beside == "talk" else ""
        made = _made_of(call.untouched or 0, call.untouched_prefix, least)
        yield "without us", f"{without} ({effect}): {what}{made}"
        if cost.more > 0:
            yield "dearer", f"by {spent.amount(cost.more)}: {WORDS.get(call.cause, call.cause)}"
    if call.completion:
        told = "about " if call.estimated else ""
        more = " (estimated: nobody told)" if told else ""
        yield "answer", f"{told}{spent.amount(cost.answer)}: {number(call.completion)} tokens{more}"


def _made_of(tokens: int, prefix: int | None, least: int) -> str:
    if prefix is None:
        return f"{number(tokens)} tokens, with none before it to begin like"
    few = f", too few to be cached (from {number(least)} on)" if 0 < prefix < least else ""
    return f"{number(tokens)} tokens, of which {number(prefix)} are the same as before{few}"


__all__ = ["SessionCosts", "saved", "turn_lines"]
